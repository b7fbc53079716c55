package engine_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// However many audits are asked for and however long one reads, the server stays
// ready, buyers read their orders, and what is accepted is stored.
func TestAuditsLeaveTheStoreToOthers(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	b := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store + "&pool_max_conns=6", Node: "one"})
	sell(t, []*branch{b}, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{}))
	buy := func(buyer string) (read func() bool) {
		t.Helper()
		status, answer := b.claim("phones", buyer, "")
		order, _ := answer["order_id"].(string)
		if status != http.StatusAccepted || order == "" {
			t.Fatalf("%s: %d %v", buyer, status, answer)
		}
		return func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/orders?status=pending", nil)
			request.Header.Set("Authorization", "Bearer "+token(buyer))
			answer := httptest.NewRecorder()
			b.engine.Handler().ServeHTTP(answer, request)
			return answer.Code == http.StatusOK && strings.Contains(answer.Body.String(), order)
		}
	}
	ann := buy("ann")
	until(t, "the first order to be stored", ann)

	// The letters are locked, so an audit hangs in its snapshot until its session has
	// waited long enough for the lock. So does the count of them for the metrics; the
	// pool leaves two connections more to reading, and two to changes.
	connect := func() *pgx.Conn {
		t.Helper()
		conn := must.Get(pgx.Connect(t.Context(), store))(t)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	conn, watch := connect(), connect()
	must.Get(conn.Exec(t.Context(), "BEGIN; LOCK TABLE dead_letters IN ACCESS EXCLUSIVE MODE"))(t)
	ctx, cancel := context.WithCancel(t.Context())
	var audits sync.WaitGroup
	for range 20 {
		audits.Go(func() { _, _ = b.engine.Audit(ctx, "phones") })
	}
	defer audits.Wait()
	defer cancel()
	until(t, "an audit to wait for the table", func() bool {
		var waiting int
		err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%FROM dead_letters%WHERE sale_id =%'`).Scan(&waiting)
		return err == nil && waiting > 0
	})
	for began := time.Now(); time.Since(began) < time.Second; time.Sleep(20 * time.Millisecond) {
		if !ann() {
			t.Fatal("a buyer cannot read an order while audits run")
		}
		if ready, err := b.client.Ready(t.Context()); err != nil || ready.StoreState != "ok" {
			t.Fatalf("readiness while audits run: %+v, %v", ready, err)
		}
	}
	bob := buy("bob")
	until(t, "an order of meanwhile to be stored", bob)

	must.Get(conn.Exec(t.Context(), "ROLLBACK"))(t)
	cancel()
	audits.Wait()
	if report, err := b.engine.Audit(t.Context(), "phones"); err != nil || !report.OK {
		t.Errorf("the audit after it: %+v, %v", report, err)
	}
}
