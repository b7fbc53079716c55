package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) saleCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sale", Short: "Create and run sales"}
	group(cmd)
	cmd.AddCommand(
		a.saleCreate(), a.saleList(),
		verb(a, "show SALE", "Show a sale", (*client.Client).AdminSale, a.printSale),
		verb(a, "open SALE", "Start a sale now", (*client.Client).OpenSale, a.printSale),
		verb(a, "pause SALE", "Hold a sale until it is resumed", (*client.Client).PauseSale, a.printSale),
		verb(a, "resume SALE", "End a pause", (*client.Client).ResumeSale, a.printSale),
		verb(a, "close SALE", "End a sale now; its orders stay as they are", (*client.Client).CloseSale, a.printSale),
		a.salePatch(), a.saleRestock(), a.saleCheck(),
		a.saleBuyers(sluice.AllowList, "Upload who may buy at a sale",
			"The allow list says who may buy, at a sale created or patched with --eligibility list."),
		a.saleBuyers(sluice.DenyList, "Upload who may not buy at a sale",
			"Buyers on the deny list can buy nothing at the sale, whatever else lets them in."),
	)
	return cmd
}

func (a *app) saleList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all sales, by opening time", Args: exactly()}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		sales, err := c.AdminSales(ctx)
		if err != nil {
			return err
		}
		headers := []string{"SALE", "STATE", ">TOTAL", ">TAKEN", ">AVAILABLE", "OPENS", "TITLE"}
		return printList(a, api.AdminSaleList{Sales: sales}, headers, sales, func(s *api.AdminSale) []string {
			return []string{
				string(s.ID), string(s.State), limit(s.Total), figures.Thousands(s.Taken), available(s.Sale),
				s.OpensAt.String(), s.Title,
			}
		})
	})
}

// available is "unknown" while the server does not know.
func available(s api.Sale) string {
	if s.Available == nil && s.Total != nil {
		return "unknown"
	}
	return limit(s.Available)
}

func (a *app) printSale(s api.AdminSale) error {
	closes, listPrice := "never", ""
	if s.ClosesAt != nil {
		closes = s.ClosesAt.String()
	}
	if s.ListPrice != nil {
		listPrice = money(*s.ListPrice)
	}
	fields := [][2]string{
		{"sale", string(s.ID)},
		{"title", s.Title},
		{"sku", s.SKU},
		{"state", string(s.State)},
		{"price", money(s.Price)},
		{"list price", listPrice},
		{"total", limit(s.Total)},
		{"taken", figures.Thousands(s.Taken)},
		{"available", available(s.Sale)},
		{"per buyer", perBuyer(s)},
		{"opens", s.OpensAt.String()},
		{"closes", closes},
		{"payment", fmt.Sprintf("within %s, and %s of grace", time.Duration(s.PaymentWindowS)*time.Second,
			time.Duration(s.PaymentGraceS)*time.Second)},
		{"stored", figures.Plural(s.StoredTaken, "unit", "units") + ", " +
			figures.Plural(s.Backlog, "journal entry", "journal entries") + " waiting"},
	}
	fields = append(fields, showRules(&s.Rules)...)
	return a.printRecord(s, append(fields, [2]string{"unavailable", s.Fence}))
}

func perBuyer(s api.AdminSale) string {
	text := "no limit"
	if s.MaxPerBuyer != nil {
		text = figures.Plural(*s.MaxPerBuyer, "unit", "units")
	}
	if s.MaxOrdersPerBuyer != nil {
		text += ", in at most " + figures.Plural(*s.MaxOrdersPerBuyer, "order", "orders")
	}
	if s.MaxUnpaidPerBuyer != nil {
		text += ", none after " + figures.Plural(*s.MaxUnpaidPerBuyer, "unpaid ending", "unpaid endings")
	}
	return text
}

// money writes minor units as they are: how many digits a currency has is the
// shop's to know.
func money(m sluice.Money) string {
	return figures.Thousands(m.Amount) + " " + m.Currency + " (minor units)"
}
