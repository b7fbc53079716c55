// Package demo is one run of `sluice demo`: a server in a temporary folder, a
// crowd that rushes its sale over real HTTP, and the proof that the outcome is
// right. It prints nothing itself; a Screen does.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// Options of a run.
type Options struct {
	Crowd         loadgen.Options // how many buyers come, and how
	Stock         int64           // units for sale
	Ledger, Store string          // URLs; empty: SQLite in the temporary folder
	Keep          bool            // afterwards, leave server, pages and a mock shop up until the context ends
	Lifecycle     bool            // orders are paid, cancelled and expire, and units are sold again
	Window        time.Duration   // with Lifecycle: how long a buyer may take to pay
	Log           *slog.Logger    // of the server
	Screen        Screen
}

// Screen shows a run to a person.
type Screen struct {
	// Started is called when the server is up.
	Started func(url, ledger, store string)
	// Rush lets a crowd loose, and shows it.
	Rush func(context.Context, loadgen.Options) (*loadgen.Crowd, *loadgen.Outcome, error)
	// Watch shows a line that changes until stop is called.
	Watch func(line func() string) (stop func())
	// Bar draws how much of a whole is done.
	Bar func(done, whole int64) string
	// Finished is called with the result, before Kept.
	Finished func(*loadgen.Result) error
	// Kept is called with what is left up.
	Kept func(*Kept)
	// Again: a value has another crowd come to what is left up. Nil: only the mock shop's page does.
	Again <-chan struct{}
}

// run is a run of the demo.
type run struct {
	Options
	engine       *engine.Engine
	server, shop *site // shop: with Keep
	client       *client.Client
}

// Run runs the demo. A result with an error says what went wrong besides what
// the result's audit shows.
func Run(ctx context.Context, o Options) (result *loadgen.Result, err error) {
	d := &run{Options: o}
	folder, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.open(ctx, folder); err != nil {
		return nil, err
	}
	ledger := auth.Redact(cmp.Or(d.Ledger, "sqlite:"+filepath.Join(folder, "ledger.db")))
	store := auth.Redact(cmp.Or(d.Store, "sqlite:"+filepath.Join(folder, "store.db")))
	d.Screen.Started(d.server.url, ledger, store)
	result, broken, err := d.sell(ctx)
	if err != nil {
		return nil, err
	}
	result.Ledger, result.Store = ledger, store
	if err = d.Screen.Finished(result); err == nil && d.Keep {
		err = d.wait(ctx, result.SaleID)
	}
	return result, errors.Join(broken, err)
}

func (d *run) open(ctx context.Context, folder string) (err error) {
	cfg := engine.Config{DataDir: folder, Ledger: d.Ledger, Store: d.Store, Log: d.Log}
	if d.Keep {
		if d.shop, err = newSite(); err != nil {
			return err
		}
	}
	if d.server, err = newSite(); err != nil {
		return err
	}
	if d.Keep {
		cfg.Pages = engine.Pages{
			LoginURL: d.shop.url + "/login?return={return}", PayURL: d.shop.url + "/pay?order={order}",
			ShopName: "Aurora", ShopURL: d.shop.url + "/", PublicURL: d.server.url, Accent: "#c8321f",
		}
	}
	if d.engine, err = engine.Open(ctx, cfg); err != nil {
		return err
	}
	d.server.serve(d.engine.NewServer())
	d.client, err = client.New(d.server.url, client.Options{AdminKey: d.engine.AdminKey()})
	return err
}

func (d *run) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
	defer cancel()
	err := errors.Join(d.shop.close(ctx), d.server.close(ctx))
	if d.engine != nil {
		err = errors.Join(err, d.engine.Close(ctx))
	}
	return err
}

// sell lets the crowd rush a new sale and gathers the proof. broken is what
// was wrong with it, besides the audit.
func (d *run) sell(ctx context.Context) (result *loadgen.Result, broken, err error) {
	sale, err := d.createSale(ctx)
	if err != nil {
		return nil, nil, err
	}
	d.Crowd.URL, d.Crowd.Sale, d.Crowd.Secret = d.server.url, sale.ID, []byte(d.engine.BuyerSecret())
	proof := &proof{run: d}
	if d.Lifecycle {
		proof.lives = newLives(d)
		d.Crowd.Accepted, d.Crowd.Remember = proof.lives.accept, true
		proof.lives.start(ctx)
		defer proof.lives.stop()
	}
	if proof.crowd, proof.out, err = d.Screen.Rush(ctx, d.Crowd); err != nil {
		return nil, nil, err
	}
	proof.out.Stock = &d.Stock
	if proof.lives != nil {
		if err := proof.lives.goOn(ctx, proof.crowd, proof.out); err != nil {
			return nil, nil, err
		}
	}
	if err := proof.gather(ctx); err != nil {
		return nil, nil, err
	}
	if !d.Keep {
		if _, err := d.client.CloseSale(ctx, sale.ID); err != nil {
			return nil, nil, fmt.Errorf("close the demo's sale: %w", err)
		}
	}
	return &proof.out.Result, proof.late, nil
}

func (d *run) createSale(ctx context.Context) (api.AdminSale, error) {
	sale := api.CreateSale{
		ID: api.Some(sluice.SaleID(fmt.Sprintf("demo-%x", time.Now().UnixNano()))), SKU: "DEMO-1",
		Title: "Sea Breeze headphones",
		Price: api.Some(money(19900)), ListPrice: api.Value(money(39900)), Total: api.Value(d.Stock),
		MaxPerBuyer: api.Value(int64(1)),
		OpensAt:     api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
	}
	if d.Lifecycle {
		sale.PaymentWindowS, sale.PaymentGraceS = api.Some(int64(d.Window/time.Second)),
			api.Some(int64(lifeGrace/time.Second))
	}
	return d.client.CreateSale(ctx, sale)
}

// site is an HTTP server on this machine. Its address is known before it
// serves.
type site struct {
	listener net.Listener
	server   *http.Server // nil before serve
	url      string
	failed   chan error // gets one value if it ends
}

func newSite() (*site, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &site{listener: l, url: "http://" + l.Addr().String(), failed: make(chan error, 1)}, nil
}

func (s *site) serve(server *http.Server) {
	s.server = server
	go func() { s.failed <- server.Serve(s.listener) }()
}

// close answers what is under way, until ctx ends.
func (s *site) close(ctx context.Context) error {
	switch {
	case s == nil:
		return nil
	case s.server == nil:
		return s.listener.Close()
	}
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.server.Close())
	}
	return err
}
