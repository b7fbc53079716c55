package pgstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

func (dialect) Events() *sqlcore.EventStatements { return &events }

func (dialect) Pairs(pairs []sqlcore.Pair) []any {
	positions, events := make([]int64, len(pairs)), make([]int64, len(pairs))
	for i, p := range pairs {
		positions[i], events[i] = p.Position, p.Event
	}
	return []any{positions, events}
}

// pairs is the table of Pairs.
const pairs = `unnest($1::bigint[], $2::bigint[]) AS pair (position, event)`

var events = sqlcore.EventStatements{
	LockFeed:  `SELECT last_event FROM event_feed WHERE id = 1 FOR UPDATE`,
	SetFeed:   `UPDATE event_feed SET last_event = $1 WHERE id = 1`,
	LastEvent: `SELECT last_event FROM event_feed WHERE id = 1`,

	Unnumbered: sqlcore.Unnumbered,
	SalesWithNewOrders: `SELECT s.id, coalesce(m.position, 0) FROM sales s LEFT JOIN event_marks m ON m.sale_id = s.id
		WHERE (SELECT o.position FROM orders o WHERE o.sale_id = s.id ORDER BY o.position DESC LIMIT 1) > coalesce(m.position, 0)
		ORDER BY s.id`,
	LiveWithNewOrders: `SELECT s.id, coalesce(m.position, 0) FROM sales s LEFT JOIN event_marks m ON m.sale_id = s.id
		WHERE s.archived_at IS NULL AND (SELECT o.position FROM orders o WHERE o.sale_id = s.id ORDER BY o.position DESC LIMIT 1) > coalesce(m.position, 0)
		ORDER BY s.id`,
	NewOrders: `SELECT position, stored_at FROM orders WHERE sale_id = $1 AND position > $2 ORDER BY position LIMIT $3`,
	SetMark: `INSERT INTO event_marks (sale_id, position) VALUES ($1, $2)
		ON CONFLICT (sale_id) DO UPDATE SET position = excluded.position`,
	NewChanges: `SELECT c.position, c.order_id, c.changed_at, o.sale_id, o.position, coalesce(m.position, 0)
		FROM order_changes c JOIN orders o ON o.order_id = c.order_id LEFT JOIN event_marks m ON m.sale_id = o.sale_id
		WHERE c.event IS NULL ORDER BY c.event, c.position LIMIT $1`,
	NewSaleEvents: `SELECT position, sale_id, created_at FROM sale_events WHERE event IS NULL ORDER BY event, position LIMIT $1`,

	NumberChanges: `UPDATE order_changes SET event = pair.event FROM ` + pairs + `
		WHERE order_changes.position = pair.position AND order_changes.event IS NULL`,
	NumberSaleEvents: `UPDATE sale_events SET event = pair.event FROM ` + pairs + `
		WHERE sale_events.position = pair.position AND sale_events.event IS NULL`,
	AddSaleEvent: `INSERT INTO sale_events (sale_id, type, created_at, sale) VALUES ($1, $2, $3, $4)`,

	OrderEvents: `SELECT first_event, last_event, sale_id, after_position, upto_position FROM order_events
		WHERE last_event > $1 AND first_event <= $2 ORDER BY last_event LIMIT $3`,
	ChangeEvents: `SELECT c.event, c.from_status, c.to_status, c.changed_at, c.refused, ` + sqlcore.OrderColumns + `
		FROM (SELECT event, order_id AS of_order, from_status, to_status, changed_at, refused FROM order_changes
			WHERE event > $1 AND event <= $2) c
		JOIN orders ON orders.order_id = c.of_order`,
	SaleEvents:  `SELECT event, type, created_at, sale FROM sale_events WHERE event > $1 AND event <= $2`,
	FirstStatus: `SELECT from_status FROM order_changes WHERE order_id = $1 ORDER BY position LIMIT 1`,
}
