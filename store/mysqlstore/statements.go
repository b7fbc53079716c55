package mysqlstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

// Where a row may be there already, the INSERT says ON DUPLICATE KEY UPDATE
// with a column set to itself, which counts as no row changed. Not INSERT
// IGNORE, which forgives every other error too.
var statements = sqlcore.Statements{
	InsertSale: `INSERT INTO sales (` + sqlcore.SaleColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE id = id`,
	InsertTerms: `INSERT INTO sale_terms (sale_id, ` + sqlcore.TermsColumns + `, changed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	SelectSale:  `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = ?`,
	LockSale:    `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE id = ? FOR UPDATE`,
	SelectSales: `SELECT ` + sqlcore.SaleColumns + ` FROM sales ORDER BY opens_at, id`,
	LiveSales:   `SELECT ` + sqlcore.SaleColumns + ` FROM sales WHERE archived_at IS NULL ORDER BY id`,
	NamedSales: `SELECT ` + sqlcore.SaleColumns + ` FROM JSON_TABLE(?, '$[*]' COLUMNS (name VARBINARY(64) PATH '$')) AS wanted
		STRAIGHT_JOIN sales ON sales.id = wanted.name ORDER BY id`,
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
	OrdersOfSale: `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_of_sale)
		WHERE sale_id = ? AND position > ? ORDER BY position LIMIT ?`,

	LockOrder: `SELECT ` + sqlcore.OrderColumns + ` FROM orders WHERE order_id = ? FOR UPDATE`,
	ChangeOrder: `UPDATE orders SET status = ?, reason = ?, payment_id = ?, updated_at = ?, unpaid = ?
		WHERE order_id = ? AND status = ? AND (keep_until <= ?) = ?`,
	LowerTaken: `UPDATE sales SET taken = taken - ? WHERE id = ?`,
	AddChange:  `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	AddRefusal: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE position = position`,
	History: `SELECT ` + sqlcore.HistoryColumns + ` FROM orders LEFT JOIN order_changes c ON c.order_id = orders.order_id
		WHERE orders.order_id = ? ORDER BY c.position`,

	TryLockSale: `SELECT id FROM sales WHERE id = ? FOR UPDATE SKIP LOCKED`,
	SelectDue: `SELECT o.order_id, o.sale_id, o.quantity FROM ` + list + ` STRAIGHT_JOIN orders o FORCE INDEX (orders_order_id)
		ON o.order_id = list.id WHERE o.status = 'pending' LIMIT ? FOR UPDATE SKIP LOCKED`,
	ExpireOrders: `UPDATE (SELECT CAST(? AS DATETIME(3)) AS now) AS clock
			STRAIGHT_JOIN ` + list + ` STRAIGHT_JOIN orders ON orders.order_id = list.id
		SET orders.status = 'expired', orders.unpaid = TRUE, orders.updated_at = greatest(orders.updated_at, clock.now)
		WHERE orders.status = 'pending' AND orders.keep_until <= ?`,
	AddExpired: `INSERT INTO order_changes (` + sqlcore.ChangeColumns + `)
		SELECT o.order_id, o.updated_at, 'pending', 'expired', 'expire', ?, '', '', ''
		FROM ` + list + ` STRAIGHT_JOIN orders o ON o.order_id = list.id`,

	AddReleases: `INSERT INTO releases (` + sqlcore.ReleaseColumns + `, created_at)
		SELECT o.order_id, o.sale_id, o.buyer_id, o.claim_key, o.quantity, sales.epoch, o.unpaid, o.updated_at
		FROM ` + list + ` STRAIGHT_JOIN orders o ON o.order_id = list.id STRAIGHT_JOIN sales ON sales.id = o.sale_id
		WHERE sales.archived_at IS NULL`,
	NextReleasing: `SELECT sale_id FROM releases WHERE sale_id > ? ORDER BY sale_id LIMIT 1`,
	SelectReleases: `SELECT ` + sqlcore.ReleaseColumns + ` FROM releases FORCE INDEX (releases_of_sale)
		WHERE sale_id = ? ORDER BY position LIMIT ? FOR UPDATE SKIP LOCKED`,
	DeleteReleases:  `DELETE releases FROM ` + list + ` STRAIGHT_JOIN releases ON releases.order_id = list.id`,
	PendingReleases: `SELECT count(*) FROM releases WHERE sale_id = ?`,
	ReleaseOf:       `SELECT count(*) FROM releases WHERE order_id = ?`,
	LiveUnits:       `SELECT CAST(coalesce(sum(quantity), 0) AS SIGNED) FROM orders WHERE sale_id = ? AND status IN ('pending', 'paid')`,
	SetTaken:        `UPDATE sales SET taken = ?, updated_at = ? WHERE id = ?`,

	InsertDeadLetter: `INSERT INTO dead_letters
			(sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, accepted_at, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE id = id`,
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
	SetCap: `UPDATE sales SET cap = ?, updated_at = ? WHERE id = ?`,
	SelectClaim: `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_claim)
		WHERE buyer_id = ? AND sale_id = ? AND claim_key = ?`,
	Unsettled: `SELECT EXISTS (SELECT 1 FROM orders WHERE sale_id = ? AND status = 'pending')
		OR EXISTS (SELECT 1 FROM releases WHERE sale_id = ?)
		OR EXISTS (SELECT 1 FROM dead_letters WHERE sale_id = ? AND resolved_at IS NULL)`,
	ArchiveSale: `UPDATE sales SET archived_at = ?, updated_at = ? WHERE id = ?`,
	ArchivedOf: `SELECT count(*) FROM ` + list + ` STRAIGHT_JOIN orders o ON o.order_id = list.id STRAIGHT_JOIN sales ON sales.id = o.sale_id
		WHERE sales.archived_at IS NOT NULL`,

	LockLease: `SELECT holder, expires_at FROM leases WHERE name = ? FOR UPDATE`,
	AddLease: `INSERT INTO leases (name, holder, expires_at) VALUES (?, '', ?)
		ON DUPLICATE KEY UPDATE name = name`,
	SetLease: `UPDATE leases SET holder = ?, expires_at = ? WHERE name = ?`,
	EndLease: `UPDATE leases SET holder = '' WHERE name = ? AND holder = ?`,
	Beat:     `UPDATE nodes SET seen_at = ? WHERE node = ?`,
	AddNode: `INSERT INTO nodes (node, seen_at) VALUES (?, ?)
		ON DUPLICATE KEY UPDATE node = node`,
	ForgetNodes: `DELETE FROM nodes WHERE seen_at < ?`,
	LiveNodes:   `SELECT node FROM nodes WHERE seen_at > ? AND seen_at < ? ORDER BY node`,
	AddGathered: `INSERT INTO gathered (sale_id, epoch, node, gathered_at) VALUES (?, ?, ?, ?)
		ON DUPLICATE KEY UPDATE sale_id = sale_id`,
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

	Version: `SELECT coalesce(max(version_id), 0) FROM ` + sqlcore.VersionTable + ` WHERE is_applied`,
}

// list is a table of the ids in one argument (see dialect.List).
const list = `JSON_TABLE(?, '$[*]' COLUMNS (id VARBINARY(81) PATH '$')) AS list`

// findDue is the first half of SelectDue (see sqlcore.DueFinder): SKIP LOCKED
// would leave a lock in the index of what is due, and so keep whoever holds
// that order from changing it, while he may hold the sale that we need next.
// The indexes are forced in both: here another one would mean to read all
// orders, and there to lock them.
const findDue = `SELECT order_id FROM orders FORCE INDEX (orders_to_expire)
	WHERE status = 'pending' AND keep_until <= ? AND sale_id NOT IN (SELECT id FROM ` + list + `)
	ORDER BY keep_until LIMIT ?`

// The store's clock, when this statement began.
const selectNow = `SELECT utc_timestamp(3)`

// insertOrders is followed by a row of placeholders for each order, and
// orDuplicate. The order of the rows is the order of the claims, so positions
// follow it. An order that meets any unique key is left out; the caller counts
// (see sqlcore.Dialect.InsertOrders). A failed CHECK is an error.
const (
	insertOrders = `INSERT INTO orders
		(order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
		 status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at) VALUES `
	orderRow    = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	orDuplicate = ` ON DUPLICATE KEY UPDATE position = position`
)

// anyExisting is followed by a list in parentheses.
const anyExisting = `SELECT count(*) FROM orders FORCE INDEX (orders_order_id) WHERE order_id IN `

// The three things that must be unique, one statement and index each. Each is
// followed by a list in parentheses. That of claims also finds the other claims
// of the same buyers, which does no harm: neither database looks up a list of
// pairs by index.
const (
	existingOrders = `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_order_id) WHERE order_id IN `
	existingClaims = `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_claim) WHERE sale_id = ? AND buyer_id IN `
	existingPlaces = `SELECT ` + sqlcore.OrderColumns + ` FROM orders FORCE INDEX (orders_place)
		WHERE sale_id = ? AND epoch = ? AND bucket = 0 AND seq IN `
)
