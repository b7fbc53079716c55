package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/port"
)

// recoverWait is how long the rebuild that follows a recovery may take until the command
// fails: a dead server is waited for.
var recoverWait = time.Minute

func (a *app) recoverCommand() *cobra.Command {
	var sale sluice.SaleID
	var apply bool
	cmd := &cobra.Command{
		Use: "recover", Short: "Recover sales after the database was restored from an older copy",
		Long: "Says what the ledger of a sale has on record and the store, which was restored from an " +
			"older copy, lacks: accepted claims, and orders that had ended. With --apply the server stores " +
			"them, no order expires for an hour, and the sale goes on: have the shop send its payments " +
			"since the copy again. Ledgers that lost something come back by themselves. About a sale that you " +
			"name this server's ledger also decides from now on, unless a server that has the former " +
			"ledger lives; without a name such a sale is only listed. The command can be repeated.",
	}
	saleOrAll(cmd, &sale)
	cmd.Flags().BoolVar(&apply, "apply", false, "change the store as the report says")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		ids, err := chosenSales(ctx, c, sale, func(s *api.AdminSale) bool {
			return strings.HasPrefix(s.Fence, port.FenceOlder)
		})
		if err != nil {
			return err
		}
		list := recoveries{Sales: []sluice.Recovery{}}
		for _, id := range ids {
			before, err := c.AdminSale(ctx, id)
			if err != nil {
				return err
			}
			report, err := c.RecoverSale(ctx, id, apply && sale != "")
			if apply && sale == "" && err == nil && report.Ledger == "" { // only a sale that is named changes its ledger
				report, err = c.RecoverSale(ctx, id, true)
			}
			if err == nil && report.Applied {
				err = awaitRebuilt(ctx, c, before)
			}
			if err != nil {
				return err
			}
			list.Sales = append(list.Sales, report)
		}
		return a.printRecoveries(list, apply)
	})
}

// recoveries is what recover prints with --json.
type recoveries struct {
	Sales []sluice.Recovery `json:"sales"`
}

// paymentReasons says, by RecoveredOrders.Reason, what becomes of orders whose payments may be lost.
var paymentReasons = map[string]string{
	string(sluice.RefundDue): "payments may be lost: paid, and had ended; refund_due",
	string(sluice.Pending):   "payments may be lost: pending",
	"ended":                  "payments may be lost: ended; refund_due once paid again",
}

func (a *app) printRecoveries(list recoveries, apply bool) error {
	var rows [][]string
	kept := false // no order of a sale expires for an hour
	due := false  // the shop may have money of orders that had ended
	for i := range list.Sales {
		r := &list.Sales[i]
		kept = kept || !r.NoExpiryBefore.IsZero()
		row := func(what string, of sluice.RecoveredOrders) {
			rows = append(rows, []string{
				string(r.Sale), what, figures.Thousands(of.Count), firstAndMore(of.Orders, of.Count),
			})
		}
		switch {
		case r.Why == "":
			rows = append(rows, []string{string(r.Sale), "nothing to recover", "", ""})
			continue
		case r.Ledger != "":
			decides := "if you name it, this server's ledger decides"
			if r.Applied {
				decides = "this server's ledger decides from now on"
			}
			rows = append(rows, []string{string(r.Sale), decides, "", "instead of " + r.Ledger})
			if len(r.Payments) == 0 {
				continue
			}
			rows = append(rows, []string{string(r.Sale), "what that one alone has on record is given up", "", ""})
			if apply && !r.Applied {
				continue
			}
		}
		if r.Terms != "" {
			rows = append(rows, []string{string(r.Sale), "terms that the store lacks, to be adopted", "", r.Terms})
		}
		row("accepted, to be stored", r.Stored)
		row("accepted and ended, to be stored as ended", r.StoredEnded)
		row("stored, and had ended: to be ended", r.Ended)
		for _, of := range r.Payments {
			row(cmp.Or(paymentReasons[of.Reason], of.Reason), of)
			due = due || of.Reason == string(sluice.RefundDue) && of.Count > 0
		}
	}
	if len(rows) == 0 {
		a.say("No sale waits to be recovered. Servers find most of what a restored database lacks when they start, and " +
			"the rest within a minute; sluice reconcile --apply compares now. A sale that another ledger decides about " +
			"(sluice sale check says so) comes to this one if you name it.")
	}
	err := a.printTable(list, []string{"SALE", "WHAT", ">ORDERS", "WHICH"}, rows)
	if err == nil && kept {
		a.say("Send the payments since the copy again: for an hour no order of these sales expires.")
		if due {
			a.say("Orders that were paid and had ended are refund_due (order list --status refund_due): give their money " +
				"back, unless you have, and say so with order refund.")
		}
	} else if err == nil && !apply && len(rows) > 0 {
		a.say("Nothing has changed. With --apply it is done; --json names up to 1,000 orders of each.")
	}
	return err
}

// awaitRebuilt returns as soon as the sale is loaded under a later epoch and not fenced, or an
// error that says why it still is.
func awaitRebuilt(ctx context.Context, c *client.Client, before api.AdminSale) error {
	limit := time.NewTimer(recoverWait)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	why := errors.New("not loaded")
	for {
		sale, err := c.AdminSale(ctx, before.ID)
		switch {
		case err != nil:
			why = err
		case sale.Epoch > before.Epoch && sale.Loaded && sale.Fence == "":
			return nil
		case sale.Fence != "":
			why = errors.New(sale.Fence)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("sale %s is recovered, and not rebuilt after %s (%w): the servers' log says what they wait for",
				before.ID, recoverWait, why)
		case <-tick.C:
		}
	}
}
