package sqliteledger

import (
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
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
	must.Succeed(t, fl.Apply(t.Context(), "s", 1, terms))
	claims := someClaims(0, buyers)
	decide := func(want sluice.Code, replayed bool) {
		t.Helper()
		decisions := must.Get(fl.Claim(t.Context(), "s", claims))(t)
		for i, d := range decisions {
			if d.Code != want || d.Replayed != replayed || want == sluice.Accepted && d.Order != claims[i].Order {
				t.Fatalf("%s: %+v, want %s", claims[i].Buyer, d, want)
			}
		}
	}
	decide(sluice.Accepted, false)
	must.Succeed(t, fl.Close())
	again := must.Get(Open(t.Context(), fl.path, Options{Node: "a"}))(t)
	t.Cleanup(func() { again.Close() })
	fl.Ledger = again
	decide(sluice.Accepted, true)
	for i := range claims {
		claims[i].Key = "another-key"
	}
	decide(sluice.BuyerLimit, false)
}
