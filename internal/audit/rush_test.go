package audit_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
)

// While claims are accepted, stored, acknowledged, ended and released, and the
// terms change, every audit is green, and sees claims in flight as such.
func TestNoFalseAlarmDuringARush(t *testing.T) {
	var inFlight, newer, released int64
	for seed := range uint64(8) {
		w := newWorld(sluice.MaxUnits, 2)
		w.between = runtime.Gosched
		over := w.rush(seed)
		for audits := 0; ; audits++ {
			last := over.Load()
			r := run(t, w)
			wantRed(t, r)
			if t.Failed() {
				t.Fatalf("seed %d, audit %d", seed, audits)
			}
			inFlight += r.InFlight
			newer += r.Figures.Newer
			released += r.Figures.Ledger.Taken - r.Figures.Ledger.LiveUnits
			if last {
				if r.InFlight != 0 || r.Figures.Newer != 0 || r.Figures.Ledger.Seq != rushEntries*entryClaims {
					t.Errorf("seed %d: after the rush: %+v", seed, r)
				}
				break
			}
		}
	}
	if inFlight == 0 || newer == 0 || released == 0 {
		t.Errorf("the rush never met an audit: %d in flight, %d newer, %d released between", inFlight, newer, released)
	}
}

const (
	rushEntries = 150
	entryClaims = 5
)

// rush claims, stores, acknowledges, ends, releases and changes the world
// until all entries are stored; then what it returns turns true.
func (w *world) rush(seed uint64) *atomic.Bool {
	var over, claimed atomic.Bool
	var all sync.WaitGroup
	all.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for n := range rushEntries {
			var buyers []string
			for i := range entryClaims {
				buyers = append(buyers, fmt.Sprintf("b-%d-%d", n, i))
			}
			w.claim(buyers...)
			if n%40 == 0 {
				w.change(func(t *sluice.Terms) { t.MaxPerBuyer = 1 + rnd.Int64N(3) })
			}
			for range rnd.IntN(300) {
				runtime.Gosched()
			}
		}
		claimed.Store(true)
	})
	all.Go(func() {
		for done := false; !done; runtime.Gosched() {
			done = claimed.Load()
			// While it goes on, a few entries wait, as they do behind SQL.
			for w.waiting() > 3 || done && w.waiting() > 0 {
				w.insert()
				runtime.Gosched() // stored, and still in the journal
				w.ack()
			}
		}
	})
	all.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 2))
		for !claimed.Load() {
			if id := w.endOne(rnd); id != "" {
				runtime.Gosched() // ended, and not released
				w.release(id)
			}
			for range rnd.IntN(300) {
				runtime.Gosched()
			}
		}
	})
	go func() {
		all.Wait()
		over.Store(true)
	}()
	return &over
}

func (w *world) waiting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.journal)
}

// endOne ends a random live order, or returns "".
func (w *world) endOne(rnd *rand.Rand) sluice.OrderID {
	w.mu.Lock()
	n := len(w.orders)
	w.mu.Unlock()
	if n == 0 {
		return ""
	}
	i := rnd.IntN(n)
	w.mu.Lock()
	live, id := w.orders[i].Status.Live(), w.orders[i].ID
	w.mu.Unlock()
	if !live {
		return ""
	}
	w.end(i)
	return id
}

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
