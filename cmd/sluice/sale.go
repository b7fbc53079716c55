package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
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
		a.saleVerb("show", "Show a sale", (*client.Client).AdminSale),
		a.saleVerb("open", "Start a sale now", (*client.Client).OpenSale),
		a.saleVerb("pause", "Hold a sale until it is resumed", (*client.Client).PauseSale),
		a.saleVerb("resume", "End a pause", (*client.Client).ResumeSale),
		a.saleVerb("close", "End a sale now; its orders stay as they are", (*client.Client).CloseSale),
		a.salePatch(), a.saleRestock(), a.saleCheck(),
		a.saleBuyers(sluice.AllowList, "Upload who may buy at a sale",
			"The allow list says who may buy, at a sale created or patched with --eligibility list."),
		a.saleBuyers(sluice.DenyList, "Upload who may not buy at a sale",
			"Buyers on the deny list can buy nothing at the sale, whatever else lets them in."),
	)
	return cmd
}

// saleVerb is a command that does one thing to one sale and shows it.
func (a *app) saleVerb(verb, short string, do func(*client.Client, context.Context, sluice.SaleID) (api.AdminSale,
	error),
) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " SALE", Short: short, Args: exactly("SALE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id := sluice.SaleID(args[0])
			if err := id.Validate(); err != nil {
				return usage(err)
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			sale, err := do(c, cmd.Context(), id)
			if err != nil {
				return err
			}
			return a.printSale(sale)
		},
	}
	clientFlags(cmd)
	return cmd
}

func (a *app) saleList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List all sales, by opening time", Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			sales, err := c.AdminSales(cmd.Context())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(api.AdminSaleList{Sales: sales})
			}
			var rows [][]string
			for _, s := range sales {
				rows = append(rows, []string{
					string(s.ID), string(s.State), limit(s.Total), figures.Thousands(s.Taken), available(s.Sale), s.OpensAt.String(),
					clean(s.Title),
				})
			}
			a.printTable([]string{"SALE", "STATE", ">TOTAL", ">TAKEN", ">AVAILABLE", "OPENS", "TITLE"}, rows)
			return nil
		},
	}
	clientFlags(cmd)
	return cmd
}

// available is "unknown" while the server does not know.
func available(s api.Sale) string {
	if s.Available == nil && s.Total != nil {
		return "unknown"
	}
	return limit(s.Available)
}

