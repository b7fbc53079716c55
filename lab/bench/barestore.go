package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/store/pgstore"
)

// bareStore is what an accepted order costs without Sluice: a handler that answers a
// constant when the request is on the disk, and stores a row for it. Requests that come
// during a write go together with the next, as claims do. Body and token are read as any server
// must (serveConfig.reading), and nothing is decided.
type bareStore struct {
	constant http.Handler
	keep     func(ctx context.Context, n int) error // puts n requests on the disk
	store    func(ctx context.Context, n int) error // stores their rows, later; nil: keep has
	bell     loop.Bell

	mu      sync.Mutex
	waiting []chan error
	kept    int   // requests whose rows are not stored
	failed  error // to store
}

// Like the pipeline: rows are stored every 5 ms, and in a rush, of
// 10,000 a second, every 80.
const (
	bareStoreEvery = 5 * time.Millisecond
	bareStoreRush  = 10_000 // a second
	bareStoreMost  = 80 * time.Millisecond
)

// newBareStore makes one in what a server of the same configuration would use. It works
// until the context ends.
func newBareStore(ctx context.Context, c *serveConfig, constant http.Handler) (_ *bareStore, err error) {
	b := &bareStore{constant: constant, bell: loop.NewBell()}
	rows := bareRows{buyers: newCrowd(1)}
	if c.Ledger == alone.ledger {
		b.keep, err = rows.inPostgres(ctx, c.Store, bareDecided)
	} else {
		claims := bareRows{buyers: rows.buyers}
		if b.keep, err = claims.keepInRedis(ctx, c.Ledger); err == nil {
			b.store, err = rows.inPostgres(ctx, c.Store, bareInserted)
		}
	}
	if err != nil {
		return nil, err
	}
	go b.keepAll(ctx)
	if b.store != nil {
		go b.storeAll(ctx)
	}
	return b, nil
}

func (b *bareStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		b.constant.ServeHTTP(w, r)
		return
	}
	done := make(chan error, 1)
	b.mu.Lock()
	b.waiting = append(b.waiting, done)
	b.mu.Unlock()
	b.bell.Ring()
	if err := <-done; err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b.constant.ServeHTTP(w, r)
}

func (b *bareStore) keepAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.bell:
		}
		b.mu.Lock()
		all, err := b.waiting, b.failed
		b.waiting = nil
		b.mu.Unlock()
		if len(all) == 0 {
			continue
		}
		if err == nil {
			err = b.keep(ctx, len(all))
		}
		b.mu.Lock()
		b.kept += len(all)
		b.mu.Unlock()
		for _, done := range all {
			done <- err
		}
	}
}

func (b *bareStore) storeAll(ctx context.Context) {
	every, since := bareStoreEvery, time.Now()
	for ctx.Err() == nil {
		time.Sleep(every)
		b.mu.Lock()
		n := b.kept
		b.kept = 0
		b.mu.Unlock()
		if n == 0 {
			continue
		}
		every = bareStoreEvery
		if float64(n) >= bareStoreRush*time.Since(since).Seconds() {
			every = bareStoreMost
		}
		since = time.Now()
		if err := b.store(ctx, n); err != nil {
			b.mu.Lock()
			b.failed = err
			b.mu.Unlock()
		}
	}
}

// rows is how many rows a bareStore has stored.
func (k *backing) rows(ctx context.Context) (int64, error) {
	return queryNumber(ctx, k.schema, "SELECT count(*) FROM orders")
}

// awaitRows returns when a bareStore has stored as many rows, or more: buyers may repeat.
func (k *backing) awaitRows(ctx context.Context, n int64) error {
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(bareStoreEvery) {
		have, err := k.rows(ctx)
		if err != nil || have >= n {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d rows are stored of %d", have, n)
		}
	}
}

// startBareStore starts one on the backend, which answers the constant.
func (k *backing) startBareStore(ctx context.Context, answer *constant) (*process, error) {
	k.config.Constant, k.config.Durable, k.config.Verifies = answer, true, true
	p, err := startServer(ctx, k.config)
	if err == nil {
		p.also = k.pids
	}
	return p, err
}

// keepInRedis writes what a ledger must remember of each request, and nothing more.
func (b *bareRows) keepInRedis(ctx context.Context, url string) (func(context.Context, int) error, error) {
	w, err := newWriter(ctx, url)
	return func(ctx context.Context, n int) error {
		claims := make([]sluice.Claim, n)
		for i := range claims {
			order, buyer, key, _ := b.next()
			claims[i] = sluice.Claim{
				Order: sluice.OrderID(order), Buyer: sluice.BuyerID(buyer), Key: sluice.Key(key), Quantity: 1,
			}
		}
		_, err := w.Claim(ctx, shopSale, claims)
		return err
	}, err
}

const bareColumns = `order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
	status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at`

// bareRows makes rows of orders, each of another buyer.
type bareRows struct {
	buyers crowd
	n      int64
}

func (b *bareRows) next() (order, buyer, key string, seq int64) {
	b.n++
	id, k := b.buyers.attempt(b.n)
	return string(admission.NewOrderID(shopSale)), string(id), string(k), b.n
}

// Statements of inPostgres. What a ledger decides in the database is counted there, in a row
// that servers take in turns, and no limit can be kept without a look for the buyer's orders:
// bareDecided does both, but decides nothing. What finds the buyer's orders is written so that
// no plan, made while the table is empty, reads all of it.
const (
	bareInserted = `INSERT INTO orders (` + bareColumns + `) SELECT ` + bareValues + ` FROM ` + bareClaims
	bareDecided  = `WITH sale AS (
			UPDATE sales SET taken = taken + cardinality($1::text[]) WHERE id = '` + shopSale + `' RETURNING id
		)
		INSERT INTO orders (` + bareColumns + `) SELECT ` + bareValues + ` FROM sale, ` + bareClaims + `
		WHERE (SELECT quantity FROM orders WHERE buyer_id = b LIMIT 1) IS NULL`
	bareClaims = `unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS t (o, b, k, s)`
	bareValues = `o, '` + shopSale + `', b, k, 1, '', 99900, 'CNY', 'pending', '', 1, s, 1, 'bench',
		now(), now(), now() + interval '900 s', now() + interval '930 s', now()`
)

// inPostgres stores in a table like the store's, in one statement, which is a transaction.
func (b *bareRows) inPostgres(ctx context.Context, url, insert string) (func(context.Context, int) error, error) {
	made, err := pgstore.Open(ctx, url, pgstore.Options{})
	if err != nil {
		return nil, err
	}
	sale := drainSale()
	_, err = made.CreateSale(ctx, sale)
	if err := errors.Join(err, made.Close()); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SET enable_seqscan = off"); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func(ctx context.Context, n int) error {
		orders, buyers, keys, seqs := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
		for i := range n {
			orders[i], buyers[i], keys[i], seqs[i] = b.next()
		}
		_, err := conn.Exec(ctx, insert, orders, buyers, keys, seqs)
		return err
	}, nil
}
