package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A third of the winners pay, a third cancel, a third let it expire, and the
// units that return are bought again: the binary, on real servers. (In process,
// also on SQLite: cmd/sluice.)
func TestDemoLifecycleOnServers(t *testing.T) {
	for name, store := range map[string]func(testing.TB) string{
		"postgres": servertest.Postgres, "mysql": servertest.MySQL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const stock = 60
			code, stdout, stderr := command(t, "demo", "--lifecycle", "--json", "--payment-window", "3s", "--ledger",
				servertest.Redis(t), "--store", store(t),
				"--buyers", "2000", "--stock", strconv.Itoa(stock))
			if code != 0 || stderr != "" {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			var out struct {
				demoOutput
				Lifecycle *loadgen.Lifecycle `json:"lifecycle"`
			}
			if err := json.Unmarshal([]byte(stdout), &out); err != nil || out.Lifecycle == nil {
				t.Fatalf("%v: %s", err, stdout)
			}
			life := out.Lifecycle
			if !out.Audit.OK || life.Paid+life.Available != stock || life.Cancelled == 0 || life.Expired == 0 ||
				life.SoldAgain == 0 || life.Accepted != life.Paid+life.Returned || out.OrdersStored != life.Accepted {
				t.Errorf("%s", stdout)
			}
			for _, id := range []string{"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"} {
				if !slices.ContainsFunc(out.Audit.Checks, func(c sluice.AuditCheck) bool { return c.ID == id }) {
					t.Errorf("the audit does not check %s", id)
				}
			}
		})
	}
}

// typed runs a command of an operator at a server, and wants it to succeed.
func typed(t testing.TB, s *server, args ...string) string {
	t.Helper()
	code, stdout, stderr := command(t, append(args, "--url", s.url)...)
	if code != 0 {
		t.Fatalf("%s: exit %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

func shown(t testing.TB, s *server, sale sluice.SaleID) (shown api.AdminSale) {
	t.Helper()
	must.Succeed(t, json.Unmarshal([]byte(typed(t, s, "sale", "show", string(sale), "--json")), &shown))
	return shown
}

// Units are added and recalled and the sale is closed by commands while the
// crowd is at it: every promise is kept, and nothing beyond the total is sold.
func TestRestockAndCloseInARush(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		restockAndClose(t, 1, backends{})
	})
	t.Run("redis and mysql", func(t *testing.T) {
		t.Parallel()
		restockAndClose(t, 2, backends{servertest.Redis(t), servertest.MySQL(t)})
	})
	t.Run("postgres alone", func(t *testing.T) {
		t.Parallel()
		restockAndClose(t, 2, postgresAlone(t))
	})
}

func restockAndClose(t *testing.T, servers int, on backends) {
	cluster, urls := startCluster(t, servers, on)
	first, last := cluster[0], cluster[servers-1]
	const total, more, back = 200, 150, 30
	sale := createSale(t, first, total, 1)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 2000, Connections: 32, Remember: true}, urls,
		[]uint64{1, 2}[:servers]...)
	await(t, "half of the units sold", func() bool { return rush.accepted() >= total/2 })
	for range 2 { // the second changes nothing
		typed(t, last, "sale", "restock", string(sale), "--delta", strconv.Itoa(more), "--id", "po-1")
	}
	want := int64(total + more)
	if got := shown(t, first, sale); got.Total == nil || *got.Total != want {
		t.Errorf("total %v after a restock sent twice, want %d", got.Total, want)
	}
	// Taking back unsold units works as long as there are any.
	code, _, stderr := command(t, "sale", "restock", string(sale), "--delta="+strconv.Itoa(-back), "--id", "recall-1",
		"--url", first.url)
	switch {
	case code == 0:
		want -= back
	case code != 2 || !strings.Contains(stderr, "below_taken"):
		t.Errorf("recall: exit %d: %s", code, stderr)
	}
	rush.awaitDecided(rush.planned() / 2)
	typed(t, last, "sale", "close", string(sale))
	outcomes := rush.wait()
	awaitStored(t, first, sale)
	after := shown(t, first, sale)
	if after.State != sluice.StateClosed || after.Total == nil || *after.Total != want || after.Taken > want {
		t.Errorf("after closing: %+v, want a total of %d", after, want)
	}
	// Who heard sold_out heard it of another total.
	told := make([]*loadgen.Outcome, len(outcomes))
	for i, out := range outcomes {
		told[i] = &loadgen.Outcome{Promises: out.Promises}
	}
	report(t, brokenPromises(told, storedOrders(t, first, sale), want, 1))
	audit(t, first, sale, 0, "after closing in a rush")
}

