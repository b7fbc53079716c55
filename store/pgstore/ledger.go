package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// ledger is a port.Ledger in the database of a store, whose orders are its
// records: an accepted claim is an order of the same transaction, so there is no
// journal, and an order that ends gives its units back in its own transaction
// (docs/adr/0013-postgresql-is-the-ledger-too.md).
//
// A batch of claims is one transaction. It locks the sale's row, which every
// transaction that stores or ends orders of the sale locks too, after the orders
// that it ends; then the ledger's row of the sale. So claims of a sale follow each
// other over all servers, and what they are decided by stands still.
type ledger struct {
	store *Store
	node  string
	now   func() time.Time // nil: the database's clock
	pool  *pgxpool.Pool    // its own: claims take no connection from the store
	home  *home            // of the pool

	told      sync.Map // sluice.SaleID to told
	snapshots sync.Map // sluice.SaleID to *termsSnapshot
	turns     poolTurns
	beside    beside
	closed    atomic.Bool
}

var _ port.Ledger = (*ledger)(nil)

// ledgerConns is the size of a ledger's pool, in addition to the store's: of all first
// turns, the second one (poolTurns), and two for readers.
const ledgerConns = firstTurns + 1 + 2

// ledger returns the ledger in the store's database, for the server called node. It asks
// the database nothing yet. Close it before the store. A clock is for tests; nil: the
// database's.
func (s *Store) ledger(node string, now func() time.Time) (*ledger, error) {
	if node == "" {
		return nil, errors.New("pgstore: the ledger of a server without a name")
	}
	config := s.pool.Config()
	config.MaxConns, config.MinConns = ledgerConns, 0
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		err := s.session.afterConnect(ctx, conn)
		if err == nil && !s.session.pooled.Load() {
			_, err = conn.Exec(ctx, "SELECT "+calls(ledgerSettings, false))
		}
		return err
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("pgstore: ledger: %w", err)
	}
	return &ledger{store: s, node: node, now: now, pool: pool, home: newHome(pool), turns: newPoolTurns()}, nil
}

// Name returns "store": a database has one ledger of this kind.
func (l *ledger) Name(context.Context) (name string, made bool, err error) {
	return "store", false, nil
}

// Close ends the use of the ledger, but not of the store.
func (l *ledger) Close() error {
	l.closed.Store(true)
	l.beside.close()
	l.home.close()
	l.pool.Close()
	return nil
}

// wrap says where an error happened, and what it means to those who ask a ledger.
func (l *ledger) wrap(err *error, format string, args ...any) {
	if *err == nil {
		return
	}
	d := dialect{}
	switch {
	case errors.Is(*err, sluice.ErrNoAnswer) || errors.Is(*err, sluice.ErrRefusesWrites):
	case d.Full(*err) || sqlState(*err) == readOnlyTransaction:
		*err = fmt.Errorf("%w: %w", sluice.ErrRefusesWrites, *err)
	case l.store.Trouble(*err):
		*err = fmt.Errorf("%w: %w", sluice.ErrNoAnswer, *err)
	}
	*err = fmt.Errorf("pgstore: ledger: %s: %w", fmt.Sprintf(format, args...), *err)
}

// Every call ends in time. A call that waits for the row of a sale that another
// transaction holds gives up after two seconds, and a transaction of a server that
// is frozen is over after three.
const (
	ledgerTimeout = 4 * time.Second
	loadTimeout   = 10 * time.Minute
)

// Every statement has an index to use, and a plan that was made while the tables were
// small must not read them as a whole when they no longer are.
var ledgerSettings = []setting{
	{"lock_timeout", "2s"}, {idleSetting, hungAfter}, {"enable_seqscan", "off"}, {"jit", "off"},
}

// saleState is a sale as a transaction that has locked its rows finds it.
type saleState struct {
	port.Reading // with a cooldown of any moment
	cooldown     sluice.Cooldown
	reopened     sluice.Code
	promised     int64 // units of promises when they were loaded
	lacks        bool  // the last order that this server was told of

	rowEpoch, rowLoaded int64  // of the store's row
	rowFence            string // not empty either if the sale is archived
}

const stateColumns = `l.sale_id, l.epoch, l.seq, l.version, l.total, l.max_per_buyer, l.max_orders, l.max_unpaid,
	l.opens_at, l.closes_at, l.paused, l.fence, l.cooldown, l.cooldown_until, l.reopened, l.promised,
	asked.told <> '' AND NOT EXISTS (SELECT FROM orders o WHERE o.order_id = asked.told)
		AND NOT EXISTS (SELECT FROM ledger_promises p WHERE p.sale_id = l.sale_id AND p.order_id = asked.told),
	s.epoch, s.loaded_epoch,
	CASE WHEN s.archived_at IS NULL THEN s.fence ELSE 'archived' END,
	s.taken + CASE WHEN l.promised = 0 THEN 0 ELSE ledger_promised(l.sale_id) END,
	date_trunc('milliseconds', clock_timestamp())`

const (
	lockSale   = `SELECT FROM sales WHERE id = $1 FOR NO KEY UPDATE`
	lockState  = `SELECT FROM ledger_sales WHERE sale_id = $1 FOR NO KEY UPDATE`
	readStates = `SELECT ` + stateColumns + ` FROM unnest($1::text[], $2::text[]) AS asked (sale, told)
		JOIN ledger_sales l ON l.sale_id = asked.sale JOIN sales s ON s.id = l.sale_id`
)

