package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	_ "github.com/sluicehq/sluice/ledger/redisledger"
	_ "github.com/sluicehq/sluice/store/mysqlstore"
	_ "github.com/sluicehq/sluice/store/pgstore"
)

// wrappedLedger and wrappedStore are those of a program that adds something to another one.
type (
	wrappedLedger struct{ port.Ledger }
	wrappedStore  struct{ port.Store }
)

func (l wrappedLedger) Unwrap() port.Ledger { return l.Ledger }
func (s wrappedStore) Unwrap() port.Store   { return s.Store }

// inner is the URL of what is wrapped: wrapped+redis://h is redis://h in another one.
func inner(url string) string { return strings.TrimPrefix(url, "wrapped+") }

func init() {
	port.RegisterLedger(port.LedgerDriver{
		Kind: "wrapped", Schemes: []string{"wrapped+sqlite", "wrapped+redis"},
		Open: func(ctx context.Context, url string, o port.LedgerOptions) (port.Ledger, error) {
			l, err := port.LedgerDriverOf(inner(url)).Open(ctx, inner(url), o)
			return wrappedLedger{l}, err
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyLedger, error) {
			return port.LedgerDriverOf(inner(url)).OpenReadOnly(ctx, inner(url))
		},
	})
	pg := port.StoreDriverOf("postgres:")
	port.RegisterStore(port.StoreDriver{
		Kind: "wrapped", Schemes: []string{"wrapped+sqlite", "wrapped+postgres"}, Ledger: pg.Ledger,
		Open: func(ctx context.Context, url string, lazy bool) (port.Store, error) {
			s, err := port.StoreDriverOf(inner(url)).Open(ctx, inner(url), lazy)
			return wrappedStore{s}, err
		},
		OpenReadOnly: func(ctx context.Context, url string) (port.ReadOnlyStore, error) {
			return port.StoreDriverOf(inner(url)).OpenReadOnly(ctx, inner(url))
		},
	})
}

// A ledger and a store of the program's own sell, and are audited, and what they wrap can
// do is not lost: the sale's row has the ledger's name.
func TestOwnLedgerAndStore(t *testing.T) {
	t.Parallel()
	for name, urls := range map[string]func(dir string) (ledger, store string){
		"embedded": func(dir string) (string, string) {
			return "wrapped+sqlite:" + dir + "/l.db", "wrapped+sqlite:" + dir + "/s.db"
		},
		"servers": func(string) (string, string) {
			return "wrapped+" + servertest.StartRedis(t).URL(), "wrapped+" + servertest.Postgres(t)
		},
		"store": func(string) (string, string) { return "store", "wrapped+" + servertest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cfg := engine.Config{DataDir: dir}
			cfg.Ledger, cfg.Store = urls(dir)
			e := opened(t, cfg)
			onSale(t, e, "phone", 3)
			claim := sluice.Claim{Buyer: "ann", Key: "first-attempt", Quantity: 1}
			d, err := e.Claim(t.Context(), "phone", claim, sluice.Caller{})
			if err != nil || d.Code != sluice.Accepted {
				t.Fatalf("%+v, %v", d, err)
			}
			await(t, "the order in the store", func() bool {
				o, err := e.Order(t.Context(), d.Order)
				return err == nil && o.Status == sluice.Pending
			})
			if report, err := e.Audit(t.Context(), "phone"); err != nil || report.Violated() {
				t.Errorf("audit: %+v, %v", report, err)
			}
			must.Succeed(t, e.Close(t.Context()))
			audit := must.Get(engine.OpenAudit(t.Context(), cfg))(t)
			defer audit.Close()
			store := must.Get(port.StoreDriverOf(cfg.Store).OpenReadOnly(t.Context(), cfg.Store))(t)
			defer store.Close()
			if sales, err := store.Sales(t.Context()); err != nil || len(sales) != 1 || sales[0].Ledger == "" {
				t.Errorf("want one sale that names its ledger: %+v, %v", sales, err)
			}
			if report, err := audit.Audit(t.Context(), "phone"); err != nil || report.Violated() {
				t.Errorf("audit of what is closed: %+v, %v", report, err)
			}
		})
	}
}

// Two drivers for one scheme, and a driver that opens nothing, are mistakes of the program.
func TestDriversThatCannotBe(t *testing.T) {
	t.Parallel()
	open := func(context.Context, string, port.LedgerOptions) (port.Ledger, error) { return nil, nil }
	for want, d := range map[string]port.LedgerDriver{
		"two drivers":                  {Kind: "other", Schemes: []string{"redis"}, Open: open},
		"needs Kind, Schemes and Open": {Kind: "other", Schemes: []string{"other"}},
		`of [] needs`:                  {Kind: "other", Open: open},
		"want small letters":           {Kind: "other", Schemes: []string{"Other"}, Open: open},
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, want) {
					t.Errorf("%q, want %q", said, want)
				}
			}()
			port.RegisterLedger(d)
		}()
	}
}
