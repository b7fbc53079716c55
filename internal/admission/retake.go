package admission

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
)

// Retake asks the ledger for the units of an order that has expired, for a payment that
// came too late (sluice.Order.RetakeClaim). The buyer was let in once, so no rule asks
// again, and no refusal of a reading from before counts: the ledger decides. Its server
// is asked through the batcher, which remembers what is accepted and bounds what is in
// flight. Overloaded and Unavailable: nothing was decided. An error: the outcome is not
// known, and the same claim will tell.
func (g *Gate) Retake(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
	view, err := g.board.Lookup(ctx, sale)
	if err != nil || view.Sale.Fence != "" || view.Reading.Loaded && view.Reading.Epoch < view.Sale.Epoch {
		return sluice.Decision{Code: sluice.Unavailable}, nil
	}
	view.wake()
	decision, err := g.batcher.Claim(ctx, sale, claim)
	switch {
	case errors.Is(err, ErrOverloaded), errors.Is(err, sluice.ErrClosed):
		return sluice.Decision{Code: sluice.Overloaded}, nil
	case errors.Is(err, ErrUnanswered), errors.Is(err, ErrRefusesWrites):
		return sluice.Decision{Code: sluice.Unavailable}, nil
	}
	return decision, err
}
