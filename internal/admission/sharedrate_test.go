package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// sharedLimiter counts as a ledger would, by name, buyer and address, and
// remembers its calls. A call takes as long as the test says.
type sharedLimiter struct {
	takes time.Duration

	mu     sync.Mutex
	calls  []int // how many tries each
	paid   map[string]int64
	writes int // tries that were counted
	fail   error
	short  bool
}

func (l *sharedLimiter) Allow(_ context.Context, name sluice.SaleID, rates port.Rates,
	tries []port.Try,
) ([]port.Wait, error) {
	time.Sleep(l.takes)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, len(tries))
	if l.fail != nil {
		return nil, l.fail
	}
	if l.paid == nil {
		l.paid = map[string]int64{}
	}
	var waits []port.Wait
	for _, try := range tries {
		buyer, address := fmt.Sprint(name, " of ", try.Buyer), fmt.Sprint(name, " from ", try.Address)
		now := time.Now().UnixMicro()
		byBuyer, waitBuyer := rates.Buyer.Meter().Try(l.paid[buyer], now)
		byAddress, waitAddress := rates.Address.Meter().Try(l.paid[address], now)
		if waitBuyer == 0 && waitAddress == 0 {
			l.paid[buyer], l.paid[address] = byBuyer, byAddress
			l.writes++
		}
		waits = append(waits, port.Wait{
			Buyer: time.Duration(waitBuyer) * time.Microsecond, Address: time.Duration(waitAddress) * time.Microsecond,
		})
	}
	if l.short {
		waits = waits[1:]
	}
	return waits, nil
}

var sharedRules = sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 2, PerS: 10, Shared: true}}

// What one server has let through counts on the other; who was denied there
// is denied here without asking again.
func TestSharedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, ledger := &sharedLimiter{}, &slowLedger{}
		one := gateBefore(ledger, open(sharedRules), BatcherOptions{Limiter: limiter})
		two := gateBefore(ledger, open(sharedRules), BatcherOptions{Limiter: limiter})
		step := func(g *Gate, buyer sluice.BuyerID, want string) {
			t.Helper()
			if got := try(g, buyer, home); got != want {
				t.Errorf("%s: %s, want %s", buyer, got, want)
			}
		}
		step(one, "ann", "accepted")
		step(one, "ann", "accepted")
		step(two, "ann", "rate_limited 5s")
		step(two, "bob", "accepted")
		calls := len(limiter.calls)
		for i := range 4 { // what was learned is enough
			time.Sleep(time.Second)
			step(two, "ann", fmt.Sprintf("rate_limited %v", time.Duration(4-i)*time.Second))
		}
		if n := len(limiter.calls); n != calls {
			t.Errorf("%d calls for a buyer who is known to wait, want none", n-calls)
		}
		time.Sleep(time.Second)
		step(two, "ann", "accepted")
		step(one, "ann", "rate_limited 5s")
		if got := refusedBy(two); got["shared_rate"] != 1 || got["buyer_rate"] != 4 || len(got) != 2 {
			t.Errorf("refused by %v", got)
		}
		// Not shared any more: each counts for itself, and the limiter is not asked.
		calls = len(limiter.calls)
		rules := sharedRules
		rules.BuyerRate.Shared = false
		show(one, open(rules))
		time.Sleep(time.Minute)
		step(one, "ann", "accepted")
		if len(limiter.calls) != calls {
			t.Error("the limiter is asked about a rate that is not shared")
		}
	})
}

// A try that the rate over all servers denies costs the neighbours nothing.
func TestSharedRateAndAddressRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &sharedLimiter{}
		rules := sharedRules
		rules.AddressRate = sluice.AddressRate{Requests: 3, PerS: 60}
		one := gateBefore(&slowLedger{}, open(rules), BatcherOptions{Limiter: limiter})
		two := gateBefore(&slowLedger{}, open(rules), BatcherOptions{Limiter: limiter})
		for i, step := range []struct {
			gate  *Gate
			buyer sluice.BuyerID
			want  string
		}{
			{one, "ann", "accepted"},
			{one, "ann", "accepted"},
			{two, "ann", "rate_limited 5s"},
			{two, "bob", "accepted"},
			{two, "eve", "accepted"},
			{two, "joe", "accepted"},
			{two, "sue", "rate_limited 20s"},
		} {
			if got := try(step.gate, step.buyer, home); got != step.want {
				t.Errorf("try %d, %s: %s, want %s", i, step.buyer, got, step.want)
			}
		}
	})
}

