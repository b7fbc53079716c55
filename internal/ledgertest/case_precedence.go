package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// applies is a reason for an answer that a claim can be given. Of those that are true of one
// claim the earliest is the answer.
type applies struct {
	name  string
	code  sluice.Code
	terms func(t *sluice.Terms)            // what Apply has to change
	claim func(first, claim *sluice.Claim) // how the claim has to look
}

// reasons, in the order of precedence. Unavailable comes first: of a sale that
// is fenced nothing is known, not even what was accepted.
var reasons = []applies{
	{name: "fenced", code: sluice.Unavailable},
	{name: "repeat", code: sluice.Accepted, claim: func(first, claim *sluice.Claim) {
		order := claim.Order
		*claim = *first
		claim.Order = order
	}},
	{name: "key reused", code: sluice.KeyReused, claim: func(first, claim *sluice.Claim) {
		claim.Key, claim.Meta = first.Key, "other"
	}},
	{name: "not open", code: sluice.NotOpen, terms: func(t *sluice.Terms) {
		t.OpensAt = start.Add(time.Hour)
	}},
	{name: "closed", code: sluice.Closed, terms: func(t *sluice.Terms) { t.ClosesAt = start }},
	{name: "paused", code: sluice.Paused, terms: func(t *sluice.Terms) { t.Paused = true }},
	{name: "buyer limit", code: sluice.BuyerLimit, terms: func(t *sluice.Terms) { t.MaxPerBuyer = 2 }},
	{name: "order limit", code: sluice.BuyerLimit, terms: func(t *sluice.Terms) { t.MaxOrders = 1 }},
	{name: "counter", code: sluice.BuyerLimit, claim: func(_, claim *sluice.Claim) {
		claim.Counters = "home:1=3"
	}},
	{name: "sold out", code: sluice.SoldOut, terms: func(t *sluice.Terms) { t.Total = 2 }},
	{name: "insufficient", code: sluice.Insufficient, terms: func(t *sluice.Terms) { t.Total = 3 }},
}

// precedenceCases: each reason alone, and before all later ones that can be true with it.
var precedenceCases = func() (cases []testCase) {
	for _, alone := range reasons {
		cases = append(cases, testCase{alone.name, one, func(e *env) { e.precedenceOf(sale, alone.code, alone) }})
	}
	return append(cases, testCase{"all at once", one, func(e *env) {
		all := slices.DeleteFunc(slices.Clone(reasons), func(r applies) bool {
			return r.code == sluice.KeyReused || r.code == sluice.Closed || r.code == sluice.Insufficient
		})
		for i := range all {
			e.precedenceOf(sluice.SaleID(fmt.Sprint("sale-", i)), all[i].code, all[i:]...)
		}
	}})
}()

// precedenceOf makes all the reasons true of one claim of ann, who has an
// accepted claim of two units, and compares the answer.
func (e *env) precedenceOf(id sluice.SaleID, want sluice.Code, all ...applies) {
	e.Helper()
	e.load(id, plenty())
	first := sluice.Claim{Buyer: "ann", Key: "first-key", Quantity: 2, Order: e.order(id), Counters: "home:1=2"}
	if d := e.claimsOf(id, first)[0]; d.Code != sluice.Accepted {
		e.Fatalf("first claim: %s", d.Code)
	}
	claim := sluice.Claim{Buyer: "ann", Key: "second-key", Quantity: 2, Order: e.order(id)}
	for _, reason := range all {
		if reason.claim != nil {
			reason.claim(&first, &claim)
		}
	}
	e.change(id, func(t *sluice.Terms) {
		for _, reason := range all {
			if reason.terms != nil {
				reason.terms(t)
			}
		}
	})
	for _, reason := range all {
		if reason.code == sluice.Unavailable {
			e.must("Fence", e.ledger.Fence(e.ctx, id, 1, "test"))
		}
	}
	d := e.claimsOf(id, claim)[0]
	if d.Code != want {
		e.Errorf("%s, want %s", d.Code, want)
	}
	if d.Code == sluice.Accepted && (!d.Replayed || d.Order != first.Order) {
		e.Errorf("%+v, want order %s again", d, first.Order)
	}
	if r := e.read(id); r.Taken != 2 || r.Seq != 1 {
		e.Errorf("taken %d, seq %d after the claim; want 2, 1", r.Taken, r.Seq)
	}
}
