package sluice

import "context"

// Control is what operators do to a sale. Every change is written to the store
// first, as a new version of the terms, and then applied to the ledger; after a
// crash in between any server repairs it.
//
// Errors of all: ErrSaleNotFound, ErrArchived, *StateError if the sale is in no
// state that allows it, *PendingError if the change is stored and not yet in the
// ledger, and those of ledger and store.
type Control interface {
	// Create adds a valid sale and loads it into the ledger. ErrSaleExists.
	Create(ctx context.Context, sale Sale) (Sale, error)
	// Open starts the sale now, by the ledger's clock.
	Open(ctx context.Context, id SaleID) (Sale, error)
	// Pause refuses claims until Resume.
	Pause(ctx context.Context, id SaleID) (Sale, error)
	Resume(ctx context.Context, id SaleID) (Sale, error)
	// Close ends the window now, by the ledger's clock. Only claims end; orders
	// keep their deadline.
	Close(ctx context.Context, id SaleID) (Sale, error)
	// Patch lets edit change the sale. What decides who may buy how much is fixed
	// from the opening on, except that the total may be raised and the closing
	// time moved: a promise made under the old limits must stay one (I1, I3).
	Patch(ctx context.Context, id SaleID, edit func(*Sale) error) (Sale, error)
	// Restock changes the total of a sale by delta units, once per restock id; a
	// repeat changes nothing more. A sale that was sold out is on again when it
	// returns.
	//
	// ErrBelowTaken if more are taken than would be left, ErrTotalUndecided if the
	// ledger does not hold the sale or has fenced it and nothing was changed, or, as
	// ErrLoweringWaits, if a lower total waits for the ledger, ErrNoTotal,
	// ErrRestockReused.
	Restock(ctx context.Context, id SaleID, restock string, delta int64) (Sale, error)
}
