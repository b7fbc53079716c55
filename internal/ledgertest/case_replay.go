package ledgertest

import (
	"time"

	"github.com/sluicehq/sluice"
)

// replayCases: an accepted claim gives the same order, for ever (I4).
var replayCases = []testCase{
	{"a repeat gets the first answer and takes nothing", one, func(e *env) {
		e.load(sale, total(10))
		claim := e.claim("ann", "k", 3)
		claim.Meta = `{"size":"L"}`
		want := e.accepted(claim)
		want.Replayed = true
		e.clock.Advance(time.Minute)
		for range 3 {
			e.same("same order id", e.one(claim), want)
			again := claim
			again.Order = e.order(sale) // a retry proposes a new order id
			e.same("new order id", e.one(again), want)
		}
		e.wantTaken(3, 1)
	}},
	{"a repeat outranks every refusal", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer, t.MaxOrders = 1, 1, 1 }))
		claim := e.claim("ann", "k", 1)
		want := e.accepted(claim)
		want.Replayed = true
		e.same("sold out", e.one(claim), want)
		e.change(sale, func(t *sluice.Terms) { t.Paused = true })
		e.same("paused", e.one(claim), want)
		e.change(sale, func(t *sluice.Terms) { t.Paused, t.OpensAt = false, start.Add(time.Hour) })
		e.same("not open", e.one(claim), want)
		e.change(sale, func(t *sluice.Terms) { t.OpensAt, t.ClosesAt = start.Add(-time.Hour), start })
		e.same("closed", e.one(claim), want)
		e.change(sale, func(t *sluice.Terms) { t.ClosesAt, t.Total = time.Time{}, 2 })
		e.same("in cooldown", e.one(claim), want)
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, "test"))
		e.wantCode(claim, sluice.Unavailable)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.same("after the fence", e.one(claim), want)
	}},
	{"the key with other content is refused", one, func(e *env) {
		e.load(sale, total(10))
		claim := e.claim("ann", "k", 2)
		claim.Meta = "m"
		e.accepted(claim)
		more, other, none := claim, claim, claim
		more.Quantity, other.Meta, none.Meta = 3, "n", ""
		e.wantCode(more, sluice.KeyReused)
		e.wantCode(other, sluice.KeyReused)
		e.wantCode(none, sluice.KeyReused)
		e.wantTaken(2, 1)
	}},
	{"the same key of two buyers is two claims", one, func(e *env) {
		e.load(sale, total(10))
		ann, bob := e.claim("ann", "k", 1), e.claim("bob", "k", 2)
		e.accepted(ann)
		e.accepted(bob)
		if d := e.one(ann); d.Order != ann.Order {
			e.Errorf("ann's repeat got order %s, want %s", d.Order, ann.Order)
		}
		if d := e.one(bob); d.Order != bob.Order {
			e.Errorf("bob's repeat got order %s, want %s", d.Order, bob.Order)
		}
	}},
	{"buyer and key do not run together", one, func(e *env) {
		e.load(sale, total(10))
		e.accepted(e.claim("ab", "cdefghijk", 1))
		e.accepted(e.claim("abc", "defghijk", 1))
		e.accepted(e.claim("ab:cdefghij", "kkkkkkkk", 1))
		e.wantTaken(3, 3)
	}},
	{"a claim is accepted under its version for ever", one, func(e *env) {
		e.load(sale, total(10))
		claim := e.claim("ann", "k", 1)
		e.accepted(claim)
		e.change(sale, func(t *sluice.Terms) { t.Total = 20 })
		e.one(claim)
		if r := e.records(sale)[claim.Order]; r.Terms != 1 {
			e.Errorf("record under terms %d, want 1", r.Terms)
		}
		later := e.claim("bob", "k", 1)
		e.accepted(later)
		if r := e.records(sale)[later.Order]; r.Terms != 2 {
			e.Errorf("record under terms %d, want 2", r.Terms)
		}
	}},
}

// batchCases: claims of one call see each other, in order.
var batchCases = []testCase{
	{"the same claim twice is one order", one, func(e *env) {
		e.load(sale, total(10))
		claim := e.claim("ann", "k", 2)
		again := claim
		again.Order = e.order(sale)
		decisions := e.claims(claim, again, claim)
		first := decisions[0]
		want := first
		want.Replayed = true
		if first.Replayed || first.Code != sluice.Accepted {
			e.Errorf("first: %+v, want a new acceptance", first)
		}
		e.same("second", decisions[1], want)
		e.same("third", decisions[2], want)
		e.wantTaken(2, 1)
	}},
	{"the same key with other content", one, func(e *env) {
		e.load(sale, total(10))
		claim := e.claim("ann", "k", 2)
		other := claim
		other.Quantity = 3
		e.wantCodes(e.claims(claim, other), sluice.Accepted, sluice.KeyReused)
		e.wantTaken(2, 1)
	}},
	{"a key refused earlier in the batch may be accepted later in it", one, func(e *env) {
		e.load(sale, total(2))
		e.wantCodes(e.claims(e.claim("ann", "k", 3), e.claim("ann", "k", 1)), sluice.Insufficient, sluice.Accepted)
	}},
	{"a buyer exceeds the limit within the batch", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer = 3 }))
		first, second := e.claim("ann", "k1", 2), e.claim("ann", "k3", 1)
		decisions := e.claims(first, e.claim("ann", "k2", 2), second, e.claim("bob", "k1", 3), e.claim("ann", "k4", 1))
		e.wantCodes(decisions, sluice.Accepted, sluice.BuyerLimit, sluice.Accepted, sluice.Accepted, sluice.BuyerLimit)
		e.same("orders", decisions[1].Orders, []sluice.OrderID{first.Order})
		e.same("orders", sorted(decisions[4].Orders), sorted([]sluice.OrderID{first.Order, second.Order}))
		e.wantTaken(6, 3)
	}},
	{"a buyer exceeds MaxOrders within the batch", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxOrders = 2 }))
		e.wantCodes(e.claims(e.claim("ann", "k1", 1), e.claim("ann", "k2", 1), e.claim("ann", "k3", 1)),
			sluice.Accepted, sluice.Accepted, sluice.BuyerLimit)
	}},
	{"the last units go in order, and a smaller claim may still pass", one, func(e *env) {
		e.load(sale, total(5))
		e.wantCodes(e.claims(e.claim("a", "k", 3), e.claim("b", "k", 3), e.claim("c", "k", 2), e.claim("d", "k", 1),
			e.claim("a", "k", 3)),
			sluice.Accepted, sluice.Insufficient, sluice.Accepted, sluice.SoldOut, sluice.Accepted)
		e.wantTaken(5, 2)
	}},
	{"accepted claims of a batch share time and entry, and their sequence is dense", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer = 1 }))
		batch := []sluice.Claim{e.claim("a", "k", 1), e.claim("b", "k", 1), e.claim("c", "k", 1)}
		decisions := e.claims(batch...)
		e.wantCodes(decisions, sluice.Accepted, sluice.Accepted, sluice.Accepted)
		e.same("sequences", []int64{decisions[0].Seq, decisions[1].Seq, decisions[2].Seq}, []int64{1, 2, 3})
		e.same("times", []time.Time{decisions[1].At, decisions[2].At}, []time.Time{decisions[0].At, decisions[0].At})
		for _, entry := range e.wantEntries(1) {
			e.same("entry", entry.Claims, batch)
		}
	}},
}
