package pgstore

import "github.com/sluicehq/sluice/store/internal/sqlcore"

func (dialect) Webhooks() *sqlcore.WebhookStatements { return &webhooks }

var webhooks = sqlcore.WebhookStatements{
	Insert: `INSERT INTO webhooks (` + sqlcore.WebhookColumns + `)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
	Select:      `SELECT ` + sqlcore.WebhookColumns + ` FROM webhooks WHERE id = $1`,
	Lock:        `SELECT ` + sqlcore.WebhookColumns + ` FROM webhooks WHERE id = $1 FOR UPDATE`,
	All:         `SELECT ` + sqlcore.WebhookColumns + ` FROM webhooks ORDER BY position`,
	Delete:      `DELETE FROM webhooks WHERE id = $1`,
	DeleteAllOf: `DELETE FROM webhook_deliveries WHERE webhook_id = $1`,
	SetEnabled: `UPDATE webhooks SET disabled_at = $1, disabled_why = $2, failures = $3, retry_at = $4, updated_at = $5
		WHERE id = $6`,
	SetProgress: `UPDATE webhooks SET last_event = $1, delivered = $2, failures = $3, retry_at = $4,
			last_success = $5, last_failure = $6, last_error = $7
		WHERE id = $8`,
	SetCursor: `UPDATE webhooks SET last_event = $1 WHERE id = $2`,
	SetSecret: `UPDATE webhooks SET secret = $1 WHERE id = $2`,

	Keep: `INSERT INTO webhook_deliveries (` + sqlcore.DeliveryColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (webhook_id, event) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
			next_at = excluded.next_at, last_status = excluded.last_status, last_error = excluded.last_error, updated_at = excluded.updated_at`,
	Change: `UPDATE webhook_deliveries SET state = $1, attempts = $2, next_at = $3, last_status = $4, last_error = $5, updated_at = $6
		WHERE webhook_id = $7 AND event = $8`,
	Forget:     `DELETE FROM webhook_deliveries WHERE webhook_id = $1 AND event = $2`,
	ForgetFrom: `DELETE FROM webhook_deliveries WHERE webhook_id = $1 AND event >= $2`,
	AllDue:     `UPDATE webhook_deliveries SET next_at = $1 WHERE webhook_id = $2 AND state = 'pending'`,
	Due: `SELECT ` + sqlcore.DeliveryColumns + ` FROM webhook_deliveries d
		WHERE webhook_id = $1 AND state = 'pending' AND next_at <= $2
			AND NOT EXISTS (SELECT 1 FROM webhook_deliveries e WHERE e.webhook_id = d.webhook_id AND e.subject = d.subject
				AND e.state = 'pending' AND e.event < d.event)
		ORDER BY event LIMIT $3`,
	Held: `SELECT DISTINCT subject FROM webhook_deliveries
		WHERE webhook_id = $1 AND state = 'pending' AND subject = ANY ($2::text[])`,
	List: `SELECT ` + sqlcore.DeliveryColumns + ` FROM webhook_deliveries
		WHERE webhook_id = $1 AND event > $2 AND (state = $3 OR $4::text = '') ORDER BY event LIMIT $5`,
	Count: `SELECT count(*) FROM webhook_deliveries WHERE webhook_id = $1 AND state = $2`,
	Unfail: `UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at = $1, updated_at = $2
		WHERE webhook_id = $3 AND state = 'failed'`,
	HasEvent: `SELECT attempts FROM webhook_deliveries WHERE webhook_id = $1 AND event = $2`,
}
