package ledgertest

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// permitCases are about a ledger as a sluice.Permitter. Most are of a sale of
// ten units, under a ratio of 1.5.
var permitCases = []testCase{
	{"AsManyAsTheRatioAllows", one, func(e *env) {
		e.load(sale, total(10))
		e.wantPermits(0, 4, 4)
		e.wantPermits(4, 20, 11)
		e.wantPermits(15, 1, 0)
		e.wantPermits(9, 2, 2) // decisions have ended six
		e.wantPermits(11, 9, 4)
		e.wantPermits(20, 5, 0) // more than there are: the ratio was higher before
		e.wantPermits(0, 100, 15)
	}},
	{"UnitsTakenAndReturned", one, func(e *env) {
		e.load(sale, total(10))
		var all []sluice.Claim
		for _, buyer := range []sluice.BuyerID{"ann", "bob", "eve", "joe"} {
			all = append(all, e.claim(buyer, "k", 1))
			e.accepted(all[len(all)-1])
		}
		e.wantPermits(0, 100, 9)
		e.release(all[:2]...)
		e.wantPermits(0, 100, 12)
		e.change(sale, func(t *sluice.Terms) { t.Total = 100 })
		e.wantPermits(0, 1000, 147)
	}},
	{"AtLeastOne", one, func(e *env) {
		e.load(sale, total(1))
		e.wantLeased(e.ledger, sluice.PermitAsk{Ratio: 0.001, Want: 9}, 1)
		claim := e.claim("ann", "k", 1)
		e.accepted(claim)
		e.wantPermits(0, 9, 1) // what servers know may be out of date
		e.wantPermits(1, 9, 0)
		// A sale that was sold out has a cooldown first: all would be refused.
		e.release(claim)
		e.change(sale, func(t *sluice.Terms) { t.Total = 50 })
		e.wantPermits(0, 9, 1)
		e.clock.Advance(sluice.RefusalLease)
		e.wantPermits(0, 100, 75)
		e.clock.Advance(-time.Hour)
		e.wantPermits(0, 100, 75)
	}},
	{"AnyNumberWithoutATotal", one, func(e *env) {
		e.load(sale, plenty())
		e.wantPermits(0, 5000, 5000)
		e.wantPermits(5000, 5000, 5000)
	}},
	{"AHugeRatio", one, func(e *env) {
		e.load(sale, total(sluice.MaxUnits))
		e.wantLeased(e.ledger, sluice.PermitAsk{Ratio: 1e6, Used: 1, Want: 5000}, 5000)
	}},
	{"NotOfASaleThatIsNotThere", one, func(e *env) {
		ask := sluice.PermitAsk{Ratio: 1.5, Want: 1}
		_, err := e.ledger.Permits(e.ctx, sale, ask)
		e.wantErr("of no sale", err, sluice.ErrNotLoaded)
		e.loadImage(sluice.LoadImage{Sale: sale, Epoch: 1, Terms: total(10)})
		_, err = e.ledger.Permits(e.ctx, sale, ask)
		e.wantErr("of a sale that is being loaded", err, sluice.ErrNotLoaded)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.wantPermits(0, 1, 1)
		e.must("Close", e.ledger.Close())
		if n, err := e.ledger.Permits(e.ctx, sale, ask); err == nil {
			e.Errorf("a closed ledger leases %d", n)
		}
	}},
	{"OverAllServers", several, func(e *env) {
		e.load(sale, total(10))
		b, c := e.open(e, "node-b", e.clock), e.open(e, "node-c", e.clock)
		e.wantPermits(0, 10, 10)
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 10}, 5)
		e.wantLeased(c, sluice.PermitAsk{Ratio: 1.5, Want: 10}, 0)
		e.wantPermits(3, 0, 0) // seven have ended here
		e.wantLeased(c, sluice.PermitAsk{Ratio: 1.5, Want: 10}, 7)
		e.wantLeased(b, sluice.PermitAsk{Ratio: 3, Used: 5, Want: 100}, 15) // an operator has raised it
		e.wantLeased(c, sluice.PermitAsk{Ratio: 0.5, Used: 0, Want: 100}, 0)
		e.load("sale-2", total(2)) // counts apart
		if n, err := c.Permits(e.ctx, "sale-2", sluice.PermitAsk{Ratio: 1, Want: 9}); err != nil || n != 2 {
			e.Errorf("of the other sale: %d, %v; want 2", n, err)
		}
	}},
	{"ALeaseEnds", several, func(e *env) {
		e.load(sale, total(10))
		b := e.open(e, "node-b", e.clock)
		e.wantPermits(0, 15, 15)
		e.clock.Advance(sluice.PermitLease - time.Millisecond)
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 10}, 0)
		e.clock.Advance(time.Millisecond) // the server is dead, or hangs
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 10}, 10)
		e.wantPermits(15, 1, 0) // it comes back: 25 are in use
		e.clock.Advance(sluice.PermitLease / 2)
		e.wantPermits(15, 0, 0) // named again, so they stay
		e.clock.Advance(sluice.PermitLease / 2)
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 10}, 0)
	}},
	{"ARestartedServer", several, func(e *env) {
		e.load(sale, total(10))
		b := e.open(e, "node-b", e.clock)
		e.wantPermits(0, 15, 15)
		e.restart()
		e.wantPermits(0, 1, 1)
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 100}, 14)
	}},
	{"ALoadVoidsAll", several, func(e *env) {
		e.load(sale, total(10))
		b := e.open(e, "node-b", e.clock)
		e.wantPermits(0, 15, 15)
		e.loadImage(sluice.LoadImage{Sale: sale, Epoch: 2, Terms: total(10)})
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 100}, 15)
	}},
	{"AClockSetBack", several, func(e *env) {
		e.load(sale, total(10))
		b := e.open(e, "node-b", e.clock)
		e.wantPermits(0, 15, 15)
		e.clock.Advance(-time.Minute) // or the lease would last for more than a minute
		e.wantLeased(b, sluice.PermitAsk{Ratio: 1.5, Want: 100}, 15)
	}},
	{"ManyServersAtOnce", several, func(e *env) {
		e.load(sale, total(10))
		e.contend(e.ledger, e.open(e, "node-b", e.clock), e.open(e, "node-c", e.clock))
	}},
}

