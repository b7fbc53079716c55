package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httpapi/wire"
)

func deadLetterPath(id int64) string { return "/v1/admin/dead-letters/" + strconv.FormatInt(id, 10) }

// DeadLetters returns the journal entries that could not be stored and that
// nobody has dealt with, oldest first: of one sale, or of all when it is empty.
func (c *Client) DeadLetters(ctx context.Context, sale sluice.SaleID) ([]wire.DeadLetter, error) {
	var list wire.DeadLetterList
	path := "/v1/admin/dead-letters" + query(sluice.OrderFilter{Sale: sale})
	_, err := c.do(ctx, request{method: http.MethodGet, path: path, bearer: c.adminKey, into: &list})
	return list.DeadLetters, err
}

// DeadLetter returns one, also when it has been dealt with.
func (c *Client) DeadLetter(ctx context.Context, id int64) (wire.DeadLetter, error) {
	var letter wire.DeadLetter
	_, err := c.do(ctx, request{method: http.MethodGet, path: deadLetterPath(id), bearer: c.adminKey, into: &letter})
	return letter, err
}

// ReplayDeadLetter tries to store the entry again, and says which orders it
// saved. It is idempotent.
func (c *Client) ReplayDeadLetter(ctx context.Context, id int64) (wire.Replayed, error) {
	var replayed wire.Replayed
	_, err := c.do(ctx, request{method: http.MethodPost, path: deadLetterPath(id) + "/replay", bearer: c.adminKey, into: &replayed})
	return replayed, err
}
