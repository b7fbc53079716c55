package settle

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
)

// Restock changes the total of a sale by delta, once per restock id; a repeat
// changes nothing more. A sale that was sold out is on again when it returns.
//
// Raising: the store first, then the ledger, so that the ledger never promises
// what the store would refuse. Lowering: the ledger decides whether that many
// are still there, and only then does the store lower its own cap; until then
// claims accepted under the old total are covered (I1).
//
// Errors: sluice.ErrBelowTaken if more are taken than would be left,
// sluice.ErrNoTotal, sluice.ErrSaleNotFound.
func (c *Control) Restock(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error) {
	reading, err := c.read(ctx, id)
	if err != nil {
		return sluice.Sale{}, err
	}
	sale, err := c.store.Restock(ctx, id, restock, delta)
	if err != nil || !reading.Loaded {
		return sale, err // if it is not loaded, the load will bring the new total
	}
	switch err := c.ledger.Apply(ctx, id, sale.Epoch, sale.Terms); {
	case errors.Is(err, sluice.ErrBelowTaken):
		return c.undoRestock(ctx, id, restock)
	case err != nil:
		return sale, &PendingError{Cause: err}
	}
	if err := c.store.ConfirmTotal(ctx, id, sale.Version); err != nil {
		return sale, &PendingError{Cause: err}
	}
	return sale, c.waitCalm(ctx, id)
}

// undoRestock takes back what the ledger refused. The ledger still has the old
// total, and needs the new version only to be in step.
func (c *Control) undoRestock(ctx context.Context, id sluice.SaleID, restock string) (sluice.Sale, error) {
	sale, err := c.store.UndoRestock(ctx, id, restock)
	if err == nil {
		err = c.ledger.Apply(ctx, id, sale.Epoch, sale.Terms)
	}
	if err != nil {
		return sale, &PendingError{Cause: err} // Loader.Follow makes it good
	}
	return sale, sluice.ErrBelowTaken
}
