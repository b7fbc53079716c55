package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func orderPath(id sluice.OrderID) string { return "/v1/orders/" + url.PathEscape(string(id)) }
func adminOrderPath(id sluice.OrderID) string {
	return "/v1/admin/orders/" + url.PathEscape(string(id))
}

// Order returns one of the buyer's own orders, a queued one too.
func (c *Client) Order(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return c.order(ctx, request{method: http.MethodGet, path: orderPath(id), bearer: c.token})
}

// Orders returns a page of the buyer's own orders.
func (c *Client) Orders(ctx context.Context, filter sluice.OrderFilter) (api.OrderPage, error) {
	var page api.OrderPage
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/orders" + query(filter), bearer: c.token, into: &page})
	return page, err
}

// The calls that change an order are sent once, and are idempotent: after a
// *NetworkError, or a code outcome_unknown, send the same again. They return
// the order as it is then. Besides the usual ones they fail with
//
//   - api.CodeOrderQueued: the order is not stored yet; again after
//     Error.RetryAfter,
//   - api.CodeOrderEnded: the order's status does not allow it,
//   - api.CodeOrderNotFound: no such order, or another buyer's.

// CancelOrder gives back one of the buyer's own unpaid orders.
func (c *Client) CancelOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return c.order(ctx, request{method: http.MethodPost, path: orderPath(id) + "/cancel", bearer: c.token})
}

// PayOrder records a payment, once by its id. A payment that came too late
// makes the order refund_due, which is no error: look at the status. Another
// payment of an order that has one is api.CodePaymentConflict.
func (c *Client) PayOrder(ctx context.Context, id sluice.OrderID, paymentID string) (api.Order, error) {
	return c.adminOrder(ctx, http.MethodPost, adminOrderPath(id)+"/pay", api.PayOrder{PaymentID: paymentID})
}

// RefundOrder records that the money of a paid or refund_due order has been
// given back. The units of a paid one return.
func (c *Client) RefundOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return c.adminOrder(ctx, http.MethodPost, adminOrderPath(id)+"/refund", nil)
}

// AdminCancelOrder cancels any unpaid order, as its merchant.
func (c *Client) AdminCancelOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return c.adminOrder(ctx, http.MethodPost, adminOrderPath(id)+"/cancel", nil)
}

// RejectOrder ends an unpaid order that failed after the grab; the reason is
// kept on the order.
func (c *Client) RejectOrder(ctx context.Context, id sluice.OrderID, reason string) (api.Order, error) {
	return c.adminOrder(ctx, http.MethodPost, adminOrderPath(id)+"/reject", api.RejectOrder{Reason: reason})
}

// AdminOrder returns one order as its merchant sees it, a queued one too.
func (c *Client) AdminOrder(ctx context.Context, id sluice.OrderID) (api.Order, error) {
	return c.adminOrder(ctx, http.MethodGet, adminOrderPath(id), nil)
}

// OrderHistory returns the changes of an order, the first one first. A queued
// order has none yet.
func (c *Client) OrderHistory(ctx context.Context, id sluice.OrderID) (api.OrderHistory, error) {
	var history api.OrderHistory
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: adminOrderPath(id) + "/history", bearer: c.adminKey,
		into: &history,
	})
	return history, err
}

// AdminOrders returns a page of stored orders, oldest first.
func (c *Client) AdminOrders(ctx context.Context, filter sluice.OrderFilter) (api.OrderPage, error) {
	var page api.OrderPage
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: "/v1/admin/orders" + query(filter), bearer: c.adminKey,
		into: &page,
	})
	return page, err
}

// AllAdminOrders goes through all stored orders from the filter's cursor on,
// and holds one page of them at a time; the filter's limit is a page's size,
// by default the largest. After an error it ends.
func (c *Client) AllAdminOrders(ctx context.Context, filter sluice.OrderFilter) iter.Seq2[api.Order, error] {
	filter.Limit = cmp.Or(filter.Limit, sluice.MaxPage)
	return func(yield func(api.Order, error) bool) {
		for {
			page, err := c.AdminOrders(ctx, filter)
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

func (c *Client) adminOrder(ctx context.Context, method, path string, body any) (api.Order, error) {
	return c.order(ctx, request{method: method, path: path, bearer: c.adminKey, body: body})
}

func (c *Client) order(ctx context.Context, r request) (api.Order, error) {
	var order api.Order
	r.into = &order
	_, err := c.do(ctx, r)
	return order, err
}

func query(f sluice.OrderFilter) string {
	q := url.Values{}
	for _, p := range []struct{ name, value string }{
		{"sale", string(f.Sale)}, {"buyer", string(f.Buyer)}, {"status", string(f.Status)}, {"cursor", f.Cursor},
	} {
		if p.value != "" {
			q.Set(p.name, p.value)
		}
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}
