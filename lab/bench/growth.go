package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/lab/bench/machine"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/pgstore"
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

// grown is what is measured with few and with many buyers: a ledger, or the floor of one.
type grown struct {
	name, does string
	floor      *grown // nil: it has none
	open       func(ctx context.Context, r *round, d *database) (l *grownLedger, err error)
}

// grownLedger is one that claims are measured on.
type grownLedger struct {
	sluice.Decider
	// add has buyers claim from a new sale, the first of the crowd.
	add func(ctx context.Context, sale sluice.SaleID, buyers int64) error
	// check compares how many units the sale has given with what was accepted.
	check func(ctx context.Context, sale sluice.SaleID, accepted int64) error
	crowd crowd
	pids  map[string]int
	close func()
}

var grownLedgers = []grown{
	{
		name: "Redis ledger", does: "no fsync",
		open: onRedis(func(ctx context.Context, l *grownLedger, url string) (func() error, error) {
			ledger, err := redisledger.Open(ctx, url, redisledger.Options{Node: "bench"})
			l.use(ledger)
			return ledger.Close, err
		}),
		floor: &grown{
			name: writerBase,
			does: "no fsync; growth is what more buyers cost it more, added to what a claim of few costs the ledger",
			open: onRedis(func(ctx context.Context, l *grownLedger, url string) (func() error, error) {
				w, err := newWriter(ctx, url)
				l.Decider, l.check = w, w.check
				l.add = func(ctx context.Context, sale sluice.SaleID, buyers int64) error {
					return fill(ctx, w, sale, l.crowd, 0, buyers, 1000)
				}
				return w.Close, err
			}),
		},
	},
	{
		name: "embedded ledger", does: "each call with its fsync",
		open: func(ctx context.Context, r *round, _ *database) (*grownLedger, error) {
			ledger, err := sqliteledger.Open(ctx, filepath.Join(r.dir, "ledger.db"), sqliteledger.Options{Node: "bench"})
			l := &grownLedger{
				crowd: r.crowd, pids: map[string]int{"client_and_ledger": os.Getpid()}, close: func() { _ = ledger.Close() },
			}
			l.use(ledger)
			return l, err
		},
	},
	{
		name: alone.name, does: "the orders of buyers whose claims are not measured are written without the ledger",
		open: onPostgres(inStore),
	},
}

// use is for a ledger through which all buyers claim.
func (l *grownLedger) use(ledger sluice.Ledger) {
	l.Decider = ledger
	l.add = func(ctx context.Context, sale sluice.SaleID, buyers int64) error {
		if err := loadSale(ctx, ledger, sale); err != nil {
			return err
		}
		return fill(ctx, ledger, sale, l.crowd, 0, buyers, 1000)
	}
	l.check = func(ctx context.Context, sale sluice.SaleID, accepted int64) error {
		readings, err := ledger.Read(ctx, []sluice.SaleID{sale})
		if err != nil || readings[0].Taken == accepted {
			return err
		}
		return fmt.Errorf("accepted %d, but the ledger has taken %d units", accepted, readings[0].Taken)
	}
}

// onRedis starts a Redis for what open makes.
func onRedis(open func(ctx context.Context, l *grownLedger, url string) (func() error, error)) func(
	context.Context, *round, *database,
) (*grownLedger, error) {
	return func(ctx context.Context, r *round, _ *database) (*grownLedger, error) {
		server, err := startRedis(r.dir, "no")
		if err != nil {
			return nil, err
		}
		l := &grownLedger{crowd: r.crowd, pids: map[string]int{"client": os.Getpid(), "redis": server.Pid()}}
		end, err := open(ctx, l, server.URL())
		if err != nil {
			return nil, errors.Join(err, server.Close())
		}
		l.close = func() { _ = errors.Join(end(), server.Close()) }
		return l, nil
	}
}

// onPostgres makes a schema for what open makes.
func onPostgres(open func(ctx context.Context, l *grownLedger, url string) (func() error, error)) func(
	context.Context, *round, *database,
) (*grownLedger, error) {
	return func(ctx context.Context, r *round, d *database) (*grownLedger, error) {
		in, drop, err := d.newSchema(ctx)
		if err != nil {
			return nil, err
		}
		l := &grownLedger{crowd: r.crowd, pids: map[string]int{"client": os.Getpid(), postgres: d.master}}
		end, err := open(ctx, l, in)
		if err != nil {
			drop()
			return nil, err
		}
		l.close = func() {
			_ = end()
			drop()
		}
		return l, nil
	}
}

