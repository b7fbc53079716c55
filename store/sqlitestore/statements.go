package sqlitestore

import (
	"strings"

	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

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
	"greatest(", "max(",
	"FORCE INDEX (orders_to_expire)", "INDEXED BY orders_to_expire",
)

func (dialect) SQL(text string) string { return sqlcore.WithoutHints(words.Replace(text)) }

func (dialect) Own() map[string]string { return nil }

// One order that meets any unique key is left out; the caller counts (see
// sqlcore.Dialect.InsertOrders). A failed CHECK is an error.
const insertOrder = `INSERT INTO orders (` + sqlcore.NewOrderColumns + `)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT DO NOTHING`

// The three things that must be unique, one index each.
const selectExisting = `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ?
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE buyer_id = ? AND sale_id = ? AND claim_key = ?
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE sale_id = ? AND epoch = ? AND bucket = 0 AND seq = ?`
