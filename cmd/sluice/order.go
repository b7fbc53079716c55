package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) orderCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "order", Short: "List, show, pay and end orders"}
	group(cmd)
	cmd.AddCommand(
		a.orderList(), a.orderExport(), a.orderPay(), a.orderReject(),
		verb(a, "show ORDER", "Show an order, a queued one too", (*client.Client).AdminOrder, a.printOrder),
		verb(a, "history ORDER", "Show every change of an order: when, by whom, why", (*client.Client).OrderHistory,
			a.printHistory),
		verb(a, "cancel ORDER", "End an unpaid order; its units return", (*client.Client).AdminCancelOrder, a.printOrder),
		verb(a, "refund ORDER", "Record that an order's money has been given back", (*client.Client).RefundOrder,
			a.printOrder),
	)
	return cmd
}

func (a *app) orderPay() *cobra.Command {
	var payment string
	cmd := verb(a, "pay ORDER --payment-id ID", "Record a payment",
		func(c *client.Client, ctx context.Context, id sluice.OrderID) (api.Order, error) {
			order, err := c.PayOrder(ctx, id, payment)
			if err == nil && order.Status == sluice.RefundDue {
				a.say("%s: the money must go back (refund_due). When it is back: sluice order refund %s", whyRefund(ctx, c, id), id)
			}
			return order, err
		}, a.printOrder)
	cmd.Long = "Records a payment, once by its id; Sluice moves no money. A payment that came too\n" +
		"late, or for an order that has ended, makes the order refund_due. Another payment\n" +
		"of a paid order is refused (payment_conflict), and recorded in the order's history."
	cmd.Flags().StringVar(&payment, "payment-id", "", "`ID` that the payment has in your books")
	return needs(cmd, "payment-id")
}

// whyRefund says what the order was when its payment came.
func whyRefund(ctx context.Context, c *client.Client, id sluice.OrderID) string {
	history, err := c.OrderHistory(ctx, id)
	if err == nil {
		for _, change := range slices.Backward(history.Changes) {
			if change.To == sluice.RefundDue && !change.From.Live() {
				return fmt.Sprintf("The order was %s already", change.From)
			}
		}
	}
	return "The payment came too late"
}

func (a *app) orderReject() *cobra.Command {
	var reason string
	cmd := verb(a, "reject ORDER --reason TEXT", "End an unpaid order that failed after the grab; its units return",
		func(c *client.Client, ctx context.Context, id sluice.OrderID) (api.Order, error) {
			return c.RejectOrder(ctx, id, reason)
		}, a.printOrder)
	cmd.Flags().StringVar(&reason, "reason", "", "why: a `TEXT` that the buyer reads too")
	return needs(cmd, "reason")
}

// orderFilter adds the flags that select orders.
func orderFilter(cmd *cobra.Command, f *sluice.OrderFilter) {
	cmd.Flags().StringVar((*string)(&f.Buyer), "buyer", "", "only of this `BUYER`")
	cmd.Flags().StringVar((*string)(&f.Status), "status", "", "only of this `STATUS`: "+statusList())
	before(saleFilter(cmd, &f.Sale), func([]string) error {
		if f.Status != "" && !slices.Contains(sluice.Statuses(), f.Status) {
			return fmt.Errorf("--status %q: want one of %s", f.Status, statusList())
		}
		return nil
	})
}

func statusList() string {
	var names []string
	for _, s := range sluice.Statuses() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (a *app) orderList() *cobra.Command {
	var filter sluice.OrderFilter
	var all bool
	cmd := &cobra.Command{Use: "list", Short: "List stored orders, oldest first", Args: exactly()}
	orderFilter(cmd, &filter)
	pageFlag(cmd, &filter.Limit, "orders of a page, at most 1000")
	cmd.Flags().StringVar(&filter.Cursor, "cursor", "", "go on at this `CURSOR`, which the page before gave")
	cmd.Flags().BoolVar(&all, "all", false, "all pages from there on")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		page := api.OrderPage{Orders: []api.Order{}}
		if all {
			for o, err := range c.AllAdminOrders(ctx, filter) {
				if err != nil {
					return err
				}
				page.Orders = append(page.Orders, o)
			}
		} else {
			var err error
			if page, err = c.AdminOrders(ctx, filter); err != nil {
				return err
			}
		}
		if len(page.Orders) == 0 && filter.Sale != "" {
			// The server filters, and does not check that the sale exists. Any other
			// error is no reason to withhold what was found.
			if _, err := c.AdminSale(ctx, filter.Sale); client.CodeOf(err) == sluice.SaleNotFound.String() {
				return err
			}
		}
		return a.printOrders(page)
	})
}

func (a *app) printOrders(page api.OrderPage) error {
	headers := []string{"ORDER", "BUYER", ">UNITS", "STATUS", "ACCEPTED"}
	err := printList(a, page, headers, page.Orders, func(o *api.Order) []string {
		return []string{
			string(o.OrderID), string(o.BuyerID), figures.Thousands(o.Quantity), string(o.Status), o.AcceptedAt.String(),
		}
	})
	if len(page.Orders) == 0 {
		a.say("no orders")
	}
	a.sayMore(page.NextCursor)
	return err
}

func (a *app) printOrder(o api.Order) error {
	return a.printRecord(o, [][2]string{
		{"order", string(o.OrderID)},
		{"sale", string(o.SaleID)},
		{"buyer", string(o.BuyerID)},
		{"units", figures.Thousands(o.Quantity)},
		{"price", money(o.Price) + " each"},
		{"status", string(o.Status)},
		{"reason", o.Reason},
		{"payment", o.PaymentID},
		{"key", string(o.Key)},
		{"meta", metaText(&o)},
		{"accepted", o.AcceptedAt.String()},
		{"stored", timeOrNone(o.StoredAt)},
		{"expires", timeOrNone(o.ExpiresAt)},
		{"kept until", timeOrNone(o.KeepUntil)},
		{"changed", timeOrNone(o.UpdatedAt)},
	})
}

func (a *app) printHistory(h api.OrderHistory) error {
	headers := []string{"AT", "ACTION", "FROM", "TO", "BY", "PAYMENT", "REASON"}
	return printList(a, h, headers, h.Changes, func(c *api.OrderChange) []string {
		to := string(c.To)
		if c.From == c.To {
			to = "(" + to + ")" // refused: it stayed so
		}
		return []string{c.At.String(), string(c.Action), string(c.From), to, c.By, c.PaymentID, c.Reason}
	})
}

// timeOrNone is empty while there is no such time.
func timeOrNone(t *api.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

func metaText(o *api.Order) string { return strings.TrimPrefix(string(o.Meta), "null") }
