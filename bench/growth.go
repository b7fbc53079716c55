package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/bench/machine"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// What a claim costs a ledger when a sale has many buyers already, beside what it costs
// when there are few.

const (
	fewBuyers = 10_000
	// fewSales of few buyers are measured, so that there is enough to measure.
	fewSales = 10
	// growthTurns is how often sales of few buyers and the one of many take turns.
	growthTurns = 4
	// manyClaims of buyers who are new are measured in a turn.
	manyClaims = fewBuyers * fewSales
)

// grown is what is measured with few and with many buyers: a ledger, or the floor of one.
type grown struct {
	name, does string
	floor      *grown // nil: it has none
	open       func(ctx context.Context, r *round) (d decider, pids map[string]int, done func(), err error)
}

// decider is a ledger, as far as it is measured here.
type decider interface {
	sluice.Decider
	Close() error
}

var grownLedgers = []grown{
	{
		name: "Redis ledger", does: "no fsync", open: onRedis(func(ctx context.Context, url string) (decider, error) {
			return redisledger.Open(ctx, url, redisledger.Options{Node: "bench"})
		}),
		floor: &grown{
			name: writerBase,
			does: "no fsync; growth is what more buyers cost it more, added to what a claim of few costs the ledger",
			open: onRedis(func(ctx context.Context, url string) (decider, error) { return newWriter(ctx, url) }),
		},
	},
	{
		name: "embedded ledger", does: "each call with its fsync",
		open: func(ctx context.Context, r *round) (decider, map[string]int, func(), error) {
			l, err := sqliteledger.Open(ctx, filepath.Join(r.dir, "ledger.db"), sqliteledger.Options{Node: "bench"})
			return l, map[string]int{"client_and_ledger": os.Getpid()}, func() {}, err
		},
	},
}

// onRedis starts a Redis for what open returns.
func onRedis(open func(ctx context.Context, url string) (decider, error)) func(context.Context, *round) (
	decider, map[string]int, func(), error,
) {
	return func(ctx context.Context, r *round) (decider, map[string]int, func(), error) {
		server, err := startRedis(r.dir, "no")
		if err != nil {
			return nil, nil, nil, err
		}
		d, err := open(ctx, server.URL())
		if err != nil {
			_ = server.Close()
		}
		return d, map[string]int{"client": os.Getpid(), "redis": server.Pid()}, func() { _ = server.Close() }, err
	}
}

func growthName(ledger string) string { return "many buyers, " + ledger }

func openGrowthGroup(_ context.Context, o *options) (sides []side, done func(), err error) {
	if machine.MemoryGB() < 16 { // 10 million take some 6 GB
		o.buyers = min(o.buyers, 1_000_000)
	}
	for i := range grownLedgers {
		l := &grownLedgers[i]
		few := 0.0 // what a claim costs the ledger then, us
		add := func(g *grown) {
			sides = append(sides, side{
				name: growthName(g.name), own: g == l,
				does: fmt.Sprintf("%d claims of buyers beyond the first %d, in batches of 1,000 by %d callers; beside as many in "+
					"%d sales of %d buyers each, in %d turns; %s", manyClaims, o.buyers, fillers(1000), fewSales, fewBuyers, growthTurns, g.does),
				run: func(ctx context.Context, r *round) (f figure, err error) {
					if f, err = r.grow(ctx, g); err != nil {
						return f, err
					}
					if g == l {
						few = f.also["few_cpu_us"]
					}
					f.also["growth"] = (few + f.also["many_cpu_us"] - f.also["few_cpu_us"]) / few
					return f, nil
				},
			})
		}
		add(l)
		if l.floor != nil {
			add(l.floor)
		}
	}
	return sides, func() {}, nil
}

// grow measures the sale of many buyers and those of few in turns, each on a ledger of its own.
func (r *round) grow(ctx context.Context, g *grown) (f figure, err error) {
	few, err := r.openGrown(ctx, g, "few")
	if err != nil {
		return f, err
	}
	defer few.close()
	many, err := r.openGrown(ctx, g, "many")
	if err != nil {
		return f, err
	}
	defer many.close()
	const sale = "many"
	if err := many.add(ctx, sale, int64(r.buyers)); err != nil {
		return f, err
	}
	var before, after, rates []float64
	for turn := range int64(growthTurns) {
		var sales []sluice.SaleID
		for n := range fewSales {
			sales = append(sales, sluice.SaleID(fmt.Sprintf("few-%d-%d", turn, n)))
			if err := few.add(ctx, sales[n], fewBuyers); err != nil {
				return f, err
			}
		}
		cost, _, err := few.measure(ctx, sales, fewBuyers, fewBuyers)
		if err != nil {
			return f, err
		}
		before = append(before, cost)
		cost, rate, err := many.measure(ctx, []sluice.SaleID{sale}, int64(r.buyers)+turn*manyClaims, manyClaims)
		if err != nil {
			return f, err
		}
		after, rates = append(after, cost), append(rates, rate)
	}
	f.perSecond = median(rates)
	f.also = map[string]float64{"few_cpu_us": median(before), "many_cpu_us": median(after), "buyers": float64(r.buyers)}
	if w, ok := many.decider.(*writer); ok { // it accepts every claim, whatever it has written
		err = w.check(ctx, sale, int64(r.buyers)+growthTurns*manyClaims)
	}
	return f, err
}

// grownLedger is one that claims are measured on.
type grownLedger struct {
	decider
	crowd crowd
	pids  map[string]int
	done  func()
}

func (r *round) openGrown(ctx context.Context, g *grown, folder string) (l *grownLedger, err error) {
	own := *r
	own.dir = filepath.Join(r.dir, folder)
	if err := os.Mkdir(own.dir, 0o755); err != nil {
		return nil, err
	}
	l = &grownLedger{crowd: r.crowd}
	l.decider, l.pids, l.done, err = g.open(ctx, &own)
	return l, err
}

func (l *grownLedger) close() {
	_ = l.Close()
	l.done()
}

// add has buyers claim from a new sale.
func (l *grownLedger) add(ctx context.Context, sale sluice.SaleID, buyers int64) error {
	if real, ok := l.decider.(sluice.Ledger); ok {
		if err := loadSale(ctx, real, sale); err != nil {
			return err
		}
	}
	return fill(ctx, l, sale, l.crowd, 0, buyers, 1000)
}

// measure has so many new buyers of each sale claim after those that it has, and returns what a
// claim costs in processor time.
func (l *grownLedger) measure(ctx context.Context, sales []sluice.SaleID, has, more int64) (
	cost, perSecond float64, err error,
) {
	runtime.GC()
	meter, start := startMeter(l.pids), time.Now()
	for _, sale := range sales {
		if err := fill(ctx, l, sale, l.crowd, has, has+more, 1000); err != nil {
			return 0, 0, err
		}
	}
	took, count := time.Since(start), more*int64(len(sales))
	parts := map[string]float64{}
	meter.stop(parts, count)
	for _, us := range parts {
		cost += us
	}
	return cost, float64(count) / took.Seconds(), nil
}
