package pgstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var statements = sqlcore.Statements{
	InsertSale: `INSERT INTO sales (` + sqlcore.SaleColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)
		ON CONFLICT (id) DO NOTHING`,
	InsertTerms: `INSERT INTO sale_terms (sale_id, ` + sqlcore.TermsColumns + `, changed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
	SelectSale:  `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = $1`,
	LockSale:    `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = $1 FOR NO KEY UPDATE`,
	SelectSales: `SELECT ` + sqlcore.SaleColumns + ` FROM sales ORDER BY opens_at, id`,
	LiveSales:   `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE archived_at IS NULL ORDER BY id`,
	NamedSales:  `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = ANY($1::text[]) ORDER BY id`,
	PageOfSales: `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id > $1 ORDER BY id LIMIT $2`,
	SelectTerms: `SELECT ` + sqlcore.TermsColumns + ` FROM sale_terms WHERE sale_id = $1 ORDER BY version`,
	UpdateSale: `UPDATE sales SET
			sku = $1, title = $2, price_amount = $3, price_currency = $4, list_price_amount = $5, list_price_currency = $6,
			payment_window_ms = $7, payment_grace_ms = $8, rules = $9,
			terms_version = $10, total = $11, max_per_buyer = $12, max_orders = $13, max_unpaid = $14, opens_at = $15,
			closes_at = $16, paused = $17, cap = $18, updated_at = $19
		WHERE id = $20`,

	FenceSale:   `UPDATE sales SET fence = $1, updated_at = $2 WHERE id = $3 AND epoch = $4 AND fence = ''`,
	RaiseEpoch:  `UPDATE sales SET epoch = $1, updated_at = $2 WHERE id = $3`,
	ConfirmLoad: `UPDATE sales SET fence = $1, loaded_epoch = $2, updated_at = $3 WHERE id = $4`,
	LastSeq:     `SELECT max(seq) FROM orders WHERE sale_id = $1 AND epoch = $2 AND bucket = 0`,

	// I1 for the second time: the row does not match when it would not hold.
	Take: `UPDATE sales SET taken = taken + $1 WHERE id = $2 AND (cap IS NULL OR taken + $3 <= cap)`,

	SelectOrder: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = $1`,
	OrdersOfSale: `SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND position > $2 ORDER BY position LIMIT $3`,

	LockOrder: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = $1 FOR NO KEY UPDATE`,
	ChangeOrder: `UPDATE orders SET status = $1, reason = $2, payment_id = $3, updated_at = $4, unpaid = $5
		WHERE order_id = $6 AND status = $7 AND (keep_until <= $8) = $9`,
	LowerTaken: `UPDATE sales SET taken = taken - $1 WHERE id = $2`,
	AddChange: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
	AddRefusal: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (order_id, from_status, refused) DO NOTHING`,
	History: `SELECT ` + sqlcore.HistoryColumns + ` FROM orders LEFT JOIN order_changes c ON c.order_id = orders.order_id
		WHERE orders.order_id = $1 ORDER BY c.position`,

	TryLockSale: `SELECT id FROM sales WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED`,
	SelectDue: `SELECT order_id, sale_id, quantity FROM orders WHERE status = 'pending' AND keep_until <= $1
			AND sale_id <> ALL ($2::text[])
		ORDER BY keep_until LIMIT $3 FOR NO KEY UPDATE SKIP LOCKED`,
	ExpireOrders: `UPDATE orders SET status = 'expired', unpaid = true, updated_at = greatest(updated_at, $1)
		WHERE order_id = ANY ($2::text[]) AND status = 'pending' AND keep_until <= $3`,
	AddExpired: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `)
		SELECT order_id, updated_at, 'pending', 'expired', 'expire', $1::text, '', '', '' FROM orders WHERE order_id = ANY ($2::text[])`,

	AddReleases: `INSERT INTO releases (` + sqlcore.ReleaseColumns + `, created_at)
		SELECT o.order_id, o.sale_id, o.buyer_id, o.claim_key, o.quantity, sales.epoch, o.unpaid, o.updated_at
		FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id = ANY ($1::text[]) AND sales.archived_at IS NULL`,
	NextReleasing: `SELECT sale_id FROM releases WHERE sale_id > $1 ORDER BY sale_id LIMIT 1`,
	SelectReleases: `SELECT ` + sqlcore.ReleaseColumns + ` FROM releases
		WHERE sale_id = $1 ORDER BY position LIMIT $2 FOR UPDATE SKIP LOCKED`,
	DeleteReleases:  `DELETE FROM releases WHERE order_id = ANY ($1::text[])`,
	PendingReleases: `SELECT count(*) FROM releases WHERE sale_id = $1`,
	ReleaseOf:       `SELECT count(*) FROM releases WHERE order_id = $1`,
	LiveUnits:       `SELECT coalesce(sum(quantity), 0)::bigint FROM orders WHERE sale_id = $1 AND status IN ('pending', 'paid')`,
	SetTaken:        `UPDATE sales SET taken = $1, updated_at = $2 WHERE id = $3`,

	InsertDeadLetter: `INSERT INTO dead_letters
			(sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, accepted_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (sale_id, epoch, entry_id) DO NOTHING`,
	SelectDeadLetters: `SELECT ` + sqlcore.DeadLetterColumns + ` FROM dead_letters WHERE resolved_at IS NULL ORDER BY id`,
	EndingsOfSale: `SELECT c.order_id, count(*) FROM orders o JOIN order_changes c ON c.order_id = o.order_id
		WHERE o.sale_id = $1 AND c.from_status IN ('pending', 'paid') AND c.to_status NOT IN ('pending', 'paid') GROUP BY c.order_id`,
	ReturningOfSale: `SELECT order_id FROM releases WHERE sale_id = $1`,
	DeadLettersOfSale: `SELECT ` + sqlcore.DeadLetterColumns + ` FROM dead_letters
		WHERE sale_id = $1 AND resolved_at IS NULL ORDER BY id`,
	SelectDeadLetter:  `SELECT ` + sqlcore.DeadLetterColumns + ` FROM dead_letters WHERE id = $1`,
	ResolveDeadLetter: `UPDATE dead_letters SET resolved_at = $1, resolution = $2 WHERE id = $3 AND resolved_at IS NULL`,

	SelectRestock: `SELECT delta FROM restocks WHERE sale_id = $1 AND restock_id = $2`,
	InsertRestock: `INSERT INTO restocks (` + sqlcore.RestockColumns + `) VALUES ($1, $2, $3, $4, $5)`,
	DeleteLowering: `DELETE FROM restocks WHERE sale_id = $1 AND delta < 0 AND terms_version >
		(SELECT MAX(version) FROM sale_terms WHERE sale_id = $2 AND (total IS NULL OR total >= $3))`,
	SetCap:      `UPDATE sales SET cap = $1, updated_at = $2 WHERE id = $3`,
	SelectClaim: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE buyer_id = $1 AND sale_id = $2 AND claim_key = $3`,
	Unsettled: `SELECT EXISTS (SELECT 1 FROM orders WHERE sale_id = $1 AND status = 'pending')
		OR EXISTS (SELECT 1 FROM releases WHERE sale_id = $2)
		OR EXISTS (SELECT 1 FROM dead_letters WHERE sale_id = $3 AND resolved_at IS NULL)`,
	ArchiveSale: `UPDATE sales SET archived_at = $1, updated_at = $2 WHERE id = $3`,
	ArchivedOf: `SELECT count(*) FROM orders o JOIN sales ON sales.id = o.sale_id
		WHERE o.order_id = ANY ($1::text[]) AND sales.archived_at IS NOT NULL`,

	LockLease: `SELECT holder, expires_at FROM leases WHERE name = $1 FOR UPDATE`,
	AddLease: `INSERT INTO leases (name, holder, expires_at) VALUES ($1, '', $2)
		ON CONFLICT (name) DO NOTHING`,
	SetLease: `UPDATE leases SET holder = $1, expires_at = $2 WHERE name = $3`,
	EndLease: `UPDATE leases SET holder = '' WHERE name = $1 AND holder = $2`,
	Beat:     `UPDATE nodes SET seen_at = $1 WHERE node = $2`,
	AddNode: `INSERT INTO nodes (node, seen_at) VALUES ($1, $2)
		ON CONFLICT (node) DO NOTHING`,
	ForgetNodes: `DELETE FROM nodes WHERE seen_at < $1`,
	LiveNodes:   `SELECT node FROM nodes WHERE seen_at > $1 AND seen_at < $2 ORDER BY node`,
	AddGathered: `INSERT INTO gathered (sale_id, epoch, node, gathered_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (sale_id, epoch, node) DO NOTHING`,
	Gathered: `SELECT node FROM gathered WHERE sale_id = $1 AND epoch = $2 ORDER BY node`,

	Admin:   adminStatements,
	Backlog: backlog,
	Tidy: sqlcore.TidyStatements{
		ArchivedList: `SELECT l.sale_id, l.kind FROM sale_lists l JOIN sales ON sales.id = l.sale_id
			WHERE sales.archived_at IS NOT NULL LIMIT 1`,
		DeleteList: `DELETE FROM sale_lists WHERE sale_id = $1 AND kind = $2`,
		DeleteGathered: `DELETE FROM gathered WHERE gathered_at < $1
			AND EXISTS (SELECT 1 FROM sales WHERE sales.id = gathered.sale_id AND sales.epoch > gathered.epoch)`,
		DeleteLeases: `DELETE FROM leases WHERE expires_at < $1`,
	},
	Lists: listStatements,

	Version: `SELECT coalesce(max(version_id), 0) FROM ` + sqlcore.VersionTable + ` WHERE is_applied`,
}

