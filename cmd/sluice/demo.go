package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/config"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// demo is one run of the command of that name.
type demo struct {
	*app
	o             loadgen.Options
	stock         int64
	ledger, store string
	keep          bool
	lifecycle     bool
	window        time.Duration // for payment, with lifecycle

	server *server
	client *client.Client
	tryout *tryout // with --keep
}

func (a *app) demoCommand() *cobra.Command {
	d := &demo{app: a}
	cmd := &cobra.Command{
		Use: "demo", Short: "100,000 buyers rush 1,000 units, and an audit proves the outcome", Args: exactly(),
		Long: "Starts a server in a temporary folder, creates a sale, lets a crowd rush it over\n" +
			"real HTTP, waits until every order is stored, and audits the sale. With --ledger\n" +
			"and --store it uses those instead, and leaves its sale there, closed.\n\n" +
			"With --lifecycle a third of the winners pay, a third cancel, and a third let their\n" +
			"orders expire. Who heard sold_out comes back with the same key and buys the units\n" +
			"that return, until all are paid.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Of the settings the demo takes its flags only: it must not run on
			// what the environment calls the shop's own ledger.
			if _, err := a.load(cmd); err != nil {
				return err
			}
			if d.stock < 0 || d.stock > sluice.MaxUnits {
				return usage(fmt.Errorf("--stock: want 0 to %d", int64(sluice.MaxUnits)))
			}
			if d.o.Buyers < 1 {
				return usage(errors.New("--buyers: want at least 1"))
			}
			if cmd.Flags().Changed("payment-window") && !d.lifecycle {
				return usage(errors.New("--payment-window: goes with --lifecycle"))
			}
			if !cmd.Flags().Changed("payment-window") {
				d.window = defaultWindow(d.stock)
			}
			if d.window < time.Second || d.window > time.Hour || d.window%time.Second != 0 {
				return usage(errors.New("--payment-window: want whole seconds, 1s to 1h"))
			}
			d.ledger = cmd.Flags().Lookup("ledger").Value.String()
			d.store = cmd.Flags().Lookup("store").Value.String()
			if !cmd.Flags().Changed("seed") {
				d.o.Seed = newSeed()
			}
			return d.run(cmd.Context())
		},
	}
	crowdFlags(cmd, &d.o, 100_000)
	cmd.Flags().Int64Var(&d.stock, "stock", 1000, "units for sale")
	cmd.Flags().BoolVar(&d.keep, "keep", false,
		"leave the server and its pages up afterwards, to be clicked through, until Ctrl-C")
	cmd.Flags().BoolVar(&d.lifecycle, "lifecycle", false,
		"go on after the rush: orders are paid, cancelled and expire, units are sold again")
	cmd.Flags().DurationVar(&d.window, "payment-window", 0,
		"with --lifecycle: how long a buyer may take to pay (default: 10s, and one more for each 1,000 units)")
	config.AddFlags(cmd.Flags(), "ledger", "store")
	cmd.Flags().Lookup("ledger").Usage = "where claims are decided, as at serve (default: SQLite in the temporary folder)"
	cmd.Flags().Lookup("store").Usage = "where orders are kept, as at serve (default: SQLite in the temporary folder)"
	return cmd
}

