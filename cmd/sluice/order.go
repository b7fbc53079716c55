package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/ordercsv"
)

func (a *app) orderCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "order", Short: "List, show, pay and end orders"}
	return group(cmd, a.orderList(), a.orderExport(), a.orderPay(), a.orderExtend(),
		a.orderReject(),
		verb(a, "show ORDER", "Show an order, a queued one too", (*client.Client).AdminOrder, a.printOrder),
		verb(a, "history ORDER", "Show every change of an order: when, by whom, why", (*client.Client).OrderHistory,
			a.printHistory),
		verb(a, "cancel ORDER", "End an unpaid or free order; its units return", (*client.Client).AdminCancelOrder,
			a.printOrder),
		verb(a, "refund ORDER", "Record that an order's money has been given back", (*client.Client).RefundOrder,
			a.printOrder),
	)
}

func (a *app) orderPay() *cobra.Command {
	var payment string
	var paid sluice.Money
	var given func(flag string) bool
	cmd := verb(a, "pay ORDER --payment-id ID", "Record a payment",
		func(c *client.Client, ctx context.Context, id sluice.OrderID) (order api.Order, err error) {
			switch {
			case !given("amount"):
				order, err = c.PayOrder(ctx, id, payment)
			case paid.Currency == "":
				if order, err = c.AdminOrder(ctx, id); err != nil {
					return order, err
				}
				paid.Currency = order.Currency
				fallthrough
			default:
				order, err = c.PayOrderAmount(ctx, id, payment, paid)
			}
			if err == nil && order.Status == sluice.RefundDue {
				a.say("%s: the money must go back (refund_due). When it is back: sluice order refund %s", whyRefund(ctx, c, id), id)
			}
			return order, err
		}, a.printOrder)
	cmd.Long = "Records a payment, once by its id; Sluice moves no money. A payment that came too " +
		"late, or for an order that has ended, makes the order refund_due. A second payment of a paid " +
		"order, a payment of another order (payment_conflict), and a payment of another amount than is " +
		"due (payment_amount) are refused, and recorded in the order's history."
	cmd.Flags().StringVar(&payment, "payment-id", "", "`ID` that the payment has in your books")
	cmd.Flags().Int64Var(&paid.Amount, "amount", 0, "`N` minor units that were paid; not given: not compared")
	cmd.Flags().StringVar(&paid.Currency, "currency", "",
		"`CURRENCY` of the amount, like CNY (default: that of the sale)")
	given = cmd.Flags().Changed
	return before(needs(cmd, "payment-id"), func([]string) error {
		if given("currency") && !given("amount") {
			return errors.New("--currency: goes with --amount")
		}
		return nil
	})
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

func (a *app) orderExtend() *cobra.Command {
	var text string
	var until time.Time
	cmd := verb(a, "extend ORDER --until TIME", "Give an unpaid order more time to be paid",
		func(c *client.Client, ctx context.Context, id sluice.OrderID) (api.Order, error) {
			return c.ExtendOrder(ctx, id, until)
		}, a.printOrder)
	cmd.Long = "Moves the payment deadline, for all to see: the buyer's page, the history, the feed. " +
		"A deadline never gets shorter, and is at most 30 days after the order was stored."
	cmd.Flags().StringVar(&text, "until", "", "`TIME` in RFC 3339, or +10m for in ten minutes")
	return before(needs(cmd, "until"), func([]string) error {
		at, err := flagTime("until", text, time.Now(), "now")
		until = at.Value.Time
		return err
	})
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
	cmd.Flags().StringVar((*string)(&f.Buyer), "buyer", "", "only orders of this `BUYER`")
	cmd.Flags().StringVar((*string)(&f.Status), "status", "", "only orders with this `STATUS`: "+statusList())
	cmd.Flags().StringVar(&f.Payment, "payment-id", "", "only the order paid with this payment `ID`")
	before(saleFilter(cmd, &f.Sale, "orders"), func([]string) error {
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
	pageFlag(cmd, &filter.Limit, "orders on a page, at most 1000")
	cmd.Flags().StringVar(&filter.Cursor, "cursor", "", "`CURSOR` that the page before printed")
	cmd.Flags().BoolVar(&all, "all", false, "all pages, from --cursor on")
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
			string(o.OrderID), string(o.BuyerID), figures.Thousands(o.Quantity), string(o.Status), a.short(&o.AcceptedAt),
		}
	})
	if len(page.Orders) == 0 {
		a.say("no orders")
	}
	a.sayMore(page.NextCursor)
	return err
}

