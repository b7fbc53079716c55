package pgstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

var listStatements = sqlcore.ListStatements{
	AddBuyerList: `INSERT INTO sale_lists (sale_id, kind, updated_at) VALUES ($1, $2, $3)
		ON CONFLICT (sale_id, kind) DO NOTHING`,
	LockBuyerList:     `SELECT generation, last_generation FROM sale_lists WHERE sale_id = $1 AND kind = $2 FOR UPDATE`,
	SetLastGeneration: `UPDATE sale_lists SET last_generation = $1 WHERE sale_id = $2 AND kind = $3`,
	PublishBuyerList:  `UPDATE sale_lists SET generation = $1, size = $2, updated_at = $3 WHERE sale_id = $4 AND kind = $5`,
	SelectBuyerLists: `SELECT sale_id, kind, generation, size, updated_at FROM sale_lists
		WHERE generation > 0 ORDER BY sale_id, kind`,
	AddListed: `INSERT INTO sale_buyers (sale_id, kind, generation, buyer_id)
		SELECT $1::text, $2::text, $3::bigint, id FROM unnest($4::text[]) AS id
		ON CONFLICT (sale_id, kind, generation, buyer_id) DO NOTHING`,
	SelectListed: `SELECT buyer_id FROM sale_buyers
		WHERE sale_id = $1 AND kind = $2 AND generation = $3 AND buyer_id > $4 ORDER BY buyer_id LIMIT $5`,
	DeleteListed:     `DELETE FROM sale_buyers WHERE sale_id = $1 AND kind = $2 AND generation = $3 AND buyer_id <= $4`,
	OldestGeneration: `SELECT min(generation) FROM sale_buyers WHERE sale_id = $1 AND kind = $2 AND generation < $3`,
}
