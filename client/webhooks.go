package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

const webhooksPath = "/v1/admin/webhooks"

func webhookPath(id sluice.WebhookID) string { return webhooksPath + "/" + url.PathEscape(string(id)) }

// The calls of one webhook fail with api.CodeWebhookNotFound if there is none.

// CreateWebhook adds an endpoint. Keep the secret of the answer: no other one
// has it.
func (c *Client) CreateWebhook(ctx context.Context, w api.CreateWebhook) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodPost, webhooksPath, w)
}

// Webhooks returns all of them, by creation.
func (c *Client) Webhooks(ctx context.Context) ([]api.Webhook, error) {
	var list api.WebhookList
	_, err := c.do(ctx, request{method: http.MethodGet, path: webhooksPath, bearer: c.adminKey, into: &list})
	return list.Webhooks, err
}

// Webhook returns one.
func (c *Client) Webhook(ctx context.Context, id sluice.WebhookID) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodGet, webhookPath(id), nil)
}

// DeleteWebhook deletes one, and forgets what has not reached it.
func (c *Client) DeleteWebhook(ctx context.Context, id sluice.WebhookID) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: webhookPath(id), bearer: c.adminKey})
	return err
}

// EnableWebhook lets a disabled webhook go on where it was, and one that is down
// be tried at once.
func (c *Client) EnableWebhook(ctx context.Context, id sluice.WebhookID) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodPost, webhookPath(id)+"/enable", nil)
}

// DisableWebhook stops a webhook; its events wait.
func (c *Client) DisableWebhook(ctx context.Context, id sluice.WebhookID) (api.Webhook, error) {
	return c.webhook(ctx, http.MethodPost, webhookPath(id)+"/disable", nil)
}

// ReplayWebhook sends events again, and returns how many. If the webhook has not
// come to the event yet it is api.CodeEventNotFound.
func (c *Client) ReplayWebhook(ctx context.Context, id sluice.WebhookID, r api.ReplayWebhook) (int64, error) {
	var replayed api.WebhookReplayed
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: webhookPath(id) + "/replay", bearer: c.adminKey, body: r,
		into: &replayed,
	})
	return replayed.Replayed, err
}

// Deliveries returns a page of what has not reached a webhook: in this state, or
// in any if it is empty; after the page's Next. 0 is the server's limit.
func (c *Client) Deliveries(ctx context.Context, id sluice.WebhookID, state sluice.DeliveryState, after string,
	limit int,
) (api.DeliveryPage, error) {
	q := url.Values{}
	for _, p := range []struct{ name, value string }{{"state", string(state)}, {"after", after}} {
		if p.value != "" {
			q.Set(p.name, p.value)
		}
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var page api.DeliveryPage
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: webhookPath(id) + "/deliveries?" + q.Encode(),
		bearer: c.adminKey, into: &page,
	})
	return page, err
}

func (c *Client) webhook(ctx context.Context, method, path string, body any) (api.Webhook, error) {
	var w api.Webhook
	_, err := c.do(ctx, request{method: method, path: path, bearer: c.adminKey, body: body, into: &w})
	return w, err
}
