package sluice

import "context"

// Recaller is the part of a ledger that says whether it has accepted a claim
// before, and takes nothing. Layers that refuse buyers for reasons of their
// own ask it first, so that the repeat of an accepted claim still gets its
// order (I4).
type Recaller interface {
	// Recall returns the accepted claim with this id, ended or not.
	// ErrOrderNotFound if there is none, ErrNotLoaded if the ledger does not
	// hold the sale. A claim that is being decided at the same time may be
	// found or not.
	Recall(ctx context.Context, claim ClaimID) (Record, error)
}
