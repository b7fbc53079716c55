// Package sqlcore is the part of a SQL store that is the same for every
// database: transactions and their order, what makes a claim new, a redelivery
// or a conflict, how rows become values, and the SQL. An adapter brings what is
// its database's and its driver's own as a Dialect, and embeds the Store.
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
// A transaction that ends orders locks them, without changing them yet,
// skipping locked ones where any order will do. A payment inserts its row of
// payments next: who waits for that row holds one order, and no sale. Then it
// takes the rows of their sales, by id, and only then changes anything: a
// transaction that stores orders holds the sale, and where it meets a changed
// order it waits for the outcome, but does not wait for one that is only locked.
// So no lock cycle can form.
// Expiry, which ends orders of many sales, does not even wait for a sale's row:
// it passes over the sale, and waits for one such sale at a time before it holds
// anything else.
//
// # Waiting
//
// A row that a frozen server or a person's session holds must cost its own sale
// only, and not for ever. Sessions of the store wait for a lock a few seconds;
// the database ends a transaction whose client sends nothing for some seconds;
// and every call has a deadline of its own. A call that misses it returns ErrStoreBusy.
//
// A load either counts an ending, or the ending waits for the load and stamps
// its release with the new epoch.
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
	"github.com/sluicehq/sluice/internal/port"
)

// Store implements everything of a port.Store that the dialect leaves. The port
// documents its methods.
type Store struct {
	d     Dialect
	sql   []string // the statements, in the dialect's words
	write *sql.DB
	read  *sql.DB // may be the same

	ready func(context.Context) error // if set, it is called before every use and may refuse it
	// ReadOnly refuses every change before the database is asked.
	ReadOnly bool
	sealer   cipher.AEAD // of the webhooks' secrets; nil: they are kept in clear
	masks    masker      // makes pseudonyms; nil: it has no key

	ledger atomic.Pointer[string] // the name of the ledger of this server; nil: it is not known

	full atomic.Pointer[full] // the last write that failed for want of room; nil: the disk has some again

	releasing atomic.Pointer[sluice.SaleID] // whose releases were handed out last
	expiring  atomic.Pointer[sluice.SaleID] // whose row expiry waited for last
	slow      struct{ releases, expiry rests }
	closed    atomic.Bool
}

// New returns a store on two handles of one database, for changes and for
// reading; they may be the same.
func New(d Dialect, write, read *sql.DB) *Store {
	s := &Store{d: d, write: write, read: read}
	for _, text := range Statements(d) {
		s.sql = append(s.sql, text)
	}
	s.releasing.Store(new(sluice.SaleID))
	s.expiring.Store(new(sluice.SaleID))
	return s
}

// Opened returns the adapter's store, or closes it if it could not be opened.
func Opened[S io.Closer](s S, err error) (S, error) {
	if err != nil {
		s.Close()
	}
	return unless(s, err)
}

// Close closes all connections, and the dialect if it has any of its own. It
// waits for calls under way, and is idempotent.
func (s *Store) Close() error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	err := s.read.Close()
	if s.write != s.read {
		err = errors.Join(err, s.write.Close())
	}
	if d, ok := s.d.(interface{ Close() }); ok {
		d.Close()
	}
	s.wrapAsIs(&err, "close")
	return err
}

// Ping says whether the database answers, and could write when it last was to.
func (s *Store) Ping(ctx context.Context) (err error) {
	defer s.wrap(&err, "ping")
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if full := s.full.Load(); full != nil {
		return full.err
	}
	if d, ok := s.d.(interface{ Room() error }); ok {
		if err := d.Room(); err != nil {
			return fmt.Errorf("%w: %w", sluice.ErrStoreFull, err)
		}
	}
	return s.read.PingContext(ctx)
}

// full is a write that has failed for want of room.
type full struct {
	err error
	at  time.Time
}

// fullFor is how long it counts at least: what is small may fit, like a server's
// heartbeat, where orders do not, which are tried again more often than that.
const fullFor = 3 * time.Second

// Clock returns the store's time.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	defer s.wrap(&err, "read the clock")
	q := s.reads(ctx)
	return q.now(), q.err
}

// ago is the time before which something is older than age: by the earlier of the store's
// clock and this server's, since one that has jumped ahead must not delete what is young.
func (s *Store) ago(ctx context.Context, age time.Duration) (time.Time, error) {
	now, err := s.Clock(ctx)
	if own := time.Now().UTC(); own.Before(now) {
		now = own
	}
	return now.Add(-age).Truncate(time.Millisecond), err
}

// Ready says why the store cannot be used, and Trouble whether an error may pass by
// itself, for what an adapter does beside the store.
func (s *Store) Ready(ctx context.Context) error { return s.enter(ctx) }

func (s *Store) Trouble(err error) bool {
	return errors.Is(err, sluice.ErrStoreBusy) || s.busy(err)
}

func (s *Store) enter(ctx context.Context) error {
	if s.closed.Load() {
		return sluice.ErrClosed
	}
	if s.ready != nil {
		return s.ready(ctx)
	}
	return nil
}

var errReadOnly = errors.New("the store is open for reading only")

// enterToChange is enter for what changes something.
func (s *Store) enterToChange(ctx context.Context) error {
	if err := s.enter(ctx); err != nil || !s.ReadOnly {
		return err
	}
	return errReadOnly
}

// wrap says where an error happened, and whether it was the store's trouble
// (ErrStoreBusy). It is deferred by every method of the port, once.
func (s *Store) wrap(err *error, format string, args ...any) {
	if *err == nil {
		return
	}
	switch {
	case errors.Is(*err, sluice.ErrStoreBusy): // Ping says what was found before
	case s.d.Full(*err):
		*err = fmt.Errorf("%w: %w", sluice.ErrStoreFull, *err)
		s.full.Store(&full{*err, time.Now()})
	case s.busy(*err):
		*err = fmt.Errorf("%w: %w", sluice.ErrStoreBusy, *err)
	case s.d.Refuses(*err):
		*err = fmt.Errorf("%w: %w", port.ErrUnstorable, *err)
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
func (s *Store) change(ctx context.Context, do func(*conn) error) error {
	return s.changeWithin(ctx, changeTimeout, do)
}

func (s *Store) changeWithin(ctx context.Context, timeout time.Duration, do func(*conn) error) error {
	if err := s.enterToChange(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for try := 1; ; try++ {
		confirmed := func() error { return nil }
		if d, ok := s.d.(Confirmer); ok {
			confirmed = d.Confirming()
		}
		err := s.within(ctx, s.write, nil, false, do)
		if err == nil {
			err = confirmed()
		}
		if full := s.full.Load(); err == nil && full != nil && time.Since(full.at) >= fullFor {
			s.full.CompareAndSwap(full, nil)
		}
		if err == nil || try == attempts || !s.d.Retry(err) {
			return err
		}
	}
}

// view runs do in a transaction that sees one moment and changes nothing.
func (s *Store) view(ctx context.Context, do func(*conn) error) error {
	return s.viewWithin(ctx, changeTimeout, do)
}

func (s *Store) viewWithin(ctx context.Context, timeout time.Duration, do func(*conn) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return s.within(ctx, s.read, s.d.ReadOnce(), timeout == longTimeout, do)
}

func (s *Store) within(ctx context.Context, db *sql.DB, opts *sql.TxOptions, long bool, do func(*conn) error) error {
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
	q := &conn{s: s, ctx: ctx, tx: tx}
	if err := q.fail(do(q)); err != nil {
		return err
	}
	return tx.Commit()
}
