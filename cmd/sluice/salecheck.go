package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) saleCheck() *cobra.Command {
	var all bool
	cmd := verb(a, "check SALE", "See whether a sale is ready to be sold", (*client.Client).CheckSale,
		func(answer api.SaleCheck) error { return a.printSaleCheck(answer, all) })
	cmd.Long = "Asks the server whether the sale is loaded, when it opens, what it asks of buyers, whether " +
		"clocks and the ledger's settings are right, and what has become of the claims that came, and " +
		"changes nothing. The answer says where a fault is, and what would be right; its last line, whether " +
		"the sale is ready. With several servers, ask each (--admin-url). Exit code 0 if all is ok or only " +
		"worth a look (warn), 2 if something fails."
	cmd.Example = "  sluice sale check phone\n  sluice sale check phone --admin-url http://10.0.0.2:8081"
	cmd.Flags().BoolVar(&all, "all", false, "show what is ok, too")
	return cmd
}

// printSaleCheck prints a paragraph for each thing that is wrong, the others if all are
// asked for, and whether the sale is ready.
func (a *app) printSaleCheck(answer api.SaleCheck, all bool) error {
	if a.json {
		if err := a.printJSON(answer); err != nil {
			return err
		}
	} else {
		a.printSaleChecks(answer, all)
	}
	if answer.Status == api.CheckFail {
		return &exitError{code: exitFailed} // the last line says it
	}
	return nil
}

func (a *app) printSaleChecks(answer api.SaleCheck, all bool) {
	var lines [][]string
	names := map[api.CheckStatus][]string{}
	for _, c := range answer.Checks {
		if !slices.Contains(names[c.Status], c.Name) {
			names[c.Status] = append(names[c.Status], c.Name)
		}
		if c.Status == api.CheckOK {
			continue
		}
		lines = append(lines, []string{string(c.Status), c.Name + ": " + clean(c.Detail)})
		for _, more := range [][2]string{{"where", c.Where}, {"right", c.Right}} {
			if more[1] != "" {
				lines = append(lines, []string{"", more[0] + ": " + clean(more[1])})
			}
		}
		lines = append(lines, []string{"", ""})
	}
	if all {
		for _, c := range answer.Checks {
			if c.Status == api.CheckOK {
				lines = append(lines, []string{string(c.Status), c.Name + ": " + clean(c.Detail)})
			}
		}
	}
	a.printColumns(lines, nil)
	if n := len(names[api.CheckOK]); n > 0 && !all {
		fmt.Fprintf(a.stdout, "%s ok (--all)\n", figures.Plural(int64(n), "check", "checks"))
	}
	verdict := "ready"
	if failed := names[api.CheckFail]; failed != nil {
		verdict = "not ready because of: " + strings.Join(failed, ", ")
	} else if look := names[api.CheckWarn]; look != nil {
		verdict = "ready; worth a look: " + strings.Join(look, ", ")
	}
	verdict = fmt.Sprintf("%s, as server %s sees it, is %s.", answer.SaleID, clean(answer.Node), verdict)
	a.printColumns([][]string{{verdict}}, nil)
}
