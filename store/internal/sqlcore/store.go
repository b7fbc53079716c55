// Package sqlcore is the part of a SQL store that is the same for every
// database: transactions and their order, what makes a claim new, a redelivery
// or a conflict, and how rows become values. It holds no SQL. An adapter brings
// its SQL and its driver's ways as a Dialect, and embeds the Store.
//
// # Order of locks
//
// Every transaction that stores orders of a sale, or reads them to load it,
// takes the sale's row first. So the orders of one sale are stored by one
// transaction at a time: two servers that hold the same entries cannot
// deadlock, positions within a sale grow in commit order (a page never skips an
// order that a slower transaction commits later), and what a load reads is
// complete.
//
// A transaction that ends orders locks them, without changing them yet, passing
// over those that others hold if it may choose. Then it takes the rows of their
// sales, by id, and only then changes anything: a transaction that stores
// orders holds the sale, and where it meets a changed order it waits for the
// outcome, while it does not mind a locked one. So no lock cycle can form.
// Expiry, which ends orders of many sales, does not even wait for a sale's row:
// it passes over the sale, and waits for one such sale at a time before it holds
// anything else.
//
// # Waiting
//
// A row that a frozen server or a person's session holds must cost its own sale
// only, and not for ever. Sessions of the store wait for a lock a few seconds;
// the database ends a transaction whose client says nothing for some seconds;
// and every call has a deadline of its own. What fails by that is ErrStoreBusy.
//
// And whatever a load reads: either it has counted the ending, or the ending
// has waited for it, and stamps its release with the epoch of that load.
package sqlcore

