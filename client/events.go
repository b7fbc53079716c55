package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicehq/sluice/api"
)

// LatestEvent, as what to ask after, gives no events and the id of the last one.
const LatestEvent = "latest"

// Events returns up to limit (1 to 1000; 0: the server's default) events after
// the one with this id, in order; from the first one if it is empty. Ask again
// after the page's Next: nothing is skipped, however long that is later. If the
// store has been replaced by an older copy it is api.CodeStaleCursor.
func (c *Client) Events(ctx context.Context, after string, limit int) (api.EventPage, error) {
	q := url.Values{}
	if after != "" {
		q.Set("after", after)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	path := "/v1/admin/events"
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	var page api.EventPage
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, bearer: c.adminKey, into: &page})
	return page, err
}
