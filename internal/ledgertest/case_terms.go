package ledgertest

import (
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// termsCases: Apply.
var termsCases = []testCase{
	{"a higher version decides, an equal or lower one changes nothing", one, func(e *env) {
		e.load(sale, total(1))
		v3 := with(func(t *sluice.Terms) { t.Version, t.Total = 3, 5 })
		e.must("Apply 3", e.ledger.Apply(e.ctx, sale, 1, v3))
		e.same("terms", e.read(sale).Terms, v3)
		for _, version := range []int64{1, 2, 3} {
			old := with(func(t *sluice.Terms) { t.Version, t.Paused = version, true })
			e.must("Apply an older one", e.ledger.Apply(e.ctx, sale, 1, old))
			e.same("terms", e.read(sale).Terms, v3)
		}
		e.accepted(e.claim("ann", "k", 5))
	}},
	{"every field arrives", one, func(e *env) {
		e.load(sale, plenty())
		want := sluice.Terms{
			Version: 2, Total: 7, MaxPerBuyer: 3, MaxOrders: 4, Paused: true,
			OpensAt: start.Add(time.Millisecond), ClosesAt: start.Add(time.Hour + time.Millisecond),
		}
		e.must("Apply", e.ledger.Apply(e.ctx, sale, 1, want))
		e.same("terms", e.read(sale).Terms, want)
		want = with(func(t *sluice.Terms) { t.Version = 3 })
		e.must("Apply", e.ledger.Apply(e.ctx, sale, 1, want))
		e.same("terms", e.read(sale).Terms, want)
	}},
	{"another epoch is stale, a missing sale is not loaded", one, func(e *env) {
		terms := with(func(t *sluice.Terms) { t.Version = 2 })
		e.wantErr("missing", e.ledger.Apply(e.ctx, sale, 1, terms), port.ErrNotLoaded)
		e.load(sale, total(1))
		e.wantErr("higher", e.ledger.Apply(e.ctx, sale, 2, terms), port.ErrStaleEpoch)
		e.wantErr("lower", e.ledger.Apply(e.ctx, sale, 0, terms), port.ErrStaleEpoch)
		e.same("terms", e.read(sale).Terms, total(1))
	}},
	{"the total never goes below the units taken", one, func(e *env) {
		e.load(sale, total(10))
		e.accepted(e.claim("ann", "k", 4))
		low := with(func(t *sluice.Terms) { t.Version, t.Total, t.Paused = 2, 3, true })
		e.wantErr("below", e.ledger.Apply(e.ctx, sale, 1, low), sluice.ErrBelowTaken)
		e.same("terms", e.read(sale).Terms, total(10))
		e.change(sale, func(t *sluice.Terms) { t.Total = 4 })
		e.wantCode(e.claim("bob", "k", 1), sluice.SoldOut)
	}},
	{"a lower limit holds for what comes, and leaves what is", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer = 5 }))
		e.accepted(e.claim("ann", "k1", 4))
		e.change(sale, func(t *sluice.Terms) { t.MaxPerBuyer = 2 })
		e.wantCode(e.claim("ann", "k2", 1), sluice.BuyerLimit)
		e.wantTaken(4, 1)
		e.change(sale, func(t *sluice.Terms) { t.MaxPerBuyer = 6 })
		e.accepted(e.claim("ann", "k3", 2))
	}},
	{"it works while the sale is fenced, and does not lift the fence", one, func(e *env) {
		e.load(sale, total(1))
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, "why"))
		e.change(sale, func(t *sluice.Terms) { t.Total = 3 })
		e.wantCode(e.claim("ann", "k", 1), sluice.Unavailable)
		if r := e.read(sale); r.Fence != "why" || r.Terms.Version != 2 {
			e.Errorf("fence %q, version %d; want why, 2", r.Fence, r.Terms.Version)
		}
	}},
	{"a fenced sale's total is not lowered: more may have been accepted than is known", one, func(e *env) {
		e.load(sale, total(9))
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, "why"))
		for _, low := range []int64{8, 0} {
			terms := with(func(t *sluice.Terms) { t.Version, t.Total = 2, low })
			e.wantErr("lower", e.ledger.Apply(e.ctx, sale, 1, terms), port.ErrStaleEpoch)
		}
		e.same("terms", e.read(sale).Terms, total(9))
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.change(sale, func(t *sluice.Terms) { t.Total = 8 })
	}},
	{"an entry carries the version it was decided under", journal, func(e *env) {
		e.load(sale, plenty())
		e.accepted(e.claim("ann", "k1", 1))
		e.change(sale, func(t *sluice.Terms) { t.MaxPerBuyer = 9 })
		e.accepted(e.claim("ann", "k2", 1))
		entries := e.peek(sale)
		if len(entries) != 2 || entries[0].Terms != 1 || entries[1].Terms != 2 {
			e.Errorf("entries %+v, want terms 1 and 2", entries)
		}
	}},
}

