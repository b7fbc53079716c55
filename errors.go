package sluice

import (
	"errors"
	"fmt"
	"time"
)

// Errors that ledgers and stores return, wrapped with where they happened.
var (
	ErrSaleExists    = errors.New("a sale with this id exists")
	ErrSaleNotFound  = errors.New("no such sale")
	ErrOrderNotFound = errors.New("no such order")
	// ErrOrderQueued: the order is accepted and not stored yet, so that it cannot change.
	ErrOrderQueued = errors.New("the order is not stored yet")
	// ErrStoreOlder: the store was restored from an older copy, and the order's sale waits for `sluice
	// recover`, so the store cannot tell whether the order has ended, or was paid, since the copy. Nothing
	// was changed or recorded; the same call may succeed afterwards.
	ErrStoreOlder = errors.New("the store was restored from an older copy, and the sale waits for `sluice recover`")
	// ErrWebhookNotFound: no such webhook. ErrEventNotFound: no such event, or
	// none that this can be done with.
	ErrWebhookNotFound = errors.New("no such webhook")
	ErrEventNotFound   = errors.New("no such event")
	// ErrDeadLetterNotFound: no such dead letter.
	ErrDeadLetterNotFound = errors.New("no such dead letter")
	ErrNoTotal            = errors.New("the sale has no total")
	ErrBelowTaken         = errors.New("the total would be below the units already taken")
	ErrBadCursor          = errors.New("the cursor is not one of ours")
	// ErrRefusesWrites: the ledger does not write now, since its disk or memory is
	// full, or it is a replica. Nothing was written, and nothing decided.
	ErrRefusesWrites = errors.New("the ledger refuses to write")
	// ErrNoAnswer: the ledger is out of reach or does not answer in time. What it was
	// asked for may be done.
	ErrNoAnswer = errors.New("the ledger does not answer")
	// ErrTotalUndecided: the total cannot change now, and was not changed. A lower
	// one needs a ledger that holds the sale, loaded and not fenced.
	ErrTotalUndecided = errors.New("the ledger cannot decide about the total now")
	// ErrLoweringWaits is an ErrTotalUndecided: a lower total waits for the ledger,
	// and until it has decided the total changes neither down nor up.
	ErrLoweringWaits = fmt.Errorf("a lower total waits for the ledger: %w", ErrTotalUndecided)
	// ErrRestockReused: a restock with this id, but of other units, was made.
	ErrRestockReused = errors.New("this restock id was used with another delta")
	// ErrArchived: the sale is over for good, and no longer changes.
	ErrArchived = errors.New("the sale is archived")
	// ErrNoErasureKey: the store was given no key for the pseudonyms of erased buyers.
	ErrNoErasureKey = errors.New("no key for the pseudonyms of erased buyers: give every server the same webhook_key")
	ErrClosed       = errors.New("closed")
	// ErrStoreBusy: the store could not do it now, and it is not the fault of
	// what it was asked: a row is locked, the database is slow, full, stopping or
	// out of reach. Nothing was changed, or the outcome is unknown; the same call
	// may succeed later.
	ErrStoreBusy = errors.New("the store is busy")
	// ErrStoreFull is an ErrStoreBusy that an operator can end.
	ErrStoreFull = fmt.Errorf("the store's disk is full: %w", ErrStoreBusy)
	// ErrAuditBusy: other audits or reconciliations have run on this server for too
	// long to wait any longer.
	ErrAuditBusy = errors.New("another audit or reconciliation is running on this server")
	// ErrInUse: another process owns the file or folder.
	ErrInUse = errors.New("in use by another process")
)

// Reason says, for programs, why a buyer is not let in.
type Reason string

// The reasons of a RefusedError.
const (
	// Denied: the buyer is on the sale's deny list.
	Denied Reason = "denied"
	// NotEligible: the sale is for others.
	NotEligible Reason = "not_eligible"
	// TicketMissing, TicketInvalid and TicketExpired: a new ticket helps.
	TicketMissing Reason = "ticket_missing"
	TicketInvalid Reason = "ticket_invalid"
	TicketExpired Reason = "ticket_expired"
	// LimitMissing: the sale has a limit by something that the buyer's token does not say.
	LimitMissing Reason = "limit_missing"
)

// RefusedError: the buyer is not let in, whatever is left to buy. If it is
// about a claim, the claim has not been accepted before.
type RefusedError struct {
	Reason Reason
	Detail string // what to do, for people
}

func (e *RefusedError) Error() string { return e.Detail }

// EventsGoneError says that events which were asked for are deleted.
type EventsGoneError struct{ First int64 } // the first one that the feed still has

func (e *EventsGoneError) Error() string {
	return fmt.Sprintf("the feed begins with event %d: those before it are deleted (order_retention)", e.First)
}

// OrdersGoneError says that orders of the sale are deleted, or are being deleted if At is
// zero; their sums are with the sale.
type OrdersGoneError struct {
	Sale SaleID
	At   time.Time
}

func (e *OrdersGoneError) Error() string {
	when := "are being deleted"
	if !e.At.IsZero() {
		when = "were deleted on " + e.At.Format(time.DateOnly)
	}
	return fmt.Sprintf("orders of the sale %s %s, as order_retention says; their sums are with the sale", e.Sale, when)
}

// StateError says that the sale is not in a state that allows what was asked.
type StateError struct {
	Sale   SaleID
	Detail string
}

func (e *StateError) Error() string { return fmt.Sprintf("sale %s: %s", e.Sale, e.Detail) }

// PendingError says that a change is in the store, and will reach the ledger
// by itself, but has not yet.
type PendingError struct{ Cause error }

func (e *PendingError) Error() string {
	return "the change is stored; it takes effect when the ledger answers again: " + e.Cause.Error()
}

func (e *PendingError) Unwrap() error { return e.Cause }
