package pgstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// dialect is PostgreSQL as sqlcore sees it. The hot path goes to the pool
// directly; all else goes through database/sql, which takes its connections
// from the same pool.
type dialect struct {
	pool *pgxpool.Pool
	home *home // for the hot path
	*session
}

func (dialect) Name() string { return "pgstore" }

// Close closes the pool; sqlcore.Store.Close calls it.
func (d dialect) Close() {
	d.home.close()
	d.pool.Close()
}

func (dialect) Time(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func (dialect) List(ids []string) any {
	if ids == nil {
		ids = []string{} // nil would be NULL
	}
	return ids
}

func (dialect) Pairs(pairs []sqlcore.Pair) []any {
	positions, events := make([]int64, len(pairs)), make([]int64, len(pairs))
	for i, p := range pairs {
		positions[i], events[i] = p.Position, p.Event
	}
	return []any{positions, events}
}

func (dialect) Now(ctx context.Context, q sqlcore.Queryer) (now time.Time, err error) {
	err = q.QueryRowContext(ctx, selectNow).Scan(sqlcore.Moment(&now))
	return now, err
}

func (dialect) ReadOnce() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

// States of PostgreSQL's errors.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	diskFull             = "53100"
	uniqueViolation      = "23505"
	undefinedTable       = "42P01"
	readOnlyTransaction  = "25006"
	adminShutdown        = "57P01"
	crashShutdown        = "57P02"
	cannotConnectNow     = "57P03"
	tooManyConnections   = "53300"
	// takesNoConnections is the state of a database with ALLOW_CONNECTIONS false, mostly for maintenance.
	takesNoConnections = "55000"
)

// busyClasses are the classes of states whose cause is not in the statement: of
// connections, of transactions that others rolled back or that were idle too
// long, of resources, of locks, of operators, and of the system.
var busyClasses = []string{"08", "25", "40", "53", "55", "57", "58"}

func (dialect) Busy(err error) bool {
	if state := sqlState(err); state != "" {
		return slices.Contains(busyClasses, state[:2])
	}
	connecting := (*pgconn.ConnectError)(nil)
	return errors.As(err, &connecting) || pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.Is(err, errUnconfirmed)
}

// refusing are the classes of states whose cause is in the values: data, integrity
// constraints, errors that functions and triggers raise, and conditions of views.
var refusing = []string{"22", "23", "P0", "44"}

func (dialect) Refuses(err error) bool {
	state := sqlState(err)
	return state != "" && slices.Contains(refusing, state[:2])
}

func (dialect) Full(err error) bool { return sqlState(err) == diskFull }

func (dialect) Retry(err error) bool {
	state := sqlState(err)
	return state == serializationFailure || state == deadlockDetected
}

