package admission

import (
	"context"

	"github.com/sluicehq/sluice"
)

// A server that starts while the store does not answer knows no sale, and the
// ledger could sell without it. But limits fail closed: what a sale asks of its
// buyers must hold then as well. So a server remembers the rules of its sales
// (BoardOptions.RulesChanged), and decides by what it remembers until it has
// seen the sale again.

// tell passes the rules on, if some have changed.
func (b *Board) tell() {
	if b.opts.RulesChanged == nil {
		return
	}
	b.telling.Lock()
	defer b.telling.Unlock()
	b.mu.Lock()
	changed := b.rules
	b.rules = false
	var all map[sluice.SaleID]sluice.Rules
	if changed {
		all = make(map[sluice.SaleID]sluice.Rules, b.sales.Size())
		for id, e := range b.sales.Range {
			all[id] = e.sale.Rules
		}
	}
	b.mu.Unlock()
	if changed {
		b.opts.RulesChanged(all)
	}
}

// unseen decides a claim on a sale that is not on the board, while the store
// does not answer. Of a sale that is not remembered nothing is known. Otherwise
// its rates, its ticket and its invitations by token count; an allow list
// cannot be asked, so nobody is on it; a deny list cannot either, and denies
// nobody. There is no ratio without a reading.
func (g *Gate) unseen(ctx context.Context, sale sluice.SaleID, claim sluice.Claim, caller *Caller) (sluice.Decision, error) {
	rules, known := g.board.opts.Rules[sale]
	if !known || rules.Eligibility == sluice.EligibleList {
		return g.tally.refused(CheckState, sluice.Decision{Code: sluice.Unavailable})
	}
	if check, wait := g.rates.check(&rules, sale, claim.Buyer, caller.Address, g.now()); wait > 0 {
		return g.tally.refused(check, sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait})
	}
	if g.eligibility != nil {
		eligibility := *g.eligibility
		eligibility.Lists = nil
		if why := eligibility.Check(&View{Sale: sluice.Sale{ID: sale, Rules: rules}}, &claim, caller); why != nil {
			g.tally[CheckEligibility].n.Add(1)
			return g.recall(ctx, sale, &claim, &rules, caller.Address, why)
		}
	}
	return g.ask(ctx, sale, claim, sluice.Unlimited, &rules, caller.Address)
}

// sharedRate is the rate over all servers, zero if there is none.
func sharedRate(rules *sluice.Rules) sluice.BuyerRate {
	if rules.BuyerRate.Shared {
		return rules.BuyerRate
	}
	return sluice.BuyerRate{}
}