func (d *demo) run(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	cfg := engine.Config{
		DataDir: folder, Ledger: d.ledger, Store: d.store,
		Log: slog.New(slog.NewTextHandler(d.stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if d.keep {
		if d.tryout, err = newTryout(); err != nil {
			return err
		}
		defer d.tryout.close()
		cfg.Pages = d.tryout.pages()
	}
	if d.server, err = startServer(ctx, cfg, addresses{public: "127.0.0.1:0"}); err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
		defer cancel()
		err = errors.Join(err, d.server.stop(closing))
	}()
	if d.client, err = client.New(d.server.url, client.Options{AdminKey: d.server.engine.AdminKey()}); err != nil {
		return err
	}
	ledger, store := backends(cfg)
	d.say("A server on %s\n  ledger   %s\n  store    %s", d.server.url, ledger, store)
	result, broken, err := d.sell(ctx)
	if err != nil {
		return err
	}
	result.Ledger, result.Store = ledger, store
	if err := d.print(result); err != nil {
		return err
	}
	if d.keep {
		if err := d.wait(ctx, result.SaleID); err != nil {
			return errors.Join(broken, err)
		}
	}
	return errors.Join(broken, demoVerdict(result))
}

// sell lets the crowd rush a new sale and gathers the proof. broken is what
// was wrong with it, besides the audit.
func (d *demo) sell(ctx context.Context) (result *loadgen.Result, broken, err error) {
	sale, err := d.createSale(ctx)
	if err != nil {
		return nil, nil, err
	}
	d.o.URL, d.o.Sale, d.o.Secret = d.server.url, sale.ID, []byte(d.server.engine.BuyerSecret())
	proof := &proof{demo: d}
	if d.lifecycle {
		proof.lives = newLives(d)
		d.o.Accepted, d.o.Remember = proof.lives.accept, true
		proof.lives.start(ctx)
		defer proof.lives.stop()
	}
	if proof.crowd, proof.out, err = d.rush(ctx, d.o); err != nil {
		return nil, nil, err
	}
	proof.out.Stock = &d.stock
	if proof.lives != nil {
		if err := proof.lives.goOn(ctx, proof.crowd, proof.out); err != nil {
			return nil, nil, err
		}
	}
	if err := proof.gather(ctx); err != nil {
		return nil, nil, err
	}
	if !d.keep {
		if _, err := d.client.CloseSale(ctx, sale.ID); err != nil {
			return nil, nil, fmt.Errorf("close the demo's sale: %w", err)
		}
	}
	return &proof.out.Result, proof.late, nil
}

func (d *demo) createSale(ctx context.Context) (api.AdminSale, error) {
	sale := api.CreateSale{
		ID: api.Some(sluice.SaleID(fmt.Sprintf("demo-%x", time.Now().UnixNano()))), SKU: "DEMO-1",
		Title: "A thing that everybody wants",
		Price: api.Some(api.Money{Amount: 19900, Currency: "CNY"}), Total: api.Value(d.stock),
		MaxPerBuyer: api.Value(int64(1)),
		OpensAt:     api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
	}
	if d.lifecycle {
		sale.PaymentWindowS, sale.PaymentGraceS = api.Some(int64(d.window/time.Second)),
			api.Some(int64(lifeGrace/time.Second))
	}
	return d.client.CreateSale(ctx, sale)
}

func (d *demo) print(r *loadgen.Result) error {
	if d.json {
		return d.printJSON(r)
	}
	fmt.Fprintf(d.stdout, "\n%s wanted %s.\n\n", plural(int64(r.Buyers), "buyer", "buyers"),
		plural(d.stock, "unit", "units"))
	d.printRush(r)
	if r.Lifecycle != nil {
		d.printLives(r.Lifecycle)
	}
	fmt.Fprintln(d.stdout, "\nAudit")
	rows := make([]checkRow, len(r.Audit.Checks))
	for i, c := range r.Audit.Checks {
		rows[i] = checkRow{c.ID, c.Name, c.Detail, c.OK, c.Unchecked}
	}
	d.printChecks(rows)
	if r.Audit.OK && undecided(r) == 0 {
		fmt.Fprintln(d.stdout, "\nNothing was sold twice, and every promise became an order.")
	}
	return nil
}

// demoVerdict is what the exit code says.
func demoVerdict(r *loadgen.Result) error {
	violated := false
	for _, c := range r.Audit.Checks {
		violated = violated || !c.OK && !c.Unchecked
	}
	switch {
	case violated:
		return &exitError{exitViolated, errors.New("the audit found a violation")}
	case !r.Audit.OK:
		return errors.New("the audit could not check everything")
	case undecided(r) > 0:
		return fmt.Errorf("%s without a decision", plural(undecided(r), "try stayed", "tries stayed"))
	}
	return nil
}

// undecided counts the tries that never got an answer.
func undecided(r *loadgen.Result) int64 {
	if r.Lifecycle == nil {
		return r.Errors
	}
	return r.Errors + r.Lifecycle.CameBack.Errors
}
