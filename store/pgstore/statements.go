package pgstore

import (
	"strconv"
	"strings"

	"github.com/sluicehq/sluice/store/internal/sqlcore"
)

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

func (dialect) Own() map[string]string { return nil }

// The store's clock. Not now(): a transaction that waited for the sale's row
// would say when it began to wait.
const selectNow = `SELECT date_trunc('milliseconds', clock_timestamp())`

// insertFast raises the sale's taken and stores a batch of new claims, in one
// statement. Unless the cap covers them all (I1) and none is of an epoch that
// has passed, the sale's row does not match and nothing is inserted. An order that
// meets any unique key is an error: to leave it out (ON CONFLICT) would cost every
// batch a look into each index before each row. Then the caller rolls back and
// looks each claim up. A failed CHECK is an error too.
//
// The order of the rows is the order of the claims, so positions follow it.
const insertFast = `WITH sale AS (
		UPDATE sales SET taken = taken + $2::bigint
		WHERE id = $1 AND (cap IS NULL OR taken + $2::bigint <= cap) AND epoch <= $13
		RETURNING price_amount, price_currency, date_trunc('milliseconds', clock_timestamp()) AS now,
			payment_window_ms * interval '1 millisecond' AS payment_window,
			payment_grace_ms * interval '1 millisecond' AS payment_grace
	)
	INSERT INTO orders (` + sqlcore.NewOrderColumns + `)
	SELECT c.order_id, $1, c.buyer_id, c.claim_key, c.quantity, c.meta, sale.price_amount, sale.price_currency,
		'pending', '', c.epoch, c.seq, c.terms, c.node, c.accepted_at,
		sale.now, sale.now + payment_window, sale.now + payment_window + payment_grace, sale.now
	FROM sale, unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
			$8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::timestamptz[])
		WITH ORDINALITY AS c (order_id, buyer_id, claim_key, quantity, meta, epoch, seq, terms, node, accepted_at, n)
	ORDER BY c.n`

// insertOrders stores orders as they are; see sqlcore.Dialect.InsertOrders.
const insertOrders = `INSERT INTO orders (` + sqlcore.NewOrderColumns + `)
	SELECT ` + sqlcore.NewOrderColumns + `
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[],
			$9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[],
			$15::timestamptz[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[])
		WITH ORDINALITY AS o (` + sqlcore.NewOrderColumns + `, n)
	ORDER BY o.n
	ON CONFLICT DO NOTHING`

// The three things that must be unique, one index each.
const selectExisting = `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ANY ($2::text[])
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND (buyer_id, claim_key) IN (SELECT * FROM unnest($3::text[], $4::text[]))
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND bucket = 0 AND (epoch, seq) IN (SELECT * FROM unnest($5::bigint[], $6::bigint[]))`
