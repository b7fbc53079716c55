package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// saleFlags holds the flags of sale create and sale patch as they were typed.
type saleFlags struct {
	create                                bool
	file, id, limits                      string   // of create
	beside                                []string // flags that say what the file does
	sku, title, currency, listPrice       string
	price                                 int64
	free                                  bool
	total, perBuyer, maxOrders, maxUnpaid string
	opens, closes                         string
	window, grace                         time.Duration
	shown                                 showcaseFlags
	rules                                 ruleFlags
}

func (a *app) saleCreate() *cobra.Command {
	f := saleFlags{create: true}
	cmd := &cobra.Command{
		Use: "create --title TITLE --price N --total N", Short: "Create a sale", Args: exactly(),
		Example: "  sluice sale create --id phone --title 'A phone' --price 99900 --total 1000 \\\n" +
			"    --opens-at +10m\n" +
			"  sluice sale create --file sale.json",
	}
	cmd.Flags().StringVar(&f.file, "file", "",
		"read the sale as JSON from `PATH`, as the API takes it; - is standard input")
	cmd.Flags().StringVar(&f.id, "id", "", "`ID` of the new sale (default: the server makes one)")
	cmd.Flags().StringVar(&f.limits, "limits", "",
		"units of buyers of whom the shop signs the same, `BY=MAX` like household=2, up to 3 with commas, or none")
	f.add(cmd)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Name != "file" {
			f.beside = append(f.beside, flag.Name)
		}
	})
	var message api.CreateSale
	before(cmd, func([]string) (err error) {
		message, err = f.sale(cmd, a.stdin, time.Now())
		return cmp.Or(err, f.shown.readPictures())
	})
	return a.calls(cmd, func(ctx context.Context, c *client.Client, _ []string) error {
		sale, err := c.CreateSale(ctx, message)
		if err != nil {
			return err
		}
		if sale, err = f.shown.addPictures(ctx, c, sale); err != nil {
			return fmt.Errorf("the sale %s is created, but: %w", sale.ID, err)
		}
		if f.file == "" {
			a.sayDefaults(cmd.Flags().Changed, &sale)
		}
		return a.printSale(sale)
	})
}

// sayDefaults says what a new sale has by default, of which a merchant would want to know before buyers do.
func (a *app) sayDefaults(given func(flag string) bool, sale *api.AdminSale) {
	var notes []string
	if !given("opens-at") && sale.State == sluice.StateOpen {
		notes = append(notes, "is open now (without --opens-at)")
	}
	if !given("currency") {
		notes = append(notes, "is sold in "+sale.Price.Currency+" (without --currency)")
	}
	if notes != nil {
		a.say("%s %s.", sale.ID, strings.Join(notes, ", and "))
	}
}

func (a *app) salePatch() *cobra.Command {
	var f saleFlags
	var message api.PatchSale
	cmd := verb(a, "patch SALE", "Change a sale; what is not given stays as it is",
		func(c *client.Client, ctx context.Context, id sluice.SaleID) (api.AdminSale, error) {
			var sale api.AdminSale
			var err error
			pictures := message == (api.PatchSale{}) // alone
			if pictures || message.Titles.Set || message.Descriptions.Set {
				sale, err = c.AdminSale(ctx, id)
				f.shown.keep(&message.PatchShowcase, &sale)
			}
			if err == nil && !pictures {
				sale, err = c.PatchSale(ctx, id, message)
			}
			if err != nil {
				return sale, err
			}
			return f.shown.addPictures(ctx, c, sale)
		}, a.printSale)
	cmd.Long = "Changes what is given, and nothing else. From the opening on, the limits that decide who " +
		"may buy how much are fixed, but the total can be raised and the closing time moved. What " +
		"is asked of buyers (rates, ratio, ticket and so on) can change at any moment."
	cmd.Example = "  sluice sale patch phone --admission-ratio 1.5 --buyer-rate 10/1s,shared\n" +
		"  sluice sale patch phone --closes-at +10m --address-rate none"
	f.add(cmd)
	return before(cmd, func([]string) (err error) {
		message, err = f.patch(cmd, time.Now())
		if err == nil && message == (api.PatchSale{}) && len(f.shown.pictures) == 0 {
			err = errors.New("nothing to change: want one flag at least, like --title")
		}
		return cmp.Or(err, f.shown.readPictures())
	})
}

