package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/lab/internal/floor"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/store/pgstore"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// The way from the journal to the store: what the guarantees of a drained
// order cost, beside plain inserts of rows.

const (
	drainClaims = 100_000
	drainMeta   = `{"channel":"app"}`
	// rowsPerInsert is what the pipeline's transactions hold while the journal
	// is full.
	rowsPerInsert = 2000

	bareRowsName  = "bare multi-row insert into PostgreSQL"
	drainEachName = "journal into PostgreSQL, entries of one claim"
	drainManyName = "journal into PostgreSQL, entries of 250 claims"
)

// openDrainGroup starts the PostgreSQL of all rounds. Each round has a schema of
// its own, new and empty.
func openDrainGroup(ctx context.Context, o *options) ([]side, func(), error) {
	d, err := openDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	sides := []side{
		{
			name: bareRowsName,
			does: fmt.Sprintf("%d rows of an order into the empty table of orders, %d in a prepared statement, each of "+
				"which is a transaction, by one connection, no COPY", drainClaims, rowsPerInsert),
			run: d.bare,
		},
		{
			name: drainEachName, own: true,
			does: fmt.Sprintf("the pipeline empties the journal of a Redis ledger, appendfsync always, that holds %d entries "+
				"of one claim, into an empty pgstore: read, stored, acknowledged", drainClaims),
			run: func(ctx context.Context, r *round) (figure, error) { return d.drain(ctx, r, 1) },
		},
		{
			name: drainManyName, own: true,
			does: fmt.Sprintf("the same %d claims in entries as a busy batcher makes them: %d", drainClaims, drainClaims/250),
			run:  func(ctx context.Context, r *round) (figure, error) { return d.drain(ctx, r, 250) },
		},
	}
	return sides, d.close, nil
}

// schema makes an empty schema with the store's tables, and returns the store and a
// function that drops it. The log of what was before is on the disk, so that no round
// pays for another's.
func (d *database) schema(ctx context.Context) (store *pgstore.Store, in string, drop func(), err error) {
	in, end, err := d.newSchema(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	if store, err = pgstore.Open(ctx, in, pgstore.Options{}); err != nil {
		end()
		return nil, "", nil, err
	}
	return store, in, func() {
		_ = store.Close()
		end()
	}, nil
}

func drainSale() sluice.Sale {
	return sluice.Sale{
		ID: ledgerSale, SKU: "PHONE-15", Title: "A phone", Price: sluice.Money{Amount: 599900, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: ledgerTotal, MaxPerBuyer: 1, MaxOrders: 10,
			OpensAt: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond),
		},
		PaymentWindow: 15 * time.Minute, PaymentGrace: 30 * time.Second,
	}
}

// drain measures the pipeline: from the first wake until every claim is stored
// and the journal is empty.
func (d *database) drain(ctx context.Context, r *round, perEntry int) (f figure, err error) {
	redis, err := startRedis(r.dir, "no")
	if err != nil {
		return f, err
	}
	defer redis.Close()
	ledger, err := redisledger.Open(ctx, redis.URL(), redisledger.Options{Node: "bench"})
	if err != nil {
		return f, err
	}
	defer ledger.Close()
	store, in, drop, err := d.schema(ctx)
	if err != nil {
		return f, err
	}
	defer drop()
	if _, err := store.CreateSale(ctx, drainSale()); err != nil {
		return f, err
	}
	if err := settle.NewLoader(store, ledger).Load(ctx, ledgerSale); err != nil {
		return f, err
	}
	if err := fill(ctx, ledger, ledgerSale, r.crowd, 0, drainClaims, perEntry); err != nil {
		return f, err
	}
	if _, err := redis.Ask("CONFIG SET appendfsync always"); err != nil {
		return f, err
	}
	if err := execute(ctx, d.server.URL(), "CHECKPOINT"); err != nil {
		return f, err
	}
	reading, err := readSale(ctx, ledger)
	if err != nil {
		return f, err
	}
	if want := int64(drainClaims / perEntry); reading.Backlog != want {
		return f, fmt.Errorf("the journal holds %d entries, want %d", reading.Backlog, want)
	}

	f.also = map[string]float64{}
	runtime.GC()
	meter := startMeter(map[string]int{"pipeline": os.Getpid(), "redis": redis.Pid(), postgres: d.master})
	start := time.Now()
	transactions, err := storeAll(ctx, ledger, store, drainClaims)
	took := time.Since(start)
	if err != nil {
		return f, err
	}
	meter.stop(f.also, drainClaims)
	f.perSecond = drainClaims / took.Seconds()
	f.also["claims_per_transaction"] = drainClaims / float64(transactions)
	return f, checkDrained(ctx, ledger, store, in)
}

