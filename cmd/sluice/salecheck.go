package main

import (
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

func (a *app) saleCheck() *cobra.Command {
	cmd := verb(a, "check SALE", "See whether a sale is ready to be sold", (*client.Client).CheckSale, a.printSaleCheck)
	cmd.Long = "Asks the server whether the sale is loaded, when it opens, what it asks of buyers, whether " +
		"clocks and the ledger's settings are right, and what has become of the claims that came, and " +
		"changes nothing. The answer says where a fault is, and what would be right. With several " +
		"servers, ask each (--admin-url). Exit code 0 if all is ok or only worth a look (warn), 2 if something fails."
	cmd.Example = "  sluice sale check phone\n  sluice sale check phone --admin-url http://10.0.0.2:8081"
	return cmd
}

func (a *app) printSaleCheck(answer api.SaleCheck) error {
	err := printList(a, answer, []string{"STATUS", "CHECK", "DETAIL"}, answer.Checks, func(c *api.Check) []string {
		detail := c.Detail
		if c.Where != "" {
			detail += " (" + c.Where + ": " + c.Right + ")"
		}
		return []string{string(c.Status), c.Name, detail}
	})
	if err == nil && answer.Status == api.CheckFail {
		return &exitError{code: exitFailed} // the table says it
	}
	return err
}
