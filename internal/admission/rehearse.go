package admission

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
)

// Rehearse says what this gate and the ledger would answer to the first claim of a
// buyer: now, or when a sale that is not open yet has opened. It makes the checks of
// Claim, and reads the ledger where Claim would ask it to decide. So it cannot take
// a unit, and it counts nothing: no rate, no place, no refusal.
//
// Errors: *RefusedError and ErrUnready as of Claim; any other: the ledger does not
// answer.
func (g *Gate) Rehearse(
	ctx context.Context, sale sluice.SaleID, claim sluice.Claim, caller Caller,
) (sluice.Decision, error) {
	view, err := g.board.Public(ctx, sale)
	switch {
	case errors.Is(err, sluice.ErrSaleNotFound):
		return sluice.Decision{Code: sluice.SaleNotFound}, nil
	case err != nil:
		if view = g.board.remembered(sale); view == nil || view.Hidden() {
			return sluice.Decision{Code: sluice.Unavailable}, nil
		}
	}
	if decision, known := view.standing(&claim, g.now()); known == refused && decision.Code != sluice.NotOpen {
		return decision, nil
	}
	if g.batcher.Full() {
		return busy, nil
	}
	if view.Archived() {
		return sluice.Decision{Code: sluice.Closed}, nil
	}
	if g.eligibility != nil {
		if why := g.eligibility.Check(view, &claim, &caller); why != nil {
			return sluice.Decision{}, why
		}
	}
	readings, err := g.ledger.Read(ctx, []sluice.SaleID{sale})
	if err == nil {
		err = readings[0].Err
	}
	if err != nil {
		return sluice.Decision{}, err
	}
	reading := &readings[0]
	if !reading.Loaded || reading.Fence != "" || reading.Epoch < view.Sale.Epoch {
		return sluice.Decision{Code: sluice.Unavailable}, nil
	}
	at := reading.Now
	if opens := reading.Terms.OpensAt; at.Before(opens) {
		at = opens
	}
	verdict := reading.Terms.Verdict(at, sluice.Cooldown{})
	decision := verdict.Decide(sluice.Account{}, reading.Taken, claim.Quantity)
	if decision.Code == 0 {
		decision.Code = sluice.Accepted
	}
	return decision, nil
}
