package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) reconcileCommand() *cobra.Command {
	var sale sluice.SaleID
	var apply bool
	cmd := &cobra.Command{
		Use: "reconcile", Short: "Compare ledger and store, and repair what is safe", Args: exactly(),
		Long: "Compares the ledger, its journal, the store and its outbox, also while a sale runs,\n" +
			"and says what differs. With --apply it stores lost orders from the ledger's records,\n" +
			"writes lost releases again, counts the store's units again, and has a sale rebuilt\n" +
			"whose ledger has lost something. Servers do so by themselves. Exit code 2: something\n" +
			"differs and is not repaired.",
	}
	saleFlag(cmd, &sale, "only this `SALE` (default: all)")
	cmd.Flags().BoolVar(&apply, "apply", false, "repair what is safe")
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		ids := []sluice.SaleID{sale}
		if sale == "" {
			sales, err := c.AdminSales(ctx)
			if err != nil {
				return err
			}
			ids = nil
			for i := range sales {
				ids = append(ids, sales[i].ID)
			}
		}
		list := reconciled{Reports: []api.ReconcileReport{}}
		for _, id := range ids {
			report, err := c.ReconcileSale(ctx, id, apply)
			if err != nil {
				return err
			}
			list.Reports = append(list.Reports, report)
		}
		return a.printReconciled(list)
	})
}

// reconciled is what reconcile prints with --json.
type reconciled struct {
	Reports []api.ReconcileReport `json:"reports"`
}

// printReconciled prints the reports; what remains is a failure.
func (a *app) printReconciled(list reconciled) error {
	remaining := int64(0)
	var rows [][]string
	for _, r := range list.Reports {
		remaining += r.Remaining
		before := len(rows)
		for _, d := range r.Differences {
			if d.Count == 0 || r.Skipped != "" {
				continue
			}
			said := strings.Join(d.Details, "; ")
			if said == "" && len(d.Orders) > 0 {
				said = string(d.Orders[0])
				if d.Count > 1 {
					said += fmt.Sprintf(" and %s more", figures.Thousands(d.Count-1))
				}
			}
			rows = append(rows, []string{
				string(r.SaleID), string(d.Class), figures.Thousands(d.Count), figures.Thousands(d.Repaired), said,
			})
		}
		switch {
		case r.Skipped != "":
			rows = append(rows, []string{string(r.SaleID), "not compared", "", "", r.Skipped})
		case len(rows) == before:
			rows = append(rows, []string{string(r.SaleID), "in step", "", "", ""})
		}
	}
	err := a.printTable(list, []string{"SALE", "DIFFERENCE", ">FOUND", ">REPAIRED", "WHAT"}, rows)
	if err == nil && remaining > 0 {
		err = fmt.Errorf("%s not repaired", figures.Plural(remaining, "difference is", "differences are"))
	}
	return err
}
