package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// AdminActions returns a page of what admins changed, or tried to, the newest
// first. Without a limit the server chooses a page's size.
func (c *Client) AdminActions(ctx context.Context, filter sluice.AdminActionFilter) (api.AdminActionPage, error) {
	values := url.Values{}
	if filter.Limit > 0 {
		values.Set("limit", strconv.Itoa(filter.Limit))
	}
	if filter.Cursor != "" {
		values.Set("cursor", filter.Cursor)
	}
	path := "/v1/admin/actions"
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	var page api.AdminActionPage
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, bearer: c.adminKey, into: &page})
	return page, err
}

// EraseBuyer erases a buyer from archived sales, and says what waits. Repeat it while
// something does, and after an error.
func (c *Client) EraseBuyer(ctx context.Context, buyer sluice.BuyerID) (api.Erased, error) {
	var erased api.Erased
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: "/v1/admin/buyers/erase", bearer: c.adminKey,
		body: api.EraseBuyer{BuyerID: buyer}, into: &erased,
	})
	return erased, err
}
