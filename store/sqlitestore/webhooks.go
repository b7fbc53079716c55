package sqlitestore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

func (dialect) Webhooks() *sqlcore.WebhookStatements { return &webhooks }

var webhooks = sqlcore.WebhookStatements{
	Insert: `INSERT INTO webhooks (` + sqlcore.WebhookColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	Select:      `SELECT ` + sqlcore.WebhookColumns + ` FROM webhooks WHERE id = ?`,
	Lock:        `SELECT ` + sqlcore.WebhookColumns + ` FROM webhooks WHERE id = ?`, // a transaction that changes holds the whole file
	All:         `SELECT ` + sqlcore.WebhookColumns + ` FROM webhooks ORDER BY position`,
	Delete:      `DELETE FROM webhooks WHERE id = ?`,
	DeleteAllOf: `DELETE FROM webhook_deliveries WHERE webhook_id = ?`,
	SetEnabled: `UPDATE webhooks SET disabled_at = ?, disabled_why = ?, failures = ?, retry_at = ?, updated_at = ?
		WHERE id = ?`,
	SetProgress: `UPDATE webhooks SET last_event = ?, delivered = ?, failures = ?, retry_at = ?,
			last_success = ?, last_failure = ?, last_error = ?
		WHERE id = ?`,
	SetCursor: `UPDATE webhooks SET last_event = ? WHERE id = ?`,
	SetSecret: `UPDATE webhooks SET secret = ? WHERE id = ?`,

	Keep: `INSERT INTO webhook_deliveries (` + sqlcore.DeliveryColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (webhook_id, event) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
			next_at = excluded.next_at, last_status = excluded.last_status, last_error = excluded.last_error, updated_at = excluded.updated_at`,
	Change: `UPDATE webhook_deliveries SET state = ?, attempts = ?, next_at = ?, last_status = ?, last_error = ?, updated_at = ?
		WHERE webhook_id = ? AND event = ?`,
	Forget:     `DELETE FROM webhook_deliveries WHERE webhook_id = ? AND event = ?`,
	ForgetFrom: `DELETE FROM webhook_deliveries WHERE webhook_id = ? AND event >= ?`,
	AllDue:     `UPDATE webhook_deliveries SET next_at = ? WHERE webhook_id = ? AND state = 'pending'`,
	Due: `SELECT ` + sqlcore.DeliveryColumns + ` FROM webhook_deliveries d
		WHERE webhook_id = ? AND state = 'pending' AND next_at <= ?
			AND NOT EXISTS (SELECT 1 FROM webhook_deliveries e WHERE e.webhook_id = d.webhook_id AND e.subject = d.subject
				AND e.state = 'pending' AND e.event < d.event)
		ORDER BY event LIMIT ?`,
	Held: `SELECT DISTINCT subject FROM webhook_deliveries
		WHERE webhook_id = ? AND state = 'pending' AND subject IN (SELECT value FROM json_each(?))`,
	List: `SELECT ` + sqlcore.DeliveryColumns + ` FROM webhook_deliveries
		WHERE webhook_id = ? AND event > ? AND (state = ? OR ? = '') ORDER BY event LIMIT ?`,
	Count: `SELECT count(*) FROM webhook_deliveries WHERE webhook_id = ? AND state = ?`,
	Unfail: `UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = ?, updated_at = ?
		WHERE webhook_id = ? AND state = 'failed'`,
	HasEvent: `SELECT attempts FROM webhook_deliveries WHERE webhook_id = ? AND event = ?`,
}
