package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// A counter of the store that is damaged from outside is mended by the job,
// and told in the metrics; a client that asks finds nothing left.
func TestTheReconcileJobMends(t *testing.T) {
	dir := t.TempDir()
	// metrics are a second old
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: dir, ReconcileInterval: 2 * time.Second}))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		_ = e.Close(context.Background())
	})
	c := must.Get(client.New(server.URL, client.Options{AdminKey: e.AdminKey()}))(t)
	const id = sluice.SaleID("phone")
	_, err := c.CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(id), SKU: "sku", Title: "title", Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
		Total: api.Value[int64](10), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
	})
	if err != nil {
		t.Fatal(err)
	}
	db := must.Get(sql.Open("sqlite", filepath.Join(dir, "store.db")+"?_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	must.Get(db.Exec("UPDATE sales SET taken = taken + 1"))(t)
	told := false
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		told = told || strings.Contains(metrics(t, server.URL), `sluice_reconcile_differences{class="drift"} 1`)
		var taken int64
		must.Succeed(t, db.QueryRow("SELECT taken FROM sales").Scan(&taken))
		if taken == 0 && told {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the store still has %d taken; told in the metrics: %v", taken, told)
		}
	}
	report, err := c.ReconcileSale(t.Context(), id, false)
	if err != nil || report.SaleID != id || report.Skipped != "" || report.Remaining != 0 || len(report.Differences) != 6 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := c.ReconcileSale(t.Context(), "nothing", true); client.CodeOf(err) != sluice.SaleNotFound.String() {
		t.Errorf("no such sale: %v", err)
	}
}

// Idle sales of a fleet are one server's; when it has gone, another one's.
func TestIdleSalesHaveOneReconciler(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 10)
	db := must.Get(pgx.Connect(t.Context(), f.store))(t)
	defer db.Close(context.Background())
	holder, leases := "", 0
	f.until("a server that reconciles idle sales", func() bool {
		err := db.QueryRow(t.Context(), `SELECT coalesce(max(holder) FILTER (WHERE name = 'reconcile'), ''), count(*)
			FROM leases WHERE name LIKE 'reconcile%'`).Scan(&holder, &leases)
		if err != nil {
			t.Fatal(err)
		}
		return holder != ""
	})
	if leases != 1 {
		t.Errorf("%d leases for one idle sale", leases)
	}
	all := func() int { return reconciliations(t, f.engines[0]) + reconciliations(t, f.engines[1]) }
	begun, before := time.Now(), all()
	f.until("eight reconciliations", func() bool { return all() >= before+8 })
	if took := time.Since(begun).Seconds(); took < 5 {
		t.Errorf("one sale was reconciled eight times in %.1f s, want once a second", took)
	}
	first := f.engines[0]
	if holder != "node-0" {
		first = f.engines[1]
	}
	_ = first.Close(t.Context())
	must.Get(db.Exec(t.Context(), "UPDATE sales SET taken = taken + 1"))(t)
	f.until("the other one to mend a sale", func() bool {
		var taken int64
		must.Succeed(t, db.QueryRow(t.Context(), "SELECT taken FROM sales").Scan(&taken))
		return taken == 0
	})
}

// reconciliations is how many a server has finished.
func reconciliations(t *testing.T, e *engine.Engine) (n int) {
	t.Helper()
	recorder := httptest.NewRecorder()
	e.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	line := grep(recorder.Body.String(), "sluice_reconciliations_total")
	if _, err := fmt.Sscanf(line, "sluice_reconciliations_total %d", &n); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return n
}

func metrics(t *testing.T, url string) string {
	t.Helper()
	answer := must.Get(http.Get(url + "/metrics"))(t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(t)
	return string(body)
}
