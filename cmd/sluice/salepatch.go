package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// salePatchFlags holds the flags of sale patch as they were typed.
type salePatchFlags struct {
	sku, title, currency, listPrice       string
	price                                 int64
	total, perBuyer, maxOrders, maxUnpaid string
	opens, closes                         string
	window, grace                         time.Duration
	rules                                 ruleFlags
}

func (a *app) salePatch() *cobra.Command {
	var f salePatchFlags
	cmd := &cobra.Command{
		Use: "patch SALE", Short: "Change a sale; what is not given stays as it is", Args: exactly("SALE"),
		Long: "Changes what is given, and nothing else. From the opening on, the limits that decide who\n" +
			"may buy how much are fixed, but the total can be raised and the closing time moved. What\n" +
			"is asked of buyers (rates, ratio, ticket and so on) can change at any moment.",
		Example: "  sluice sale patch phone --admission-ratio 1.5 --buyer-rate 10/1s,shared\n" +
			"  sluice sale patch phone --closes-at +10m --address-rate none",
		RunE: func(cmd *cobra.Command, args []string) error {
			id := sluice.SaleID(args[0])
			if err := id.Validate(); err != nil {
				return usage(err)
			}
			message, err := f.message(cmd, time.Now())
			if err != nil {
				return usage(err)
			}
			c, err := a.merchant(cmd)
			if err != nil {
				return err
			}
			sale, err := c.PatchSale(cmd.Context(), id, message)
			if err != nil {
				return err
			}
			return a.printSale(sale)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.sku, "sku", "", "what is sold: the shop's `SKU`")
	fl.StringVar(&f.title, "title", "", "`TITLE` that buyers read")
	fl.Int64Var(&f.price, "price", 0, "price of one unit, an `AMOUNT` in minor units, with --currency")
	fl.StringVar(&f.listPrice, "list-price", "", "former price, an `AMOUNT` in minor units with --currency, or none")
	fl.StringVar(&f.currency, "currency", "", "currency of the prices given, a `CODE` of ISO 4217")
	fl.StringVar(&f.total, "total", "", "units for sale, `N` or none for no total")
	fl.StringVar(&f.perBuyer, "max-per-buyer", "", "units that one buyer may hold, `N` or none for no limit")
	fl.StringVar(&f.maxOrders, "max-orders-per-buyer", "", "accepted claims of one buyer, ended ones too, `N` or none")
	fl.StringVar(&f.maxUnpaid, "max-unpaid-per-buyer", "",
		"orders of one buyer that may expire, or be cancelled by the buyer, `N` or none")
	fl.StringVar(&f.opens, "opens-at", "", "`TIME` in RFC 3339, or +10m for in ten minutes")
	fl.StringVar(&f.closes, "closes-at", "", "`TIME` as for opens-at, or now, or none")
	fl.DurationVar(&f.window, "payment-window", 0, "how long a buyer may take to pay")
	fl.DurationVar(&f.grace, "payment-grace", 0, "how much longer the units are kept")
	f.rules.add(cmd)
	clientFlags(cmd)
	return cmd
}

// message makes the API's message of what was typed.
func (f *salePatchFlags) message(cmd *cobra.Command, now time.Time) (m api.PatchSale, err error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
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
	if given("payment-window") {
		m.PaymentWindowS = api.Some(int64(f.window / time.Second))
	}
	if given("payment-grace") {
		m.PaymentGraceS = api.Some(int64(f.grace / time.Second))
	}
	if err := f.rules.message(cmd, &m.PatchRules); err != nil {
		return m, err
	}
	if m == (api.PatchSale{}) {
		return m, errors.New("nothing to change: want one flag at least, like --title")
	}
	return m, nil
}

func (f *salePatchFlags) prices(given func(string) bool, m *api.PatchSale) error {
	if (given("price") || given("list-price") && f.listPrice != "none") != given("currency") {
		return errors.New("--price, --list-price and --currency: want an amount and its currency")
	}
	if given("price") {
		m.Price = api.Some(api.Money{Amount: f.price, Currency: f.currency})
	}
	if given("list-price") {
		amount, err := parseLimit(f.listPrice)
		if err != nil {
			return fmt.Errorf("--list-price %q: want minor units, a whole number: %s; or none", f.listPrice,
				minorUnits(f.listPrice))
		}
		m.ListPrice = api.Null[api.Money]()
		if !amount.Null {
			m.ListPrice = api.Value(api.Money{Amount: amount.Value, Currency: f.currency})
		}
	}
	return nil
}
