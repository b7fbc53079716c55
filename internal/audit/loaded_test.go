package audit_test

import (
	"fmt"
	"testing"

	"github.com/sluicehq/sluice/internal/audit"
)

// A sale that is loaded into the ledger during an audit is read again, and
// what never stands still is reported as not checked.
func TestLoadedMeanwhile(t *testing.T) {
	w := sold()
	w.finish()
	loads := 0
	w.between = func() {
		if loads < 1 {
			loads++
			w.load()
		}
	}
	wantRed(t, run(t, w))
	if loads != 1 {
		t.Error("the sale was not loaded meanwhile")
	}

	w.between = w.load
	r := run(t, w)
	wantRed(t, r, "I1?", "I2?", "I3?", "I4?", "I5?", "I6?", "I8?")
	if r.Violated() {
		t.Error("a load is no violation")
	}
}

// BenchmarkRun audits 100,000 stored orders; allocated bytes per order show
// what an audit holds.
func BenchmarkRun(b *testing.B) {
	const orders = 100_000
	w := newWorld(orders, 1)
	for n := range orders / 100 {
		var buyers []string
		for i := range 100 {
			buyers = append(buyers, fmt.Sprintf("buyer-%08d", n*100+i))
		}
		w.claim(buyers...)
		w.insert()
		w.ack()
	}
	b.ReportAllocs()
	for b.Loop() {
		r, err := audit.Run(b.Context(), w, w, saleID)
		if err != nil || len(red(r)) > 0 {
			b.Fatal(err, red(r))
		}
	}
}
