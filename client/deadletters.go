package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func deadLetterPath(id int64) string { return "/v1/admin/dead-letters/" + strconv.FormatInt(id, 10) }

// DeadLetters returns the journal entries that could not be stored and are not
// resolved, oldest first: of one sale, or of all when it is empty.
func (c *Client) DeadLetters(ctx context.Context, sale sluice.SaleID) ([]api.DeadLetter, error) {
	var list api.DeadLetterList
	path := "/v1/admin/dead-letters" + query(sluice.OrderFilter{Sale: sale})
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, bearer: c.adminKey, into: &list})
	return list.DeadLetters, err
}

// DeadLetter returns one, also when it has been dealt with.
func (c *Client) DeadLetter(ctx context.Context, id int64) (api.DeadLetter, error) {
	var letter api.DeadLetter
	_, err := c.do(ctx, request{method: http.MethodGet, path: deadLetterPath(id), bearer: c.adminKey, into: &letter})
	return letter, err
}

// ReplayDeadLetter tries to store the entry again, and says which orders it
// saved. It is idempotent.
func (c *Client) ReplayDeadLetter(ctx context.Context, id int64) (api.Replayed, error) {
	var replayed api.Replayed
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: deadLetterPath(id) + "/replay", bearer: c.adminKey,
		into: &replayed,
	})
	return replayed, err
}
