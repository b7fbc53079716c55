package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func orderPath(id sluice.OrderID) string { return "/v1/orders/" + url.PathEscape(string(id)) }
func adminOrderPath(id sluice.OrderID) string {
	return "/v1/admin/orders/" + url.PathEscape(string(id))
}

// Order returns one of the buyer's own orders, a queued one too.
func (c *Client) Order(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return call[api.Order](ctx, c, c.token, http.MethodGet, orderPath(id), nil)
}

// Buyer returns who the client's token is of, as the shop spells it.
func (c *Client) Buyer(ctx context.Context) (sluice.BuyerID, error) {
	buyer, err := call[api.Buyer](ctx, c, c.token, http.MethodGet, "/v1/buyer", nil)
	return buyer.BuyerID, err
}

// Orders returns a page of the buyer's own orders.
func (c *Client) Orders(ctx context.Context, filter sluice.OrderFilter) (api.OrderPage, error) {
	return call[api.OrderPage](ctx, c, c.token, http.MethodGet, "/v1/orders"+orderQuery(filter), nil)
}

// The calls that change an order are sent once, and are idempotent: after a
// *NetworkError, or a code outcome_unknown, send the same again. They return
// the order as it is then. Besides the usual ones they fail with
//
//   - api.CodeOrderQueued: the order is not stored yet; again after
//     Error.RetryAfter,
//   - api.CodeOrderEnded: the order's status does not allow it,
//   - api.CodeOrderNotFound: no such order, or another buyer's.

// CancelOrder gives back one of the buyer's own orders that is unpaid, or was free.
func (c *Client) CancelOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return call[api.Order](ctx, c, c.token, http.MethodPost, orderPath(id)+"/cancel", nil)
}

// PayOrder records a payment, once by its id. A payment that came too late
// makes the order refund_due, which is no error: look at the status. Another
// payment of an order that has one, and a payment that another order has, are
// api.CodePaymentConflict.
func (c *Client) PayOrder(ctx context.Context, id sluice.OrderID, paymentID string) (api.Order, error) {
	return post[api.Order](ctx, c, adminOrderPath(id)+"/pay", api.PayOrder{PaymentID: paymentID})
}

// PayOrderAmount is PayOrder that also says what was paid. If that is not what is due
// (Order.Amount and Currency), the answer is api.CodePaymentAmount.
func (c *Client) PayOrderAmount(
	ctx context.Context, id sluice.OrderID, paymentID string, paid sluice.Money,
) (api.Order, error) {
	return post[api.Order](ctx, c, adminOrderPath(id)+"/pay",
		api.PayOrder{PaymentID: paymentID, Amount: &paid.Amount, Currency: paid.Currency})
}

// RefundOrder records that the money of a paid or refund_due order has been
// given back. The units of a paid one return.
func (c *Client) RefundOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return post[api.Order](ctx, c, adminOrderPath(id)+"/refund", nil)
}

// AdminCancelOrder cancels any order that is unpaid, or was free, as its merchant.
func (c *Client) AdminCancelOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return post[api.Order](ctx, c, adminOrderPath(id)+"/cancel", nil)
}

// RejectOrder ends an unpaid order that failed after the grab; the reason is
// kept on the order.
func (c *Client) RejectOrder(ctx context.Context, id sluice.OrderID, reason string) (api.Order, error) {
	return post[api.Order](ctx, c, adminOrderPath(id)+"/reject", api.RejectOrder{Reason: reason})
}

// ExtendOrder gives an unpaid order until then to be paid. It never shortens: an order
// that has as long already stays as it is.
func (c *Client) ExtendOrder(ctx context.Context, id sluice.OrderID, until time.Time) (api.Order, error) {
	return post[api.Order](ctx, c, adminOrderPath(id)+"/extend", api.ExtendOrder{ExpiresAt: api.At(until)})
}

// AdminOrder returns one order as its merchant sees it, a queued one too.
func (c *Client) AdminOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return get[api.Order](ctx, c, adminOrderPath(id))
}

// OrderHistory returns the changes of an order, the first one first. A queued
// order has none yet.
func (c *Client) OrderHistory(ctx context.Context, id sluice.OrderID) (api.OrderHistory, error) {
	return get[api.OrderHistory](ctx, c, adminOrderPath(id)+"/history")
}

// AdminOrders returns a page of stored orders, oldest first.
func (c *Client) AdminOrders(ctx context.Context, filter sluice.OrderFilter) (api.OrderPage, error) {
	return get[api.OrderPage](ctx, c, "/v1/admin/orders"+orderQuery(filter))
}

// AllAdminOrders goes through all stored orders from the filter's cursor on,
// and holds one page of them at a time; the filter's limit is a page's size,
// by default the largest. After an error it ends.
func (c *Client) AllAdminOrders(ctx context.Context, filter sluice.OrderFilter) iter.Seq2[api.Order, error] {
	return allOrders(ctx, filter, c.AdminOrders)
}

// AllOrders is AllAdminOrders for the orders of the buyer of the client's token.
func (c *Client) AllOrders(ctx context.Context, filter sluice.OrderFilter) iter.Seq2[api.Order, error] {
	return allOrders(ctx, filter, c.Orders)
}

func allOrders(ctx context.Context, filter sluice.OrderFilter,
	ask func(context.Context, sluice.OrderFilter) (api.OrderPage, error),
) iter.Seq2[api.Order, error] {
	filter.Limit = cmp.Or(filter.Limit, sluice.MaxPage)
	return func(yield func(api.Order, error) bool) {
		for filter := filter; ; { // a second loop begins there again
			page, err := ask(ctx, filter)
			if err != nil {
				yield(api.Order{}, err)
				return
			}
			for _, o := range page.Orders {
				if !yield(o, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			filter.Cursor = page.NextCursor
		}
	}
}

func orderQuery(f sluice.OrderFilter) string {
	return query("sale", string(f.Sale), "buyer", string(f.Buyer), "status", string(f.Status),
		"payment_id", f.Payment, "cursor", f.Cursor, "limit", positive(f.Limit))
}

func deadLetterPath(id int64) string { return "/v1/admin/dead-letters/" + strconv.FormatInt(id, 10) }

// DeadLetters returns the journal entries that could not be stored and are not
// resolved, oldest first: of one sale, or of all when it is empty.
func (c *Client) DeadLetters(ctx context.Context, sale sluice.SaleID) ([]api.DeadLetter, error) {
	return collect(func(cursor string) ([]api.DeadLetter, string, error) {
		page, err := c.DeadLetterPage(ctx, sale, cursor)
		return page.DeadLetters, page.NextCursor, err
	})
}

// DeadLetterPage returns a page of DeadLetters, the first one without a cursor.
func (c *Client) DeadLetterPage(ctx context.Context, sale sluice.SaleID, cursor string) (api.DeadLetterList, error) {
	return get[api.DeadLetterList](ctx, c, "/v1/admin/dead-letters"+query("sale", string(sale), "cursor", cursor))
}

// DeadLetter returns one, also when it has been dealt with.
func (c *Client) DeadLetter(ctx context.Context, id int64) (api.DeadLetter, error) {
	return get[api.DeadLetter](ctx, c, deadLetterPath(id))
}

// ReplayDeadLetter tries to store the entry again, and says which orders it
// saved. It is idempotent.
func (c *Client) ReplayDeadLetter(ctx context.Context, id int64) (api.Replayed, error) {
	return post[api.Replayed](ctx, c, deadLetterPath(id)+"/replay", nil)
}
