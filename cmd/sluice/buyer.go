package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) buyerCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "buyer", Short: "Erase a buyer's personal data"}
	group(cmd)
	cmd.AddCommand(a.buyerErase())
	return cmd
}

// erasureReasons say what an operator does about a sale that waits.
var erasureReasons = map[sluice.ErasureReason]string{
	sluice.NotArchived: "is not archived yet",
	sluice.OnList:      "is not archived yet, and has the buyer on a list: upload the list without the buyer",
	sluice.OwedRefund:  "owes the buyer a refund: make it, then record it (sluice order refund)",
}

func (a *app) buyerErase() *cobra.Command {
	cmd := &cobra.Command{
		Use: "erase BUYER", Short: "Replace a buyer in archived sales by a keyed hash", Args: exactly("BUYER"),
		Long: "Replaces the buyer's id, keys, meta and payment ids in the orders of archived sales,\n" +
			"in their histories and events, and in dead letters; sums and audits stay the same. It\n" +
			"cannot be undone. What waits is listed, and the exit code is 2 until a repeat finds\n" +
			"nothing. The admin log records that it was done, without the id.",
		Example: "  sluice buyer erase customer-4711",
	}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		buyer := sluice.BuyerID(args[0])
		if err := buyer.Validate(); err != nil {
			return usage(err)
		}
		erased, err := c.EraseBuyer(ctx, buyer)
		if err != nil {
			return err
		}
		if a.json {
			err = a.printJSON(erased)
		} else {
			fmt.Fprintf(a.stdout, "erased: %s orders, %s dead letters, %s admin actions\n",
				figures.Thousands(erased.Orders), figures.Thousands(erased.DeadLetters),
				figures.Thousands(erased.Actions))
			for _, w := range erased.Waits {
				fmt.Fprintf(a.stdout, "waits: sale %s %s\n", w.Sale, erasureReasons[w.Why])
			}
		}
		if err == nil && len(erased.Waits) > 0 {
			err = &exitError{exitFailed, errors.New("not everything is erased yet; repeat the command later")}
		}
		return err
	})
}
