package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// orderCall does one thing with one order.
type orderCall func(*client.Client, context.Context, sluice.OrderID) (api.Order, error)

// orderVerb is a command that does one thing with one order and shows it.
func (a *app) orderVerb(verb, short string, do orderCall) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " ORDER", Short: short, Args: exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := a.merchantOrder(cmd, args[0])
			if err != nil {
				return err
			}
			order, err := do(c, cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.printOrder(order)
		},
	}
	clientFlags(cmd)
	return cmd
}

// merchantOrder checks an order's id, and makes a client.
func (a *app) merchantOrder(cmd *cobra.Command, text string) (*client.Client, sluice.OrderID, error) {
	id := sluice.OrderID(text)
	if _, ok := id.Sale(); !ok {
		return nil, "", usage(fmt.Errorf("order %q: want <sale>.<32 hex digits>", text))
	}
	c, err := a.merchant(cmd)
	return c, id, err
}

func (a *app) orderPay() *cobra.Command {
	var payment string
	cmd := a.orderVerb("pay", "Record a payment",
		func(c *client.Client, ctx context.Context, id sluice.OrderID) (api.Order, error) {
			order, err := c.PayOrder(ctx, id, payment)
			if err == nil && order.Status == sluice.RefundDue {
				a.say("%s: the money must go back (refund_due). When it is back: sluice order refund %s", whyRefund(ctx, c, id), id)
			}
			return order, err
		})
	cmd.Long = "Records a payment, once by its id; Sluice moves no money. A payment that came too\n" +
		"late, or for an order that has ended, makes the order refund_due. Another payment\n" +
		"of a paid order is refused (payment_conflict), and stands in the order's history."
	cmd.Use = "pay ORDER --payment-id ID"
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
	cmd := a.orderVerb("reject", "End an unpaid order that failed after the grab; its units return",
		func(c *client.Client, ctx context.Context, id sluice.OrderID) (api.Order, error) {
			return c.RejectOrder(ctx, id, reason)
		})
	cmd.Use = "reject ORDER --reason TEXT"
	cmd.Flags().StringVar(&reason, "reason", "", "why: a `TEXT` that the buyer reads too")
	return needs(cmd, "reason")
}

// needs makes a flag one that must be given.
func needs(cmd *cobra.Command, flag string) *cobra.Command {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Lookup(flag).Value.String() == "" {
			return usage(fmt.Errorf("--%s is missing", flag))
		}
		return run(cmd, args)
	}
	return cmd
}

func (a *app) orderHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history ORDER", Short: "Show every change of an order: when, by whom, why", Args: exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := a.merchantOrder(cmd, args[0])
			if err != nil {
				return err
			}
			history, err := c.OrderHistory(cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.printHistory(history)
		},
	}
	clientFlags(cmd)
	return cmd
}

func (a *app) printHistory(h api.OrderHistory) error {
	if a.json {
		return a.printJSON(h)
	}
	rows := make([][]string, len(h.Changes))
	for i, c := range h.Changes {
		to := string(c.To)
		if c.From == c.To {
			to = "(" + to + ")" // refused: it stayed so
		}
		rows[i] = []string{
			c.At.String(), string(c.Action), string(c.From), to, clean(c.By), clean(c.PaymentID),
			clean(c.Reason),
		}
	}
	a.printTable([]string{"AT", "ACTION", "FROM", "TO", "BY", "PAYMENT", "REASON"}, rows)
	return nil
}
