package sqlitestore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var statements = sqlcore.Statements{
	InsertSale: `INSERT INTO sales (` + sqlcore.SaleColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`,
	InsertTerms: `INSERT INTO sale_terms (sale_id, ` + sqlcore.TermsColumns + `, changed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	SelectSale:  `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = ?`,
	LockSale:    `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = ?`, // a transaction that changes holds the whole file
	SelectSales: `SELECT ` + sqlcore.SaleColumns + ` FROM sales ORDER BY opens_at, id`,
	LiveSales:   `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE archived_at IS NULL ORDER BY id`,
	NamedSales:  `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id`,
	PageOfSales: `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id > ? ORDER BY id LIMIT ?`,
	SelectTerms: `SELECT ` + sqlcore.TermsColumns + ` FROM sale_terms WHERE sale_id = ? ORDER BY version`,
	UpdateSale: `UPDATE sales SET
			sku = ?, title = ?, price_amount = ?, price_currency = ?, list_price_amount = ?, list_price_currency = ?,
			payment_window_ms = ?, payment_grace_ms = ?, rules = ?,
			terms_version = ?, total = ?, max_per_buyer = ?, max_orders = ?, max_unpaid = ?, opens_at = ?, closes_at = ?, paused = ?,
			cap = ?, updated_at = ?
		WHERE id = ?`,

	FenceSale:   `UPDATE sales SET fence = ?, updated_at = ? WHERE id = ? AND epoch = ? AND fence = ''`,
	RaiseEpoch:  `UPDATE sales SET epoch = ?, updated_at = ? WHERE id = ?`,
	ConfirmLoad: `UPDATE sales SET fence = ?, loaded_epoch = ?, updated_at = ? WHERE id = ?`,
	LastSeq:     `SELECT max(seq) FROM orders WHERE sale_id = ? AND epoch = ? AND bucket = 0`,

	// I1 for the second time: the row does not match when it would not hold.
	Take: `UPDATE sales SET taken = taken + ? WHERE id = ? AND (cap IS NULL OR taken + ? <= cap)`,

	SelectOrder: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ?`,
	OrdersOfSale: `SELECT ` + sqlcore.OrderColumns + ` FROM orders
		WHERE sale_id = ? AND position > ? ORDER BY position LIMIT ?`,

	LockOrder: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ?`, // as with LockSale
	ChangeOrder: `UPDATE orders SET status = ?, reason = ?, payment_id = ?, updated_at = ?, unpaid = ?
		WHERE order_id = ? AND status = ? AND (keep_until <= ?) = ?`,
	LowerTaken: `UPDATE sales SET taken = taken - ? WHERE id = ?`,
	AddChange:  `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	AddRefusal: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (order_id, from_status, refused) DO NOTHING`,
	History: `SELECT ` + sqlcore.HistoryColumns + ` FROM orders LEFT JOIN order_changes c ON c.order_id = orders.order_id
		WHERE orders.order_id = ? ORDER BY c.position`,

	TryLockSale: `SELECT id FROM sales WHERE id = ?`, // as with LockSale
	SelectDue: `SELECT order_id, sale_id, quantity FROM orders WHERE status = 'pending' AND keep_until <= ?
			AND sale_id NOT IN (SELECT value FROM json_each(?))
		ORDER BY keep_until LIMIT ?`,
	ExpireOrders: `UPDATE orders SET status = 'expired', unpaid = 1, updated_at = max(updated_at, ?)
		WHERE order_id IN (SELECT value FROM json_each(?)) AND status = 'pending' AND keep_until <= ?`,
	AddExpired: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `)
		SELECT order_id, updated_at, 'pending', 'expired', 'expire', ?, '', '', '' FROM orders
		WHERE order_id IN (SELECT value FROM json_each(?))`,

	AddReleases: `INSERT INTO releases (` + sqlcore.ReleaseColumns + `, created_at)
		SELECT o.order_id, o.sale_id, o.buyer_id, o.claim_key, o.quantity, sales.epoch, o.unpaid, o.updated_at
		FROM orders o JOIN sales ON sales.id = o.sale_id WHERE o.order_id IN (SELECT value FROM json_each(?)) AND sales.archived_at IS NULL`,
	NextReleasing:   `SELECT sale_id FROM releases WHERE sale_id > ? ORDER BY sale_id LIMIT 1`,
	SelectReleases:  `SELECT ` + sqlcore.ReleaseColumns + ` FROM releases WHERE sale_id = ? ORDER BY position LIMIT ?`,
	DeleteReleases:  `DELETE FROM releases WHERE order_id IN (SELECT value FROM json_each(?))`,
	PendingReleases: `SELECT count(*) FROM releases WHERE sale_id = ?`,
	ReleaseOf:       `SELECT count(*) FROM releases WHERE order_id = ?`,
	LiveUnits:       `SELECT coalesce(sum(quantity), 0) FROM orders WHERE sale_id = ? AND status IN ('pending', 'paid')`,
	SetTaken:        `UPDATE sales SET taken = ?, updated_at = ? WHERE id = ?`,

	InsertDeadLetter: `INSERT INTO dead_letters
			(sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, accepted_at, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (sale_id, epoch, entry_id) DO NOTHING`,
	SelectDeadLetters: `SELECT ` + sqlcore.DeadLetterColumns + ` FROM dead_letters WHERE resolved_at IS NULL ORDER BY id`,
	EndingsOfSale: `SELECT c.order_id, count(*) FROM orders o JOIN order_changes c ON c.order_id = o.order_id
		WHERE o.sale_id = ? AND c.from_status IN ('pending', 'paid') AND c.to_status NOT IN ('pending', 'paid') GROUP BY c.order_id`,
	ReturningOfSale: `SELECT order_id FROM releases WHERE sale_id = ?`,
	DeadLettersOfSale: `SELECT ` + sqlcore.DeadLetterColumns + ` FROM dead_letters
		WHERE sale_id = ? AND resolved_at IS NULL ORDER BY id`,
	SelectDeadLetter:  `SELECT ` + sqlcore.DeadLetterColumns + ` FROM dead_letters WHERE id = ?`,
	ResolveDeadLetter: `UPDATE dead_letters SET resolved_at = ?, resolution = ? WHERE id = ? AND resolved_at IS NULL`,

	SelectRestock: `SELECT delta FROM restocks WHERE sale_id = ? AND restock_id = ?`,
	InsertRestock: `INSERT INTO restocks (` + sqlcore.RestockColumns + `) VALUES (?, ?, ?, ?, ?)`,
	DeleteLowering: `DELETE FROM restocks WHERE sale_id = ? AND delta < 0 AND terms_version >
		(SELECT MAX(version) FROM sale_terms WHERE sale_id = ? AND (total IS NULL OR total >= ?))`,
	SetCap:      `UPDATE sales SET cap = ?, updated_at = ? WHERE id = ?`,
	SelectClaim: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE buyer_id = ? AND sale_id = ? AND claim_key = ?`,
	Unsettled: `SELECT EXISTS (SELECT 1 FROM orders WHERE sale_id = ? AND status = 'pending')
		OR EXISTS (SELECT 1 FROM releases WHERE sale_id = ?)
		OR EXISTS (SELECT 1 FROM dead_letters WHERE sale_id = ? AND resolved_at IS NULL)`,
	ArchiveSale: `UPDATE sales SET archived_at = ?, updated_at = ? WHERE id = ?`,
	ArchivedOf: `SELECT count(*) FROM orders o JOIN sales ON sales.id = o.sale_id
		WHERE o.order_id IN (SELECT value FROM json_each(?)) AND sales.archived_at IS NOT NULL`,

	LockLease: `SELECT holder, expires_at FROM leases WHERE name = ?`,
	AddLease: `INSERT INTO leases (name, holder, expires_at) VALUES (?, '', ?)
		ON CONFLICT (name) DO NOTHING`,
	SetLease: `UPDATE leases SET holder = ?, expires_at = ? WHERE name = ?`,
	EndLease: `UPDATE leases SET holder = '' WHERE name = ? AND holder = ?`,
	Beat:     `UPDATE nodes SET seen_at = ? WHERE node = ?`,
	AddNode: `INSERT INTO nodes (node, seen_at) VALUES (?, ?)
		ON CONFLICT (node) DO NOTHING`,
	ForgetNodes: `DELETE FROM nodes WHERE seen_at < ?`,
	LiveNodes:   `SELECT node FROM nodes WHERE seen_at > ? AND seen_at < ? ORDER BY node`,
	AddGathered: `INSERT INTO gathered (sale_id, epoch, node, gathered_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (sale_id, epoch, node) DO NOTHING`,
	Gathered: `SELECT node FROM gathered WHERE sale_id = ? AND epoch = ? ORDER BY node`,

	Admin:   adminStatements,
	Backlog: backlog,
	Tidy: sqlcore.TidyStatements{
		ArchivedList: `SELECT l.sale_id, l.kind FROM sale_lists l JOIN sales ON sales.id = l.sale_id
			WHERE sales.archived_at IS NOT NULL LIMIT 1`,
		DeleteList: `DELETE FROM sale_lists WHERE sale_id = ? AND kind = ?`,
		DeleteGathered: `DELETE FROM gathered WHERE gathered_at < ?
			AND EXISTS (SELECT 1 FROM sales WHERE sales.id = gathered.sale_id AND sales.epoch > gathered.epoch)`,
		DeleteLeases: `DELETE FROM leases WHERE expires_at < ?`,
	},
	Lists: listStatements,

	Version: `SELECT max(version_id) FROM ` + sqlcore.VersionTable + ` WHERE is_applied`,
}

// One order that meets any unique key is left out; the caller counts (see
// sqlcore.Dialect.InsertOrders). A failed CHECK is an error.
const insertOrder = `INSERT INTO orders
		(order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
		 status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT DO NOTHING`

// The three things that must be unique, one index each.
const selectExisting = `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ?
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE buyer_id = ? AND sale_id = ? AND claim_key = ?
	UNION SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE sale_id = ? AND epoch = ? AND bucket = 0 AND seq = ?`
