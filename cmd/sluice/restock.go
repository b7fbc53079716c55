package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

func (a *app) saleRestock() *cobra.Command {
	var id string
	var delta int64
	cmd := &cobra.Command{
		Use: "restock SALE --delta N", Short: "Change a sale's total while it runs", Args: exactly("SALE"),
		Long: "Adds units to the total, or takes back unsold ones. The same --id changes\n" +
			"the total once, however often it is sent.",
		Example: "  sluice sale restock phone --delta 200\n  sluice sale restock phone --delta=-50 --id recall-1",
	}
	cmd.Flags().Int64Var(&delta, "delta", 0, "`N` units more, or less if negative")
	cmd.Flags().StringVar(&id, "id", "", "`ID` of this change in your books (default: a new one)")
	before(cmd, func([]string) error {
		if delta == 0 {
			return errors.New("--delta: want a number of units, not 0")
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		if id == "" {
			id = string(client.NewKey())
			// Before it is sent: an operator who interrupts it needs the id most.
			a.say("This change is --id %s; with that it can be repeated, and happens once.", id)
		}
		restocked, err := c.RestockSale(ctx, sluice.SaleID(args[0]), id, delta)
		var refused *client.Error
		if err != nil && (!errors.As(err, &refused) || refused.Status >= 500) {
			return fmt.Errorf("%w; it may have happened: --id %s tries again, and does nothing twice", err, id)
		}
		if err != nil {
			return err
		}
		return a.printSale(restocked)
	})
}

// rebuildWait is how long a rebuild may take until the command fails: a dead
// server is waited for, and one that died in the middle of a load.
var rebuildWait = time.Minute

// awaitRebuilt returns the sale as soon as it is loaded under a later epoch and
// not fenced, or an error that says why it still is.
func awaitRebuilt(ctx context.Context, c *client.Client, before api.AdminSale) (api.AdminSale, error) {
	limit := time.NewTimer(rebuildWait)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last := before
	for {
		sale, err := c.AdminSale(ctx, before.ID)
		if err == nil {
			if last = sale; sale.Epoch > before.Epoch && sale.Loaded && sale.Fence == "" {
				return sale, nil
			}
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-limit.C:
			if err != nil {
				return last, fmt.Errorf("sale %s: no answer for whether it is rebuilt: %w", before.ID, err)
			}
			return last, fmt.Errorf("sale %s is not rebuilt after %s (%s): the servers' log says what they wait for",
				before.ID, rebuildWait, cmp.Or(last.Fence, "not loaded"))
		case <-tick.C:
		}
	}
}

// rebuildCommand is a verb of its own: it is about the ledger, not about what
// is sold.
func (a *app) rebuildCommand() *cobra.Command {
	var sale sluice.SaleID
	cmd := &cobra.Command{
		Use: "rebuild --sale SALE", Short: "Load a sale into its ledger again, after a loss", Args: exactly(),
		Long: "Fences the sale, gathers what the servers and the journal still know of it, and loads\n" +
			"it into the ledger under a new epoch. Servers do so by themselves when they find that\n" +
			"a ledger has lost data; meanwhile buyers get \"unavailable\". Ends when the sale is on\n" +
			"again, and with an error if it is still fenced after a minute.",
	}
	needs(saleFlag(cmd, &sale, "the `SALE` to rebuild"), "sale")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		rebuilt, err := c.RebuildSale(ctx, sale)
		if err != nil {
			return err
		}
		a.say("The servers rebuild it now.")
		if rebuilt, err = awaitRebuilt(ctx, c, rebuilt); err != nil {
			return err
		}
		return a.printSale(rebuilt)
	})
}
