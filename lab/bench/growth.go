package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/pgstore"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// What a claim costs a ledger when a sale has many buyers already, beside what it costs
// when there are few.

const (
	fewBuyers = 10_000
	// fewSales of few buyers are measured, so that there is enough to measure.
	fewSales = 10
	// manyClaims of buyers who are new are measured in a turn.
	manyClaims = fewBuyers * fewSales
)

// growthTurns is how often sales of few buyers and the one of many take turns.
func (o *options) growthTurns() int64 { return int64(min(4, max(1, o.buyers/manyClaims))) }

// grown is a ledger that claims are measured on.
type grown struct {
	port.Ledger
	load  func(ctx context.Context, sale sluice.SaleID) error // opens a sale
	crowd crowd.Crowd
	pids  map[string]int
	ends  []func() error
}

func (g *grown) close() {
	for i := len(g.ends) - 1; i >= 0; i-- {
		_ = g.ends[i]()
	}
}

// grownLedgers lists the ledgers that are measured.
var grownLedgers = []struct {
	name, does string
	open       func(ctx context.Context, g *grown, r *round, d *database) error
}{
	{"Redis ledger", "no fsync", growRedis},
	{"embedded ledger", "each call with its fsync", growSQLite},
	{alone.name, "each claim is an order", growPostgres},
}

func growRedis(ctx context.Context, g *grown, r *round, _ *database) error {
	server, err := startRedis(r.dir, "no")
	if err != nil {
		return err
	}
	g.ends = append(g.ends, server.Close)
	g.pids["redis"] = server.Pid()
	ledger, err := redisledger.Open(ctx, server.URL(), redisledger.Options{Node: "bench"})
	if err != nil {
		return err
	}
	g.Ledger, g.ends = ledger, append(g.ends, ledger.Close)
	return nil
}

func growSQLite(ctx context.Context, g *grown, r *round, _ *database) error {
	ledger, err := sqliteledger.Open(ctx, filepath.Join(r.dir, "ledger.db"), sqliteledger.Options{Node: "bench"})
	if err != nil {
		return err
	}
	g.Ledger, g.ends = ledger, append(g.ends, ledger.Close)
	return nil
}

func growPostgres(ctx context.Context, g *grown, _ *round, d *database) error {
	in, drop, err := d.newSchema(ctx)
	if err != nil {
		return err
	}
	g.ends = append(g.ends, func() error { drop(); return nil })
	g.pids[postgres] = d.master
	store, err := pgstore.Open(ctx, in, pgstore.Options{})
	if err != nil {
		return err
	}
	g.ends = append(g.ends, store.Close)
	ledger, err := port.StoreDriverOf(in).Ledger(store, "bench")
	if err != nil {
		return err
	}
	g.Ledger, g.ends = ledger, append(g.ends, ledger.Close)
	g.load = func(ctx context.Context, id sluice.SaleID) error {
		sale := drainSale()
		sale.ID = id
		if _, err := store.CreateSale(ctx, sale); err != nil {
			return err
		}
		return settle.NewLoader(store, ledger).Load(ctx, id)
	}
	return execute(ctx, in, "ALTER TABLE orders SET (autovacuum_enabled = off)") // it would be measured
}

func growthName(ledger string) string { return "many buyers, " + ledger }