// add adds the flags that create and patch have in common. Only those of
// create have defaults.
func (f *saleFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	when := func(create, patch string) string {
		if f.create {
			return create
		}
		return patch
	}
	text := func(into *string, name, preset, help string) { fl.StringVar(into, name, when(preset, ""), help) }
	text(&f.sku, "sku", "", "what is sold: the shop's `SKU`"+when(" (default: the title)", ""))
	text(&f.title, "title", "", "`TITLE` that buyers read")
	fl.Int64Var(&f.price, "price", 0,
		"price of one unit, an `AMOUNT` in minor units"+when(": 19900 is 199.00", ", with --currency"))
	text(&f.listPrice, "list-price", "",
		"former price, an `AMOUNT` in minor units"+when("", " with --currency, or none"))
	fl.BoolVar(&f.free, "free", false, "there is nothing to pay: the price is 0, and orders are paid when they are stored")
	text(&f.currency, "currency", "CNY", "currency"+when("", " of the prices given")+", a `CODE` of ISO 4217")
	text(&f.total, "total", "", "units for sale, `N` or none for no total")
	text(&f.perBuyer, "max-per-buyer", "1", "units that one buyer may hold, `N` or none for no limit")
	text(&f.maxOrders, "max-orders-per-buyer", "",
		"accepted claims of one buyer, ended ones too, `N` or none"+when(" (default max-per-buyer + 9)", ""))
	text(&f.maxUnpaid, "max-unpaid-per-buyer", "",
		"orders of one buyer that may expire, or be cancelled by the buyer, `N` or none"+
			when(fmt.Sprintf(" (default %d)", sluice.NewSale(0, 1).MaxUnpaid), ""))
	text(&f.opens, "opens-at", "now", "`TIME` of the opening in RFC 3339, or +10m for in ten minutes"+when(", or now", ""))
	text(&f.closes, "closes-at", "none", "`TIME` of the end in RFC 3339, or +10m, "+when("or none", "now, or none"))
	var unless sluice.Sale
	if f.create {
		unless = sluice.NewSale(0, 1)
	}
	fl.DurationVar(&f.window, "payment-window", unless.PaymentWindow, "how long a buyer may take to pay")
	fl.DurationVar(&f.grace, "payment-grace", unless.PaymentGrace, "how long the units are kept after the payment window")
	f.shown.add(cmd)
	f.rules.add(cmd)
}

// sale makes the message of a new sale.
func (f *saleFlags) sale(cmd *cobra.Command, stdin io.Reader, now time.Time) (m api.CreateSale, err error) {
	given := cmd.Flags().Changed
	if f.file != "" {
		if i := slices.IndexFunc(f.beside, given); i >= 0 {
			return m, fmt.Errorf("--file and --%s: want one or the other", f.beside[i])
		}
		return readSale(f.file, stdin)
	}
	for _, name := range []string{"title", "price", "total"} {
		if !given(name) && !(name == "price" && f.free) {
			return m, fmt.Errorf("--%s is missing", name)
		}
	}
	p, err := f.patch(cmd, now)
	if err != nil {
		return m, err
	}
	m = api.CreateSale{
		SKU: cmp.Or(f.sku, f.title), Title: f.title, Price: p.Price, ListPrice: p.ListPrice, Free: p.Free,
		Total: p.Total, MaxPerBuyer: p.MaxPerBuyer, MaxOrdersPerBuyer: p.MaxOrdersPerBuyer,
		MaxUnpaidPerBuyer: p.MaxUnpaidPerBuyer, OpensAt: p.OpensAt, ClosesAt: p.ClosesAt,
		PaymentWindowS: p.PaymentWindowS, PaymentGraceS: p.PaymentGraceS,
		PatchShowcase: p.PatchShowcase, PatchRules: p.PatchRules,
	}
	if f.id != "" {
		m.ID = api.Some(sluice.SaleID(f.id))
	}
	if err := flagRule(given, "limits", f.limits, &m.Limits, parseLimits); err != nil {
		return m, err
	}
	// What the server would refuse is said here, before anything is sent.
	_, err = m.Domain(func() sluice.SaleID { return "unnamed" })
	return m, err
}