// The store's clock. Not now(): a transaction that waited for the sale's row
// would say when it began to wait.
const selectNow = `SELECT date_trunc('milliseconds', clock_timestamp())`

// insertFast raises the sale's taken and stores a batch of new claims, in one
// statement. Unless the cap covers them all (I1) and none is of an epoch that
// has passed, the sale's row does not match and nothing is inserted. An order that
// meets any unique key is an error: to leave it out (ON CONFLICT) would cost every
// batch a look into each index before each row. Then the caller rolls back and
// finds out about each claim. A failed CHECK is an error too.
//
// The order of the rows is the order of the claims, so positions follow it.
const insertFast = `WITH sale AS (
		UPDATE sales SET taken = taken + $2::bigint
		WHERE id = $1 AND (cap IS NULL OR taken + $2::bigint <= cap) AND epoch <= $13
		RETURNING price_amount, price_currency, date_trunc('milliseconds', clock_timestamp()) AS now,
			payment_window_ms * interval '1 millisecond' AS payment_window, payment_grace_ms * interval '1 millisecond' AS payment_grace
	)
	INSERT INTO orders
		(order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
		 status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at)
	SELECT c.order_id, $1, c.buyer_id, c.claim_key, c.quantity, c.meta, sale.price_amount, sale.price_currency,
		'pending', '', c.epoch, c.seq, c.terms, c.node, c.accepted_at,
		sale.now, sale.now + payment_window, sale.now + payment_window + payment_grace, sale.now
	FROM sale, unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
			$8::bigint[], $9::bigint[], $10::bigint[], $11::text[], $12::timestamptz[])
		WITH ORDINALITY AS c (order_id, buyer_id, claim_key, quantity, meta, epoch, seq, terms, node, accepted_at, n)
	ORDER BY c.n`

// insertOrders stores orders as they are; see sqlcore.Dialect.InsertOrders.
const insertOrders = `INSERT INTO orders
		(order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
		 status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at)
	SELECT o.order_id, o.sale_id, o.buyer_id, o.claim_key, o.quantity, o.meta, o.price_amount, o.currency,
		o.status, o.reason, o.epoch, o.seq, o.terms, o.node, o.accepted_at, o.stored_at, o.expires_at, o.keep_until, o.updated_at
	FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[],
			$9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[],
			$15::timestamptz[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::timestamptz[])
		WITH ORDINALITY AS o (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
			status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at, n)
	ORDER BY o.n
	ON CONFLICT DO NOTHING`

// The three things that must be unique, one index each.
const selectExisting = `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ANY ($2::text[])
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND (buyer_id, claim_key) IN (SELECT * FROM unnest($3::text[], $4::text[]))
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = $1 AND bucket = 0 AND (epoch, seq) IN (SELECT * FROM unnest($5::bigint[], $6::bigint[]))`