func (a *app) printOrder(o api.Order) error {
	price, amount := money(o.Price)+" each", money(sluice.Money{Amount: o.Amount, Currency: o.Currency})
	expires, keep := a.local(o.ExpiresAt), a.local(o.KeepUntil)
	if o.Amount == 0 { // it is free, or the shop knows the price
		price, amount = "", ""
		if o.Status == sluice.Paid { // a free one is from the first, and there was nothing to wait for
			expires, keep = "", ""
		}
	}
	return a.printRecord(o, [][2]string{
		{"order", string(o.OrderID)},
		{"sale", string(o.SaleID)},
		{"buyer", string(o.BuyerID)},
		{"units", figures.Thousands(o.Quantity)},
		{"price", price},
		{"amount", amount},
		{"status", string(o.Status)},
		{"reason", o.Reason},
		{"payment", o.PaymentID},
		{"key", string(o.Key)},
		{"meta", metaText(&o)},
		{"accepted", a.local(&o.AcceptedAt)},
		{"stored", a.local(o.StoredAt)},
		{"expires", expires},
		{"kept until", keep},
		{"changed", a.local(o.UpdatedAt)},
	})
}

func (a *app) printHistory(h api.OrderHistory) error {
	headers := []string{"AT", "ACTION", "FROM", "TO", "BY", "PAYMENT", "REASON"}
	return printList(a, h, headers, h.Changes, func(c *api.OrderChange) []string {
		to := string(c.To)
		if c.From == c.To {
			to = "(" + to + ")" // it stayed so
		}
		reason := c.Reason
		if c.ExpiresAt != nil {
			reason = "until " + a.short(c.ExpiresAt)
		}
		return []string{a.short(&c.At), string(c.Action), string(c.From), to, c.By, c.PaymentID, reason}
	})
}

func metaText(o *api.Order) string { return strings.TrimPrefix(string(o.Meta), "null") }

// export writes much to standard output. An output that is cut off must not pass
// for a whole one.
func (a *app) export(write func(out *bufio.Writer) error) error {
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	err := write(out)
	if flushed := out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		return fmt.Errorf("the export is not complete: %w", err)
	}
	return nil
}

func (a *app) orderExport() *cobra.Command {
	var filter sluice.OrderFilter
	var format string
	var noBOM bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write all stored orders as NDJSON or CSV, oldest first", Args: exactly(),
		Long: "Writes to standard output, a page at a time, however many orders there are. What " +
			"changes meanwhile may appear as it was before or after. ndjson: an order a line, as " +
			"the API shows it. csv: RFC 4180 in UTF-8, with a byte order mark, without which Excel " +
			"garbles Chinese, and a header; columns are only ever added, at the end. An export " +
			"that does not end with exit code 0 is not complete.",
		Example: "  sluice order export --sale phone --status paid --format csv > paid.csv",
	}
	orderFilter(cmd, &filter)
	cmd.Flags().StringVar(&format, "format", "ndjson", "`FORMAT`: ndjson or csv")
	cmd.Flags().BoolVar(&noBOM, "no-bom", false,
		"begin a csv without a byte order mark, for programs that do not expect it")
	before(cmd, func([]string) error {
		switch {
		case format == "csv" && a.json:
			return fmt.Errorf("--json and --format csv: want one or the other")
		case format != "csv" && format != "ndjson":
			return fmt.Errorf("--format %q: want ndjson or csv", format)
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		return a.export(func(out *bufio.Writer) error {
			orders := c.AllAdminOrders(ctx, filter)
			if format == "csv" {
				return ordercsv.Write(out, !noBOM, orders)
			}
			lines := json.NewEncoder(out)
			lines.SetEscapeHTML(false)
			for order, err := range orders {
				if err == nil {
					err = lines.Encode(&order)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}