// patch makes the API's message of what was typed; for a new sale, of the
// defaults too.
func (f *saleFlags) patch(cmd *cobra.Command, now time.Time) (m api.PatchSale, err error) {
	given := func(name string) bool {
		return cmd.Flags().Changed(name) ||
			f.create && slices.Contains([]string{"max-per-buyer", "opens-at", "closes-at"}, name)
	}
	if given("sku") {
		m.SKU = api.Some(f.sku)
	}
	if given("title") {
		m.Title = api.Some(f.title)
	}
	if err := f.prices(given, &m); err != nil {
		return m, err
	}
	for _, l := range []struct {
		flag, value string
		into        *api.Nullable[int64]
	}{
		{"total", f.total, &m.Total},
		{"max-per-buyer", f.perBuyer, &m.MaxPerBuyer},
		{"max-orders-per-buyer", f.maxOrders, &m.MaxOrdersPerBuyer},
		{"max-unpaid-per-buyer", f.maxUnpaid, &m.MaxUnpaidPerBuyer},
	} {
		if !given(l.flag) {
			continue
		}
		if *l.into, err = parseLimit(l.value); err != nil {
			return m, fmt.Errorf("--%s: %w", l.flag, err)
		}
	}
	if given("opens-at") {
		opens, err := flagTime("opens-at", f.opens, now, "now")
		if err != nil {
			return m, err
		}
		m.OpensAt = api.Some(opens.Value)
	}
	if given("closes-at") {
		if m.ClosesAt, err = flagTime("closes-at", f.closes, now, "none"); err != nil {
			return m, err
		}
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
		field *api.Opt[int64]
	}{{"payment-window", f.window, &m.PaymentWindowS}, {"payment-grace", f.grace, &m.PaymentGraceS}} {
		if !given(d.flag) {
			continue
		}
		if d.value%time.Second != 0 {
			return m, fmt.Errorf("--%s %s: want whole seconds", d.flag, d.value)
		}
		*d.field = api.Some(int64(d.value / time.Second))
	}
	f.shown.message(&m.PatchShowcase)
	return m, f.rules.message(cmd, &m.PatchRules)
}

func (f *saleFlags) prices(given func(string) bool, m *api.PatchSale) error {
	if !f.create && (given("price") || given("list-price") && f.listPrice != "none") != given("currency") {
		return errors.New("--price, --list-price and --currency: want an amount and its currency")
	}
	if given("free") {
		m.Free = api.Some(f.free)
	}
	if given("price") || f.create && f.free {
		m.Price = api.Some(sluice.Money{Amount: f.price, Currency: f.currency})
	}
	if given("list-price") {
		amount, err := parseLimit(f.listPrice)
		if err != nil {
			return fmt.Errorf("--list-price %q: want minor units, a whole number: %s; or none", f.listPrice,
				minorUnits(f.listPrice))
		}
		m.ListPrice = api.Null[sluice.Money]()
		if !amount.Null {
			m.ListPrice = api.Value(sluice.Money{Amount: amount.Value, Currency: f.currency})
		}
	}
	return nil
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
	if err := api.Decode(bytes.TrimPrefix(data, []byte(bom)), &m); err != nil {
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

// bom begins files that spreadsheets and some editors of Windows take for UTF-8.
const bom = "\ufeff"