import (
	"context"
	"crypto/cipher"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// Dialect is what differs between databases.
type Dialect interface {
	// Name is the adapter's package; error texts start with it.
	Name() string
	// Statements returns the SQL.
	Statements() *Statements
	// Arg returns the n-th placeholder, from 1.
	Arg(n int) string
	// Time returns the argument for a time column; NULL for a zero time.
	Time(t time.Time) any
	// Now reads the store's clock, in whole milliseconds.
	Now(ctx context.Context, tx *sql.Tx) (time.Time, error)
	// ReadOnce are the options of a transaction that sees one moment.
	ReadOnce() *sql.TxOptions

	// Existing returns the stored orders that have the order id, the claim or
	// the place of a claim of the batch. An order may be returned twice.
	Existing(ctx context.Context, tx *sql.Tx, batch *Batch) ([]sluice.Order, error)
	// InsertOrders inserts orders of one sale and returns how many. It leaves
	// out those that meet a unique key, and fails at any other constraint.
	InsertOrders(ctx context.Context, tx *sql.Tx, orders []NewOrder) (int, error)
	// List returns the one argument that a statement takes as a list of order
	// ids.
	List(ids []string) any
	// Events returns the SQL of the feed, and Pairs the arguments that a
	// statement of it takes as a table.
	Events() *EventStatements
	Pairs(pairs []Pair) []any
	// Webhooks returns the SQL of webhooks.
	Webhooks() *WebhookStatements
	// Retry reports whether the transaction failed because of another one (a
	// deadlock, for instance), so that trying again at once helps.
	Retry(err error) bool
	// Busy reports whether the database failed for a reason that is not in the
	// statement and may pass: a lock that was not free in time, a full disk, a
	// shutdown. Errors of the network, and deadlines, need not be told here.
	Busy(err error) bool
}

// Beginner is a dialect that has something to do when a transaction begins.
// Long says that it only reads, and that the caller may take its time.
type Beginner interface {
	Begin(ctx context.Context, tx *sql.Tx, long bool) error
}

// FastInserter is a dialect that can store a batch of new claims in one
// statement. It reports false, with nothing stored, unless every claim was new
// and covered, and the sale's epoch is not beyond batch.Epoch.
type FastInserter interface {
	InsertFast(ctx context.Context, batch *Batch) (done bool, err error)
}

// Statements is the SQL of a dialect. The arguments are listed in order, each
// used once. A list is one argument, of Dialect.List. Columns are those of
// SaleColumns, TermsColumns, OrderColumns and so on.
type Statements struct {
	InsertSale  string // SaleColumns; inserts nothing if the id is taken
	InsertTerms string // sale, TermsColumns, changed_at
	SelectSale  string // id
	LockSale    string // id; as SelectSale, and holds the row until the transaction ends
	SelectSales string // no arguments; by opens_at and id
	LiveSales   string // no arguments; those without archived_at, by id
	NamedSales  string // list of ids; by id
	PageOfSales string // id, limit; those after it, by id
	SelectTerms string // sale; the first version first
	UpdateSale  string // EditableColumns, terms_version, TermsColumns without version, cap, updated_at, id

	FenceSale   string // fence, updated_at, id, epoch; only if there is no fence
	RaiseEpoch  string // epoch, updated_at, id
	ConfirmLoad string // fence, loaded_epoch, updated_at, id
	LastSeq     string // sale, epoch; NULL if there is none

	Take         string // n, id, n; raises taken by n unless that exceeds the cap (I1)
	SelectOrder  string // order_id
	OrdersOfSale string // sale, position after which, limit; by position

	LockOrder   string // order_id; as SelectOrder, and holds the row until the transaction ends
	ChangeOrder string // status, reason, payment_id, updated_at, unpaid, order_id, status before, now, late: (keep_until <= now) = late
	LowerTaken  string // n, id
	// AddChange inserts ChangeColumns. AddRefusal, too, but nothing if the
	// payment was refused in this status before.
	AddChange, AddRefusal string
	History               string // order_id; HistoryColumns; one row at least if the order is there, in order of position

	// TryLockSale is as LockSale, but selects only the id, and nothing if another
	// transaction holds the row.
	TryLockSale string // id
	// SelectDue selects order_id, sale_id, quantity of pending orders with
	// keep_until <= now that are of none of the sales listed, the most overdue
	// first; it holds them, and passes over those that another transaction holds.
	SelectDue    string // now, list of sales, limit
	ExpireOrders string // now, list, now; those that are pending and whose keep_until <= now; updated_at does not go back
	AddExpired   string // changed_by, list; a change from pending to expired, at the order's updated_at

	// AddReleases writes releases of orders, stamped with the epoch of their
	// sales and the order's updated_at.
	AddReleases     string // list
	NextReleasing   string // sale; the next sale id after it that has releases
	SelectReleases  string // sale, limit; ReleaseColumns, the oldest first; holds and passes over as SelectDue does
	DeleteReleases  string // list
	PendingReleases string // sale; their count
	ReleaseOf       string // order_id; the count of its releases, 0 or 1
	LiveUnits       string // sale; the units of its live orders, 0 if there are none
	SetTaken        string // taken, updated_at, id

	InsertDeadLetter  string // DeadLetterColumns without id; nothing if (sale, epoch, entry) is there
	SelectDeadLetters string // no arguments; those not resolved, oldest first
	EndingsOfSale     string // sale; order ids that left pending or paid for another status, and how often
	ReturningOfSale   string // sale; order ids in the outbox
	DeadLettersOfSale string // sale; those not resolved, oldest first
	SelectDeadLetter  string // id
	ResolveDeadLetter string // resolved_at, resolution, id; only if it is not resolved

	SelectRestock string // sale, restock_id; delta
	InsertRestock string // RestockColumns
	// DeleteLowering deletes what has lowered the total since it last was the cap.
	DeleteLowering string // sale, sale, cap
	SetCap         string // cap, updated_at, id
	SelectClaim    string // buyer, sale, claim_key; OrderColumns
	// Unsettled says whether orders are pending, releases wait or dead letters
	// are not resolved.
	Unsettled   string // sale, sale, sale
	ArchiveSale string // archived_at, updated_at, id
	// ArchivedOf counts the orders whose sales are archived.
	ArchivedOf string // list

	LockLease   string // name; holder, expires_at, and holds the row until the transaction ends
	AddLease    string // name, now; of no holder; nothing if it is there
	SetLease    string // holder, expires_at, name
	EndLease    string // name, holder; then it has no holder
	Beat        string // seen_at, node
	AddNode     string // node, seen_at; nothing if it is there
	ForgetNodes string // those with seen_at < time
	LiveNodes   string // those with seen_at between two times, by name
	AddGathered string // sale, epoch, node, gathered_at; nothing if it is there
	Gathered    string // sale, epoch; nodes by name

	Lists   ListStatements
	Admin   AdminStatements
	Backlog BacklogStatements
	Tidy    TidyStatements

	Version string // no arguments; the highest migration applied
}

// Store is everything of a sluice.Store that the dialect leaves. Its methods
// are those of the port, and documented there.
type Store struct {
	d        Dialect
	sql      *Statements
	events   *EventStatements
	webhooks *WebhookStatements
	write    *sql.DB
	read     reader // may be of the same

	// Ready, if set, is called before every use and may refuse it.
	Ready func(context.Context) error
	// ReadOnly refuses every change before the database is asked.
	ReadOnly bool
	sealer   cipher.AEAD // of the webhooks' secrets; nil: they are kept in clear

	lookout lookout

	releasing atomic.Pointer[sluice.SaleID] // whose releases were handed out last
	expiring  atomic.Pointer[sluice.SaleID] // whose row expiry waited for last
	slow      struct{ releases, expiry rests }
	closed    atomic.Bool
}

// New returns a store on two handles of one database, for changes and for
// reading; they may be the same. The adapter closes them.
func New(d Dialect, write, read *sql.DB) *Store {
	s := &Store{d: d, sql: d.Statements(), events: d.Events(), webhooks: d.Webhooks(), write: write, read: reader{read}}
	s.releasing.Store(new(sluice.SaleID))
	s.expiring.Store(new(sluice.SaleID))
	return s
}

// Shut refuses every further use. It reports whether this was the first call.
func (s *Store) Shut() bool { return s.closed.CompareAndSwap(false, true) }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) (err error) {
	defer s.wrap(&err, "ping")
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	return s.read.PingContext(ctx)
}

