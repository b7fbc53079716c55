package sqlitestore_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/store/storetest"
)

const perBatch = 500

// BenchmarkInsert stores batches of 500 new claims, each batch with an fsync.
func BenchmarkInsert(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "store.db"))
	if _, err := s.CreateSale(b.Context(), aSale()); err != nil {
		b.Fatal(err)
	}
	var stored time.Duration
	n := 0
	for b.Loop() {
		n++
		entry := benchEntry(n)
		began := time.Now()
		if got, err := s.Insert(b.Context(), "phones", []sluice.Entry{entry}); err != nil || got.Inserted != perBatch {
			b.Fatal(got, err)
		}
		stored += time.Since(began)
	}
	b.ReportMetric(float64(n)*perBatch/stored.Seconds(), "rows/s")
}

func benchEntry(n int) sluice.Entry {
	e := sluice.Entry{
		ID: fmt.Sprint(n), Sale: "phones", Epoch: 1, Node: "node-1", Terms: 1, At: time.Now(),
		FirstSeq: int64((n-1)*perBatch + 1), Claims: make([]sluice.Claim, perBatch),
	}
	for i := range e.Claims {
		at := e.FirstSeq + int64(i)
		e.Claims[i] = sluice.Claim{
			Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%x", at*0x9e3779b97f4a7c1%0xffffffff)), Key: sluice.Key(fmt.Sprintf("key-%08x", at*2654435761%0xffffffff)),
			Quantity: 1, Order: sluice.MakeOrderID("phones", fmt.Sprintf("%032x", at)), Meta: `{"channel":"app"}`,
		}
	}
	return e
}

func BenchmarkEndings(b *testing.B) {
	path := filepath.Join(b.TempDir(), "store.db")
	storetest.BenchmarkEndings(b, open(b, path), func(sale sluice.SaleID, by time.Duration) { age(b, path, sale, by) })
}