// What an address has tried on one server counts on the other, whatever the
// accounts; an address that was denied there is denied here without asking again.
// A try that one of the rates denies costs the other nothing, wherever it counts.
func TestSharedRateOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, more := netip.MustParseAddr("2001:db8:0:1::1"), netip.MustParseAddr("2001:db8:0:1:2::3")
		for _, buyersShared := range []bool{false, true} {
			limiter := &sharedLimiter{}
			rules := sluice.Rules{
				BuyerRate:   sluice.BuyerRate{Requests: 2, PerS: 60, Shared: buyersShared},
				AddressRate: sluice.AddressRate{Requests: 3, PerS: 30, Shared: true},
			}
			one := gateBefore(&slowLedger{}, open(rules), BatcherOptions{Limiter: limiter})
			two := gateBefore(&slowLedger{}, open(rules), BatcherOptions{Limiter: limiter})
			for i, step := range []struct {
				gate  *Gate
				buyer sluice.BuyerID
				from  netip.Addr
				want  string
				calls int
			}{
				{one, "ann", home, "accepted", 1},
				{one, "bob", home, "accepted", 1},
				{two, "eve", home, "accepted", 1},
				{two, "joe", home, "rate_limited 10s", 1},
				{two, "sue", home, "rate_limited 10s", 0}, // what was learned is enough
				{two, "joe", other, "accepted", 1},        // both tries of the buyer are left
				{two, "joe", more, "accepted", 1},         // of the same /64
				{two, "joe", other, "rate_limited 30s", 0},
				{one, "sue", more, "accepted", 1},
				{one, "sue", more, "rate_limited 10s", 1},
			} {
				calls := len(limiter.calls)
				if got := try(step.gate, step.buyer, step.from); got != step.want || len(limiter.calls) != calls+step.calls {
					t.Errorf("buyers shared %t, try %d, %s: %s after %d calls, want %s after %d", buyersShared, i,
						step.buyer, got, len(limiter.calls)-calls, step.want, step.calls)
				}
			}
			if got := refusedBy(two); got["shared_rate"] != 1 || got["address_rate"] != 1 || got["buyer_rate"] != 1 {
				t.Errorf("refused by %v", got)
			}
			// What comes before a claim has an allowance of its own, and the same bound.
			for i, g := range []*Gate{one, two, one, two} {
				want := "ok"
				if i == 3 {
					want = "10s"
				}
				if got := ask(g, "ticket", sluice.BuyerID(fmt.Sprint("fan-", i))); got != want {
					t.Errorf("buyers shared %t: ticket %d: %s, want %s", buyersShared, i, got, want)
				}
			}
		}
	})
}

// One call for a batch, in its order, whatever other buyers are in it; those
// denied do not reach the ledger. A batch has one claim of each buyer.
func TestSharedRateTakesOneCallABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, ledger := &sharedLimiter{}, &slowLedger{delay: time.Second}
		b := NewBatcher(ledger, BatcherOptions{Limiter: limiter})
		rate := sluice.BuyerRate{Requests: 1, PerS: 3600, Shared: true}
		codes := make([]sluice.Code, 9)
		var crowd sync.WaitGroup
		enter := func(i int, buyer sluice.BuyerID, rate sluice.BuyerRate) {
			crowd.Go(func() {
				slot, err := b.Acquire("sale", sluice.Unlimited)
				if err != nil {
					t.Error(err)
					return
				}
				c := claim(i)
				c.Buyer = buyer
				d, _, err := slot.Claim(t.Context(), &c, home, port.Rates{Buyer: rate})
				if err != nil || d.Code == sluice.Accepted && d.Order != c.Order {
					t.Errorf("claim %d: %+v, %v", i, d, err)
				}
				codes[i] = d.Code
			})
			synctest.Wait()
		}
		enter(0, "first", rate)
		enter(1, "ann", rate)
		enter(2, "ann", rate)
		enter(3, "free", sluice.BuyerRate{})
		enter(4, "first", rate)
		enter(5, "bob", rate)
		enter(6, "ann", rate)
		enter(7, "free", sluice.BuyerRate{})
		enter(8, "first", rate)
		crowd.Wait()
		const yes, no = sluice.Accepted, sluice.RateLimited
		if want := []sluice.Code{yes, yes, no, yes, no, yes, no, yes, no}; !slices.Equal(codes, want) {
			t.Errorf("codes %v, want %v", codes, want)
		}
		if got := fmt.Sprint(limiter.calls, ledger.sizes()); got != "[1 3 2 1] [1 3 1]" {
			t.Errorf("calls of the limiter and the ledger %s, want [1 3 2 1] [1 3 1]", got)
		}
		if n := b.slots.Load(); n != 0 {
			t.Errorf("%d slots are leaked", n)
		}
	})
}

// A batch that is sent again is counted once; a limiter that does not answer
// lets no buyer pass.
func TestSharedRateFailsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, ledger := &sharedLimiter{}, &slowLedger{}
		ledger.fail.Store(3)
		g := gateBefore(ledger, open(sharedRules), BatcherOptions{Limiter: limiter})
		if got := try(g, "ann", home); got != "accepted" || len(limiter.calls) != 1 || len(ledger.sizes()) != 4 {
			t.Errorf("%s after %d calls of the limiter and %d of the ledger, want 1 and 4", got, len(limiter.calls),
				len(ledger.sizes()))
		}
		for name, broken := range map[string]port.RateLimiter{
			"down": &sharedLimiter{fail: errors.New("down")}, "an answer is missing": &sharedLimiter{short: true}, "none": nil,
		} {
			ledger, failed := &slowLedger{}, atomic.Int64{}
			g := gateBefore(ledger, open(sharedRules), BatcherOptions{
				Limiter: broken, Failed: func(sluice.SaleID, error) { failed.Add(1) },
			})
			var crowd sync.WaitGroup
			for i := range 5 {
				crowd.Go(func() {
					if got := try(g, sluice.BuyerID(fmt.Sprint(i)), home); got != "unanswered" {
						t.Errorf("%s: %s, want unanswered", name, got)
					}
				})
			}
			crowd.Wait()
			if n := len(ledger.sizes()); n != 0 || failed.Load() == 0 {
				t.Errorf("%s: the ledger was asked %d times, and %d failures are reported", name, n, failed.Load())
			}
			if got := refusedBy(g); got["shared_rate"] != 5 || g.batcher.slots.Load() != 0 {
				t.Errorf("%s: refused by %v, %d slots taken", name, got, g.batcher.slots.Load())
			}
			show(g, open(sluice.Rules{})) // the merchant can do without
			if got := try(g, "ann", home); got != "accepted" {
				t.Errorf("%s, without the rule: %s", name, got)
			}
		}
	})
}
