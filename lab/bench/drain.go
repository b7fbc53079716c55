package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/lab/bench/machine"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/store/pgstore"
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
			does: fmt.Sprintf("%d rows of an order into an empty table LIKE orders INCLUDING ALL: prepared INSERT ... VALUES "+
				"of %d rows, each a transaction, one connection, no COPY", drainClaims, rowsPerInsert),
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
	endProfile, err := r.startProfile()
	if err != nil {
		return f, err
	}
	meter := startMeter(map[string]int{"pipeline": os.Getpid(), "redis": redis.Pid()})
	before, err := d.backends(ctx)
	if err != nil {
		return f, err
	}
	start := time.Now()
	transactions, err := storeAll(ctx, ledger, store, drainClaims)
	took := time.Since(start)
	meter.stop(f.also, drainClaims)
	endProfile()
	f.perSecond = drainClaims / took.Seconds()
	f.also["claims_per_transaction"] = drainClaims / float64(transactions)
	after, more := d.backends(ctx)
	if err = errors.Join(err, more); err != nil {
		return f, err
	}
	used := time.Duration(0)
	for pid, spent := range after {
		used += spent - before[pid]
	}
	f.also["connection_cpu_us"] = float64(used.Microseconds()) / drainClaims
	return f, checkDrained(ctx, ledger, store, in)
}

// storeAll has the pipeline store so many claims of the journal, and returns in how many
// transactions.
func storeAll(ctx context.Context, ledger sluice.Journal, store pipeline.Store, claims int64) (int64, error) {
	all := make(chan struct{})
	var stored, transactions, alone atomic.Int64
	lines := pipeline.New(ledger, store, pipeline.Options{
		Stored: func(_ sluice.SaleID, s sluice.Stored) {
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

// backends is the processor time that each connection of the store has used.
func (d *database) backends(ctx context.Context) (map[int]time.Duration, error) {
	conn, err := pgx.Connect(ctx, d.server.URL())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice'")
	if err != nil {
		return nil, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	used := map[int]time.Duration{}
	for _, pid := range pids {
		used[pid] = machine.CPUTime(pid)
	}
	return used, err
}

func readSale(ctx context.Context, ledger sluice.Ledger) (sluice.Reading, error) {
	readings, err := ledger.Read(ctx, []sluice.SaleID{ledgerSale})
	if err != nil {
		return sluice.Reading{}, err
	}
	return readings[0], nil
}

// fillers is how many fill at a time: so few that a busy ledger answers all of them in time.
func fillers(perEntry int) int { return min(64, 8000/perEntry) }

// fill has buyers claim, from one on and below another, in journal entries of a size.
func fill(
	ctx context.Context, ledger sluice.Decider, sale sluice.SaleID, buyers crowd, from, below int64, perEntry int,
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
					claims[i].Buyer, claims[i].Key = buyers.attempt(to - int64(perEntry) + int64(i))
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
func checkDrained(ctx context.Context, ledger sluice.Ledger, store *pgstore.Store, in string) error {
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

// bareRow is what a program without Sluice's guarantees has to insert: the
// columns of an order, ready.
type bareRow struct {
	order, buyer, key string
	seq               int64
	accepted, stored  time.Time
}

// bare measures inserts of as many rows, by one connection.
func (d *database) bare(ctx context.Context, r *round) (f figure, err error) {
	_, in, drop, err := d.schema(ctx)
	if err != nil {
		return f, err
	}
	defer drop()
	if err := execute(ctx, in, "CREATE TABLE bare (LIKE orders INCLUDING ALL)"); err != nil {
		return f, err
	}
	rows := make([]bareRow, drainClaims)
	for i := range rows {
		buyer, key := r.crowd.attempt(int64(i))
		rows[i] = bareRow{
			order: string(admission.NewOrderID(ledgerSale)), buyer: string(buyer), key: string(key), seq: int64(i + 1),
			accepted: time.Now().UTC(), stored: time.Now().UTC(),
		}
	}
	conn, err := pgx.Connect(ctx, in)
	if err != nil {
		return f, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := execute(ctx, d.server.URL(), "CHECKPOINT"); err != nil {
		return f, err
	}
	sale, query := drainSale(), valuesInsert()
	f.also = map[string]float64{}
	runtime.GC()
	meter := startMeter(map[string]int{"client": os.Getpid(), "connection": int(conn.PgConn().PID())})
	start := time.Now()
	for at := 0; at < len(rows) && err == nil; at += rowsPerInsert {
		_, err = conn.Exec(ctx, query, valuesArgs(&sale, rows[at:at+rowsPerInsert])...)
	}
	took := time.Since(start)
	meter.stop(f.also, drainClaims)
	f.perSecond = drainClaims / took.Seconds()
	if err != nil {
		return f, err
	}
	if n, err := queryNumber(ctx, in, "SELECT count(*) FROM bare"); err != nil || n != drainClaims {
		return f, errors.Join(err, fmt.Errorf("inserted %d rows, but the table has %d", drainClaims, n))
	}
	return f, nil
}

const bareColumns = `order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
	status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at`

// valuesInsert is the statement of rowsPerInsert rows.
func valuesInsert() string {
	columns := strings.Count(bareColumns, ",") + 1
	var query strings.Builder
	query.WriteString("INSERT INTO bare (" + bareColumns + ") VALUES ")
	for n := range rowsPerInsert * columns {
		switch {
		case n == 0:
			query.WriteByte('(')
		case n%columns == 0:
			query.WriteString("),(")
		default:
			query.WriteByte(',')
		}
		fmt.Fprintf(&query, "$%d", n+1)
	}
	query.WriteByte(')')
	return query.String()
}

func valuesArgs(sale *sluice.Sale, rows []bareRow) []any {
	args := make([]any, 0, len(rows)*19)
	for i := range rows {
		r := &rows[i]
		args = append(args, r.order, string(sale.ID), r.buyer, r.key, 1, drainMeta, sale.Price.Amount, sale.Price.Currency,
			"pending", "", 1, r.seq, 1, "bench", r.accepted, r.stored,
			r.stored.Add(sale.PaymentWindow), r.stored.Add(sale.PaymentWindow+sale.PaymentGrace), r.stored)
	}
	return args
}