// scanState reads a row of stateColumns.
func (l *ledger) scanState(row pgx.Row) (h saleState, err error) {
	var total, perBuyer, orders, unpaid *int64
	var closes, until *time.Time
	t := &h.Terms
	err = row.Scan(&h.Sale, &h.Epoch, &h.Seq, &t.Version, &total, &perBuyer, &orders, &unpaid, &t.OpensAt, &closes,
		&t.Paused, &h.Fence, &h.cooldown.Code, &until, &h.reopened, &h.promised, &h.lacks, &h.rowEpoch, &h.rowLoaded,
		&h.rowFence, &h.Taken, &h.Now)
	for _, limit := range []struct {
		to        *int64
		have      *int64
		otherwise int64
	}{
		{&t.Total, total, sluice.Unlimited},
		{&t.MaxPerBuyer, perBuyer, sluice.Unlimited},
		{&t.MaxOrders, orders, sluice.Unlimited},
		{&t.MaxUnpaid, unpaid, 0},
	} {
		*limit.to = limit.otherwise
		if limit.have != nil {
			*limit.to = *limit.have
		}
	}
	t.OpensAt = sqlcore.WholeMillis(t.OpensAt)
	if closes != nil {
		t.ClosesAt = sqlcore.WholeMillis(*closes)
	}
	if until != nil {
		h.cooldown.Until = sqlcore.WholeMillis(*until)
	}
	h.Loaded, h.Now = true, sqlcore.WholeMillis(h.Now)
	if l.now != nil {
		h.Now = sqlcore.WholeMillis(l.now())
	}
	return h, err
}

// begins lets the cooldown of a reopening that was not seen yet begin now, and
// reports whether anything has changed. The reopening was committed before, so every
// server that still repeats the old refusal has read it before this moment.
func (h *saleState) begins() bool {
	code := h.reopened
	if code == 0 {
		return false
	}
	h.reopened = 0
	if code != sluice.SoldOut || h.Terms.Refusal(h.Now) == 0 && h.Terms.Available(h.Taken) != 0 {
		h.cooldown = sluice.Cooldown{Code: code, Until: h.Now.Add(sluice.RefusalLease)}
	}
	return true
}

// told is the last order of an epoch that this server was told is accepted, and its sequence. The database holds it
// for as long as the ledger holds the sale, unless it is an older copy.
type told struct {
	epoch, seq int64
	order      sluice.OrderID
}

func (l *ledger) toldOf(sale sluice.SaleID) told {
	if m, ok := l.told.Load(sale); ok {
		return m.(told)
	}
	return told{}
}

// tell records of which order this server was told. Answers may come out of order.
func (l *ledger) tell(sale sluice.SaleID, now told) {
	for {
		before, known := l.told.Load(sale)
		if !known {
			if _, other := l.told.LoadOrStore(sale, now); !other {
				return
			}
			continue
		}
		old := before.(told)
		if now.epoch < old.epoch || now.epoch == old.epoch && now.seq <= old.seq ||
			l.told.CompareAndSwap(sale, old, now) {
			return
		}
	}
}

// lost says what the ledger has lost, if it knows less of a sale than this server
// was told before it asked: the database is an older copy.
func (h *saleState) lost(m told) string {
	switch {
	case h.Epoch < m.epoch:
		return fmt.Sprintf("%s: the ledger is in epoch %d, and was in %d", port.FenceLost, h.Epoch, m.epoch)
	case h.Epoch == m.epoch && h.lacks:
		return fmt.Sprintf("%s: the database does not have order %s, which it told this server of, with sequence %d",
			port.FenceLost, m.order, m.seq)
	}
	return ""
}

func (l *ledger) ready(ctx context.Context) error {
	if l.closed.Load() {
		return sluice.ErrClosed
	}
	return l.store.Ready(ctx)
}

// on calls do with a connection, in the sale's turn.
func (l *ledger) on(ctx context.Context, sale sluice.SaleID, timeout time.Duration,
	do func(ctx context.Context, conn *pgxpool.Conn) error,
) (err error) {
	if err := l.ready(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done, err := l.turns.take(ctx, sale)
	if err != nil {
		return err
	}
	defer done(&err)
	conn, err := l.home.acquire(ctx)
	if err != nil {
		return err
	}
	defer l.home.release(conn)
	return do(ctx, conn)
}

// within calls do in a transaction, in the sale's turn.
func (l *ledger) within(ctx context.Context, sale sluice.SaleID, timeout time.Duration,
	do func(ctx context.Context, tx pgx.Tx) error,
) error {
	return l.on(ctx, sale, timeout, func(ctx context.Context, conn *pgxpool.Conn) error {
		confirmed := l.store.session.Confirming()
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			if l.queueLimits(b); b.Len() > 0 {
				if err := tx.SendBatch(ctx, b).Close(); err != nil {
					return err
				}
			}
			return do(ctx, tx)
		})
		return cmp.Or(err, confirmed())
	})
}

// queueLimits sets for a transaction what its connection does not keep.
func (l *ledger) queueLimits(b *pgx.Batch) {
	if l.store.session.pooled.Load() {
		b.Queue(l.store.session.local)
		b.Queue("SELECT " + calls(ledgerSettings, true))
	}
}