// endedIn is the history of an ending that was written without its release.
func endedIn(status string) string {
	return "INSERT INTO order_changes (order_id, changed_at, from_status, to_status, action, changed_by, reason, " +
		"payment_id, refused) " +
		"SELECT order_id, stored_at, status, '" + status + "', 'cancel', 'a test', '', '', '' FROM orders WHERE order_id = ?"
}

// Damage behind Sluice's back is found and mended by the command, once.
func TestReconcileByCommand(t *testing.T) {
	t.Parallel()
	s := startServer(t, backends{}, "--reconcile-interval", "off")
	sale := createSale(t, s, 50, 1)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 20, Connections: 4, Remember: true}, []string{s.url}, 1)
	rush.wait()
	awaitStored(t, s, sale)
	orders := storedOrders(t, s, sale)
	if len(orders) != 20 {
		t.Fatalf("%d orders", len(orders))
	}
	compare := func(wantCode int, apply ...string) map[string][3]int64 {
		t.Helper()
		code, stdout, stderr := command(t, append([]string{"reconcile", "--sale", string(sale), "--json", "--url", s.url},
			apply...)...)
		var list struct{ Reports []api.ReconcileReport }
		if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != wantCode || len(list.Reports) != 1 ||
			list.Reports[0].Skipped != "" {
			t.Fatalf("exit %d, want %d: %v\n%s%s", code, wantCode, err, stdout, stderr)
		}
		found := map[string][3]int64{}
		for _, d := range list.Reports[0].Differences {
			if d.Count > 0 {
				found[string(d.Class)] = [3]int64{d.Count, d.Repaired, int64(len(d.Orders))}
			}
		}
		return found
	}
	is := func(what string, got, want map[string][3]int64) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: found %v, want %v", what, got, want)
		}
		for class, w := range want {
			if got[class] != w {
				t.Errorf("%s: %s is %v, want %v", what, class, got[class], w)
			}
		}
	}
	is("nothing is broken", compare(0), nil)
	path := filepath.Join(s.dir, "store.db")
	for _, damage := range []struct {
		statement string
		order     sluice.OrderID
	}{
		{"UPDATE sales SET taken = taken + 3 WHERE ? <> ''", orders[0].OrderID},
		{"DELETE FROM orders WHERE order_id = ?", orders[1].OrderID},
		{endedIn("cancelled"), orders[2].OrderID}, // and no release
		{"UPDATE orders SET status = 'cancelled' WHERE order_id = ?", orders[2].OrderID},
		{endedIn("expired"), orders[3].OrderID},
		{"UPDATE orders SET status = 'expired' WHERE order_id = ?", orders[3].OrderID},
	} {
		if n, err := editSQLite(path, damage.statement, string(damage.order)); err != nil || n != 1 {
			t.Fatalf("%s: %d rows, %v", damage.statement, n, err)
		}
	}
	broken := map[string][3]int64{"drift": {1, 0, 0}, "lost_order": {1, 0, 1}, "lost_release": {2, 0, 2}}
	for range 2 { // looking changes nothing
		is("looking", compare(2), broken)
	}
	is("mending", compare(0, "--apply"), map[string][3]int64{
		"drift": {1, 1, 0}, "lost_order": {1, 1, 1}, "lost_release": {2, 2, 2},
	})
	awaitStored(t, s, sale) // the releases have reached the ledger
	is("afterwards", compare(0), nil)
	if after := shown(t, s, sale); after.Taken != 18 || after.StoredTaken != 18 {
		t.Errorf("taken %d, stored %d; want 18", after.Taken, after.StoredTaken)
	}
	if back := storedOrders(t, s, sale); len(back) != 20 {
		t.Errorf("%d orders, want the lost one back", len(back))
	}
	audit(t, s, sale, 0, "after mending")
}
