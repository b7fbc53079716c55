package mysqlstore

import (
	"encoding/json"

	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

func (dialect) Events() *sqlcore.EventStatements { return &events }

// Pairs is JSON, as with List.
func (dialect) Pairs(pairs []sqlcore.Pair) []any {
	rows := make([][2]int64, len(pairs))
	for i, p := range pairs {
		rows[i] = [2]int64{p.Position, p.Event}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		panic(err) // numbers are always JSON
	}
	return []any{string(text)}
}

// pairs is the table of Pairs.
const pairs = `JSON_TABLE(?, '$[*]' COLUMNS (position BIGINT PATH '$[0]', event BIGINT PATH '$[1]')) AS pair`

var events = sqlcore.EventStatements{
	LockFeed:  `SELECT last_event FROM event_feed WHERE id = 1 FOR UPDATE`,
	SetFeed:   `UPDATE event_feed SET last_event = ? WHERE id = 1`,
	LastEvent: `SELECT last_event FROM event_feed WHERE id = 1`,

	Unnumbered: sqlcore.Unnumbered,
	SalesWithNewOrders: `SELECT s.id, coalesce(m.position, 0) FROM sales s LEFT JOIN event_marks m ON m.sale_id = s.id
		WHERE (SELECT o.position FROM orders o FORCE INDEX (orders_of_sale) WHERE o.sale_id = s.id ORDER BY o.position DESC LIMIT 1)
			> coalesce(m.position, 0)
		ORDER BY s.id`,
	LiveWithNewOrders: `SELECT s.id, coalesce(m.position, 0) FROM sales s LEFT JOIN event_marks m ON m.sale_id = s.id
		WHERE s.archived_at IS NULL AND (SELECT o.position FROM orders o FORCE INDEX (orders_of_sale) WHERE o.sale_id = s.id ORDER BY o.position DESC LIMIT 1)
			> coalesce(m.position, 0)
		ORDER BY s.id`,
	NewOrders: `SELECT position, stored_at FROM orders FORCE INDEX (orders_of_sale)
		WHERE sale_id = ? AND position > ? ORDER BY position LIMIT ?`,
	SetMark: `INSERT INTO event_marks (sale_id, position) VALUES (?, ?) ON DUPLICATE KEY UPDATE position = VALUES(position)`,
	NewChanges: `SELECT c.position, c.order_id, c.changed_at, o.sale_id, o.position, coalesce(m.position, 0)
		FROM (SELECT position, order_id, changed_at FROM order_changes FORCE INDEX (order_changes_event)
			WHERE event IS NULL ORDER BY event, position LIMIT ?) c
		STRAIGHT_JOIN orders o FORCE INDEX (orders_order_id) ON o.order_id = c.order_id
		LEFT JOIN event_marks m ON m.sale_id = o.sale_id ORDER BY c.position`,
	NewSaleEvents: `SELECT position, sale_id, created_at FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT ?`,

	NumberChanges: `UPDATE ` + pairs + ` STRAIGHT_JOIN order_changes FORCE INDEX (order_changes_position)
			ON order_changes.position = pair.position
		SET order_changes.event = pair.event WHERE order_changes.event IS NULL`,
	NumberSaleEvents: `UPDATE ` + pairs + ` STRAIGHT_JOIN sale_events ON sale_events.position = pair.position
		SET sale_events.event = pair.event WHERE sale_events.event IS NULL`,
	AddSaleEvent: `INSERT INTO sale_events (sale_id, type, created_at, sale) VALUES (?, ?, ?, ?)`,

	OrderEvents: `SELECT first_event, last_event, sale_id, after_position, upto_position FROM order_events
		WHERE last_event > ? AND first_event <= ? ORDER BY last_event LIMIT ?`,
	ChangeEvents: `SELECT c.event, c.from_status, c.to_status, c.changed_at, c.refused, ` + sqlcore.OrderColumns + `
		FROM (SELECT event, order_id AS of_order, from_status, to_status, changed_at, refused FROM order_changes
			WHERE event > ? AND event <= ?) c
		STRAIGHT_JOIN orders ON orders.order_id = c.of_order`,
	SaleEvents:  `SELECT event, type, created_at, sale FROM sale_events WHERE event > ? AND event <= ?`,
	FirstStatus: `SELECT from_status FROM order_changes WHERE order_id = ? ORDER BY position LIMIT 1`,
}
