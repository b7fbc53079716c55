package sluice

import "context"

// ReconcileStore is what a reconciliation needs of a store besides the audit's
// view of it. Each repair looks again under the locks that the ordinary changes
// take, so it can run beside them.
type ReconcileStore interface {
	// WaitingReleases returns the orders of a sale whose releases wait, in no
	// particular order. It is read after a Snapshot that showed an ended order:
	// if the order is not in it, the ledger has applied the release, or it is
	// lost.
	WaitingReleases(ctx context.Context, sale SaleID) ([]OrderID, error)

	// ReissueRelease writes the release of an ended order again, stamped with
	// this epoch, and reports whether it did: not if one waits, if the order is
	// live or never held units (NotCovered), or if the sale has another epoch or
	// is archived. A ledger that has applied the order's release before changes
	// nothing for the second one (I6). ErrOrderNotFound.
	ReissueRelease(ctx context.Context, order OrderID, epoch int64) (bool, error)

	// RecountTaken sets the sale's taken to the units of its live orders, and
	// returns both (I2). It is an error, and nothing changes, if those exceed
	// the cap (I1). ErrSaleNotFound.
	RecountTaken(ctx context.Context, sale SaleID) (before, after int64, err error)
}
