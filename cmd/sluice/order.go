package main

import (
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) orderCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "order", Short: "List, show, pay and end orders"}
	group(cmd)
	cmd.AddCommand(
		a.orderList(), a.orderShow(), a.orderHistory(), a.orderExport(),
		a.orderPay(), a.orderReject(),
		a.orderVerb("cancel", "End an unpaid order; its units return", (*client.Client).AdminCancelOrder),
		a.orderVerb("refund", "Record that an order's money has been given back", (*client.Client).RefundOrder),
	)
	return cmd
}

func (a *app) orderShow() *cobra.Command {
	return a.orderVerb("show", "Show an order, a queued one too", (*client.Client).AdminOrder)
}

func (a *app) printOrder(o api.Order) error {
	if a.json {
		return a.printJSON(o)
	}
	fields := [][2]string{
		{"order", string(o.OrderID)},
		{"sale", string(o.SaleID)},
		{"buyer", clean(string(o.BuyerID))},
		{"units", figures.Thousands(o.Quantity)},
		{"price", money(o.Price) + " each"},
		{"status", string(o.Status)},
	}
	for _, f := range [][2]string{
		{"reason", clean(o.Reason)},
		{"payment", clean(o.PaymentID)},
		{"key", string(o.Key)},
		{"meta", metaText(o)},
		{"accepted", o.AcceptedAt.String()},
		{"stored", timeOrNone(o.StoredAt)},
		{"expires", timeOrNone(o.ExpiresAt)},
		{"kept until", timeOrNone(o.KeepUntil)},
		{"changed", timeOrNone(o.UpdatedAt)},
	} {
		if f[1] != "" {
			fields = append(fields, f)
		}
	}
	a.printFields(fields)
	return nil
}

// timeOrNone is empty while there is no such time.
func timeOrNone(t *api.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

func metaText(o api.Order) string {
	if text := string(o.Meta); text != "null" {
		return clean(text)
	}
	return ""
}
