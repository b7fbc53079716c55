package floor

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/lab/internal/crowd"
	"github.com/sluicehq/sluice/store/pgstore"
)

// Store is what an accepted order costs without Sluice: a handler that answers when the
// request is on the disk, and stores a row for it. Requests that come during a write go
// together with the next, as claims do. Body and token are read as any server must (Handler),
// and nothing is decided.
type Store struct {
	answer http.Handler
	keep   func(ctx context.Context, n int) error // puts n requests on the disk
	store  func(ctx context.Context, n int) error // stores their rows, later; nil: keep has
	bell   loop.Bell

	mu      sync.Mutex
	waiting []chan error
	kept    int   // requests whose rows are not stored
	failed  error // to store
}

// Like the pipeline: rows are stored every 5 ms, and in a rush, of
// 10,000 a second, every 80.
const (
	storeEvery = 5 * time.Millisecond
	storeRush  = 10_000 // a second
	storeMost  = 80 * time.Millisecond
)

// NewStore makes one that stores orders of a sale in the PostgreSQL at store. The ledger is the
// URL of a Redis, or empty: PostgreSQL alone. It works until the context ends.
func NewStore(ctx context.Context, ledger, store string, sale sluice.Sale, answer http.Handler) (b *Store, err error) {
	b = &Store{answer: answer, bell: loop.NewBell()}
	rows := NewRows(crowd.New(1), sale)
	if ledger == "" {
		b.keep, err = rows.InPostgres(ctx, store, Decided)
	} else {
		claims := NewRows(crowd.New(1), sale)
		if b.keep, err = claims.keepInRedis(ctx, ledger); err == nil {
			b.store, err = rows.InPostgres(ctx, store, Inserted)
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

func (b *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		b.answer.ServeHTTP(w, r)
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
	b.answer.ServeHTTP(w, r)
}

func (b *Store) keepAll(ctx context.Context) {
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

func (b *Store) storeAll(ctx context.Context) {
	every, since := storeEvery, time.Now()
	for ctx.Err() == nil {
		time.Sleep(every)
		b.mu.Lock()
		n := b.kept
		b.kept = 0
		b.mu.Unlock()
		if n == 0 {
			continue
		}
		every = storeEvery
		if float64(n) >= storeRush*time.Since(since).Seconds() {
			every = storeMost
		}
		since = time.Now()
		if err := b.store(ctx, n); err != nil {
			b.mu.Lock()
			b.failed = err
			b.mu.Unlock()
		}
	}
}

// keepInRedis writes what a ledger must remember of each request, and nothing more.
func (b *Rows) keepInRedis(ctx context.Context, url string) (func(context.Context, int) error, error) {
	w, err := NewWriter(ctx, url)
	return func(ctx context.Context, n int) error {
		claims := make([]sluice.Claim, n)
		for i := range claims {
			order, buyer, key, _ := b.next()
			claims[i] = sluice.Claim{
				Order: sluice.OrderID(order), Buyer: sluice.BuyerID(buyer), Key: sluice.Key(key), Quantity: 1,
			}
		}
		_, err := w.Claim(ctx, b.sale.ID, claims)
		return err
	}, err
}

const rowColumns = `order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
	status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at`

// Rows makes rows of orders of a sale, each of another buyer.
type Rows struct {
	buyers crowd.Crowd
	sale   sluice.Sale
	n      int64
}

// NewRows returns the rows of a crowd.
func NewRows(buyers crowd.Crowd, sale sluice.Sale) *Rows { return &Rows{buyers: buyers, sale: sale} }

func (b *Rows) next() (order, buyer, key string, seq int64) {
	b.n++
	id, k := b.buyers.Attempt(b.n)
	return string(admission.NewOrderID(b.sale.ID)), string(id), string(k), b.n
}

// Statements of InPostgres, whose fifth argument is the sale. A ledger in the
// database counts there, in a row that servers take in turns, and no limit can be kept
// without a look for the buyer's orders: Decided does both, but decides nothing. The search
// for the buyer's orders is written so that no plan, made while the table is empty, reads all
// of it.
const (
	Inserted = `INSERT INTO orders (` + rowColumns + `) SELECT ` + rowValues + ` FROM ` + rowClaims
	Decided  = `WITH sale AS (
			UPDATE sales SET taken = taken + cardinality($1::text[]) WHERE id = $5::text RETURNING id
		)
		INSERT INTO orders (` + rowColumns + `) SELECT ` + rowValues + ` FROM sale, ` + rowClaims + `
		WHERE (SELECT quantity FROM orders WHERE buyer_id = b LIMIT 1) IS NULL`
	rowClaims = `unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS t (o, b, k, s)`
	rowValues = `o, $5::text, b, k, 1, '', 99900, 'CNY', 'pending', '', 1, s, 1, 'bench',
		now(), now(), now() + interval '900 s', now() + interval '930 s', now()`
)

// InPostgres stores in a table like the store's, in one statement, which is a transaction.
func (b *Rows) InPostgres(ctx context.Context, url, insert string) (func(context.Context, int) error, error) {
	made, err := pgstore.Open(ctx, url, pgstore.Options{})
	if err != nil {
		return nil, err
	}
	_, err = made.CreateSale(ctx, b.sale)
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
		_, err := conn.Exec(ctx, insert, orders, buyers, keys, seqs, string(b.sale.ID))
		return err
	}, nil
}