// cooldownCases: what Apply reopens has a cooldown of RefusalLease, so that a server that
// still repeats the old refusal never contradicts an acceptance (I4).
var cooldownCases = []testCase{
	{"after a pause", one, reopens(sluice.Paused,
		with(func(t *sluice.Terms) { t.Paused = true }), func(t *sluice.Terms) { t.Paused = false })},
	{"after opening early", one, reopens(sluice.NotOpen,
		with(func(t *sluice.Terms) { t.OpensAt = start.Add(time.Hour) }), func(t *sluice.Terms) { t.OpensAt = start })},
	{"after reopening a closed sale", one, reopens(sluice.Closed,
		with(func(t *sluice.Terms) { t.ClosesAt = start }), func(t *sluice.Terms) { t.ClosesAt = time.Time{} })},
	{"after raising the total of a sold-out sale", one, reopens(sluice.SoldOut,
		total(0), func(t *sluice.Terms) { t.Total = 5 })},
	{"after lifting the total of a sold-out sale", one, reopens(sluice.SoldOut,
		total(0), func(t *sluice.Terms) { t.Total = unlimited })},
	{"not open carries when the sale opened", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.OpensAt = start.Add(time.Hour) }))
		e.change(sale, func(t *sluice.Terms) { t.OpensAt = start })
		d := e.wantCode(e.claim("ann", "k", 1), sluice.NotOpen)
		if want := start; !d.OpensAt.Equal(want) {
			e.Errorf("OpensAt %v, want %v", d.OpensAt, want)
		}
	}},
	{"buyer_limit outranks a cooldown after sold out", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = 1, 1 }))
		e.accepted(e.claim("ann", "k1", 1))
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		e.wantCode(e.claim("ann", "k2", 1), sluice.BuyerLimit)
		e.wantCode(e.claim("bob", "k", 1), sluice.SoldOut)
	}},
	{"a cooldown after sold out outranks insufficient", one, func(e *env) {
		e.load(sale, total(0))
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		e.wantCode(e.claim("bob", "k", 9), sluice.SoldOut)
	}},
	{"a cooldown after a pause outranks buyer_limit", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer = 1 }))
		e.accepted(e.claim("ann", "k1", 1))
		e.change(sale, func(t *sluice.Terms) { t.Paused = true })
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.wantCode(e.claim("ann", "k2", 1), sluice.Paused)
	}},
	{"what window or pause said outranks that it was sold out, too", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.Paused = 0, true }))
		e.change(sale, func(t *sluice.Terms) { t.Total, t.Paused = 5, false })
		e.wantCode(e.claim("ann", "k", 1), sluice.Paused)
	}},
	{"an opening that moves nearer than the lease waits for its end", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.OpensAt = start.Add(time.Hour) }))
		e.change(sale, func(t *sluice.Terms) { t.OpensAt = start.Add(100 * time.Millisecond) })
		e.clock.Advance(sluice.RefusalLease - time.Millisecond)
		e.wantCode(e.claim("ann", "k", 1), sluice.NotOpen)
		e.clock.Advance(time.Millisecond)
		e.accepted(e.claim("ann", "k", 1))
	}},
	{"an opening that moves, but not so near, or away, begins no cooldown", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.OpensAt = start.Add(100 * time.Millisecond) }))
		e.change(sale, func(t *sluice.Terms) { t.OpensAt = start.Add(200 * time.Millisecond) })
		e.change(sale, func(t *sluice.Terms) { t.OpensAt = start.Add(time.Hour) })
		e.change(sale, func(t *sluice.Terms) { t.OpensAt = start.Add(sluice.RefusalLease) })
		if r := e.read(sale); !r.CooldownUntil.IsZero() {
			e.Errorf("in cooldown until %v, want none", r.CooldownUntil)
		}
		e.clock.Advance(sluice.RefusalLease)
		e.accepted(e.claim("ann", "k", 1))
	}},
	{"a sale reopened while it is sold out has a cooldown, then says so", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.Paused = 0, true }))
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.wantCode(e.claim("ann", "k", 1), sluice.Paused)
		e.clock.Advance(sluice.RefusalLease)
		e.wantCode(e.claim("ann", "k", 1), sluice.SoldOut)
	}},
	{"a new cooldown replaces one that lasts", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.Paused = 0, true }))
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.clock.Advance(sluice.RefusalLease / 2)
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		e.wantCode(e.claim("ann", "k", 1), sluice.SoldOut)
		e.clock.Advance(sluice.RefusalLease - time.Millisecond)
		e.wantCode(e.claim("ann", "k", 1), sluice.SoldOut)
		e.clock.Advance(time.Millisecond)
		e.accepted(e.claim("ann", "k", 1))
	}},
	{"units added before the pause ends need no cooldown of their own", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.Paused = 0, true }))
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		if r := e.read(sale); !r.CooldownUntil.IsZero() {
			e.Errorf("in cooldown until %v, want none: it is still paused", r.CooldownUntil)
		}
	}},
	{"a pause during a cooldown is the answer, if it comes first", one, func(e *env) {
		e.load(sale, total(0))
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		e.change(sale, func(t *sluice.Terms) { t.Paused = true })
		e.wantCode(e.claim("ann", "k", 1), sluice.Paused)
		e.change(sale, func(t *sluice.Terms) { t.Paused, t.OpensAt = false, start.Add(time.Hour) })
		e.change(sale, func(t *sluice.Terms) { t.OpensAt = start })
		e.change(sale, func(t *sluice.Terms) { t.Paused = true })
		e.wantCode(e.claim("ann", "k", 1), sluice.NotOpen) // the rest's, which precedes paused
	}},
	{"a change that reopens nothing begins no cooldown", one, func(e *env) {
		e.load(sale, total(5))
		e.change(sale, func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = 9, 4 })
		if r := e.read(sale); !r.CooldownUntil.IsZero() {
			e.Errorf("in cooldown until %v, want none", r.CooldownUntil)
		}
		e.accepted(e.claim("ann", "k1", 1))
	}},
	{"a cooldown goes on through another change", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Paused = true }))
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.clock.Advance(sluice.RefusalLease - time.Millisecond)
		e.change(sale, func(t *sluice.Terms) { t.Total = 9 })
		e.wantCode(e.claim("ann", "k", 1), sluice.Paused)
		e.clock.Advance(time.Millisecond)
		e.accepted(e.claim("ann", "k", 1))
	}},
	{"the same version again does not restart the cooldown", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Paused = true }))
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.clock.Advance(sluice.RefusalLease)
		e.must("Apply again", e.ledger.Apply(e.ctx, sale, 1, e.terms[sale]))
		e.accepted(e.claim("ann", "k", 1))
	}},
	{"a cooldown ends when the clock is set back by more than it", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Paused = true }))
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.clock.Advance(-time.Millisecond)
		e.wantNoCooldown()
		e.clock.Advance(-time.Minute)
		e.wantNoCooldown()
		e.restart()
		e.wantNoCooldown()
		e.clock.Set(start) // the moment at which it began: as if nothing had been
		e.wantCode(e.claim("ann", "k", 1), sluice.Paused)
	}},
	{"so does one after a release", one, func(e *env) {
		e.load(sale, total(1))
		c := e.claim("ann", "k", 1)
		e.accepted(c)
		_, err := e.ledger.Release(e.ctx, sale, []port.Release{
			{Order: c.Order, Sale: sale, Buyer: c.Buyer, Key: c.Key, Quantity: 1, Epoch: 1},
		})
		e.must("Release", err)
		e.wantCode(e.claim("bob", "k", 1), sluice.SoldOut)
		e.clock.Advance(-time.Minute)
		e.change(sale, func(t *sluice.Terms) { t.Total = 2 })
		e.wantNoCooldown()
	}},
	{"a cooldown survives a restart", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Paused = true }))
		e.change(sale, func(t *sluice.Terms) { t.Paused = false })
		e.restart()
		e.wantCode(e.claim("ann", "k", 1), sluice.Paused)
		e.clock.Advance(sluice.RefusalLease)
		e.accepted(e.claim("ann", "k", 1))
	}},
}

