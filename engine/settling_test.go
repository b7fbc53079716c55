package engine_test

import (
	"context"
	"database/sql"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// awaitMetrics waits until the metrics hold all these lines.
func awaitMetrics(t *testing.T, url string, lines ...string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, missing := metrics(t, url), ""
		for _, line := range lines {
			if !strings.Contains(text, "\n"+line+"\n") {
				missing = line
			}
		}
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the metrics lack %q:\n%s", missing, grep(text, "sluice_"))
		}
	}
}

func grep(text, word string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// What waits in the store, and what is done about it, is in the metrics.
func TestMetricsOfSettling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, err := engine.Open(t.Context(), engine.Config{
		DataDir: dir, ReconcileInterval: 500 * time.Millisecond,
		ExpiryInterval: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		_ = e.Close(context.Background())
	})
	awaitMetrics(t, server.URL, "sluice_store_up 1", "sluice_release_oldest_seconds 0",
		"sluice_order_overdue_oldest_seconds 0",
		"sluice_dead_letters_total 0", "sluice_rebuilds_total 0", `sluice_orders_expired_total{sale=""} 0`,
		`sluice_reconcile_found_total{class="drift"} 0`, `sluice_releases_total{result="applied"} 0`)
	c := must.Get(client.New(server.URL, client.Options{AdminKey: e.AdminKey()}))(t)
	const id = sluice.SaleID("phone")
	_, err = c.CreateSale(t.Context(), api.CreateSale{
		ID: api.Some(id), SKU: "sku", Title: "title", Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
		Total: api.Value[int64](10), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
		PaymentWindowS: api.Some[int64](1), PaymentGraceS: api.Some[int64](0),
	})
	if err != nil {
		t.Fatal(err)
	}
	db := must.Get(sql.Open("sqlite", filepath.Join(dir, "store.db")+"?_pragma=busy_timeout(10000)"))(t)
	defer db.Close()
	for _, statement := range []string{
		"UPDATE sales SET taken = taken + 1",
		`INSERT INTO dead_letters (sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, created_at)
			VALUES ('phone', 1, 'x', 'because', x'', 1, 1, 'a', 1)`,
	} {
		must.Get(db.Exec(statement))(t)
	}
	awaitMetrics(t, server.URL, `sluice_dead_letters{sale="phone"} 1`,
		`sluice_reconcile_found_total{class="drift"} 1`, `sluice_reconcile_repaired_total{class="drift"} 1`)
	token := must.Get(loadgen.Mint([]byte(e.BuyerSecret()), "buyer", time.Now(), time.Hour))(t)
	buyer := must.Get(client.New(server.URL, client.Options{Token: token}))(t)
	must.Get(buyer.Place(t.Context(), id, client.NewKey(), api.PlaceOrder{Quantity: 1}))(t)
	awaitMetrics(t, server.URL, `sluice_orders_expired_total{sale="`+string(id)+`"} 1`,
		`sluice_releases_total{result="applied"} 1`)
	fence(t, filepath.Join(dir, "store.db"))
	awaitMetrics(t, server.URL, "sluice_rebuilds_total 1")
}
