package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/sqlcore"
)

// dialect is MySQL and MariaDB as sqlcore sees them.
type dialect struct{ sqlcore.JSONTables }

func (dialect) Name() string { return "mysqlstore" }

// Time returns NULL for a year that DATETIME cannot hold as well.
func (dialect) Time(t time.Time) any {
	if t = sqlcore.WholeMillis(t); t.Year() < 1000 || t.Year() > 9999 {
		return nil
	}
	return t
}

func (dialect) Now(ctx context.Context, q sqlcore.Queryer) (now time.Time, err error) {
	err = q.QueryRowContext(ctx, selectNow).Scan(sqlcore.Moment(&now))
	return now, err
}

// ReadOnce: the first read of such a transaction fixes what it sees.
func (dialect) ReadOnce() *sql.TxOptions {
	return &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
}

// Numbers of errors, of both databases.
const (
	tooManyConnections   = 1040
	serverShutdown       = 1053
	diskFull             = 1021
	tableFull            = 1114 // or the disk
	noSuchTable          = 1146
	tooManyOfUser        = 1203
	lockWaitTimeout      = 1205
	deadlock             = 1213
	readOnlyServer       = 1290
	queryInterrupted     = 1317
	readOnlyMode         = 1836
	sessionKilled        = 1927 // MariaDB, as it shuts down
	statementTimeout     = 1969 // MariaDB
	sessionKilledOfMySQL = 3169

	statementTimeoutOfMySQL = 3024
	idleTooLong             = 4031

	noDefault    = 1364
	wrongValue   = 1366
	raised       = 1644 // by SIGNAL, in a trigger
	checkOfMySQL = 3819
)

func (dialect) Retry(err error) bool { return errorNumber(err) == deadlock }

// Busy: 1020 to 1030 are about the disk and the storage engine.
func (dialect) Busy(err error) bool {
	switch number := errorNumber(err); number {
	case deadlock, lockWaitTimeout, tooManyConnections, tooManyOfUser, serverShutdown, sessionKilled, sessionKilledOfMySQL,
		queryInterrupted, statementTimeout, statementTimeoutOfMySQL, idleTooLong, tableFull, readOnlyServer, readOnlyMode:
		return true
	default:
		return number >= 1020 && number <= 1030 || errors.Is(err, mysql.ErrInvalidConn)
	}
}

// Refuses goes by the class of the SQLSTATE, of data or of integrity constraints,
// where the error has one of its own.
func (dialect) Refuses(err error) bool {
	my := (*mysql.MySQLError)(nil)
	if !errors.As(err, &my) {
		return false
	}
	switch class := string(my.SQLState[:2]); my.Number {
	case noDefault, wrongValue, raised, checkOfMySQL:
		return true
	default:
		return class == "22" || class == "23" || class == "45" // that of SIGNAL
	}
}

func (dialect) Full(err error) bool {
	number := errorNumber(err)
	return number == diskFull || number == tableFull
}

func errorNumber(err error) uint16 {
	if my := (*mysql.MySQLError)(nil); errors.As(err, &my) {
		return my.Number
	}
	return 0
}

// A statement of many rows is cut into several, so that each fits into the
// smallest packet that a server may be configured for (max_allowed_packet of
// 1 MiB), even if every byte of its texts needs an escape.
const (
	maxRows  = 1000
	maxBytes = 400 << 10 // of texts
)

// InsertOrders inserts nothing if an order is there already: to leave that one
// out, the database would wait for the transaction that is changing it, which may
// be waiting for the sale's row, which we hold. The orders of a sale are inserted
// under the lock of its row, so none can come between the look and the statement.
func (d dialect) InsertOrders(ctx context.Context, tx *sql.Tx, orders []sqlcore.NewOrder) (
	inserted int, after int64, err error,
) {
	for part := range slices.Chunk(orders, maxRows) {
		ids := make([]any, len(part))
		for i := range part {
			ids[i] = string(part[i].ID)
		}
		var there int
		if err := tx.QueryRowContext(ctx, anyExisting+sqlcore.Placeholders(len(ids)), ids...).Scan(&there); err != nil ||
			there > 0 {
			return 0, 0, err
		}
	}
	for len(orders) > 0 {
		n := fitting(orders)
		row, args := sqlcore.Placeholders(strings.Count(sqlcore.NewOrderColumns, ",")+1), []any{}
		for i := range orders[:n] {
			args = orders[i].AppendValues(args, d)
		}
		result, err := tx.ExecContext(ctx, insertOrders+strings.Repeat(row+", ", n-1)+row+orDuplicate, args...)
		if err != nil {
			return 0, 0, err
		}
		rows, err := result.RowsAffected() // those changed to what they were do not count: clientFoundRows is off
		if err != nil {
			return 0, 0, err
		}
		if inserted == 0 {
			first, err := result.LastInsertId() // that of the first row
			if err != nil {
				return 0, 0, err
			}
			after = first - 1
		}
		inserted += int(rows)
		orders = orders[n:]
	}
	return inserted, after, nil
}

