package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

// orderFilter holds the flags that select orders.
type orderFilter struct{ sale, buyer, status string }

func (f *orderFilter) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.sale, "sale", "", "only of this `SALE`")
	fl.StringVar(&f.buyer, "buyer", "", "only of this `BUYER`")
	fl.StringVar(&f.status, "status", "", "only of this `STATUS`: "+statusList())
}

// filter says what is wrong with what was typed before anything is asked.
func (f *orderFilter) filter() (sluice.OrderFilter, error) {
	filter := sluice.OrderFilter{
		Sale: sluice.SaleID(f.sale), Buyer: sluice.BuyerID(f.buyer),
		Status: sluice.Status(f.status),
	}
	if f.sale != "" {
		if err := filter.Sale.Validate(); err != nil {
			return filter, usage(fmt.Errorf("--sale: %w", err))
		}
	}
	if f.status != "" && !slices.Contains(sluice.Statuses(), filter.Status) {
		return filter, usage(fmt.Errorf("--status %q: want one of %s", f.status, statusList()))
	}
	return filter, nil
}

func (a *app) orderList() *cobra.Command {
	var of orderFilter
	var size int
	var cursor string
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List stored orders, oldest first", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := of.filter()
			if err != nil {
				return err
			}
			if size < 1 || size > sluice.MaxPage {
				return usage(fmt.Errorf("--limit: want 1 to %d", sluice.MaxPage))
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			filter.Limit, filter.Cursor = size, cursor
			if !all {
				page, err := c.AdminOrders(cmd.Context(), filter)
				if err != nil {
					return err
				}
				return a.printSaleOrders(cmd, c, filter, page)
			}
			var page api.OrderPage
			for o, err := range c.AllAdminOrders(cmd.Context(), filter) {
				if err != nil {
					return err
				}
				page.Orders = append(page.Orders, o)
			}
			return a.printSaleOrders(cmd, c, filter, page)
		},
	}
	of.flags(cmd)
	cmd.Flags().IntVar(&size, "limit", 100, "orders of a page, at most 1000")
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on at this `CURSOR`, which the page before gave")
	cmd.Flags().BoolVar(&all, "all", false, "all pages from there on")
	clientFlags(cmd)
	return cmd
}

// printSaleOrders distinguishes a sale without orders from an unknown sale: the
// server filters, and does not check that the sale exists.
func (a *app) printSaleOrders(cmd *cobra.Command, c *client.Client, filter sluice.OrderFilter,
	page api.OrderPage,
) error {
	if len(page.Orders) == 0 && filter.Sale != "" {
		// Any other error is no reason to withhold what was found.
		if _, err := c.AdminSale(cmd.Context(), filter.Sale); client.CodeOf(err) == sluice.SaleNotFound.String() {
			return err
		}
	}
	return a.printOrders(page)
}

func statusList() string {
	var names []string
	for _, s := range sluice.Statuses() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

func (a *app) printOrders(page api.OrderPage) error {
	if a.json {
		if page.Orders == nil {
			page.Orders = []api.Order{}
		}
		return a.printJSON(page)
	}
	var rows [][]string
	for _, o := range page.Orders {
		rows = append(rows, []string{
			string(o.OrderID), clean(string(o.BuyerID)), figures.Thousands(o.Quantity), string(o.Status),
			o.AcceptedAt.String(),
		})
	}
	a.printTable([]string{"ORDER", "BUYER", ">UNITS", "STATUS", "ACCEPTED"}, rows)
	if len(rows) == 0 {
		a.say("no orders")
	}
	if page.NextCursor != "" {
		a.say("more with --cursor %s", page.NextCursor)
	}
	return nil
}
