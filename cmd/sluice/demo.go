package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/demo"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/loadgen"
)

func (a *app) demoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use: "demo", Short: "100,000 buyers rush 1,000 units, and an audit proves the outcome", Args: exactly(),
		Long: "Starts a server in a temporary folder, creates a sale, lets a crowd rush it over " +
			"real HTTP, waits until every order is stored, and audits the sale. With --ledger " +
			"and --store the server uses these instead, and the sale stays there, closed.\n\n" +
			"With --lifecycle a third of the winners pay, a third cancel, and a third let their " +
			"orders expire. Buyers who were refused as sold_out try again with the same key and " +
			"buy the units that return, until all are paid.",
		// The demo reads its flags, and no other source of settings: it must not run on
		// what the environment calls the shop's own ledger.
		RunE: a.with(func(cmd *cobra.Command, _ *config.Config, _ []string) error {
			if o.Stock < 0 || o.Stock > sluice.MaxUnits {
				return usage(fmt.Errorf("--stock: want 0 to %d", int64(sluice.MaxUnits)))
			}
			if o.Crowd.Buyers < 1 {
				return usage(errors.New("--buyers: want at least 1"))
			}
			if cmd.Flags().Changed("payment-window") && !o.Lifecycle {
				return usage(errors.New("--payment-window: goes with --lifecycle"))
			}
			if !cmd.Flags().Changed("payment-window") {
				o.Window = demo.DefaultWindow(o.Stock)
			}
			if o.Window < time.Second || o.Window > time.Hour || o.Window%time.Second != 0 {
				return usage(errors.New("--payment-window: want whole seconds, 1s to 1h"))
			}
			o.Ledger = cmd.Flags().Lookup("ledger").Value.String()
			o.Store = cmd.Flags().Lookup("store").Value.String()
			if !cmd.Flags().Changed("seed") {
				o.Crowd.Seed = newSeed()
			}
			o.Log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelError}))
			o.Screen = demo.Screen{
				Started: func(url, ledger, store string) {
					a.say("A server on %s\n  ledger   %s\n  store    %s", url, ledger, store)
				},
				Rush: a.rush, Watch: a.watch, Bar: a.bar, Finished: a.printDemo, Kept: a.printKept,
			}
			if o.Keep && a.stdin != nil {
				ignoreBackgroundReads()
				o.Screen.Again = enters(a.stdin)
			}
			result, err := demo.Run(cmd.Context(), o)
			if result == nil {
				return err
			}
			return errors.Join(err, demoVerdict(result))
		}),
	}
	crowdFlags(cmd, &o.Crowd, 100_000)
	cmd.Flags().Int64Var(&o.Stock, "stock", 1000, "units for sale")
	cmd.Flags().BoolVar(&o.Keep, "keep", false,
		"leave the server and the buyer's pages up until Ctrl-C")
	cmd.Flags().BoolVar(&o.Lifecycle, "lifecycle", false,
		"go on after the rush: orders are paid, cancelled and expire, units are sold again")
	cmd.Flags().DurationVar(&o.Window, "payment-window", 0,
		"with --lifecycle: how long a buyer may take to pay (default: 10s, and one more for each 1,000 units)")
	config.AddFlags(cmd.Flags(), "ledger", "store")
	cmd.Flags().Lookup("ledger").Usage = "where claims are decided, as at serve (default: SQLite in the temporary folder)"
	cmd.Flags().Lookup("store").Usage = "where orders are kept, as at serve (default: SQLite in the temporary folder)"
	return cmd
}

func (a *app) printDemo(r *loadgen.Result) error {
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.stdout, "\n%s wanted %s.\n\n", figures.Plural(r.Buyers, "buyer", "buyers"),
		figures.Plural(*r.Stock, "unit", "units"))
	a.printRush(r)
	if r.Lifecycle != nil {
		a.printLives(r.Lifecycle)
	}
	fmt.Fprintln(a.stdout, "\nAudit")
	a.printChecks(r.Audit.Checks)
	if r.Audit.OK && undecided(r) == 0 {
		fmt.Fprintln(a.stdout, "\nNothing was sold twice, and every promise became an order.")
	}
	return nil
}

// printKept says where to click.
func (a *app) printKept(k *demo.Kept) {
	rows := append(slices.Clone(k.Pages), demo.KeptPage{Name: "all sales", URL: k.URL + "/"},
		demo.KeptPage{Name: "sign in", URL: k.SignIn, Note: "as alice"},
		demo.KeptPage{Name: "mock shop", URL: k.ShopURL + "/", Note: "login, payment, and another crowd"},
		demo.KeptPage{Name: "metrics", URL: k.URL + "/metrics"})
	fmt.Fprintln(a.stderr, "\nThe server stays up; Enter sends another crowd, and Ctrl-C stops it. In a browser:")
	for _, r := range rows {
		note := "  " + r.Note
		if a.columns > 0 && 13+len(r.URL)+len(note) > a.columns {
			note = "\n" + strings.Repeat(" ", 13) + r.Note
		}
		fmt.Fprintln(a.stderr, strings.TrimRight(fmt.Sprintf("  %-10s %s%s", r.Name, a.link(r.URL), note), " "))
	}
	fmt.Fprintf(a.stderr, "  %-10s %s\n", "admin key", k.AdminKey)
}

// enters gets a value for each line that is typed.
func enters(from io.Reader) <-chan struct{} {
	typed := make(chan struct{})
	go func() {
		for lines := bufio.NewScanner(from); lines.Scan(); {
			typed <- struct{}{}
		}
	}()
	return typed
}

// demoVerdict is what the exit code says.
func demoVerdict(r *loadgen.Result) error {
	err := auditFailure(r.Audit)
	if n := undecided(r); err == nil && n > 0 {
		err = fmt.Errorf("%s without a decision", figures.Plural(n, "try stayed", "tries stayed"))
	}
	return err
}

// undecided counts the tries that never got an answer.
func undecided(r *loadgen.Result) int64 {
	if r.Lifecycle == nil {
		return r.Errors
	}
	return r.Errors + r.Lifecycle.CameBack.Errors
}
