package sqliteledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// BenchmarkClaim measures accepted claims, each durable, of buyers who come
// once, by batches of a size from a number of goroutines.
func BenchmarkClaim(b *testing.B) {
	for _, size := range []int{1, 64, 256, 1000} {
		for _, callers := range []int{1, 4, 64} {
			b.Run(fmt.Sprintf("batch=%d/callers=%d", size, callers), func(b *testing.B) {
				l := open(b, filepath.Join(b.TempDir(), "ledger.db"))
				load(b, l, "s", sluice.Unlimited)
				var next atomic.Int64
				b.SetParallelism(max(callers/2, 1)) // of GOMAXPROCS, 2 on the machine of the figures
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					claims := make([]sluice.Claim, size)
					for pb.Next() {
						for i := range claims {
							claims[i] = benchClaim(next.Add(1))
						}
						decisions, err := l.Claim(context.Background(), "s", claims)
						if err != nil || decisions[0].Code != sluice.Accepted {
							b.Errorf("%+v, %v", decisions[0], err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "claims/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// benchClaim makes the claim of the n-th buyer, cheaply: making claims is not
// what is measured.
func benchClaim(n int64) sluice.Claim {
	const digits = "0123456789abcdef"
	id := []byte("s.00000000000000000000000000000000")
	for i := len(id) - 1; n > 0; i, n = i-1, n/16 {
		id[i] = digits[n%16]
	}
	s := string(id)
	return sluice.Claim{Buyer: sluice.BuyerID(s[14:]), Key: "0123456789abcdef", Quantity: 1, Order: sluice.OrderID(s)}
}

// BenchmarkMemory measures what an accepted claim of a buyer who comes once
// holds of the heap when it is acknowledged. Run it with -benchtime 1x.
func BenchmarkMemory(b *testing.B) {
	const claims, size = 200_000, 250
	for b.Loop() {
		before := heap()
		l := open(b, filepath.Join(b.TempDir(), "ledger.db"))
		load(b, l, "s", sluice.Unlimited)
		for n := int64(0); n < claims; n += size {
			batch := make([]sluice.Claim, size)
			for i := range batch {
				batch[i] = benchClaim(n + int64(i))
			}
			must.Get(l.Claim(b.Context(), "s", batch))(b)
			entries, err := l.ReadJournal(b.Context(), port.JournalRead{Sale: "s", Source: port.New, Max: size})
			if err != nil || len(entries) != 1 {
				b.Fatalf("%d entries, %v", len(entries), err)
			}
			must.Succeed(b, l.Ack(b.Context(), "s", []string{entries[0].ID}))
		}
		b.ReportMetric(float64(heap()-before)/claims, "B/claim")
		runtime.KeepAlive(l)
	}
}

// heap is what is in use of the heap, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what a pool held is gone after the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
