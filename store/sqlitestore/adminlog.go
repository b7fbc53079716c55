package sqlitestore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var adminStatements = sqlcore.AdminStatements{
	AddAdminAction: `INSERT INTO admin_actions (acted_at, actor, route, path, sale_id, order_id, status, code, request_id, address, node)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	SelectAdminActions: `SELECT ` + sqlcore.AdminActionColumns + ` FROM admin_actions WHERE id < ? ORDER BY id DESC LIMIT ?`,
}