// storeAll has the pipeline store so many claims of the journal, and returns in how many
// transactions.
func storeAll(ctx context.Context, ledger port.Journal, store pipeline.Store, claims int64) (int64, error) {
	all := make(chan struct{})
	var stored, transactions, alone atomic.Int64
	lines := pipeline.New(ledger, store, pipeline.Options{
		Stored: func(_ sluice.SaleID, s port.Stored) {
			transactions.Add(1)
			if stored.Add(int64(s.Inserted)) == claims {
				close(all)
			}
		},
		SetAside: func(sluice.SaleID) { alone.Add(1) },
	})
	lines.Wake(ledgerSale)
	select {
	case <-all:
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(5 * time.Minute):
		return 0, fmt.Errorf("%d of %d claims are stored after 5 minutes, %d entries set aside", stored.Load(), claims,
			alone.Load())
	}
	return transactions.Load(), lines.Close(ctx) // acknowledges the rest, and has read once that nothing is left
}

func readSale(ctx context.Context, ledger port.Ledger) (port.Reading, error) {
	readings, err := ledger.Read(ctx, []sluice.SaleID{ledgerSale})
	if err != nil {
		return port.Reading{}, err
	}
	return readings[0], nil
}

// fillers is how many fill at a time: so few that a busy ledger answers all of them in time.
func fillers(perEntry int) int { return min(64, 8000/perEntry) }

// fill has buyers claim, from one on and below another, in journal entries of a size.
func fill(
	ctx context.Context, ledger port.Decider, sale sluice.SaleID, buyers crowd.Crowd, from, below int64, perEntry int,
) error {
	var next atomic.Int64
	next.Store(from)
	group, ctx := errgroup.WithContext(ctx)
	for range fillers(perEntry) {
		group.Go(func() error {
			for {
				to := next.Add(int64(perEntry))
				if to > below {
					return nil
				}
				claims := make([]sluice.Claim, perEntry)
				for i := range claims {
					claims[i] = sluice.Claim{Quantity: 1, Order: admission.NewOrderID(sale), Meta: drainMeta}
					claims[i].Buyer, claims[i].Key = buyers.Attempt(to - int64(perEntry) + int64(i))
				}
				decisions, err := ledger.Claim(ctx, sale, claims)
				for again := 0; err != nil && ctx.Err() == nil && again < 5; again++ { // the outcome is unknown: ask again
					decisions, err = ledger.Claim(ctx, sale, claims)
				}
				if err != nil {
					return err
				}
				for i := range decisions {
					if decisions[i].Code != sluice.Accepted {
						return fmt.Errorf("a claim is %s, want it accepted", decisions[i].Code)
					}
				}
			}
		})
	}
	return group.Wait()
}

// checkDrained compares what was accepted with what is stored.
func checkDrained(ctx context.Context, ledger port.Ledger, store *pgstore.Store, in string) error {
	reading, err := readSale(ctx, ledger)
	if err != nil {
		return err
	}
	sale, err := store.Sale(ctx, ledgerSale)
	if err != nil {
		return err
	}
	orders, err := queryNumber(ctx, in,
		"SELECT count(DISTINCT (buyer_id, claim_key)) FROM orders WHERE status = 'pending' AND seq BETWEEN 1 AND "+
			strconv.Itoa(drainClaims))
	if err != nil {
		return err
	}
	if reading.Backlog != 0 || reading.Taken != drainClaims || sale.Taken != drainClaims || sale.Fence != "" ||
		orders != drainClaims {
		return fmt.Errorf(
			"accepted %d, but the ledger has taken %d with %d entries in the journal, the store has %d with %d orders, fence %q",
			drainClaims, reading.Taken, reading.Backlog, sale.Taken, orders, sale.Fence)
	}
	return nil
}

// bare measures inserts of as many rows, by one connection.
func (d *database) bare(ctx context.Context, r *round) (f figure, err error) {
	in, drop, err := d.newSchema(ctx)
	if err != nil {
		return f, err
	}
	defer drop()
	insert, err := floor.NewRows(r.crowd, drainSale()).InPostgres(ctx, in, floor.Inserted)
	if err != nil {
		return f, err
	}
	if err := execute(ctx, d.server.URL(), "CHECKPOINT"); err != nil {
		return f, err
	}
	f.also = map[string]float64{}
	runtime.GC()
	meter := startMeter(map[string]int{"client": os.Getpid(), postgres: d.master})
	start := time.Now()
	for at := 0; at < drainClaims; at += rowsPerInsert {
		if err := insert(ctx, rowsPerInsert); err != nil {
			return f, err
		}
	}
	took := time.Since(start)
	meter.stop(f.also, drainClaims)
	f.perSecond = drainClaims / took.Seconds()
	n, err := queryNumber(ctx, in, "SELECT count(*) FROM orders")
	if err == nil && n != drainClaims {
		err = fmt.Errorf("inserted %d rows, but the table has %d", drainClaims, n)
	}
	return f, err
}
