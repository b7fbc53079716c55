package ledgertest

import (
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// recall asks for a claim and fails the test unless it is found as the record
// says it is.
func (e *env) recall(c sluice.Claim) {
	e.Helper()
	got, err := e.ledger.Recall(e.ctx, sluice.ClaimID{Sale: sale, Buyer: c.Buyer, Key: c.Key})
	e.must("Recall", err)
	e.same("Recall", got, e.records(sale)[c.Order])
}

func (e *env) wantNoRecall(buyer sluice.BuyerID, key sluice.Key, want error) {
	e.Helper()
	_, err := e.ledger.Recall(e.ctx, sluice.ClaimID{Sale: sale, Buyer: buyer, Key: key})
	e.wantErr("Recall", err, want)
}

// recallCases: an accepted claim is found by its id, and nothing is taken (I4).
var recallCases = []testCase{
	{"accepted claims are recalled", one, func(e *env) {
		e.load(sale, total(50))
		var claims []sluice.Claim
		for _, buyer := range []sluice.BuyerID{"ann", "bob"} {
			for _, key := range []sluice.Key{"k1", "k2", "k3"} {
				c := e.claim(buyer, key, 2)
				c.Meta = `{"size":"L"}`
				e.accepted(c)
				claims = append(claims, c)
			}
		}
		e.change(sale, func(t *sluice.Terms) { t.ClosesAt = start.Add(time.Minute) })
		e.clock.Advance(time.Hour)
		for _, c := range claims {
			e.recall(c)
		}
		e.wantTaken(12, 6)
	}},
	{"a claim that has ended is recalled", one, func(e *env) {
		e.load(sale, total(5))
		c := e.claim("ann", "k", 1)
		e.accepted(c)
		_, err := e.ledger.Release(e.ctx, sale, []port.Release{
			{Order: c.Order, Sale: sale, Buyer: c.Buyer, Key: c.Key, Quantity: 1, Epoch: 1},
		})
		e.must("Release", err)
		e.recall(c)
	}},
	{"a claim of an earlier epoch is recalled", one, func(e *env) {
		old := e.record("ann", "k", 1, 1, true)
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 2, Terms: total(4), Taken: 1, Records: []port.Record{old}})
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		e.recall(old.Claim)
	}},
	{"a fenced sale gives no final answer about a claim that it does not have", one, func(e *env) {
		e.load(sale, total(5))
		there, gone := e.claim("ann", "k", 1), e.claim("ann", "other", 1)
		e.accepted(there)
		find := func(c sluice.Claim, buyer sluice.BuyerID, want error) {
			e.Helper()
			_, err := e.ledger.Find(e.ctx, c.Order, buyer)
			e.wantErr("Find", err, want)
		}
		find(gone, gone.Buyer, sluice.ErrOrderNotFound)
		find(gone, "", sluice.ErrOrderNotFound)
		e.must("Fence", e.ledger.Fence(e.ctx, sale, 1, port.FenceLost+": a disk"))
		e.recall(there)
		for _, buyer := range []sluice.BuyerID{gone.Buyer, "", "stranger"} {
			find(gone, buyer, port.ErrNotLoaded)
		}
		e.wantNoRecall(gone.Buyer, gone.Key, port.ErrNotLoaded)
		e.wantNoRecall("stranger", gone.Key, port.ErrNotLoaded)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.wantNoRecall(gone.Buyer, gone.Key, sluice.ErrOrderNotFound)
	}},
	{"what was not accepted is not recalled", one, func(e *env) {
		c := e.claim("ann", "k", 1)
		e.wantNoRecall(c.Buyer, c.Key, port.ErrNotLoaded)
		e.load(sale, total(1))
		e.wantNoRecall(c.Buyer, c.Key, sluice.ErrOrderNotFound)
		e.accepted(c)
		late := e.claim("bob", "k", 1)
		e.wantCode(late, sluice.SoldOut)
		e.wantNoRecall(late.Buyer, late.Key, sluice.ErrOrderNotFound)
		other := e.claim("ann", "k2", 1)
		e.wantNoRecall(other.Buyer, other.Key, sluice.ErrOrderNotFound)
		e.wantTaken(1, 1)
	}},
}
