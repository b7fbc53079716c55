package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// LatestEvent, as what to ask after, gives no events and the id of the last one.
const LatestEvent = sluice.LatestEvent

// Events returns up to limit (1 to 1000; 0: the server's default) events after
// the one with this id, in order; from the first one if it is empty. Ask again
// after the page's Next: nothing is skipped, however long that is later. If the
// store has been replaced by an older copy it is api.CodeStaleCursor, and if the
// events after it are deleted (order_retention) api.CodeGone.
func (c *Client) Events(ctx context.Context, after string, limit int) (api.EventPage, error) {
	return get[api.EventPage](ctx, c, "/v1/admin/events"+query("after", after, "limit", positive(limit)))
}

const webhooksPath = "/v1/admin/webhooks"

func webhookPath(id sluice.WebhookID) string { return webhooksPath + "/" + url.PathEscape(string(id)) }

// The calls of one webhook fail with api.CodeWebhookNotFound if there is none.

// CreateWebhook adds an endpoint. Keep the secret of the answer: no other one
// has it.
func (c *Client) CreateWebhook(ctx context.Context, w api.CreateWebhook) (api.Webhook, error) {
	return post[api.Webhook](ctx, c, webhooksPath, w)
}

// Webhooks returns all of them, by creation.
func (c *Client) Webhooks(ctx context.Context) ([]api.Webhook, error) {
	return collect(func(cursor string) ([]api.Webhook, string, error) {
		page, err := get[api.WebhookList](ctx, c, webhooksPath+query("cursor", cursor))
		return page.Webhooks, page.NextCursor, err
	})
}

// Webhook returns one.
func (c *Client) Webhook(ctx context.Context, id sluice.WebhookID) (api.Webhook, error) {
	return get[api.Webhook](ctx, c, webhookPath(id))
}

// DeleteWebhook deletes one, and forgets what has not reached it.
func (c *Client) DeleteWebhook(ctx context.Context, id sluice.WebhookID) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: webhookPath(id), bearer: c.adminKey})
	return err
}

// EnableWebhook lets a disabled webhook go on where it was, and one that is down
// be tried at once.
func (c *Client) EnableWebhook(ctx context.Context, id sluice.WebhookID) (api.Webhook, error) {
	return post[api.Webhook](ctx, c, webhookPath(id)+"/enable", nil)
}

// DisableWebhook stops a webhook; its events wait.
func (c *Client) DisableWebhook(ctx context.Context, id sluice.WebhookID) (api.Webhook, error) {
	return post[api.Webhook](ctx, c, webhookPath(id)+"/disable", nil)
}

// ReplayWebhook sends events again, and returns how many. If the webhook has not
// come to the event yet it is api.CodeEventNotFound.
func (c *Client) ReplayWebhook(ctx context.Context, id sluice.WebhookID, r api.ReplayWebhook) (int64, error) {
	replayed, err := post[api.WebhookReplayed](ctx, c, webhookPath(id)+"/replay", r)
	return replayed.Replayed, err
}

// TestWebhook posts a message of the type webhook.test to a webhook, once, and returns
// what came of it.
func (c *Client) TestWebhook(ctx context.Context, id sluice.WebhookID) (api.WebhookTested, error) {
	return post[api.WebhookTested](ctx, c, webhookPath(id)+"/test", nil)
}

// Deliveries returns a page of what has not reached a webhook: in this state, or
// in any if it is empty; from the page's NextCursor on. 0 is the server's limit.
func (c *Client) Deliveries(ctx context.Context, id sluice.WebhookID, state sluice.DeliveryState, cursor string,
	limit int,
) (api.DeliveryPage, error) {
	q := query("state", string(state), "cursor", cursor, "limit", positive(limit))
	return get[api.DeliveryPage](ctx, c, webhookPath(id)+"/deliveries"+q)
}
