package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

// importColumns are those of an import, and of an export.
var importColumns = []string{"buyer", "quantity", "order_id"}

func (a *app) saleImport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import SALE FILE", Short: "Import orders that another system has sold, before the sale opens",
		Args: exactly("SALE", "FILE"),
		Long: "FILE is CSV in UTF-8 with three columns: buyer,quantity,order_id, with or without this\n" +
			"line as its first; - is standard input. The orders count as paid ones: for the total and\n" +
			"for the limits of their buyers. At most 200,000 orders and 64 MB a file; a sale takes\n" +
			"several. If a line is wrong, nothing is imported. A repeat imports nothing twice, by\n" +
			"order_id; one that broke off goes on, and leaves the sale paused until then.",
		Example: "  sluice sale import phone winners.csv\n  sluice sale export phone-1 | sluice sale import phone-2 -",
	}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		sale := sluice.SaleID(args[0])
		before, err := c.AdminSale(ctx, sale)
		if err != nil {
			return err
		}
		body, err := a.input(args[1])
		if err != nil {
			return err
		}
		defer body.Close()
		sent := &counted{Reader: body}
		stop := a.watch(a.importing(ctx, c, &before, sent))
		done, err := c.ImportOrders(ctx, sale, sent)
		stop()
		if err != nil {
			return err
		}
		if done.Paused {
			a.say("The sale is paused: sluice sale resume %s", sale)
		}
		return a.printRecord(done, [][2]string{
			{"sale", string(done.SaleID)},
			{"imported", figures.Plural(done.Orders, "order", "orders") + ", " + figures.Plural(done.Units, "unit", "units")},
			{"before", figures.Plural(done.Before, "order", "orders") + " imported before"},
		})
	})
}

// counted counts what is read.
type counted struct {
	io.Reader
	bytes atomic.Int64
	ended atomic.Bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

// importing returns what a.watch shows: the file on its way, then the units that are
// stored, which the server is asked for once a second.
func (a *app) importing(ctx context.Context, c *client.Client, before *api.AdminSale, sent *counted) func() string {
	stored, asked := before.StoredTaken, time.Time{}
	return func() string {
		if sent.ended.Load() && terminal(a.stderr) != nil && time.Since(asked) > time.Second {
			if now, err := c.AdminSale(ctx, before.ID); err == nil {
				stored = now.StoredTaken
			}
			asked = time.Now()
		}
		line := fmt.Sprintf("  sent     %.1f MB", float64(sent.bytes.Load())/1e6)
		if !asked.IsZero() {
			line += ", " + figures.Plural(stored-before.StoredTaken, "unit", "units") + " stored"
		}
		return line
	}
}

func (a *app) saleExport() *cobra.Command {
	cmd := &cobra.Command{
		Use: "export SALE", Short: "Write a sale's paid orders for the import of another sale", Args: exactly("SALE"),
		Long: "Writes CSV to standard output: buyer,quantity,order_id of every order that holds units.\n" +
			"The sale must be paused, closed or not open yet, and no order queued or unpaid: an export\n" +
			"is whole, or ends with an error. Ended orders are left out (see sluice order export).",
		Example: "  sluice sale export phone > phone.csv",
	}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) error {
		id := sluice.SaleID(args[0])
		before, err := stands(ctx, c, id)
		if err != nil {
			return err
		}
		return a.export(func(out *bufio.Writer) error {
			table := csv.NewWriter(out)
			if err := table.Write(importColumns); err != nil {
				return err
			}
			units := int64(0)
			for o, err := range c.AllAdminOrders(ctx, sluice.OrderFilter{Sale: id, Status: sluice.Paid}) {
				if err != nil {
					return err
				}
				name, imported := o.OrderID.EarlierID(metaText(&o))
				if !imported {
					name = string(o.OrderID)
				}
				units += o.Quantity
				row := []string{string(o.BuyerID), strconv.FormatInt(o.Quantity, 10), name}
				if err := table.Write(row); err != nil {
					return err
				}
			}
			table.Flush()
			after, err := stands(ctx, c, id)
			switch {
			case err == nil && after != before:
				err = fmt.Errorf("sale %s has changed meanwhile", id)
			case err == nil && units != before.units: // deleted by order_retention
				err = fmt.Errorf("sale %s: its paid orders hold %d units, and %d are taken", id, units, before.units)
			}
			return cmp.Or(table.Error(), err)
		})
	})
}

// standing is what an export finds of a sale that stands still.
type standing struct{ version, units int64 }

// stands returns it, or what is still on its way.
func stands(ctx context.Context, c *client.Client, id sluice.SaleID) (now standing, err error) {
	sale, err := c.AdminSale(ctx, id)
	if err != nil {
		return now, err
	}
	switch sale.State {
	case sluice.StatePaused, sluice.StateClosed, sluice.StateUpcoming:
	default:
		return now, fmt.Errorf("sale %s is %s: pause or close it first, since what is bought meanwhile would be missing",
			id, sale.State)
	}
	unpaid, err := c.AdminOrders(ctx, sluice.OrderFilter{Sale: id, Status: sluice.Pending, Limit: 1})
	switch {
	case err != nil:
		return now, err
	case len(unpaid.Orders) > 0:
		return now, fmt.Errorf("sale %s has unpaid orders: try again when there is none "+
			"(sluice order list --sale %s --status pending)", id, id)
	case sale.ArchivedAt == nil && (sale.Taken != sale.StoredTaken || sale.Backlog > 0):
		return now, fmt.Errorf("sale %s: the ledger counts %s, the database %s: something is on its way; try again", id,
			figures.Plural(sale.Taken, "unit", "units"), figures.Plural(sale.StoredTaken, "unit", "units"))
	}
	return standing{sale.TermsVersion, sale.StoredTaken}, nil
}