// fitting returns how many orders one statement takes.
func fitting(orders []sqlcore.NewOrder) int {
	bytes := 0
	for n := range min(len(orders), maxRows) {
		o := &orders[n]
		bytes += len(o.ID) + len(o.Sale) + len(o.Buyer) + len(o.Key) + len(o.Meta) + len(o.Counters) +
			len(o.Reason) + len(o.Node)
		if n > 0 && bytes > maxBytes {
			return n
		}
	}
	return min(len(orders), maxRows)
}

// Existing reads what is committed, which is all there is: the sale's row is
// locked, and transactions read what is committed when each statement begins.
func (dialect) Existing(ctx context.Context, tx *sql.Tx, batch *sqlcore.Batch) (all []sluice.Order, err error) {
	var ids, buyers []any
	places := map[int64][]any{} // sequences by epoch
	for i := range batch.Claims {
		c := &batch.Claims[i]
		ids, buyers = append(ids, string(c.Order)), append(buyers, string(c.Buyer))
		places[c.Epoch] = append(places[c.Epoch], c.Seq)
	}
	find := func(query string, args, list []any) {
		for part := range slices.Chunk(list, maxRows) {
			if err == nil {
				rows, failed := tx.QueryContext(ctx, query+sqlcore.Placeholders(len(part)), slices.Concat(args, part)...)
				all, err = sqlcore.AppendOrders(all, rows, failed)
			}
		}
	}
	find(existingOrders, nil, ids)
	find(existingClaims, []any{string(batch.Sale)}, buyers)
	for epoch, seqs := range places {
		find(existingPlaces, []any{string(batch.Sale), epoch}, seqs)
	}
	return all, err
}

// A list comes before the table that it is looked up in, so that the database
// does so row by row and by index.
//
// Where a row may be there already, the INSERT says ON DUPLICATE KEY UPDATE
// with a column set to itself, which counts as no row changed. Not INSERT
// IGNORE, which forgives every other error too.
var (
	doNothing = regexp.MustCompile(`ON CONFLICT \((\w+)[^)]*\) DO NOTHING`)
	doUpdate  = regexp.MustCompile(`ON CONFLICT \([^)]*\) DO UPDATE SET`)
	excluded  = regexp.MustCompile(`excluded\.(\w+)`)
	words     = strings.NewReplacer(
		"FOR NO KEY UPDATE", "FOR UPDATE",
		"FROM sales WHERE id = ANY (?::text[])",
		"FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARBINARY(64) PATH '$')) AS list "+
			"STRAIGHT_JOIN sales ON sales.id = list.name",
		"FROM orders o WHERE o.order_id = ANY (?::text[])", "FROM "+ofList+" WHERE true",
		"FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id = ANY (?::text[])",
		"FROM "+ofList+" STRAIGHT_JOIN sales ON sales.id = o.sale_id WHERE true",
		"= ANY (?::text[])", "IN (SELECT id FROM "+list+")",
		"unnest(?::text[]) AS list (id)", buyers,
	)
)

func (dialect) SQL(text string) string {
	text = doNothing.ReplaceAllString(words.Replace(text), "ON DUPLICATE KEY UPDATE $1 = $1")
	return excluded.ReplaceAllString(doUpdate.ReplaceAllString(text, "ON DUPLICATE KEY UPDATE"), "VALUES($1)")
}

func (dialect) Own() map[string]string { return own }

