package mysqlstore

import (
	"regexp"
	"strings"

	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

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
	"SelectDue": `SELECT o.order_id, o.sale_id, o.quantity
		FROM ` + list + ` STRAIGHT_JOIN orders o FORCE INDEX (orders_order_id) ON o.order_id = list.id
		WHERE o.status = 'pending' LIMIT ? FOR UPDATE SKIP LOCKED`,
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
	"DeleteReleases": `DELETE releases FROM ` + list + ` STRAIGHT_JOIN releases ON releases.order_id = list.id`,
	"Erase.PaymentsOf": `SELECT c.order_id, c.from_status, c.payment_id, c.refused
		FROM ` + list + ` STRAIGHT_JOIN order_changes c ON c.order_id = list.id
		WHERE c.payment_id <> '' OR c.refused <> ''`,
	"Events.NewChanges": `SELECT c.position, c.order_id, c.changed_at, o.sale_id, o.position, coalesce(m.position, 0)
		FROM (SELECT position, order_id, changed_at FROM order_changes FORCE INDEX (order_changes_event)
			WHERE event IS NULL ORDER BY event, position LIMIT ?) c
		STRAIGHT_JOIN orders o FORCE INDEX (orders_order_id) ON o.order_id = c.order_id
		LEFT JOIN event_marks m ON m.sale_id = o.sale_id ORDER BY c.position`,
	"Events.NumberChanges": `UPDATE ` + pairs + ` STRAIGHT_JOIN order_changes FORCE INDEX (order_changes_position)
			ON order_changes.position = pair.position
		SET order_changes.event = pair.event WHERE order_changes.event IS NULL`,
	"Events.NumberSaleEvents": `UPDATE ` + pairs + ` STRAIGHT_JOIN sale_events ON sale_events.position = pair.position
		SET sale_events.event = pair.event WHERE sale_events.event IS NULL`,
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