func (a *app) printSale(s api.AdminSale) error {
	if a.json {
		return a.printJSON(s)
	}
	closes := "never"
	if s.ClosesAt != nil {
		closes = s.ClosesAt.String()
	}
	fields := [][2]string{
		{"sale", string(s.ID)},
		{"title", clean(s.Title)},
		{"sku", clean(s.SKU)},
		{"state", string(s.State)},
		{"price", money(s.Price)},
	}
	if s.ListPrice != nil {
		fields = append(fields, [2]string{"list price", money(*s.ListPrice)})
	}
	fields = append(
		fields,
		[2]string{"total", limit(s.Total)},
		[2]string{"taken", figures.Thousands(s.Taken)},
		[2]string{"available", available(s.Sale)},
		[2]string{"per buyer", perBuyer(s)},
		[2]string{"opens", s.OpensAt.String()},
		[2]string{"closes", closes},
		[2]string{"payment", fmt.Sprintf("within %s, and %s of grace", time.Duration(s.PaymentWindowS)*time.Second,
			time.Duration(s.PaymentGraceS)*time.Second)},
		[2]string{"stored", figures.Plural(s.StoredTaken, "unit", "units") + ", " +
			figures.Plural(s.Backlog, "journal entry", "journal entries") + " waiting"},
	)
	fields = append(fields, showRules(&s.Rules)...)
	if s.Fence != "" {
		fields = append(fields, [2]string{"unavailable", clean(s.Fence)})
	}
	a.printFields(fields)
	return nil
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
func money(m api.Money) string {
	return figures.Thousands(m.Amount) + " " + m.Currency + " (minor units)"
}

// newSale holds the flags of sale create as they were typed.
type newSale struct {
	file, id, sku, title, currency        string
	price, listPrice                      int64
	total, perBuyer, maxOrders, maxUnpaid string
	opens, closes                         string
	window, grace                         time.Duration
	rules                                 ruleFlags
}

func (a *app) saleCreate() *cobra.Command {
	var f newSale
	cmd := &cobra.Command{
		Use: "create --title TITLE --price N --total N", Short: "Create a sale", Args: exactly(),
		Example: "  sluice sale create --id phone --title 'A phone' --price 99900 --total 1000 --opens-at +10m\n" +
			"  sluice sale create --file sale.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			message, err := f.message(cmd, a.stdin, time.Now())
			if err != nil {
				return usage(err)
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			sale, err := c.CreateSale(cmd.Context(), message)
			if err != nil {
				return err
			}
			return a.printSale(sale)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.file, "file", "", "read the sale as JSON from `PATH`, as the API takes it; - is standard input")
	fl.StringVar(&f.id, "id", "", "`ID` of the new sale (default: the server makes one)")
	fl.StringVar(&f.sku, "sku", "", "what is sold: the shop's `SKU` (default: the title)")
	fl.StringVar(&f.title, "title", "", "`TITLE` that buyers read")
	fl.Int64Var(&f.price, "price", 0, "price of one unit, an `AMOUNT` in minor units: 19900 is 199.00")
	fl.Int64Var(&f.listPrice, "list-price", 0, "former price, an `AMOUNT` in minor units")
	fl.StringVar(&f.currency, "currency", "CNY", "currency, a `CODE` of ISO 4217")
	fl.StringVar(&f.total, "total", "", "units for sale, `N` or none for no total")
	fl.StringVar(&f.perBuyer, "max-per-buyer", "1", "units that one buyer may hold, `N` or none for no limit")
	fl.StringVar(&f.maxOrders, "max-orders-per-buyer", "",
		"accepted claims of one buyer, ended ones too, `N` or none (default max-per-buyer + 9)")
	fl.StringVar(&f.maxUnpaid, "max-unpaid-per-buyer", "",
		fmt.Sprintf("orders of one buyer that may expire, or be cancelled by the buyer, `N` or none (default %d)",
			sluice.DefaultMaxUnpaid))
	fl.StringVar(&f.opens, "opens-at", "now", "`TIME` in RFC 3339, or +10m for in ten minutes, or now")
	fl.StringVar(&f.closes, "closes-at", "none", "`TIME` as for opens-at, or none")
	fl.DurationVar(&f.window, "payment-window", sluice.DefaultPaymentWindow, "how long a buyer may take to pay")
	fl.DurationVar(&f.grace, "payment-grace", sluice.DefaultPaymentGrace, "how much longer the units are kept")
	f.rules.add(cmd)
	clientFlags(cmd)
	return cmd
}

// message makes the API's message of what was typed.
func (f *newSale) message(cmd *cobra.Command, stdin io.Reader, now time.Time) (api.CreateSale, error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if f.file != "" {
		for _, name := range append([]string{
			"id", "sku", "title", "price", "list-price", "total", "max-per-buyer",
			"opens-at", "closes-at",
		}, ruleFlagNames...) {
			if given(name) {
				return api.CreateSale{}, fmt.Errorf("--file and --%s: want one or the other", name)
			}
		}
		return readSale(f.file, stdin)
	}
	for _, name := range []string{"title", "price", "total"} {
		if !given(name) {
			return api.CreateSale{}, fmt.Errorf("--%s is missing", name)
		}
	}
	m := api.CreateSale{SKU: f.sku, Title: f.title, Price: api.Some(api.Money{Amount: f.price, Currency: f.currency})}
	if f.id != "" {
		m.ID = api.Some(sluice.SaleID(f.id))
	}
	if f.sku == "" {
		m.SKU = f.title
	}
	if given("list-price") {
		m.ListPrice = api.Value(api.Money{Amount: f.listPrice, Currency: f.currency})
	}
	var err error
	for _, l := range []struct {
		flag, value string
		into        *api.Nullable[int64]
	}{
		{"total", f.total, &m.Total},
		{"max-per-buyer", f.perBuyer, &m.MaxPerBuyer},
		{"max-orders-per-buyer", f.maxOrders, &m.MaxOrdersPerBuyer},
		{"max-unpaid-per-buyer", f.maxUnpaid, &m.MaxUnpaidPerBuyer},
	} {
		if l.value == "" && l.flag != "total" && l.flag != "max-per-buyer" {
			continue
		}
		if *l.into, err = parseLimit(l.value); err != nil {
			return m, fmt.Errorf("--%s: %w", l.flag, err)
		}
	}
	opens, err := flagTime("opens-at", f.opens, now, "now")
	if err != nil {
		return m, err
	}
	m.OpensAt = api.Some(opens.Value)
	if m.ClosesAt, err = flagTime("closes-at", f.closes, now, "none"); err != nil {
		return m, err
	}
	if given("payment-window") {
		m.PaymentWindowS = api.Some(int64(f.window / time.Second))
	}
	if given("payment-grace") {
		m.PaymentGraceS = api.Some(int64(f.grace / time.Second))
	}
	if err := f.rules.message(cmd, &m.PatchRules); err != nil {
		return m, err
	}
	// What the server would refuse is said here, before anything is sent.
	_, err = m.Domain(func() sluice.SaleID { return "unnamed" })
	return m, err
}

func readSale(path string, stdin io.Reader) (api.CreateSale, error) {
	var m api.CreateSale
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(stdin, 1<<20))
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return m, err
	}
	if err := api.Decode(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := m.Domain(func() sluice.SaleID { return "unnamed" }); err != nil {
		return m, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func parseLimit(text string) (api.Nullable[int64], error) {
	if text == "none" {
		return api.Null[int64](), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return api.Nullable[int64]{}, fmt.Errorf("%q: want a whole number, or none", text)
	}
	return api.Value(n), nil
}
