package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// BenchmarkEndings measures how many orders a store can end in a second: by
// expiry, in batches of 500, one after the other; by a payment and a refund
// each, 16 at a time, of one sale and of eight; and how many releases it hands
// out, in batches of 500. Orders are aged by age.
func BenchmarkEndings(b *testing.B, s port.Store, age func(sale sluice.SaleID, by time.Duration)) {
	bench := &endingBench{b: b, s: s}
	b.Run("ExpireDue", func(b *testing.B) {
		bench.b = b
		var expiring, giving time.Duration
		n := 0
		for b.Loop() {
			sale, orders := bench.orders(10_000)
			age(sale, time.Hour)
			n += len(orders)
			expiring += bench.drain(len(orders), func() (int, error) { return expireDue(b.Context(), s, 500) })
			giving += bench.drain(len(orders), bench.give)
		}
		b.ReportMetric(float64(n)/expiring.Seconds(), "expired/s")
		b.ReportMetric(float64(n)/giving.Seconds(), "released/s")
	})
	for _, sales := range []int{1, 8} {
		b.Run(fmt.Sprintf("Change/sales=%d", sales), func(b *testing.B) {
			bench.b = b
			var paying, refunding time.Duration
			n := 0
			for b.Loop() {
				var all []sluice.OrderID
				for range sales {
					_, orders := bench.orders(2000 / sales)
					all = append(all, orders...)
				}
				n += len(all)
				paying += bench.change(all, sales, sluice.Pay)
				refunding += bench.change(all, sales, sluice.Refund)
				bench.drain(len(all), bench.give)
			}
			b.ReportMetric(float64(n)/paying.Seconds(), "paid/s")
			b.ReportMetric(float64(n)/refunding.Seconds(), "refunded/s")
		})
	}
}

type endingBench struct {
	b     *testing.B
	s     port.Store
	sales int
}

// orders stores n orders of a new sale.
func (e *endingBench) orders(n int) (sluice.SaleID, []sluice.OrderID) {
	e.sales++
	id := sluice.SaleID(fmt.Sprintf("bench-%d", e.sales))
	must.Get(e.s.CreateSale(e.b.Context(), aSale(id, sluice.Unlimited)))(e.b)
	src := source{sale: id, epoch: 1}
	var orders []sluice.OrderID
	for n > 0 {
		entry := src.entry(min(n, 500))
		n -= len(entry.Claims)
		must.Get(e.s.Insert(e.b.Context(), id, []port.Entry{entry}))(e.b)
		for i := range entry.Claims {
			orders = append(orders, entry.Claims[i].Order)
		}
	}
	return id, orders
}

// drain calls batch until n are done, and returns how long that took.
func (e *endingBench) drain(n int, batch func() (int, error)) time.Duration {
	began := time.Now()
	for n > 0 {
		done, err := batch()
		if err != nil || done == 0 {
			e.b.Fatalf("%d done, %v, of %d left", done, err, n)
		}
		n -= done
	}
	return time.Since(began)
}

func (e *endingBench) give() (int, error) {
	return e.s.GiveReleases(e.b.Context(), 500, func(sluice.SaleID, []port.Release) error { return nil })
}

// change takes an action on all orders, 16 at a time, and returns how long that
// took. Orders of one sale stand together; neighbors in time belong to all sales.
func (e *endingBench) change(orders []sluice.OrderID, sales int, action sluice.Action) time.Duration {
	perSale := len(orders) / sales
	began := time.Now()
	var running sync.WaitGroup
	for worker := range 16 {
		running.Go(func() {
			for i := worker; i < len(orders); i += 16 {
				if _, err := e.s.Change(e.b.Context(), want(orders[i%sales*perSale+i/sales], action)); err != nil {
					e.b.Error(err)
				}
			}
		})
	}
	running.Wait()
	return time.Since(began)
}

// BenchmarkInsert stores batches of 500 new claims. If there is bare, it inserts
// as many rows beside each batch, in the same run and on the same server, by one
// multi-row INSERT into an identical table with identical indexes, each in a
// transaction of its own. It reports rows a second of both, and their ratio:
// what exactly-once and the cap cost.
func BenchmarkInsert(b *testing.B, s port.Store, bare *Bare) {
	create(b, s, aSale("phones", sluice.MaxUnits))
	var stored, beside time.Duration
	n := 0
	for b.Loop() {
		n++
		entry := Batch(n)
		began := time.Now()
		InsertBatch(b, s, entry)
		stored += time.Since(began)
		if bare == nil {
			continue
		}
		query, args := bare.insert(&entry)
		began = time.Now()
		must.Succeed(b, bare.Execute(query, args))
		beside += time.Since(began)
	}
	rows := float64(n) * batchSize
	b.ReportMetric(rows/stored.Seconds(), "rows/s")
	if bare != nil {
		b.ReportMetric(rows/beside.Seconds(), "bare-rows/s")
		b.ReportMetric(beside.Seconds()/stored.Seconds(), "ratio")
	}
}

// Bare is the table "bare", made like orders, and its driver.
type Bare struct {
	// Arg returns the n-th placeholder, from 1.
	Arg     func(n int) string
	Execute func(query string, args []any) error
}

// insert is what a program without Sluice's guarantees would do.
func (bare *Bare) insert(e *port.Entry) (string, []any) {
	sale := aSale(e.Sale, sluice.MaxUnits)
	var query strings.Builder
	query.WriteString(`INSERT INTO bare (order_id, sale_id, buyer_id, claim_key, quantity, meta, price_amount, currency,
		status, reason, epoch, seq, terms, node, accepted_at, stored_at, expires_at, keep_until, updated_at) VALUES `)
	var args []any
	now := time.Now()
	for i := range e.Claims {
		c := &e.Claims[i]
		row := []any{
			string(c.Order), string(e.Sale), string(c.Buyer), string(c.Key), c.Quantity, c.Meta, sale.Price.Amount,
			sale.Price.Currency,
			"pending", "", e.Epoch, e.FirstSeq + int64(i), e.Terms, e.Node, e.At, now,
			now.Add(sale.PaymentWindow), now.Add(sale.PaymentWindow + sale.PaymentGrace), now,
		}
		if i > 0 {
			query.WriteString(", ")
		}
		query.WriteByte('(')
		for column := range row {
			if column > 0 {
				query.WriteString(", ")
			}
			query.WriteString(bare.Arg(len(args) + column + 1))
		}
		query.WriteByte(')')
		args = append(args, row...)
	}
	return query.String(), args
}