// wantNoCooldown checks that the sale shows no cooldown, and accepts.
func (e *env) wantNoCooldown() {
	e.Helper()
	if r := e.read(sale); !r.CooldownUntil.IsZero() {
		e.Errorf("in cooldown until %v at %v, want none", r.CooldownUntil, r.Now)
	}
	e.accepted(e.claim(sluice.BuyerID(fmt.Sprint("buyer-", e.orders)), "k", 1))
}

// reopens returns a case: under before the sale answers code, change reopens
// it, and the code goes on until the cooldown is over, to the millisecond.
func reopens(code sluice.Code, before sluice.Terms, change func(t *sluice.Terms)) func(e *env) {
	return func(e *env) {
		e.load(sale, before)
		e.wantCode(e.claim("ann", "k", 1), code)
		e.change(sale, change)
		until := start.Add(sluice.RefusalLease)
		e.wantCode(e.claim("ann", "k", 1), code)
		if r := e.read(sale); !r.CooldownUntil.Equal(until) {
			e.Errorf("in cooldown until %v, want %v", r.CooldownUntil, until)
		}
		e.clock.Set(until.Add(-time.Millisecond))
		e.wantCode(e.claim("ann", "k", 1), code)
		e.clock.Set(until)
		if r := e.read(sale); !r.CooldownUntil.IsZero() {
			e.Errorf("in cooldown until %v after the cooldown, want none", r.CooldownUntil)
		}
		e.accepted(e.claim("ann", "k", 1))
	}
}
