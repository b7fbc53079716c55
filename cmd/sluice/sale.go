package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
)

func (a *app) saleCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sale", Short: "Create and run sales"}
	return group(cmd, a.saleCreate(), a.saleList(),
		a.saleShow(),
		verb(a, "open SALE", "Start a sale now", (*client.Client).OpenSale, a.printSale),
		verb(a, "pause SALE", "Hold a sale until it is resumed", (*client.Client).PauseSale, a.printSale),
		verb(a, "resume SALE", "End a pause", (*client.Client).ResumeSale, a.printSale),
		verb(a, "close SALE", "End a sale now; its orders stay as they are", (*client.Client).CloseSale, a.printSale),
		a.salePatch(), a.saleRestock(), a.saleCheck(), a.saleDelete(),
		a.saleBuyers(sluice.AllowList, "Upload who may buy at a sale",
			"The allow list says who may buy, at a sale created or patched with --eligibility list."),
		a.saleBuyers(sluice.DenyList, "Upload who may not buy at a sale",
			"Buyers on the deny list can buy nothing at the sale, whatever else lets them in."),
	)
}

func (a *app) saleDelete() *cobra.Command {
	cmd := verb(a, "delete SALE", "Delete a sale that has not opened", (*client.Client).DeleteSale,
		func(deleted api.SaleDeleted) error {
			return a.printRecord(deleted, [][2]string{{"deleted", string(deleted.Deleted)}})
		})
	cmd.Long = "Deletes a sale before it opens, with its terms, restocks and lists, if no claim of it was " +
		"ever accepted. A sale that has opened is closed instead, or postponed while no buyer has " +
		"bought (sale patch --opens-at)."
	return cmd
}

func (a *app) saleList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List all sales, by opening time", Args: exactly()}
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		sales, err := c.AdminSales(ctx)
		if err != nil {
			return err
		}
		return a.printSales(sales)
	})
}

func (a *app) printSales(sales []api.AdminSale) error {
	headers := []string{"SALE", "STATE", ">TOTAL", ">TAKEN", ">AVAILABLE", "OPENS", "TITLE"}
	const old = "*"
	anyOld := false
	err := printList(a, api.AdminSaleList{Sales: sales}, headers, sales, func(s *api.AdminSale) []string {
		mark := ""
		// Those of a sale in order are some seconds old if it is idle: the list reads no ledger.
		if s.State == sluice.StateUnavailable && a.silence(s) != "" {
			mark, anyOld = old, true
		}
		return []string{
			string(s.ID), stateOf(s), limit(s.Total), figures.Thousands(s.Taken) + mark, available(s.Sale) + mark,
			a.short(&s.OpensAt), s.Title,
		}
	})
	if anyOld {
		a.say("%s old: the ledger does not answer; sluice sale show SALE says since when", old)
	}
	return err
}

// stateOf is the state of a sale, and the pause that it does not show: of a sale that
// has not opened yet, say, after a server died in a change of its opening.
func stateOf(s *api.AdminSale) string {
	if s.Paused && s.State != sluice.StatePaused && s.State != sluice.StateClosed {
		return string(s.State) + ", paused"
	}
	return string(s.State)
}

// available is "unknown" while the server does not know.
func available(s api.Sale) string {
	if s.Available == nil && s.Total != nil {
		return "unknown"
	}
	return limit(s.Available)
}

