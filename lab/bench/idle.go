package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// What a server takes that has nothing to do, and how long it takes to start.

const (
	startName = "start, embedded"
	idleName  = "idle"

	startOrders = 1_000_000
	idleSales   = 2000
)

func openIdleGroup(ctx context.Context, o *options) ([]side, func(), error) {
	d, err := openDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return []side{
		{
			name: startName, own: true, run: start,
			does: fmt.Sprintf("from the start of the process to the first answer: of an empty folder to GET /readyz, and of "+
				"one with a sale of %d orders to an accepted claim; medians of %d", startOrders, startTimes),
		},
		{
			name: idleName, own: true, run: func(ctx context.Context, r *round) (figure, error) { return d.idle(ctx, r) },
			does: fmt.Sprintf("three servers at a time: an empty sluice serve, one with %d open sales, and one with as many on "+
				"%s; processor time and memory of the server alone, of %s after half of that", idleSales, servers.name, o.idle),
		},
	}, d.close, nil
}

// startTimes is how often each start is measured.
const startTimes = 5

func start(ctx context.Context, r *round) (f figure, err error) {
	full := *r
	full.dir = filepath.Join(r.dir, "full")
	data := filepath.Join(full.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return f, err
	}
	if err := r.sellOut(ctx, data); err != nil {
		return f, err
	}
	next := int64(startOrders)
	var empty, orders []float64
	for n := range startTimes {
		own := *r
		own.dir = filepath.Join(r.dir, strconv.Itoa(n))
		ms, err := own.startOnce(ctx, func(p *process) (int, error) {
			status, _, err := p.get(ctx, "/readyz")
			return status, err
		}, http.StatusOK)
		if err != nil {
			return f, err
		}
		empty = append(empty, ms)
		ms, err = full.startOnce(ctx, func(p *process) (int, error) {
			answer, err := p.order(ctx, poolSecret, r.crowd, next)
			if err != nil {
				return 0, err
			}
			return answer.Status, nil
		}, http.StatusAccepted)
		if err != nil {
			return f, err
		}
		next++
		orders = append(orders, ms)
	}
	f.also = map[string]float64{"empty_ms": median(empty), "orders_ms": median(orders)}
	return f, nil
}

// startOnce starts a server and asks until it answers as wanted.
func (r *round) startOnce(ctx context.Context, ask func(*process) (int, error), want int) (ms float64, err error) {
	k, err := embedded.open(ctx, r, poolSecret, nil)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	p, err := startServer(ctx, k.config)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	for {
		status, err := ask(p)
		switch {
		case err != nil:
			return 0, err
		case status == want:
			return float64(time.Since(begun).Microseconds()) / 1000, nil
		case time.Since(begun) > time.Minute:
			return 0, fmt.Errorf("a minute after its start the server answers %d, want %d", status, want)
		}
		time.Sleep(time.Millisecond)
	}
}

// sellOut fills a data folder with orders, as a server would have.
func (r *round) sellOut(ctx context.Context, data string) error {
	ledger, err := sqliteledger.Open(ctx, filepath.Join(data, "ledger.db"), sqliteledger.Options{Node: "bench"})
	if err != nil {
		return err
	}
	defer ledger.Close()
	store, err := sqlitestore.Open(ctx, filepath.Join(data, "store.db"), sqlitestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	if _, err := store.CreateSale(ctx, drainSale()); err != nil {
		return err
	}
	if err := settle.NewLoader(store, ledger).Load(ctx, ledgerSale); err != nil {
		return err
	}
	if err := fill(ctx, ledger, ledgerSale, r.crowd, 0, startOrders, 1000); err != nil {
		return err
	}
	_, err = storeAll(ctx, ledger, store, startOrders)
	return err
}

func (d *database) idle(ctx context.Context, r *round) (f figure, err error) {
	all := map[string]*process{}
	for name, b := range map[string]*backend{"empty": &embedded, "sales": &embedded, "servers": &servers} {
		own := *r
		own.dir = filepath.Join(r.dir, name)
		if err := os.MkdirAll(own.dir, 0o755); err != nil {
			return f, err
		}
		if name == "empty" {
			p, err := startSluice(ctx, own.dir)
			if err != nil {
				return f, err
			}
			defer p.stop()
			all[name] = p
			continue
		}
		k, err := b.open(ctx, &own, poolSecret, d)
		if err != nil {
			return f, err
		}
		defer k.close()
		p, err := startServer(ctx, k.config)
		if err != nil {
			return f, err
		}
		defer p.stop()
		all[name] = p
		var creating errgroup.Group
		creating.SetLimit(16)
		for n := range idleSales {
			creating.Go(func() error { return p.createSale(ctx, "sale-"+strconv.Itoa(n), soldOutUnits) })
		}
		if err := creating.Wait(); err != nil {
			return f, err
		}
	}
	pause(ctx, r.idle/2) // creating the sales was a rush
	begun, from := time.Now(), map[string]time.Duration{}
	for name, p := range all {
		from[name] = machine.CPUTime(p.cmd.Process.Pid)
	}
	pause(ctx, r.idle)
	f.also = map[string]float64{}
	for name, p := range all {
		spent := machine.CPUTime(p.cmd.Process.Pid) - from[name]
		f.also[name+"_core_%"] = 100 * spent.Seconds() / time.Since(begun).Seconds()
		f.also[name+"_MB"] = machine.Resident(p.cmd.Process.Pid) / 1e6
	}
	return f, nil
}

// startSluice builds the program of this folder and starts its serve in an empty folder: the
// memory of a server at rest is mostly pages of its program's file, and the benchmark is another.
func startSluice(ctx context.Context, dir string) (*process, error) {
	program, isReady := filepath.Join(dir, "sluice"), filepath.Join(dir, "ready")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/sluicehq/sluice").Output()
	if err != nil {
		return nil, fmt.Errorf("find the product's module: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/sluice")
	build.Dir = strings.TrimSpace(string(root)) // so that its own go.mod chooses what is linked
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build sluice: %w\n%s", err, out)
	}
	cmd := exec.CommandContext(ctx, program, "serve", "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
		"--ready-file", isReady)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, leash: interrupted{cmd.Process}}
	for n := 0; n < 300 && ctx.Err() == nil; n++ {
		if _, err := os.Stat(isReady); err == nil {
			return p, nil
		}
		pause(ctx, 100*time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("sluice serve is not ready: %w\n%s", cmp.Or(ctx.Err(), errors.New("half a minute has passed")),
		said.Bytes())
}

// interrupted is a process that ends by a signal.
type interrupted struct{ *os.Process }

func (i interrupted) Close() error { return i.Signal(os.Interrupt) }

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
