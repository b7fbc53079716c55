package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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
	fewSales = 20
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
					"%d sales of %d buyers each; %s", fewBuyers*fewSales, o.buyers, fillers(1000), fewSales, fewBuyers, g.does),
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

func grownSale(n int) sluice.SaleID { return sluice.SaleID("sale-" + strconv.Itoa(n)) }

func (r *round) grow(ctx context.Context, g *grown) (f figure, err error) {
	d, pids, done, err := g.open(ctx, r)
	if err != nil {
		return f, err
	}
	defer done()
	defer d.Close()
	load, check := func(sluice.SaleID) error { return nil }, func() error { return nil }
	switch d := d.(type) {
	case sluice.Ledger:
		load = func(sale sluice.SaleID) error { return loadSale(ctx, d, sale) }
	case *writer: // it accepts every claim, whatever it has written
		check = func() error { return d.check(ctx, grownSale(fewSales), int64(r.buyers)+fewBuyers*fewSales) }
	}
	f.also = map[string]float64{}
	// claims has new buyers of a sale claim after those that it has.
	claims := func(n int, has, more int64) (time.Duration, error) {
		start := time.Now()
		err := fill(ctx, d, grownSale(n), r.crowd, has, has+more, 1000)
		return time.Since(start), err
	}
	// measure does so in some sales, of which each has so many buyers, and returns what
	// a claim costs in processor time.
	measure := func(sales []int, has, more int64) (cost, perSecond float64, err error) {
		for _, n := range sales {
			if err := load(grownSale(n)); err != nil {
				return 0, 0, err
			}
			if _, err := claims(n, 0, has); err != nil {
				return 0, 0, err
			}
		}
		runtime.GC()
		meter := startMeter(pids)
		var took time.Duration
		for _, n := range sales {
			once, err := claims(n, has, more)
			if err != nil {
				return 0, 0, err
			}
			took += once
		}
		parts := map[string]float64{}
		count := more * int64(len(sales))
		meter.stop(parts, count)
		for _, us := range parts {
			cost += us
		}
		return cost, float64(count) / took.Seconds(), nil
	}
	var few []int
	for n := range fewSales {
		few = append(few, n)
	}
	before, _, err := measure(few, fewBuyers, fewBuyers)
	if err != nil {
		return f, err
	}
	after, perSecond, err := measure([]int{fewSales}, int64(r.buyers), fewBuyers*fewSales)
	if err != nil {
		return f, err
	}
	f.perSecond = perSecond
	f.also["few_cpu_us"], f.also["many_cpu_us"] = before, after
	f.also["buyers"] = float64(r.buyers)
	return f, check()
}