func (a *app) printSale(s api.AdminSale) error {
	closes, listPrice, state, taken := "never", "", stateOf(&s), figures.Thousands(s.Taken)
	if s.ArchivedAt != nil {
		// The ledger has forgotten what was taken.
		state, taken = fmt.Sprintf("%s, archived %s", s.State, a.local(s.ArchivedAt)), ""
	}
	if s.ClosesAt != nil {
		closes = a.local(s.ClosesAt)
	}
	if s.ListPrice != nil {
		listPrice = money(*s.ListPrice)
	}
	fields := [][2]string{
		{"sale", string(s.ID)},
		{"title", s.Title},
		{"in English", s.Titles.EN},
		{"in Chinese", s.Titles.ZH},
		{"badge", s.Badge},
		{"sku", s.SKU},
		{"pictures", strings.Join(s.Pictures.Names(), "\n")},
		{"state", state},
		{"price", price(&s.Sale)},
		{"list price", listPrice},
		{"total", limit(s.Total)},
		{"taken", taken},
		{"available", available(s.Sale)},
		{"as of", a.silence(&s)},
		{"per buyer", perBuyer(s)},
		{"opens", a.local(&s.OpensAt)},
		{"closes", closes},
		{"payment", fmt.Sprintf("within %s, and %s of grace", time.Duration(s.PaymentWindowS)*time.Second,
			time.Duration(s.PaymentGraceS)*time.Second)},
		{"stored", figures.Plural(s.StoredTaken, "unit", "units") + ", " +
			figures.Plural(s.Backlog, "journal entry", "journal entries") + " waiting"},
	}
	if c := s.Claims; c != nil {
		fields = append(fields, [2]string{"claims", a.claimsText(c)}, [2]string{"refused", counts(c.Refused)})
	}
	if o := s.Orders; o != nil {
		fields = append(fields, [2]string{"orders", cmp.Or(counts(o.ByStatus), "none stored")})
	}
	if d := s.DeletedOrders; d != nil {
		until := ", more to come"
		if d.At != nil {
			until = ", " + a.local(d.At)
		}
		fields = append(fields, [2]string{"deleted", "by order_retention" + until})
		for _, sum := range d.Sums {
			fields = append(fields, [2]string{string(sum.Status), fmt.Sprintf("%s, %s, %s",
				figures.Plural(sum.Orders, "order", "orders"), figures.Plural(sum.Units, "unit", "units"),
				money(sluice.Money{Amount: sum.Amount, Currency: sum.Currency}))})
		}
	}
	for _, limit := range s.Limits {
		fields = append(fields, [2]string{"limit", figures.Plural(limit.Max, "unit", "units") + " per " + clean(limit.By)})
	}
	fields = append(fields, showRules(&s.Rules)...)
	return a.printRecord(s, append(fields, [2]string{"unavailable", s.Fence}))
}

// silence says since when the ledger has not answered for a sale, if it has not: its
// figures are old. A sale that is shown is read first.
func (a *app) silence(s *api.AdminSale) string {
	switch {
	case s.ArchivedAt != nil:
		return ""
	case s.AsOf == nil:
		return "never: the ledger has not answered for this sale yet"
	}
	if silent := s.ServerTime.Sub(s.AsOf.Time); silent >= 2*time.Second {
		return fmt.Sprintf("%s: the ledger has not answered for %s", a.local(s.AsOf), silent.Round(time.Second))
	}
	return ""
}

// claimsText says whether buyers come at all, and what they get.
func (a *app) claimsText(c *api.ClaimCounts) string {
	return fmt.Sprintf("%s (node %s, since %s)", cmp.Or(counts(c.Answers), "none"), c.Node, a.local(&c.Since))
}

// counts lists what there is of each name, the most first.
func counts[Name ~string](of map[Name]int64) string {
	names := slices.SortedFunc(maps.Keys(of), func(a, b Name) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(a, b))
	})
	var list []string
	for _, name := range names {
		if of[name] > 0 {
			list = append(list, figures.Thousands(of[name])+" "+string(name))
		}
	}
	return strings.Join(list, ", ")
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

// money is an amount for people, and as flags and the API take it.
func money(m sluice.Money) string {
	return figures.Money(m.Amount, m.Currency) + " (" + figures.Plural(m.Amount, "minor unit", "minor units") + ")"
}

// price is the text for a sale's price: "free" for a free sale. A shop that keeps its prices elsewhere has 0.00.
func price(s *api.Sale) string {
	if s.Free {
		return "free"
	}
	return money(s.Price)
}