// wantPermits asks for permits of the sale of this case, for the server under
// test.
func (e *env) wantPermits(used, want, leased int64) {
	e.Helper()
	e.wantLeased(e.ledger, sluice.PermitAsk{Ratio: 1.5, Used: used, Want: want}, leased)
}

func (e *env) wantLeased(server sluice.Ledger, ask sluice.PermitAsk, want int64) {
	e.Helper()
	got, err := server.Permits(e.ctx, sale, ask)
	e.must("Permits", err)
	if got != want {
		e.Errorf("%d permits for %+v, want %d", got, ask, want)
	}
}

// contend lets servers ask at once, while the clock stands still: never more
// than fifteen permits are in use.
func (e *env) contend(servers ...sluice.Ledger) {
	var inUse, leases atomic.Int64
	var all sync.WaitGroup
	for n, server := range servers {
		all.Go(func() {
			random := rand.New(rand.NewPCG(7, uint64(n)))
			var used int64
			for range 200 {
				ended := random.Int64N(used + 1)
				inUse.Add(-ended)
				used -= ended
				n, err := server.Permits(e.ctx, sale,
					sluice.PermitAsk{Ratio: 1.5, Used: used, Want: random.Int64N(9)})
				if err != nil {
					e.Errorf("Permits: %v", err)
					return
				}
				used += n
				leases.Add(n)
				if now := inUse.Add(n); now > 15 {
					e.Errorf("%d permits are in use, want 15 at most", now)
				}
			}
		})
	}
	all.Wait()
	if leases.Load() < 500 {
		e.Errorf("%d permits in 600 calls: they do not come back", leases.Load())
	}
}