// inStore is for the ledger in the store itself.
func inStore(ctx context.Context, l *grownLedger, url string) (func() error, error) {
	store, err := pgstore.Open(ctx, url, pgstore.Options{})
	if err != nil {
		return nil, err
	}
	ledger, err := store.Ledger("bench")
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := execute(ctx, url, "ALTER TABLE orders SET (autovacuum_enabled = off)"); err != nil { // it would be measured
		return nil, errors.Join(err, ledger.Close(), store.Close())
	}
	l.Decider = ledger
	l.add = func(ctx context.Context, id sluice.SaleID, buyers int64) error {
		sale := drainSale()
		sale.ID = id
		if _, err := store.CreateSale(ctx, sale); err != nil {
			return err
		}
		if err := settle.NewLoader(store, ledger).Load(ctx, id); err != nil {
			return err
		}
		return l.addRows(ctx, url, id, buyers)
	}
	l.check = func(ctx context.Context, sale sluice.SaleID, accepted int64) error {
		n, err := queryNumber(ctx, url, fmt.Sprintf("SELECT count(*) FROM orders WHERE sale_id = '%s'", sale))
		if err != nil || n == accepted {
			return err
		}
		return fmt.Errorf("accepted %d, but %d orders are stored", accepted, n)
	}
	return func() error { return errors.Join(ledger.Close(), store.Close()) }, nil
}

// addRows writes the orders of the first buyers, in places that no claim gets.
func (l *grownLedger) addRows(ctx context.Context, url string, sale sluice.SaleID, buyers int64) error {
	statements := []string{
		fmt.Sprintf(`INSERT INTO orders (bucket, `+bareColumns+`)
			SELECT 1, '%[1]s.' || lpad(to_hex(n), 25, '0'), '%[1]s',
				'user-' || lpad(((n * %[2]d + %[3]d) %% %[4]d)::text, 10, '0'), md5(n::text)::uuid::text,
				1, '', 599900, 'CNY', 'pending', '', 1, n + 1, 1, 'bench', now(), now(), now() + interval '900 s',
				now() + interval '930 s', now()
			FROM generate_series(0::bigint, %[5]d::bigint) n`,
			sale, stride, l.crowd.seed%manyBuyers, manyBuyers, buyers-1),
		fmt.Sprintf(`UPDATE sales SET taken = taken + %d WHERE id = '%s'`, buyers, sale),
	}
	if buyers > fewBuyers { // what that leaves to do is not to be measured
		statements = append(statements, "VACUUM (ANALYZE) orders", "CHECKPOINT")
	}
	return execute(ctx, url, statements...)
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
	for i := range grownLedgers {
		l := &grownLedgers[i]
		few := 0.0 // what a claim costs the ledger then, us
		add := func(g *grown) {
			sides = append(sides, side{
				name: growthName(g.name), own: g == l,
				does: fmt.Sprintf("%d claims of buyers beyond the first %d, in batches of 1,000 by %d callers; beside as many in "+
					"%d sales of %d buyers each, in %d turns; %s", manyClaims, o.buyers, fillers(1000),
					fewSales, fewBuyers, o.growthTurns(), g.does),
				run: func(ctx context.Context, r *round) (figure, error) {
					if g != l {
						return r.grow(ctx, g, d, few)
					}
					f, err := r.grow(ctx, g, d, 0)
					few = f.also["few_cpu_us"]
					return f, err
				},
			})
		}
		add(l)
		if l.floor != nil {
			add(l.floor)
		}
	}
	return sides, d.close, nil
}

// grow measures the sale of many buyers and those of few in turns, each on a ledger of its own.
// Of a floor, base is what a claim of few costs the ledger, us; of a ledger it is 0.
func (r *round) grow(ctx context.Context, g *grown, d *database, base float64) (f figure, err error) {
	few, err := r.openGrown(ctx, g, d, "few")
	if err != nil {
		return f, err
	}
	defer few.close()
	many, err := r.openGrown(ctx, g, d, "many")
	if err != nil {
		return f, err
	}
	defer many.close()
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
			if err := few.check(ctx, sale, 2*fewBuyers); err != nil {
				return f, err
			}
		}
		before, after, rates = append(before, costFew), append(after, costMany), append(rates, rate)
		growth = append(growth, 1+(costMany-costFew)/cmp.Or(base, costFew))
	}
	f.perSecond = median(rates)
	f.also = map[string]float64{
		"few_cpu_us": median(before), "many_cpu_us": median(after), "growth": median(growth), "buyers": float64(r.buyers),
	}
	return f, many.check(ctx, sale, int64(r.buyers)+r.growthTurns()*manyClaims)
}

// openGrown opens one in a folder of its own.
func (r *round) openGrown(ctx context.Context, g *grown, d *database, folder string) (*grownLedger, error) {
	own := *r
	own.dir = filepath.Join(r.dir, folder)
	if err := os.Mkdir(own.dir, 0o755); err != nil {
		return nil, err
	}
	return g.open(ctx, &own, d)
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