// saleBuyers is `sale allow` and `sale deny`.
func (a *app) saleBuyers(kind sluice.ListKind, short, long string) *cobra.Command {
	var file string
	var empty, export bool
	cmd := &cobra.Command{
		Use: string(kind) + " SALE", Short: short, Args: exactly("SALE"),
		Long: long + "\n\nWithout flags the command shows how long the list is. --file replaces all of it at one moment; " +
			"a file that is wrong somewhere changes nothing. Servers follow within two seconds. The file has the ids as they " +
			"are in tokens: lines with quotes or columns, as in CSV, are refused.",
		Example: fmt.Sprintf("  sluice sale %s phone --file buyers.txt\n  sluice sale %s phone --export > buyers.txt", kind,
			kind),
	}
	cmd.Flags().StringVar(&file, "file", "", "replace the list by the ids in `PATH`, one a line; - is standard input")
	cmd.Flags().BoolVar(&empty, "empty", false, "take all buyers off the list")
	cmd.Flags().BoolVar(&export, "export", false, "write the ids to standard output, one a line")
	before(cmd, func([]string) error {
		switch {
		case file != "" && (empty || export) || empty && export:
			return errors.New("--file, --empty, --export: want one of them")
		case export && a.json:
			return errors.New("--json and --export: want one or the other")
		}
		return nil
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, args []string) (err error) {
		sale := sluice.SaleID(args[0])
		var list api.BuyerList
		switch {
		case export:
			return a.export(func(out *bufio.Writer) error { return exportBuyers(ctx, c, sale, kind, out) })
		case empty:
			list, err = c.ClearBuyers(ctx, sale, kind)
		case file != "":
			list, err = a.uploadBuyers(ctx, c, sale, kind, file)
		default:
			var page api.BuyerPage
			page, err = c.Buyers(ctx, sale, kind, 1, "")
			list = page.BuyerList
		}
		if err != nil {
			return err
		}
		updated := "never"
		if list.UpdatedAt != nil {
			updated = a.local(list.UpdatedAt)
		}
		return a.printRecord(list, [][2]string{
			{"sale", string(list.SaleID)},
			{"list", string(list.List)},
			{"buyers", figures.Thousands(list.Size)},
			{"the first", string(list.First)},
			{"updated", updated},
		})
	})
}

func (a *app) uploadBuyers(ctx context.Context, c *client.Client, sale sluice.SaleID, kind sluice.ListKind,
	path string,
) (api.BuyerList, error) {
	body, err := a.input(path)
	if err != nil {
		return api.BuyerList{}, err
	}
	defer body.Close()
	return c.ReplaceBuyers(ctx, sale, kind, body)
}

// input is a file, or standard input.
func (a *app) input(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(a.stdin), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage(err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, usage(fmt.Errorf("%s: a folder; want a file, or - for standard input", path))
	}
	return f, nil
}

func exportBuyers(ctx context.Context, c *client.Client, sale sluice.SaleID, kind sluice.ListKind,
	out io.Writer,
) error {
	for cursor := ""; ; {
		page, err := c.Buyers(ctx, sale, kind, sluice.MaxPage, cursor)
		if err != nil {
			return err
		}
		for _, id := range page.Buyers {
			if _, err := fmt.Fprintln(out, id); err != nil {
				return err
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return nil
		}
	}
}

func (a *app) saleRestock() *cobra.Command {
	var id string
	var delta int64
	cmd := &cobra.Command{
		Use: "restock SALE --delta N", Short: "Change a sale's total while it runs", Args: exactly("SALE"),
		Long: "Adds units to the total, or takes back unsold ones. The same --id changes " +
			"the total once, however often it is sent.",
		Example: "  sluice sale restock phone --delta 200\n  sluice sale restock phone --delta=-50 --id recall-1",
	}
	cmd.Flags().Int64Var(&delta, "delta", 0, "`N` units more, or less if negative")
	cmd.Flags().StringVar(&id, "id", "", "`ID` of this change in your books (default: a new id)")
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
