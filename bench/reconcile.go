package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// A reconciliation of a big sale: how long it takes, and how much memory.

const (
	reconcileServersName = "reconciliation, Redis and PostgreSQL"
	reconcileSQLiteName  = "reconciliation, embedded"
	reconcileChunk       = 1000
)

// openReconcileGroup fills a sale on each pair. A reconciliation that finds
// nothing changes nothing, so all rounds share them.
func openReconcileGroup(ctx context.Context, o *options) ([]side, func(), error) {
	var closers []func()
	done := func() {
		for i := len(closers) - 1; i >= 0; i-- {
			closers[i]()
		}
	}
	servers, err := openServers(ctx, o, &closers)
	if err == nil {
		err = servers.fill(ctx, o)
	}
	if err == nil {
		err = embedded(ctx, o, func(b *bigSale) error { return b.fill(ctx, o) })
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	does := fmt.Sprintf("settle.Reconcile with repairs over a sale of %s stored orders: every claim, the journal, "+
		"every order, the outbox; it must find nothing", whole(float64(o.orders)))
	return []side{
		{name: reconcileServersName, own: true, does: does, run: servers.reconcile},
		{
			name: reconcileSQLiteName, own: true, does: "the same over sqliteledger and sqlitestore",
			run: func(ctx context.Context, r *round) (f figure, err error) {
				err = embedded(ctx, o, func(b *bigSale) error {
					f, err = b.reconcile(ctx, r)
					return err
				})
				return f, err
			},
		},
	}, done, nil
}

// bigSale is a sale with many stored orders.
type bigSale struct {
	ledger sluice.Ledger
	store  sluice.Store
}

func openServers(ctx context.Context, o *options, closers *[]func()) (*bigSale, error) {
	dir := filepath.Join(o.dir, "reconcile-redis")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	redis, err := startRedis(ctx, dir, "no")
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, redis.stop)
	server, err := servertest.NewPostgres(filepath.Dir(o.dir))
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, func() { _ = server.Close() })
	ledger, err := redisledger.Open(ctx, "redis://"+redis.addr, redisledger.Options{Node: "bench"})
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, func() { _ = ledger.Close() })
	store, err := pgstore.Open(ctx, server.URL(), pgstore.Options{})
	if err != nil {
		return nil, err
	}
	*closers = append(*closers, func() { _ = store.Close() })
	return &bigSale{ledger, store}, nil
}

// embedded opens the embedded pair for as long as it is used: its ledger keeps
// every claim in this process's memory, which is not the others' business.
func embedded(ctx context.Context, o *options, use func(*bigSale) error) (err error) {
	ledger, err := sqliteledger.Open(ctx, filepath.Join(o.dir, "reconcile-ledger.db"), sqliteledger.Options{Node: "bench"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(o.dir, "reconcile-store.db"), sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return use(&bigSale{ledger, store})
}

// fill accepts and stores the claims.
func (b *bigSale) fill(ctx context.Context, o *options) error {
	if _, err := b.store.CreateSale(ctx, drainSale()); err != nil {
		return err
	}
	if err := settle.NewLoader(b.store, b.ledger).Load(ctx, ledgerSale); err != nil {
		return err
	}
	buyers := newCrowd(o.seed)
	lines := pipeline.New(b.ledger, b.store, pipeline.Options{})
	for at := 0; at < o.orders; at += reconcileChunk {
		claims := make([]sluice.Claim, min(reconcileChunk, o.orders-at))
		for i := range claims {
			claims[i] = sluice.Claim{Quantity: 1, Order: admission.NewOrderID(ledgerSale), Meta: drainMeta}
			claims[i].Buyer, claims[i].Key = buyers.attempt(int64(at + i))
		}
		decisions, err := b.ledger.Claim(ctx, ledgerSale, claims)
		if err != nil {
			return err
		}
		for i := range decisions {
			if decisions[i].Code != sluice.Accepted {
				return fmt.Errorf("a claim is %s, want it accepted", decisions[i].Code)
			}
		}
		lines.Wake(ledgerSale)
	}
	if err := lines.Close(ctx); err != nil {
		return err
	}
	reading, err := readSale(ctx, b.ledger)
	if err != nil {
		return err
	}
	sale, err := b.store.Sale(ctx, ledgerSale)
	if err == nil && (reading.Backlog != 0 || sale.Taken != int64(o.orders)) {
		err = fmt.Errorf("%d of %d orders are stored, %d entries are in the journal", sale.Taken, o.orders, reading.Backlog)
	}
	return err
}

// reconcile measures one reconciliation. The memory is this process's, the
// ledger's and store's clients in it: with the embedded pair, both whole.
func (b *bigSale) reconcile(ctx context.Context, r *round) (f figure, err error) {
	f.also = map[string]float64{}
	debug.FreeOSMemory()
	before := statusMB("VmRSS")
	// 5 resets the peak (proc_pid_clear_refs(5)); where it cannot, the peak is of the whole run.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200)
	endProfile, err := r.startProfile()
	if err != nil {
		return f, err
	}
	meter := startMeter(map[string]int{"client": os.Getpid()})
	start := time.Now()
	report, err := settle.NewReconciler(b.store, b.ledger).Reconcile(ctx, ledgerSale, true)
	took := time.Since(start)
	meter.stop(f.also, int64(r.orders))
	endProfile()
	if err != nil {
		return f, err
	}
	f.perSecond = float64(r.orders) / took.Seconds()
	f.also["took_s"], f.also["memory_before_mb"], f.also["peak_mb"] = took.Seconds(), before, statusMB("VmHWM")
	if report.Skipped != "" || report.Remaining() != 0 || report.Of(sluice.InFlight).Count != 0 {
		return f, errors.Join(errors.New("the reconciliation found something where nothing is"), fmt.Errorf("%+v", report))
	}
	return f, nil
}

// statusMB returns a memory field of this process in megabytes, 0 where /proc
// does not tell.
func statusMB(name string) float64 {
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(field("/proc/self/status", name), " kB"), 64)
	return kb / 1024
}
