package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// rateCases are about a ledger as a port.RateLimiter, which every ledger is.
// The rates are slow, since a backend may forget by a clock of its own.
var rateCases = []testCase{
	{"BurstAndRefill", one, func(e *env) {
		rate := sluice.BuyerRate{Requests: 3, PerS: 3000}
		e.wantWaits(e.allow(sale, rate, "ann", "ann", "bob", "ann", "ann", "bob"), 0, 0, 0, 0, 1000*time.Second, 0)
		e.clock.Advance(400 * time.Second)
		e.wantWaits(e.allow(sale, rate, "ann", "bob"), 600*time.Second, 0)
		e.clock.Advance(600 * time.Second) // the wait it received
		e.wantWaits(e.allow(sale, rate, "ann", "ann"), 0, 1000*time.Second)
		e.clock.Advance(100 * time.Hour) // a rest fills it again, and no more
		e.wantWaits(e.allow(sale, rate, "ann", "ann", "ann", "ann"), 0, 0, 0, 1000*time.Second)
	}},
	{"ADenialCostsNothing", one, func(e *env) {
		rate := sluice.BuyerRate{Requests: 1, PerS: 1000}
		e.wantWaits(e.allow(sale, rate, "ann"), 0)
		for i := range 9 {
			e.clock.Advance(100 * time.Second)
			e.wantWaits(e.allow(sale, rate, "ann"), time.Duration(9-i)*100*time.Second)
		}
		e.clock.Advance(100 * time.Second)
		e.wantWaits(e.allow(sale, rate, "ann"), 0)
	}},
	{"SalesCountApart", one, func(e *env) {
		rate := sluice.BuyerRate{Requests: 1, PerS: 1000}
		e.wantWaits(e.allow("one", rate, "ann", "ann"), 0, 1000*time.Second)
		e.wantWaits(e.allow("two", rate, "ann", "ann"), 0, 1000*time.Second)
		e.wantWaits(e.allow("one", rate))
	}},
	{"AnotherRateIsInForceAtOnce", one, func(e *env) {
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 1, PerS: 36_000}, "ann", "ann"), 0, 10*time.Hour)
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 2, PerS: 1000}, "ann", "ann", "ann"), 0, 0, 500*time.Second)
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 1, PerS: 1000}, "ann"), 1000*time.Second)
	}},
	{"AnyBuyer", one, func(e *env) { // ids are not escaped, and none is another's
		rate := sluice.BuyerRate{Requests: 1, PerS: 1000}
		buyers := []sluice.BuyerID{"a", "a:", "a:b", "{a}", "张三 <z@example.com>", "*", `"\'`, "  ", "rate:a", "A"}
		e.wantWaits(e.allow(sale, rate, buyers...), make([]time.Duration, len(buyers))...)
		for i, wait := range e.allow(sale, rate, buyers...) {
			if wait != 1000*time.Second {
				e.Errorf("the second try of %q waits %v, want 1,000 s", buyers[i], wait)
			}
		}
	}},
	{"ManyInOneCall", one, func(e *env) {
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
	{"AgreesWithTheMeters", one, func(e *env) {
		random := rand.New(rand.NewPCG(4, 2))
		buyers, addresses := sluice.BuyerRate{Requests: 7, PerS: 2000}, sluice.AddressRate{Requests: 11, PerS: 2000}
		for i, rates := range []port.Rates{ // do not divide
			{Buyer: buyers}, {Address: addresses}, {Buyer: buyers, Address: addresses},
		} {
			paid := map[string]int64{}
			for range 60 {
				e.clock.Advance(time.Duration(random.Int64N(400)) * time.Second)
				now := e.clock.Now().UnixMicro()
				var tries []port.Try
				var want []port.Wait
				for range 1 + random.IntN(8) {
					buyer, address := fmt.Sprint("buyer-", random.IntN(4)), fmt.Sprint("home-", random.IntN(2))
					byBuyer, waitBuyer := rates.Buyer.Meter().Try(paid[buyer], now)
					byAddress, waitAddress := rates.Address.Meter().Try(paid[address], now)
					if waitBuyer == 0 && waitAddress == 0 {
						paid[buyer], paid[address] = byBuyer, byAddress
					}
					tries = append(tries, port.Try{Buyer: sluice.BuyerID(buyer), Address: address})
					want = append(want, port.Wait{
						Buyer:   time.Duration(waitBuyer) * time.Microsecond,
						Address: time.Duration(waitAddress) * time.Microsecond,
					})
				}
				e.same("waits", e.tries(sluice.SaleID(fmt.Sprint("sale-", i)), rates, tries...), want)
			}
		}
	}},
	{"AnAddressWithManyAccounts", one, func(e *env) {
		rates := port.Rates{Address: sluice.AddressRate{Requests: 3, PerS: 3000}}
		for i := range 6 {
			buyer := sluice.BuyerID(fmt.Sprint("buyer-", i))
			wait := port.Wait{}
			if i >= 3 {
				wait.Address = 1000 * time.Second
			}
			e.same("waits", e.tries(sale, rates, port.Try{Buyer: buyer, Address: "home"},
				port.Try{Buyer: buyer, Address: fmt.Sprint("other-", i)}), []port.Wait{wait, {}})
		}
		// Addresses are no buyers, and other sales count apart.
		e.wantWaits(e.allow(sale, sluice.BuyerRate{Requests: 1, PerS: 1000}, "home"), 0)
		e.same("waits", e.tries("other", rates, port.Try{Buyer: "ann", Address: "home"}), []port.Wait{{}})
		e.same("waits without a rate", e.tries(sale, port.Rates{}, port.Try{Buyer: "ann", Address: "home"}),
			[]port.Wait{{}})
	}},
	{"ATryCountsInBothRatesOrInNeither", one, func(e *env) {
		rates := port.Rates{
			Buyer: sluice.BuyerRate{Requests: 2, PerS: 4000}, Address: sluice.AddressRate{Requests: 3, PerS: 3000},
		}
		ann, bob, eve := port.Try{Buyer: "ann", Address: "home"}, port.Try{Buyer: "bob", Address: "home"},
			port.Try{Buyer: "eve", Address: "home"}
		away := port.Try{Buyer: "eve", Address: "away"}
		const first, second = 1000 * time.Second, 2000 * time.Second
		e.same("waits", e.tries(sale, rates, ann, ann, ann, bob, eve, away, away, away, ann), []port.Wait{
			{},
			{},
			{Buyer: second}, // which cost the address nothing:
			{},
			{Address: first}, // which cost the buyer nothing:
			{},
			{},
			{Buyer: second},
			{Buyer: second, Address: first},
		})
		e.clock.Advance(first)
		e.same("waits", e.tries(sale, rates, ann, bob, eve), []port.Wait{
			{Buyer: first}, {}, {Buyer: first, Address: first},
		})
	}},
	{"ManyAtOnce", one, func(e *env) { e.hammer(e.ledger) }},
	{"ManyServersAtOnce", several, func(e *env) {
		e.hammer(e.ledger, e.open(e, "node-b", e.clock), e.open(e, "node-c", e.clock))
	}},
	{"Closed", one, func(e *env) {
		e.must("Close", e.ledger.Close())
		rates := port.Rates{Buyer: sluice.BuyerRate{Requests: 1, PerS: 1}}
		if waits, err := e.ledger.Allow(e.ctx, sale, rates, make([]port.Try, 1)); err == nil {
			e.Errorf("a closed ledger answers %v", waits)
		}
	}},
}

func (e *env) tries(id sluice.SaleID, rates port.Rates, tries ...port.Try) []port.Wait {
	e.Helper()
	waits, err := e.ledger.Allow(e.ctx, id, rates, tries)
	e.must("Allow", err)
	return waits
}

// allow makes tries under a rate of buyers alone.
func (e *env) allow(id sluice.SaleID, rate sluice.BuyerRate, buyers ...sluice.BuyerID) (waits []time.Duration) {
	e.Helper()
	var tries []port.Try
	for _, buyer := range buyers {
		tries = append(tries, port.Try{Buyer: buyer})
	}
	for _, wait := range e.tries(id, port.Rates{Buyer: rate}, tries...) {
		waits = append(waits, wait.Longest())
	}
	return waits
}

func (e *env) wantWaits(got []time.Duration, want ...time.Duration) {
	e.Helper()
	e.same("waits", got, want)
}

// hammer lets one buyer, and one address with many accounts, try on all servers
// at once beside others, while the clock stands still: together no more pass
// than the rate's requests.
func (e *env) hammer(servers ...port.Ledger) {
	rates := port.Rates{
		Buyer: sluice.BuyerRate{Requests: 25, PerS: 6000}, Address: sluice.AddressRate{Requests: 35, PerS: 6000},
	}
	var byBuyer, byAddress atomic.Int64
	var all sync.WaitGroup
	for n, server := range servers {
		for hand := range 4 {
			all.Go(func() {
				for i := range 10 {
					one := sluice.BuyerID(fmt.Sprint("account-", n, "-", hand, "-", i))
					tries := []port.Try{
						{Buyer: "abuser", Address: fmt.Sprint("proxy-", i)},
						{Buyer: one, Address: "home"},
						{Buyer: one, Address: fmt.Sprint("house-", n, "-", hand)},
						{Buyer: one, Address: "home"},
						{Buyer: "abuser", Address: fmt.Sprint("proxy-", i)},
						{Buyer: one, Address: "home"},
					}
					waits, err := server.Allow(e.ctx, sale, rates, tries)
					if err != nil {
						e.Errorf("Allow: %v", err)
						return
					}
					for i, wait := range waits {
						switch {
						case wait != (port.Wait{}):
						case tries[i].Buyer == "abuser":
							byBuyer.Add(1)
						case tries[i].Address == "home":
							byAddress.Add(1)
						}
					}
				}
			})
		}
	}
	all.Wait()
	if byBuyer.Load() != rates.Buyer.Requests || byAddress.Load() != rates.Address.Requests {
		e.Errorf("on %d servers %d tries of one buyer pass, and %d from one address; want %d and %d", len(servers),
			byBuyer.Load(), byAddress.Load(), rates.Buyer.Requests, rates.Address.Requests)
	}
}
