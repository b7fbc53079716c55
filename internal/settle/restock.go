package settle

import (
	"context"

	"github.com/sluicehq/sluice"
)

// Raising: the store first, then the ledger, so that the ledger never promises
// what the store would refuse. Lowering: the ledger decides whether that many
// are still there, and only then does the store lower its own cap; until then
// claims accepted under the old total are covered (I1). A lowering that the
// ledger refused, or that a load has found undecided, is taken back, by whichever
// server comes first; so the answer is what the store's row says at the end.
func (c *Control) Restock(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error) {
	reading, err := c.read(ctx, id)
	if err != nil {
		return sluice.Sale{}, err
	}
	if delta < 0 && !decides(&reading) {
		return c.restocked(ctx, id, restock, delta)
	}
	sale, err := c.store.Restock(ctx, id, restock, delta)
	if err != nil || !reading.Loaded {
		return sale, err // if it is not loaded, the load will bring the new total
	}
	refused, err := c.loader.apply(ctx, &sale)
	if delta < 0 {
		if refused { // taken back, in the store at least
			return sale, sluice.ErrBelowTaken
		}
		now, undecided := c.restocked(ctx, id, restock, delta)
		if err == nil || undecided == nil {
			return now, undecided
		}
	}
	if err != nil {
		return sale, &sluice.PendingError{Cause: err}
	}
	return sale, c.waitCooldown(ctx, id)
}

// decides reports whether a ledger can decide about a lower total.
func decides(r *sluice.Reading) bool { return r.Loaded && r.Fence == "" }

// restocked says what became of a lowering.
func (c *Control) restocked(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error) {
	sale, made, err := c.store.Restocked(ctx, id, restock, delta)
	switch {
	case err != nil:
		return sale, err
	case !made:
		return sale, sluice.ErrTotalUndecided
	case sale.Cap != sale.Total:
		return sale, &sluice.PendingError{Cause: sluice.ErrTotalUndecided}
	}
	return sale, nil
}
