package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/disk"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// dialect is SQLite as sqlcore sees it.
type dialect struct {
	sqlcore.JSONTables
	path string // absolute
	now  func() time.Time
}

func (dialect) Name() string { return "sqlitestore" }

func (dialect) Time(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// inHand are the sales whose releases are being given back. This process alone has
// them, as it has the file: when it dies, nothing is in hand.
var inHand = struct {
	sync.Mutex
	sales map[inFile]bool
}{sales: map[inFile]bool{}}

type inFile struct {
	path string
	sale sluice.SaleID
}

// Hold is a matter of memory: a transaction that held releases while they are
// given back would keep all others from writing.
func (d dialect) Hold(sale sluice.SaleID) (free func(), ok bool) {
	inHand.Lock()
	defer inHand.Unlock()
	key := inFile{d.path, sale}
	if inHand.sales[key] {
		return nil, false
	}
	inHand.sales[key] = true
	return func() {
		inHand.Lock()
		defer inHand.Unlock()
		delete(inHand.sales, key)
	}, true
}

func (d dialect) Now(context.Context, sqlcore.Queryer) (time.Time, error) {
	return sqlcore.WholeMillis(d.now()), nil
}

// ReadOnce: the driver begins such a transaction deferred, and in WAL mode its
// first read fixes what it sees.
func (dialect) ReadOnce() *sql.TxOptions { return &sql.TxOptions{ReadOnly: true} }

// Retry: nothing else writes to the file but what busy_timeout waits for.
func (dialect) Retry(error) bool { return false }

// Busy: the file is locked, the disk is full or fails, or memory is short.
func (dialect) Busy(err error) bool {
	failed := (*sqlite.Error)(nil)
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN:
		return true
	}
	return false
}

// Refuses: a constraint, RAISE in a trigger, a type, or the length of a value.
func (dialect) Refuses(err error) bool {
	failed := (*sqlite.Error)(nil)
	if !errors.As(err, &failed) {
		return false
	}
	switch failed.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG:
		return true
	}
	return false
}

// Room serves sqlcore.Store.Ping: a file on a full disk can be read, and often a little
// can be written to it.
func (d dialect) Room() error { return disk.Room(d.path) }

func (dialect) Full(err error) bool {
	failed := (*sqlite.Error)(nil)
	return errors.As(err, &failed) && failed.Code()&0xff == sqlite3.SQLITE_FULL
}

// InsertOrders stops at an order that meets a unique key; the caller rolls back. Orders
// that differ in little are inserted many at a time: a statement costs as much as a row.
func (d dialect) InsertOrders(ctx context.Context, tx *sql.Tx, orders []sqlcore.NewOrder) (
	inserted int, after int64, err error,
) {
	// The driver starts a goroutine per statement whose context can end; the
	// transaction's own still ends it.
	ctx = context.WithoutCancel(ctx)
	if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(position), 0) FROM orders").Scan(&after); err != nil {
		return 0, 0, err
	}
	one, many := insertion{text: insertOne}, insertion{text: insertMany}
	defer one.close()
	defer many.close()
	for part := range slices.Chunk(orders, together) {
		insert, size := &one, 1
		if len(part) == together && alike(part) {
			insert, size = &many, together
		}
		for rows := range slices.Chunk(part, size) {
			n, err := insert.run(ctx, tx, d, rows)
			inserted += n
			if met := (*sqlite.Error)(nil); errors.As(err, &met) && met.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
				return inserted, after, nil
			}
			if err != nil {
				return 0, 0, err
			}
		}
	}
	return inserted, after, nil
}

// insertion is a statement of one transaction, prepared when it is needed first.
type insertion struct {
	text   string
	stmt   *sql.Stmt
	values []any
}

