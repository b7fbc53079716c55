package port

import (
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Errors that ledgers and stores return, wrapped with where they happened.
var (
	ErrNotLoaded   = errors.New("the ledger does not hold the sale")
	ErrOtherLedger = errors.New("another ledger decides about the sale")
	ErrStaleEpoch  = errors.New("another epoch of the sale is in force")
	// ErrSaleLive: the sale is loaded and not fenced; loading it again would
	// forget claims that only the ledger knows.
	ErrSaleLive = errors.New("the sale is live in the ledger")
	// ErrUnchanged: the sales are as they were when they were last read (SalesDigest).
	ErrUnchanged = errors.New("nothing has changed")
	// ErrUnstorable: the database refused what was to be written for what it is: by a
	// constraint, a trigger, or a type. Nothing was changed. The same call fails until
	// the database's rules change, and then succeeds.
	ErrUnstorable = errors.New("the database refuses to store this")
)

// ConflictError is evidence that a ledger lost data and gave the same place,
// claim or order id twice: a stored order disagrees with a journal entry that
// is not its redelivery.
type ConflictError struct {
	Entry  string // id of the journal entry
	Order  sluice.OrderID
	Detail string // what disagrees
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("entry %s, order %s: %s", e.Entry, e.Order, e.Detail)
}

// EpochError says that a ledger has seen a later epoch of a sale than that of a
// load. It is ErrStaleEpoch.
type EpochError struct{ Seen int64 }

func (e *EpochError) Error() string {
	return fmt.Sprintf("the ledger has seen epoch %d of the sale", e.Seen)
}

func (e *EpochError) Unwrap() error { return ErrStaleEpoch }

// DamageError says that a ledger cannot read the records of these buyers (the
// first hundred); all others were read. A rebuild takes theirs from the store.
type DamageError struct{ Buyers []sluice.BuyerID }

func (e *DamageError) Error() string {
	return fmt.Sprintf("the records of %d buyers are damaged, the first of %q", len(e.Buyers), e.Buyers[0])
}
