package port

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// AuditStore gives consistent views: of a sale, and of what waits.
type AuditStore interface {
	// Snapshot calls read with a view of one sale, all of it of one moment.
	// ErrSaleNotFound.
	Snapshot(ctx context.Context, id sluice.SaleID, read func(Snapshot) error) error

	// Backlog counts what waits now, all of it of one moment, for metrics and
	// alarms.
	Backlog(ctx context.Context) (Backlog, error)
}

// Snapshot is a sale in the store at one moment. It is valid only within the
// call that it is handed to.
type Snapshot interface {
	Sale() sluice.Sale
	// TermsVersions returns every version of the terms, the first one first.
	TermsVersions() []sluice.Terms
	// Orders calls yield with every order of the sale, oldest first, until it
	// returns false.
	Orders(yield func(sluice.Order) bool) error
	// DeadLetters returns the entries of the sale that are set aside and not
	// dealt with.
	DeadLetters() ([]DeadLetter, error)
	// Endings calls yield with the orders whose history says that they gave
	// their units up, and how often; Returning with those whose units are in
	// the outbox: of any other ended order the ledger has applied the release,
	// or it is lost. In any order, until yield returns false.
	Endings(yield func(order sluice.OrderID, times int64) bool) error
	Returning(yield func(order sluice.OrderID) bool) error
}

// Backlog is what waits in a store at one moment.
type Backlog struct {
	At    time.Time                     // by the store's clock
	Sales map[sluice.SaleID]SaleBacklog // those that something waits of
}

// SaleBacklog is what waits of one sale.
type SaleBacklog struct {
	// DeadLetters are journal entries set aside and not dealt with.
	DeadLetters int64
	// Releases of ended orders are not with the ledger yet; OldestRelease is
	// when the first of them ended, zero without any.
	Releases      int64
	OldestRelease time.Time
	// Overdue orders are pending although their KeepUntil has passed; OldestDue
	// is the first KeepUntil, zero without any.
	Overdue   int64
	OldestDue time.Time
}

// ReconcileStore is what a reconciliation needs of a store besides the audit's
// view of it. Each repair looks again under the locks that the ordinary changes
// take, so it can run beside them.
type ReconcileStore interface {
	// ReissueRelease writes the release of an ended order again, stamped with
	// this epoch, and reports whether it did: not if one waits, if the order is
	// live or never held units (NotCovered), or if the sale has another epoch or
	// is archived. A ledger that has applied the order's release before changes
	// nothing for the second one (I6). ErrOrderNotFound.
	ReissueRelease(ctx context.Context, order sluice.OrderID, epoch int64) (bool, error)

	// RecountTaken sets the sale's taken to the units of its live orders, and
	// returns both (I2). It is an error, and nothing changes, if those exceed
	// the cap (I1). ErrSaleNotFound.
	RecountTaken(ctx context.Context, sale sluice.SaleID) (before, after int64, err error)

	// InsertEnded stores accepted claims that have ended as cancelled orders, each once,
	// which never hold units; unpaid as the record says. Left are those from which the
	// store differs about the same order, claim or place.
	InsertEnded(
		ctx context.Context, sale sluice.SaleID, ended []Record, by, reason string,
	) (left []sluice.OrderID, err error)

	// EndAgain ends a stored order that lives, and has ended in the ledger: its units return, and it is unpaid
	// as the record says. A pending one is cancelled, or has expired if it ended unpaid and its time
	// has passed. A paid one becomes refund_due: the ledger does not know whether its payment was given back,
	// or came after it had ended, so a person must. That of a free sale is refunded. It changes nothing if the
	// order has ended. ErrOrderNotFound.
	EndAgain(ctx context.Context, ended *Record, by, reason string) error

	// Recovered leaves no pending order of the sale due before a moment so far from now,
	// which it returns, and makes the fence FenceRecovered with this reason. ErrStaleEpoch
	// if the sale's epoch is another.
	Recovered(ctx context.Context, sale sluice.SaleID, epoch int64, reason string, keep time.Duration) (time.Time, error)
}

// DeadLetter is a journal entry set aside because it could not be stored.
type DeadLetter struct {
	ID        int64 // given by the store
	Sale      sluice.SaleID
	EntryID   string
	Reason    string // the error that put it here
	Claims    string // the entry's lines (AppendClaim), or what the journal had if it is damaged
	Epoch     int64
	FirstSeq  int64
	Terms     int64
	Node      string
	At        time.Time // when the claims were accepted
	CreatedAt time.Time
	// Resolved is when it was dealt with, zero if it was not, and Resolution how.
	Resolved   time.Time
	Resolution string
}

// DeadLetterStore keeps entries that could not be stored, for an operator.
type DeadLetterStore interface {
	// SetAside keeps an entry. It is idempotent by (Sale, Epoch, EntryID).
	SetAside(ctx context.Context, letter DeadLetter) error
	// DeadLetters returns those of a sale that are not dealt with, oldest first.
	DeadLetters(ctx context.Context, sale sluice.SaleID) ([]DeadLetter, error)
	// DeadLettersAfter returns a page of them: those after this id, at most so many; of
	// all sales when the sale is empty.
	DeadLettersAfter(ctx context.Context, sale sluice.SaleID, after int64, limit int) ([]DeadLetter, error)
	// DeadLetter returns one, dealt with or not. ErrDeadLetterNotFound.
	DeadLetter(ctx context.Context, id int64) (DeadLetter, error)
	// ResolveDeadLetter notes how one was dealt with, when and how; the first
	// note stands. ErrDeadLetterNotFound.
	ResolveDeadLetter(ctx context.Context, id int64, how string) error
}