func sqlState(err error) string {
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// InsertFast stores the batch in two round trips, if every claim is new and
// covered.
func (d dialect) InsertFast(ctx context.Context, batch *sqlcore.Batch) (done bool, err error) {
	conn, err := d.home.acquire(ctx)
	if err != nil {
		return false, err
	}
	defer d.home.release(conn)
	inserted := int64(0)
	first := &pgx.Batch{}
	first.Queue("BEGIN")
	if d.pooled.Load() {
		first.Queue(d.local)
	}
	first.Queue(insertFast, fastArgs(batch)...).Query(scanStored(&inserted))
	err = conn.SendBatch(ctx, first).Close()
	if err != nil || inserted != int64(len(batch.Claims)) {
		var undo error
		if !conn.Conn().IsClosed() {
			_, undo = conn.Exec(ctx, "ROLLBACK")
		}
		if sqlState(err) == uniqueViolation { // of any index: what it means is for the careful way to find out
			err = nil
		}
		return false, errors.Join(err, undo)
	}
	err = d.commit(ctx, conn, &pgx.Batch{})
	return err == nil, err
}

// fastArgs are the arguments of insertFast: the claims, column by column.
func fastArgs(b *sqlcore.Batch) []any {
	n := len(b.Claims)
	ids, buyers, keys, nodes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	metas, counters := make([]string, n), make([]string, n)
	quantities, epochs, seqs, terms := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	accepted := make([]time.Time, n)
	for i := range b.Claims {
		c := &b.Claims[i]
		ids[i], buyers[i], keys[i], nodes[i] = string(c.Order), string(c.Buyer), string(c.Key), c.Node
		metas[i], counters[i] = c.Meta, string(c.Counters)
		quantities[i], epochs[i], seqs[i], terms[i] = c.Quantity, c.Epoch, c.Seq, c.Terms
		accepted[i] = c.At
	}
	return []any{
		string(b.Sale), b.Units, ids, buyers, keys, quantities, metas, counters, epochs, seqs, terms, nodes, accepted,
		b.Epoch,
	}
}

func (dialect) InsertOrders(ctx context.Context, tx *sql.Tx, orders []sqlcore.NewOrder) (
	inserted int, after int64, err error,
) {
	var ids, sales, buyers, keys, metas, counters, currencies, statuses, reasons, nodes []string
	var quantities, prices, epochs, seqs, terms []int64
	var accepted, stored, expires, kept, updated []time.Time
	for i := range orders {
		o := &orders[i]
		ids, sales = append(ids, string(o.ID)), append(sales, string(o.Sale))
		buyers, keys = append(buyers, string(o.Buyer)), append(keys, string(o.Key))
		quantities, metas = append(quantities, o.Quantity), append(metas, o.Meta)
		counters = append(counters, string(o.Counters))
		prices, currencies = append(prices, o.Price.Amount), append(currencies, o.Price.Currency)
		statuses, reasons = append(statuses, string(o.Status)), append(reasons, o.Reason)
		epochs, seqs = append(epochs, o.Epoch), append(seqs, o.Seq)
		terms, nodes = append(terms, o.Terms), append(nodes, o.Node)
		accepted, stored, expires = append(accepted, o.AcceptedAt), append(stored, o.StoredAt), append(expires, o.ExpiresAt)
		kept, updated = append(kept, o.KeepUntil), append(updated, o.UpdatedAt)
	}
	placed := tx.QueryRowContext(ctx, insertOrders, ids, sales, buyers, keys, quantities, metas, counters, prices,
		currencies, statuses, reasons, epochs, seqs, terms, nodes, accepted, stored, expires, kept, updated)
	err = placed.Scan(&inserted, &after)
	return inserted, after, err
}

func (dialect) Existing(ctx context.Context, tx *sql.Tx, batch *sqlcore.Batch) ([]sluice.Order, error) {
	var ids, buyers, keys []string
	var epochs, seqs []int64
	for i := range batch.Claims {
		c := &batch.Claims[i]
		ids, buyers, keys = append(ids, string(c.Order)), append(buyers, string(c.Buyer)), append(keys, string(c.Key))
		epochs, seqs = append(epochs, c.Epoch), append(seqs, c.Seq)
	}
	rows, err := tx.QueryContext(ctx, selectExisting, string(batch.Sale), ids, buyers, keys, epochs, seqs)
	return sqlcore.AppendOrders(nil, rows, err)
}

// SQL leaves the hints out, and numbers the arguments.
func (dialect) SQL(text string) string {
	var query strings.Builder
	for i, part := range strings.Split(sqlcore.WithoutHints(text), "?") {
		if i > 0 {
			query.WriteString("$" + strconv.Itoa(i))
		}
		query.WriteString(part)
	}
	return query.String()
}

// Own is what an ending does where this database is the sale's ledger as well (Ledger):
// its units are free with its own transaction, so there is no release.
func (dialect) Own() map[string]string {
	return map[string]string{
		"AddReleases": addReleases + " AND NOT " + inLedger,
		"ArchivedOf":  releasedOf + " AND (sales.archived_at IS NOT NULL OR " + inLedger + ")",
	}
}

// These are the core's, but for inLedger.
const (
	inLedger = `EXISTS (SELECT FROM ledger_sales l WHERE l.sale_id = sales.id AND l.epoch = sales.epoch)`

	addReleases = `INSERT INTO releases (` + sqlcore.ReleaseColumns + `, created_at)
		SELECT o.order_id, o.sale_id, o.buyer_id, o.claim_key, o.quantity, sales.epoch, o.unpaid, o.updated_at
		FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id = ANY ($1::text[])
			AND sales.archived_at IS NULL`
	releasedOf = `SELECT count(*)
		FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id = ANY ($1::text[])`
)

// The store's clock. Not now(): a transaction that waited for the sale's row
// would say when it began to wait.
const selectNow = `SELECT date_trunc('milliseconds', clock_timestamp())`

// insertFast raises the sale's taken and stores a batch of new claims, in one
// statement. Unless the cap covers them all (I1) and none has an epoch that
// has passed, the sale's row does not match and nothing is inserted. An order that
// meets any unique key is an error: to leave it out (ON CONFLICT) would cost every
// batch a look into each index before each row. Then the caller rolls back and
// looks each claim up. A failed CHECK is an error too.
//
// The order of the rows is the order of the claims, so positions follow it.
const insertFast = insertSale + `, placed AS (` + insertRows + `)` + addStored

const insertSale = `WITH sale AS (
		UPDATE sales SET taken = taken + $2::bigint
		WHERE id = $1 AND (cap IS NULL OR taken + $2::bigint <= cap) AND epoch <= $14
		RETURNING price_amount, price_currency, CASE WHEN free THEN 'paid' ELSE 'pending' END AS status,
			date_trunc('milliseconds', clock_timestamp()) AS now,
			payment_window_ms * interval '1 millisecond' AS payment_window,
			payment_grace_ms * interval '1 millisecond' AS payment_grace
	)`

const insertRows = `
	INSERT INTO orders (` + sqlcore.NewOrderColumns + `)
	SELECT c.order_id, $1, c.buyer_id, c.claim_key, c.quantity, c.meta, c.counters, sale.price_amount,
		sale.price_currency, sale.status, '', c.epoch, c.seq, c.terms, c.node, c.accepted_at,
		sale.now, sale.now + payment_window, sale.now + payment_window + payment_grace, sale.now
	FROM sale, unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
			$8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::timestamptz[])
		WITH ORDINALITY AS c (order_id, buyer_id, claim_key, quantity, meta, counters, epoch, seq, terms, node,
			accepted_at, n)
	ORDER BY c.n
	RETURNING position`

// addStored writes the event that the orders which a statement has placed were stored, and
// returns how many they are. No other order of the sale is between them: its row is locked.
const addStored = `
	INSERT INTO order_events (sale_id, after_position, upto_position, orders, stored_at)
	SELECT $1, min(position) - 1, max(position), count(*), sale.now FROM sale, placed GROUP BY sale.now
	RETURNING orders`

// scanStored reads what addStored returns; there is no row if none was placed.
func scanStored(orders *int64) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{orders}, func() error { return nil })
		return err
	}
}

// insertOrders stores orders as they are; see sqlcore.Dialect.InsertOrders.
const insertOrders = `WITH placed AS (
	INSERT INTO orders (` + sqlcore.NewOrderColumns + `)
	SELECT ` + sqlcore.NewOrderColumns + `
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::bigint[],
			$9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[],
			$16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[], $20::timestamptz[])
		WITH ORDINALITY AS o (` + sqlcore.NewOrderColumns + `, n)
	ORDER BY o.n
	ON CONFLICT DO NOTHING
	RETURNING position
	) SELECT count(*), coalesce(min(position) - 1, 0) FROM placed`

// The three things that must be unique, one index each.
const selectExisting = `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ANY ($2::text[])
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND (buyer_id, claim_key) IN (SELECT * FROM unnest($3::text[], $4::text[]))
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND bucket = 0 AND (epoch, seq) IN (SELECT * FROM unnest($5::bigint[], $6::bigint[]))`
