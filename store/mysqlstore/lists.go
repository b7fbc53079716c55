package mysqlstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var listStatements = sqlcore.ListStatements{
	AddBuyerList: `INSERT INTO sale_lists (sale_id, kind, updated_at) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE sale_id = sale_id`,
	LockBuyerList:     `SELECT generation, last_generation FROM sale_lists WHERE sale_id = ? AND kind = ? FOR UPDATE`,
	SetLastGeneration: `UPDATE sale_lists SET last_generation = ? WHERE sale_id = ? AND kind = ?`,
	PublishBuyerList:  `UPDATE sale_lists SET generation = ?, size = ?, updated_at = ? WHERE sale_id = ? AND kind = ?`,
	SelectBuyerLists: `SELECT sale_id, kind, generation, size, updated_at FROM sale_lists
		WHERE generation > 0 ORDER BY sale_id, kind`,
	AddListed: `INSERT INTO sale_buyers (sale_id, kind, generation, buyer_id)
		SELECT ?, ?, ?, list.id FROM ` + buyers + `
		ON DUPLICATE KEY UPDATE sale_buyers.sale_id = sale_buyers.sale_id`,
	SelectListed: `SELECT buyer_id FROM sale_buyers
		WHERE sale_id = ? AND kind = ? AND generation = ? AND buyer_id > ? ORDER BY buyer_id LIMIT ?`,
	DeleteListed:     `DELETE FROM sale_buyers WHERE sale_id = ? AND kind = ? AND generation = ? AND buyer_id <= ?`,
	OldestGeneration: `SELECT min(generation) FROM sale_buyers WHERE sale_id = ? AND kind = ? AND generation < ?`,
}

// buyers is a table of the buyer ids in one argument (see dialect.List).
const buyers = `JSON_TABLE(?, '$[*]' COLUMNS (id VARBINARY(128) PATH '$')) AS list`