func (s *Store) enter(ctx context.Context) error {
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	if s.Ready != nil {
		return s.Ready(ctx)
	}
	return nil
}

// wrap says where an error happened, and whether it was the store's trouble
// (ErrStoreBusy). It is deferred by every method of the port, once.
func (s *Store) wrap(err *error, format string, args ...any) {
	if *err == nil {
		return
	}
	if s.busy(*err) {
		*err = fmt.Errorf("%w: %w", sluice.ErrStoreBusy, *err)
	}
	s.wrapAsIs(err, format, args...)
}

// wrapAsIs is wrap for errors that may come from elsewhere.
func (s *Store) wrapAsIs(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %s: %w", s.d.Name(), fmt.Sprintf(format, args...), *err)
	}
}

func (s *Store) busy(err error) bool {
	network := net.Error(nil)
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || s.d.Busy(err)
}

// attempts bounds how often a transaction is tried that others keep from
// committing.
const attempts = 4

// Every use of the database ends in time, also when the server's process is
// frozen or the network swallows what is sent. The caller's deadline holds if it
// is earlier.
const (
	queryTimeout  = 10 * time.Second // a query outside of a transaction
	changeTimeout = 15 * time.Second // a transaction
	longTimeout   = 10 * time.Minute // one that reads all orders of a sale
)

// change runs do in a transaction and commits it. It tries again when the
// database says that another transaction was in the way.
func (s *Store) change(ctx context.Context, do func(*sql.Tx) error) error {
	return s.changeWithin(ctx, changeTimeout, do)
}

func (s *Store) changeWithin(ctx context.Context, timeout time.Duration, do func(*sql.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if s.ReadOnly {
		return errReadOnly
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for try := 1; ; try++ {
		err := s.within(ctx, s.write, nil, false, do)
		if err == nil || try == attempts || !s.d.Retry(err) {
			return err
		}
	}
}

// view runs do in a transaction that sees one moment and changes nothing.
func (s *Store) view(ctx context.Context, do func(*sql.Tx) error) error {
	return s.viewWithin(ctx, changeTimeout, do)
}

func (s *Store) viewWithin(ctx context.Context, timeout time.Duration, do func(*sql.Tx) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.within(ctx, s.read.DB, s.d.ReadOnce(), timeout == longTimeout, do)
}

func (s *Store) within(ctx context.Context, db *sql.DB, opts *sql.TxOptions, long bool, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, opts)
	if err != nil {
		return err
	}
	defer tx.Rollback() // also when do panics; after Commit it does nothing
	if b, ok := s.d.(Beginner); ok {
		if err := b.Begin(ctx, tx, long); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// reader reads outside of transactions, each query within queryTimeout.
type reader struct{ *sql.DB }

// QueryRowContext returns a row that is read when it is scanned.
func (r reader) QueryRowContext(ctx context.Context, query string, args ...any) row {
	return &lateRow{r.DB, ctx, query, args}
}

type lateRow struct {
	db    *sql.DB
	ctx   context.Context // of the call that the row lives in
	query string
	args  []any
}

func (r *lateRow) Scan(dest ...any) error {
	ctx, cancel := context.WithTimeout(r.ctx, queryTimeout)
	defer cancel()
	return r.db.QueryRowContext(ctx, r.query, r.args...).Scan(dest...)
}

// exec runs a statement that must change exactly one row, or none: it reports
// which.
func exec(ctx context.Context, tx *sql.Tx, query string, args ...any) (bool, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, err
	}
	if n > 1 {
		return false, fmt.Errorf("%d rows changed instead of one", n)
	}
	return n == 1, nil
}

// each calls scan for every row of a query.
func each(ctx context.Context, q querier, query string, args []any, scan func(*sql.Rows) error) error {
	if _, ok := q.(reader); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, queryTimeout)
		defer cancel()
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}