func (i *insertion) run(ctx context.Context, tx *sql.Tx, d dialect, rows []sqlcore.NewOrder) (inserted int, err error) {
	if i.stmt == nil {
		if i.stmt, err = tx.PrepareContext(ctx, i.text); err != nil {
			return 0, err
		}
	}
	first := &rows[0]
	i.values = append(i.values[:0], string(first.Sale), first.Price.Amount, first.Price.Currency, string(first.Status),
		first.Reason, first.Epoch, first.Terms, first.Node,
		d.Time(first.StoredAt), d.Time(first.ExpiresAt), d.Time(first.KeepUntil), d.Time(first.UpdatedAt))
	for n := range rows {
		o := &rows[n]
		i.values = append(i.values,
			string(o.ID), string(o.Buyer), string(o.Key), o.Quantity, o.Meta, string(o.Counters), o.Seq,
			d.Time(o.AcceptedAt))
	}
	result, err := i.stmt.ExecContext(ctx, i.values...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func (i *insertion) close() {
	if i.stmt != nil {
		i.stmt.Close()
	}
}

// alike reports whether orders differ in their own columns alone.
func alike(orders []sqlcore.NewOrder) bool {
	shared := func(o sqlcore.NewOrder) sqlcore.NewOrder {
		o.ID, o.Buyer, o.Key, o.Quantity, o.Meta, o.Counters = "", "", "", 0, "", ""
		o.Seq, o.AcceptedAt = 0, time.Time{}
		return o
	}
	first := shared(orders[0])
	return !slices.ContainsFunc(orders, func(o sqlcore.NewOrder) bool { return shared(o) != first })
}

func (dialect) Existing(ctx context.Context, tx *sql.Tx, batch *sqlcore.Batch) (all []sluice.Order, err error) {
	find, err := tx.PrepareContext(ctx, selectExisting)
	if err != nil {
		return nil, err
	}
	defer find.Close()
	for i := range batch.Claims {
		c := &batch.Claims[i]
		rows, err := find.QueryContext(ctx, c.Order, c.Buyer, c.Sale, c.Key, c.Sale, c.Epoch, c.Seq)
		if all, err = sqlcore.AppendOrders(all, rows, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

var words = strings.NewReplacer(
	// A transaction that changes something holds the whole file.
	" FOR UPDATE SKIP LOCKED", "", " FOR NO KEY UPDATE SKIP LOCKED", "", " FOR UPDATE", "", " FOR NO KEY UPDATE", "",
	// Lists and pairs are JSON.
	"= ANY (?::text[])", "IN (SELECT value FROM json_each(?))",
	"<> ALL (?::text[])", "NOT IN (SELECT value FROM json_each(?))",
	"unnest(?::text[]) AS list (id)", "(SELECT value AS id FROM json_each(?)) AS list",
	"unnest(?::bigint[], ?::bigint[]) AS pair (position, event)",
	"(SELECT value ->> 0 AS position, value ->> 1 AS event FROM json_each(?)) AS pair",
	// The plus keeps it from going through the rows without a number, and through
	// the pairs for each of them.
	"AND order_changes.event IS NULL", "AND +order_changes.event IS NULL",
	"AND sale_events.event IS NULL", "AND +sale_events.event IS NULL",
	"AND order_events.event IS NULL", "AND +order_events.event IS NULL",
	"greatest(", "max(",
	"FORCE INDEX (orders_to_expire)", "INDEXED BY orders_to_expire",
)

func (dialect) SQL(text string) string { return sqlcore.WithoutHints(words.Replace(text)) }

func (dialect) Own() map[string]string {
	return map[string]string{
		"Digest": `SELECT count(*), count(CASE WHEN fence <> '' THEN 1 END), coalesce(sum(terms_version), 0),
			coalesce(sum(epoch + loaded_epoch), 0), coalesce(sum(taken), 0), coalesce(sum(cap), 0),
			coalesce(sum(updated_at % 1000000000), 0)
			FROM sales INDEXED BY sales_live WHERE archived_at IS NULL`,
	}
}

// together is how many orders one statement inserts, if there are as many.
const together = 50

// The first row says what all have in common, and the others name those arguments. FAIL
// keeps what the statement has done, which goes with the transaction: to undo it,
// SQLite would keep a copy of every page that a statement of many rows changes.
var (
	insertOne = `INSERT OR FAIL INTO orders (sale_id, price_amount, currency, status, reason, epoch, terms, node,
		stored_at, expires_at, keep_until, updated_at,
		order_id, buyer_id, claim_key, quantity, meta, counters, seq, accepted_at) VALUES ` + sqlcore.Placeholders(20)
	insertMany = insertOne +
		strings.Repeat(", (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?, ?, ?, ?, ?, ?, ?, ?)", together-1)
)

// The three things that must be unique, one index each.
const selectExisting = `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ?
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE buyer_id = ? AND sale_id = ? AND claim_key = ?
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE sale_id = ? AND epoch = ? AND bucket = 0 AND seq = ?`
