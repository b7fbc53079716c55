package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// BenchmarkEndings measures how many orders a store can end in a second: by
// expiry, in batches of 500, one after the other; by a payment and a refund
// each, 16 at a time, of one sale and of eight; and how many releases it hands
// out, in batches of 500. Orders are aged by age.
func BenchmarkEndings(b *testing.B, store sluice.Store, age func(sale sluice.SaleID, by time.Duration)) {
	s, ok := store.(settling)
	if !ok {
		b.Fatal("the store is no sluice.SettleStore")
	}
	bench := &endingBench{b: b, s: s}
	b.Run("ExpireDue", func(b *testing.B) {
		bench.b = b
		var expiring, giving time.Duration
		n := 0
		for b.Loop() {
			sale, orders := bench.orders(10_000)
			age(sale, time.Hour)
			n += len(orders)
			expiring += bench.drain(len(orders), func() (int, error) { return s.ExpireDue(b.Context(), 500) })
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
	s     settling
	sales int
}

// orders stores n orders of a new sale.
func (e *endingBench) orders(n int) (sluice.SaleID, []sluice.OrderID) {
	e.sales++
	id := sluice.SaleID(fmt.Sprintf("bench-%d", e.sales))
	if _, err := e.s.CreateSale(e.b.Context(), aSale(id, sluice.Unlimited)); err != nil {
		e.b.Fatal(err)
	}
	src := source{sale: id, epoch: 1}
	var orders []sluice.OrderID
	for n > 0 {
		entry := src.entry(min(n, 500))
		n -= len(entry.Claims)
		if _, err := e.s.Insert(e.b.Context(), id, []sluice.Entry{entry}); err != nil {
			e.b.Fatal(err)
		}
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
	return e.s.GiveReleases(e.b.Context(), 500, func(sluice.SaleID, []sluice.Release) error { return nil })
}

// change takes an action on all orders, 16 at a time, and returns how long that
// took. Orders of one sale stand together; neighbors in time are of all sales.
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