func openGrowthGroup(ctx context.Context, o *options) (sides []side, done func(), err error) {
	d, err := openDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	if err := d.roomy(ctx); err != nil {
		d.close()
		return nil, nil, err
	}
	if machine.MemoryGB() < 16 { // 10 million take some 6 GB
		o.buyers = min(o.buyers, 1_000_000)
	}
	for _, l := range grownLedgers {
		open := func(ctx context.Context, r *round, folder string) (*grown, error) {
			own := *r
			own.dir = filepath.Join(r.dir, folder)
			if err := os.Mkdir(own.dir, 0o755); err != nil {
				return nil, err
			}
			g := &grown{crowd: r.crowd, pids: map[string]int{"client": os.Getpid()}}
			g.load = func(ctx context.Context, id sluice.SaleID) error { return loadSale(ctx, g, id) }
			if err := l.open(ctx, g, &own, d); err != nil {
				g.close()
				return nil, err
			}
			return g, nil
		}
		sides = append(sides, side{
			name: growthName(l.name), own: true,
			does: fmt.Sprintf("%d claims of buyers beyond the first %d, in batches of 1,000 by %d callers; beside as many in "+
				"%d sales of %d buyers each, in %d turns; %s", manyClaims, o.buyers, fillers(1000),
				fewSales, fewBuyers, o.growthTurns(), l.does),
			run: func(ctx context.Context, r *round) (f figure, err error) {
				few, err := open(ctx, r, "few")
				if err != nil {
					return f, err
				}
				defer few.close()
				many, err := open(ctx, r, "many")
				if err != nil {
					return f, err
				}
				defer many.close()
				return r.grow(ctx, few, many)
			},
		})
	}
	return sides, d.close, nil
}

// grow measures the sale of many buyers and those of few in turns, each on a ledger of its own.
func (r *round) grow(ctx context.Context, few, many *grown) (f figure, err error) {
	const sale = "many"
	if err := many.add(ctx, sale, int64(r.buyers)); err != nil {
		return f, err
	}
	var before, after, growth, rates []float64
	for turn := range r.growthTurns() {
		var sales []sluice.SaleID
		for n := range fewSales {
			sales = append(sales, sluice.SaleID(fmt.Sprintf("few-%d-%d", turn, n)))
			if err := few.add(ctx, sales[n], fewBuyers); err != nil {
				return f, err
			}
		}
		costFew, _, err := few.measure(ctx, sales, fewBuyers, fewBuyers)
		if err != nil {
			return f, err
		}
		costMany, rate, err := many.measure(ctx, []sluice.SaleID{sale}, int64(r.buyers)+turn*manyClaims, manyClaims)
		if err != nil {
			return f, err
		}
		for _, sale := range sales {
			err = errors.Join(err, few.check(ctx, sale, 2*fewBuyers))
		}
		if err != nil {
			return f, err
		}
		before, after, rates = append(before, costFew), append(after, costMany), append(rates, rate)
		growth = append(growth, costMany/costFew)
	}
	f.perSecond = median(rates)
	f.also = map[string]float64{
		"few_cpu_us": median(before), "many_cpu_us": median(after), "growth": median(growth), "buyers": float64(r.buyers),
	}
	return f, many.check(ctx, sale, int64(r.buyers)+r.growthTurns()*manyClaims)
}

// add has buyers claim from a new sale, the first of the crowd.
func (g *grown) add(ctx context.Context, sale sluice.SaleID, buyers int64) error {
	if err := g.load(ctx, sale); err != nil {
		return err
	}
	return fill(ctx, g, sale, g.crowd, 0, buyers, 1000)
}

// check compares how many units the sale has given with what was accepted.
func (g *grown) check(ctx context.Context, sale sluice.SaleID, accepted int64) error {
	readings, err := g.Read(ctx, []sluice.SaleID{sale})
	if err != nil || readings[0].Taken == accepted {
		return err
	}
	return fmt.Errorf("accepted %d, but the ledger has taken %d units", accepted, readings[0].Taken)
}

// measure has so many new buyers of each sale claim after those that it has, and returns what a
// claim costs in processor time.
func (g *grown) measure(ctx context.Context, sales []sluice.SaleID, has, more int64) (
	cost, perSecond float64, err error,
) {
	runtime.GC()
	meter, start := startMeter(g.pids), time.Now()
	for _, sale := range sales {
		if err := fill(ctx, g, sale, g.crowd, has, has+more, 1000); err != nil {
			return 0, 0, err
		}
	}
	took, count := time.Since(start), more*int64(len(sales))
	cost, _ = meter.total(count)
	return cost, float64(count) / took.Seconds(), nil
}
