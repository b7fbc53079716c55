package settle_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/ledger/redisledger"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
	"github.com/sluicehq/sluice/store/pgstore"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

var benchOrders = flag.Int("orders", 100_000, "stored orders of the sale that BenchmarkReconcile reconciles")

// BenchmarkReconcile reconciles, with repairs, a sale of many stored orders:
// every claim, the journal, every order, the outbox. It must find nothing. One
// op is a reconciliation; peak-MB is this process's, the ledger's and store's
// clients in it, and with the embedded pair both whole.
//
//	go test ./internal/settle -run '^$' -bench Reconcile -benchtime 5x -args -orders 1000000
func BenchmarkReconcile(b *testing.B) {
	b.Run("embedded", func(b *testing.B) {
		dir := b.TempDir()
		ledger, err := sqliteledger.Open(b.Context(), filepath.Join(dir, "ledger.db"), sqliteledger.Options{Node: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		defer ledger.Close()
		store := must.Get(sqlitestore.Open(b.Context(), filepath.Join(dir, "store.db"), sqlitestore.Options{}))(b)
		defer store.Close()
		benchReconcile(b, ledger, store)
	})
	b.Run("Redis and PostgreSQL", func(b *testing.B) {
		ledger := must.Get(redisledger.Open(b.Context(), servertest.Redis(b), redisledger.Options{Node: "bench"}))(b)
		defer ledger.Close()
		store := must.Get(pgstore.Open(b.Context(), servertest.Postgres(b), pgstore.Options{}))(b)
		defer store.Close()
		benchReconcile(b, ledger, store)
	})
}

func benchReconcile(b *testing.B, ledger port.Ledger, store port.Store) {
	id := fillSale(b, ledger, store, *benchOrders)
	debug.FreeOSMemory()
	// 5 resets the peak (proc_pid_clear_refs(5)); where it cannot, it is the peak of the whole run.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o200)
	for b.Loop() {
		report, err := settle.NewReconciler(store, ledger, settle.NewLoader(store, ledger)).Reconcile(b.Context(), id, true)
		if err == nil && (report.Skipped != "" || report.Remaining() != 0 || report.Of(sluice.InFlight).Count != 0) {
			err = fmt.Errorf("the reconciliation found something where nothing is: %+v", report)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(*benchOrders)*float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	b.ReportMetric(peakMB(), "peak-MB")
}

// fillSale accepts and stores one order of each of n buyers.
func fillSale(b *testing.B, ledger port.Ledger, store port.Store, n int) sluice.SaleID {
	id := sluice.SaleID("bench-" + uuid.NewString()[:8])
	sale := phone(-time.Hour)
	sale.ID, sale.Total, sale.PaymentWindow = id, int64(n), 24*time.Hour
	must.Get(store.CreateSale(b.Context(), sale))(b)
	must.Succeed(b, settle.NewLoader(store, ledger).Load(b.Context(), id))
	lines := pipeline.New(ledger, store, pipeline.Options{})
	for at := 0; at < n; at += 1000 {
		claims := make([]sluice.Claim, min(1000, n-at))
		for i := range claims {
			claims[i] = sluice.Claim{
				Buyer: sluice.BuyerID(fmt.Sprintf("user-%010d", at+i)), Key: "attempt-1", Quantity: 1,
				Order: id.Order(strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")),
				Meta:  `{"channel":"app"}`,
			}
		}
		decisions, err := ledger.Claim(b.Context(), id, claims)
		for i := range decisions {
			if decisions[i].Code != sluice.Accepted {
				err = errors.Join(err, fmt.Errorf("a claim is %s", decisions[i].Code))
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		lines.Wake(id)
	}
	must.Succeed(b, lines.Close(b.Context()))
	if stored, err := store.Sale(b.Context(), id); err != nil || stored.Taken != int64(n) {
		b.Fatalf("%d of %d orders are stored, %v", stored.Taken, n, err)
	}
	return id
}

// peakMB is the highest resident memory of this process; 0 without /proc.
func peakMB() float64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kb, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseFloat(kb, 64)
	return n / 1024
}
