package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// rateCases are about a ledger as a sluice.RateLimiter, which every ledger is.
// The rates are slow, since a backend may forget by a clock of its own.
var rateCases = []testCase{
	{"BurstAndRefill", 0, func(e *env) {
		rate := sluice.BuyerRate{Requests: 3, PerS: 3000}
		e.wantWaits(e.allow(sale, rate, "ann", "ann", "bob", "ann", "ann", "bob"), 0, 0, 0, 0, 1000*time.Second, 0)
		e.clock.Advance(400 * time.Second)
		e.wantWaits(e.allow(sale, rate, "ann", "bob"), 600*time.Second, 0)
		e.clock.Advance(600 * time.Second) // the wait it received
		e.wantWaits(e.allow(sale, rate, "ann", "ann"), 0, 1000*time.Second)
		e.clock.Advance(100 * time.Hour) // a rest fills it again, and no more
		e.wantWaits(e.allow(sale, rate, "ann", "ann", "ann", "ann"), 0, 0, 0, 1000*time.Second)
	}},
	{"ADenialCostsNothing", 0, func(e *env) {
		rate := sluice.BuyerRate{Requests: 1, PerS: 1000}
		e.wantWaits(e.allow(sale, rate, "ann"), 0)
		for i := range 9 {
			e.clock.Advance(100 * time.Second)
			e.wantWaits(e.allow(sale, rate, "ann"), time.Duration(9-i)*100*time.Second)
		}
		e.clock.Advance(100 * time.Second)
		e.wantWaits(e.allow(sale, rate, "ann"), 0)
	}},
	{"SalesCountApart", 0, func(e *env) {
		rate := sluice.BuyerRate{Requests: 1, PerS: 1000}
		e.wantWaits(e.allow("one", rate, "ann", "ann"), 0, 1000*time.Second)
		e.wantWaits(e.allow("two", rate, "ann", "ann"), 0, 1000*time.Second)
		e.wantWaits(e.allow("one", rate))
	}},
	{"AnotherRateIsInForceAtOnce", 0, func(e *env) {
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 1, PerS: 36_000}, "ann", "ann"), 0, 10*time.Hour)
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 2, PerS: 1000}, "ann", "ann", "ann"), 0, 0, 500*time.Second)
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 1, PerS: 1000}, "ann"), 1000*time.Second)
	}},
	{"AnyBuyer", 0, func(e *env) { // ids are not escaped, and none is another's
		rate := sluice.BuyerRate{Requests: 1, PerS: 1000}
		buyers := []sluice.BuyerID{"a", "a:", "a:b", "{a}", "张三 <z@example.com>", "*", `"\'`, "  ", "rate:a", "A"}
		e.wantWaits(e.allow(sale, rate, buyers...), make([]time.Duration, len(buyers))...)
		for i, wait := range e.allow(sale, rate, buyers...) {
			if wait != 1000*time.Second {
				e.Errorf("the second try of %q waits %v, want 1,000 s", buyers[i], wait)
			}
		}
	}},
	{"ManyInOneCall", 0, func(e *env) {
		rate := sluice.BuyerRate{Requests: 4, PerS: 1000}
		var buyers []sluice.BuyerID
		for i := range 1001 {
			buyers = append(buyers, sluice.BuyerID(fmt.Sprintf("buyer-%d", i%250)))
		}
		waits := e.allow(sale, rate, buyers...)
		for i, wait := range waits {
			if passes := i < 1000; passes != (wait == 0) {
				e.Fatalf("try %d waits %v", i, wait)
			}
		}
	}},
	{"AgreesWithTheMeter", 0, func(e *env) {
		random := rand.New(rand.NewPCG(4, 2))
		rate := sluice.BuyerRate{Requests: 7, PerS: 2000} // does not divide
		meter := rate.Meter()
		paid := map[sluice.BuyerID]int64{}
		for range 60 {
			e.clock.Advance(time.Duration(random.Int64N(400)) * time.Second)
			var buyers []sluice.BuyerID
			var want []time.Duration
			for range 1 + random.IntN(8) {
				buyer := sluice.BuyerID(fmt.Sprintf("buyer-%d", random.IntN(3)))
				after, wait := meter.Try(paid[buyer], e.clock.Now().UnixMicro())
				paid[buyer] = after
				buyers, want = append(buyers, buyer), append(want, time.Duration(wait)*time.Microsecond)
			}
			e.wantWaits(e.allow(sale, rate, buyers...), want...)
		}
	}},
	{"ManyAtOnce", 0, func(e *env) { e.hammer(e.ledger) }},
	{"ManyServersAtOnce", SharedNodes, func(e *env) {
		e.hammer(e.ledger, e.open(e, "node-b", e.clock), e.open(e, "node-c", e.clock))
	}},
	{"Closed", 0, func(e *env) {
		e.must("Close", e.ledger.Close())
		if waits, err := e.limiter(e.ledger).Allow(e.ctx, sale, sluice.BuyerRate{Requests: 1, PerS: 1},
			[]sluice.BuyerID{"ann"}); err == nil {
			e.Errorf("a closed ledger answers %v", waits)
		}
	}},
}

func (e *env) limiter(ledger sluice.Ledger) sluice.RateLimiter {
	e.Helper()
	limiter, ok := ledger.(sluice.RateLimiter)
	if !ok {
		e.Fatalf("%T is no sluice.RateLimiter", ledger)
	}
	return limiter
}

func (e *env) allow(id sluice.SaleID, rate sluice.BuyerRate, buyers ...sluice.BuyerID) []time.Duration {
	e.Helper()
	waits, err := e.limiter(e.ledger).Allow(e.ctx, id, rate, buyers)
	e.must("Allow", err)
	return waits
}

func (e *env) wantWaits(got []time.Duration, want ...time.Duration) {
	e.Helper()
	e.same("waits", got, want)
}

// hammer lets one buyer, among others, try on all servers at once, while the
// clock stands still: together no more pass than the rate's requests.
func (e *env) hammer(servers ...sluice.Ledger) {
	rate := sluice.BuyerRate{Requests: 25, PerS: 6000, Shared: true}
	var passed atomic.Int64
	var all sync.WaitGroup
	for n, server := range servers {
		for range 4 {
			all.Go(func() {
				for range 10 {
					buyers := []sluice.BuyerID{"abuser", sluice.BuyerID(fmt.Sprintf("buyer-%d", n)), "abuser", "abuser"}
					waits, err := e.limiter(server).Allow(e.ctx, sale, rate, buyers)
					if err != nil {
						e.Errorf("Allow: %v", err)
						return
					}
					for i, wait := range waits {
						if buyers[i] == "abuser" && wait == 0 {
							passed.Add(1)
						}
					}
				}
			})
		}
	}
	all.Wait()
	if passed.Load() != rate.Requests {
		e.Errorf("%d tries of one buyer pass on %d servers, want %d", passed.Load(), len(servers), rate.Requests)
	}
}
