package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
)

// addressesOf loads the sale again, and returns the addresses of the image's records.
func addressesOf(t *testing.T, s sluice.Store, id sluice.SaleID) map[sluice.OrderID]sluice.AddressKey {
	t.Helper()
	if err := s.FenceSale(t.Context(), id, read(t, s, id).Epoch, "test"); err != nil {
		t.Fatal(err)
	}
	image, err := s.BeginLoad(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ConfirmLoad(t.Context(), id, image.Epoch); err != nil {
		t.Fatal(err)
	}
	of := map[sluice.OrderID]sluice.AddressKey{}
	for _, r := range image.Records {
		if r.Address != "" {
			of[r.Order] = r.Address
		}
	}
	return of
}

// The network that a claim came from is there for the next load, once, until the sale is
// archived.
func testAddresses(t *testing.T, db Database) {
	const home, office sluice.AddressKey = "00112233445566aa", "ffeeddccbbaa9988"
	s := db.Open(t)
	sale := aSale("phones", 4)
	sale.MaxLivePerAddress = 3
	if got := create(t, s, sale).MaxLivePerAddress; got != 3 {
		t.Errorf("the limit is %d", got)
	}
	create(t, s, aSale("tablets", 10))
	other := source{sale: "tablets", epoch: 1}
	kept := other.entry(1)
	kept.Claims[0].Address = home
	insert(t, s, sluice.Stored{Inserted: 1}, kept)

	src := source{sale: "phones", epoch: 1}
	first := src.entry(3)
	first.Claims[0].Address, first.Claims[2].Address = home, office
	insert(t, s, sluice.Stored{Inserted: 3}, first)
	insert(t, s, sluice.Stored{Redelivered: 3}, first)
	beyond := src.entryOf(1, 1) // with care: the second is not covered
	beyond.Claims[0].Address, beyond.Claims[1].Address = home, home
	insert(t, s, sluice.Stored{Inserted: 2, Rejected: []sluice.OrderID{beyond.Claims[1].Order}}, beyond)

	live := map[sluice.OrderID]sluice.AddressKey{
		first.Claims[0].Order: home, first.Claims[2].Order: office, beyond.Claims[0].Order: home,
	}
	if diff := cmp.Diff(live, addressesOf(t, s, "phones")); diff != "" {
		t.Errorf("a load finds (-want +got):\n%s", diff)
	}
	for _, c := range append(first.Claims, beyond.Claims[0]) {
		change(t, s, want(c.Order, sluice.Cancel))
	}
	given(t, s)
	closed(t, s, "phones")
	archive(t, s, true, "all orders have ended")
	for range 2 {
		if err := s.Tidy(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for order := range live { // the row of an order is not there: another one is no second
		db.Hold(t, "INSERT INTO order_addresses (order_id, sale_id, address) VALUES ('"+string(order)+"', 'x', 'x')")()
	}
	if got := addressesOf(t, s, "tablets")[kept.Claims[0].Order]; got != home {
		t.Errorf("of a sale that is not archived: %q", got)
	}
}
