package mysqlstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var backlog = sqlcore.BacklogStatements{
	DeadLetters: `SELECT sale_id, count(*) FROM dead_letters WHERE resolved_at IS NULL GROUP BY sale_id`,
	Releases:    `SELECT sale_id, count(*), min(created_at) FROM releases GROUP BY sale_id`,
	Overdue: `SELECT sale_id, count(*), min(keep_until) FROM orders FORCE INDEX (orders_to_expire)
		WHERE status = 'pending' AND keep_until < ? GROUP BY sale_id`,
}
