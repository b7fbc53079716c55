package admission

import (
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

func TestOriginOf(t *testing.T) {
	at := func(text string) Origin { return OriginOf(netip.MustParseAddr(text)) }
	if at("203.0.113.1") == at("203.0.113.2") || at("203.0.113.1") != at("::ffff:203.0.113.1") ||
		at("2001:db8::1") != at("2001:db8::ffff:1:2:3%eth0") ||
		at("2001:db8:0:1::") == at("2001:db8:0:2::") || at("0.0.0.0") == at("::") || OriginOf(netip.Addr{}) == at("0.0.0.0") {
		t.Error("addresses are counted together that should not be, or apart")
	}
}

// A buyer whom a limit has refused two units can have one, and ask for what an earlier
// attempt got; two or more are refused for a second, but for what was accepted here.
func TestALimitHoldsNoSmallerClaimBack(t *testing.T) {
	now := time.Now()
	r := newRates(0, now)
	of := func(buyer sluice.BuyerID, n int64) *sluice.Claim {
		return &sluice.Claim{Buyer: buyer, Key: "attempt-1", Quantity: n}
	}
	r.limited("sale", of("ann", 2), now)
	for _, c := range []struct {
		sale  sluice.SaleID
		claim *sluice.Claim
		after time.Duration
		want  time.Duration
	}{
		{"sale", of("ann", 1), 0, 0},
		{"sale", of("ann", 2), 0, time.Second},
		{"sale", of("ann", 3), 300 * time.Millisecond, 700 * time.Millisecond},
		{"sale", of("ann", 2), time.Second, 0},
		{"sale", of("bob", 2), 0, 0},
		{"other", of("ann", 2), 0, 0},
	} {
		if got := r.atLimit(c.sale, c.claim, now.Add(c.after)); got != c.want {
			t.Errorf("%s, %s, %d units, after %v: wait %v, want %v", c.sale, c.claim.Buyer, c.claim.Quantity, c.after,
				got, c.want)
		}
	}
	if wait := r.repeat("sale", of("ann", 2), now); wait != 0 {
		t.Errorf("a look-up of a repeat waits %v", wait)
	}
	r.remember("sale", of("ann", 2))
	if wait := r.atLimit("sale", of("ann", 2), now); wait != 0 {
		t.Errorf("a repeat that is known here waits %v", wait)
	}
}
