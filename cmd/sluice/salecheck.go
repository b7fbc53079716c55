package main

import (
	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

func (a *app) saleCheck() *cobra.Command {
	cmd := verb(a, "check SALE", "See whether a sale is ready to be sold", (*client.Client).CheckSale, a.printSaleCheck)
	cmd.Long = "Asks the server whether the sale is loaded, when it opens, what it asks of buyers, whether\n" +
		"clocks and the ledger's settings are right, and what has become of the claims that came.\n" +
		"It changes nothing. Of what is wrong it says where, and what would be right. With several\n" +
		"servers, ask each (--admin-url).\n" +
		"Exit code 0 if all is ok or only worth a look (warn), 2 if something fails."
	cmd.Example = "  sluice sale check phone\n  sluice sale check phone --admin-url http://10.0.0.2:8081"
	return cmd
}

func (a *app) printSaleCheck(answer api.SaleCheck) error {
	headers := []string{"STATUS", "CHECK", "DETAIL", "WHERE", "RIGHT"}
	err := printList(a, answer, headers, answer.Checks, func(c *api.Check) []string {
		return []string{string(c.Status), c.Name, c.Detail, c.Where, c.Right}
	})
	if err == nil && answer.Status == api.CheckFail {
		return &exitError{code: exitFailed} // the table says it
	}
	return err
}
