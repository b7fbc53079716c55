package sqliteledger

import (
	"testing"

	"github.com/sluicehq/sluice"
)

// Buyers whose hashes are equal are different buyers, also in the second chunk of
// accounts and when the log is read.
func TestBuyersOfOneHash(t *testing.T) {
	own := hash
	hash = func(buyer sluice.BuyerID) uint64 { return own(buyer) % 97 }
	t.Cleanup(func() { hash = own })
	fl := openFailing(t)
	const buyers = chunkSize + 300
	terms := sluice.Terms{Version: 2, Total: 2 * buyers, MaxPerBuyer: 1, MaxOrders: 10}
	if err := fl.Apply(t.Context(), "s", 1, terms); err != nil {
		t.Fatal(err)
	}
	claims := someClaims(0, buyers)
	decide := func(want sluice.Code, replayed bool) {
		t.Helper()
		decisions, err := fl.Claim(t.Context(), "s", claims)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range decisions {
			if d.Code != want || d.Replayed != replayed || want == sluice.Accepted && d.Order != claims[i].Order {
				t.Fatalf("%s: %+v, want %s", claims[i].Buyer, d, want)
			}
		}
	}
	decide(sluice.Accepted, false)
	if err := fl.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), fl.path, Options{Node: "a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	fl.Ledger = again
	decide(sluice.Accepted, true)
	for i := range claims {
		claims[i].Key = "another-key"
	}
	decide(sluice.BuyerLimit, false)
}
