package pgstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var adminStatements = sqlcore.AdminStatements{
	AddAdminAction: `INSERT INTO admin_actions (acted_at, actor, route, path, sale_id, order_id, status, code, request_id, address, node)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
	SelectAdminActions: `SELECT ` + sqlcore.AdminActionColumns + ` FROM admin_actions WHERE id < $1 ORDER BY id DESC LIMIT $2`,
}