var own = map[string]string{
	"Digest": `SELECT count(*), count(CASE WHEN fence <> '' THEN 1 END), coalesce(sum(terms_version), 0),
		coalesce(sum(epoch + loaded_epoch), 0), coalesce(sum(taken), 0), coalesce(sum(cap), 0),
		coalesce(sum(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', updated_at) DIV 1000 % 1000000000), 0)
		FROM sales FORCE INDEX (sales_live) WHERE archived_at IS NULL`,
	"SelectDue": `SELECT o.order_id, o.sale_id, o.quantity
		FROM ` + list + ` STRAIGHT_JOIN orders o FORCE INDEX (orders_order_id) ON o.order_id = list.id
		WHERE o.status = 'pending' AND o.keep_until <= ? LIMIT ? FOR UPDATE SKIP LOCKED`,
	// The first half of SelectDue: SKIP LOCKED would leave a lock in the index of
	// what is due, and so keep the transaction that holds such an order from changing
	// it, while it may hold the sale that we need next. The indexes are forced in
	// both: here another one would mean to read all orders, and there to lock them.
	"FindDue": `SELECT order_id FROM orders FORCE INDEX (orders_to_expire)
	WHERE status = 'pending' AND keep_until <= ? AND sale_id NOT IN (SELECT id FROM ` + list + `)
	ORDER BY keep_until LIMIT ?`,
	"ExpireOrders": `UPDATE (SELECT CAST(? AS DATETIME(3)) AS now) AS clock
			STRAIGHT_JOIN ` + list + ` STRAIGHT_JOIN orders ON orders.order_id = list.id
		SET orders.status = 'expired', orders.unpaid = TRUE, orders.updated_at = greatest(orders.updated_at, clock.now)
		WHERE orders.status = 'pending' AND orders.keep_until <= ?`,
	"AddPayment": `INSERT INTO payments (payment_id, order_id) VALUES (?, ?)
		ON DUPLICATE KEY UPDATE payment_id = payment_id`,
	"DeleteReleases": `DELETE releases FROM ` + list + ` STRAIGHT_JOIN releases ON releases.order_id = list.id`,
	"Erase.PaymentsOf": `SELECT c.order_id, c.from_status, c.payment_id, c.refused
		FROM ` + list + ` STRAIGHT_JOIN order_changes c ON c.order_id = list.id
		WHERE c.payment_id <> '' OR c.refused <> ''`,
	"Purge.HaveEvents": `SELECT DISTINCT c.order_id FROM ` + list + ` STRAIGHT_JOIN order_changes c ON c.order_id = list.id
		WHERE c.event IS NULL OR c.event >= ?`,
	"Purge.DeleteChanges": `DELETE order_changes FROM ` + list + `
		STRAIGHT_JOIN order_changes ON order_changes.order_id = list.id`,
	"Purge.DeletePayments": `DELETE payments FROM ` + list + ` STRAIGHT_JOIN payments ON payments.order_id = list.id`,
	"Purge.DeleteOrders": `DELETE orders FROM ` + list + `
		STRAIGHT_JOIN orders FORCE INDEX (orders_order_id) ON orders.order_id = list.id`,
	"Events.NumberChanges": `UPDATE ` + pairs + ` STRAIGHT_JOIN order_changes FORCE INDEX (order_changes_position)
			ON order_changes.position = pair.position
		SET order_changes.event = pair.event WHERE order_changes.event IS NULL`,
	"Events.NumberSaleEvents": setEvents("sale_events"),
	"Events.NumberOrders":     setEvents("order_events"),
}

// setEvents forces the index: a small table is read as a whole otherwise, and with it the row of a
// transaction that is not committed, for which numbering would wait.
func setEvents(table string) string {
	return `UPDATE ` + pairs + ` STRAIGHT_JOIN ` + table + ` FORCE INDEX (PRIMARY)
			ON ` + table + `.position = pair.position
		SET ` + table + `.event = pair.event WHERE ` + table + `.event IS NULL`
}

// Tables of what is in one argument: ids of orders, ids of buyers, and Pairs.
const (
	list   = `JSON_TABLE(?, '$[*]' COLUMNS (id VARBINARY(81) PATH '$')) AS list`
	ofList = list + ` STRAIGHT_JOIN orders o ON o.order_id = list.id`
	buyers = `JSON_TABLE(?, '$[*]' COLUMNS (id VARBINARY(128) PATH '$')) AS list`
	pairs  = `JSON_TABLE(?, '$[*]' COLUMNS (position BIGINT PATH '$[0]', event BIGINT PATH '$[1]')) AS pair`
)

// The store's clock, when this statement began.
const selectNow = `SELECT utc_timestamp(3)`

// insertOrders is followed by a row of placeholders for each order, and
// orDuplicate. The order of the rows is the order of the claims, so positions
// follow it. An order that meets any unique key is left out; the caller counts
// (see sqlcore.Dialect.InsertOrders). A failed CHECK is an error.
const (
	insertOrders = `INSERT INTO orders (` + sqlcore.NewOrderColumns + `) VALUES `
	orDuplicate  = ` ON DUPLICATE KEY UPDATE position = position`
)

// anyExisting is followed by a list in parentheses.
const anyExisting = `SELECT count(*) FROM orders FORCE INDEX (orders_order_id) WHERE order_id IN `

// The three things that must be unique, one statement and index each. Each is
// followed by a list in parentheses. That of claims also finds the other claims
// of the same buyers, which does no harm: neither database looks up a list of
// pairs by index.
const (
	existingOrders = `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_order_id) WHERE order_id IN `
	existingClaims = `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_claim)
		WHERE sale_id = ? AND buyer_id IN `
	existingPlaces = `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_place)
		WHERE sale_id = ? AND epoch = ? AND bucket = 0 AND seq IN `
)
