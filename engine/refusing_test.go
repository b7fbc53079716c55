package engine_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Redis refuses to write: claims hear that nothing was decided, no server is ready,
// and the log says why; an order of before can be cancelled. When it writes again
// the same claims are accepted, the cancelled unit comes back, and what was accepted
// has stayed, all by itself.
func TestRedisWithoutMemory(t *testing.T) {
	redis := servertest.StartRedis(t)
	refusing(t, redis, "OOM", func(refuses bool) {
		limit := "0"
		if refuses {
			limit = "1"
		}
		must.Get(redis.Ask("CONFIG SET maxmemory " + limit))(t)
	})
}

// Of an operator who has turned snapshots on: one that cannot be written.
func TestRedisWithoutSnapshots(t *testing.T) {
	t.Parallel()
	redis := servertest.StartRedis(t)
	inTheWay := filepath.Join(redis.Dir(), "dump.rdb", "folder")
	refusing(t, redis, "MISCONF", func(refuses bool) {
		if !refuses { // Redis tries again every five seconds
			must.Succeed(t, os.RemoveAll(filepath.Dir(inTheWay)))
			return
		}
		must.Succeed(t, os.MkdirAll(inTheWay, 0o700))
		must.Get(redis.Ask(`CONFIG SET save "1 1"`))(t)
		until(t, "a snapshot that fails", func() bool {
			_, err := redis.Ask("INFO persistence")
			return err != nil && strings.Contains(err.Error(), "MISCONF") // its PING says so
		})
	})
}

// refusing is such a time. The log has the word.
func refusing(t *testing.T, redis *servertest.RedisServer, word string, switched func(refuses bool)) {
	t.Helper()
	store, log := servertest.Postgres(t), &logged{}
	var branches []*branch
	for _, node := range []string{"one", "two"} {
		branches = append(branches, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: node, Log: log.logger(), ReconcileInterval: 300 * time.Millisecond,
		}))
	}
	sale := prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{})
	sale.Total = 3
	sell(t, branches, sale)
	orders := map[string]sluice.OrderID{}
	accepted := func(b *branch, buyer string) bool {
		status, answer := b.claim("phones", buyer, "")
		if status != http.StatusAccepted {
			return false
		}
		order := sluice.OrderID(answer["order_id"].(string))
		if before := orders[buyer]; before != "" && before != order {
			t.Errorf("%s has the orders %s and %s", buyer, before, order)
		}
		orders[buyer] = order
		return true
	}
	if !accepted(branches[0], "ann") || !accepted(branches[1], "bob") {
		t.Fatal("claims are refused")
	}
	settled := func(taken int64) func() bool {
		return func() bool {
			sale, err := branches[0].client.AdminSale(t.Context(), "phones")
			return err == nil && sale.Backlog == 0 && sale.Taken == taken && sale.StoredTaken == taken
		}
	}
	until(t, "the orders to be stored", settled(2))

	switched(true)
	for range 3 {
		for i, b := range branches {
			if status, answer := b.claim("phones", []string{"cem", "dan"}[i], ""); status != http.StatusServiceUnavailable ||
				answer["detail"] != "the ledger refuses to write; this request decided nothing" {
				t.Errorf("refusing: %d %v", status, answer)
			}
		}
	}
	for _, b := range branches {
		if _, err := b.client.Ready(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "the ledger refuses to write") {
			t.Errorf("ready: %v", err)
		}
	}
	if lines := log.lines("level=WARN", "claims cannot be decided", word); len(lines) != len(branches) {
		t.Errorf("the log says why %d times: %q", len(lines), lines)
	}
	if order, err := branches[0].client.AdminCancelOrder(t.Context(), orders["ann"]); err != nil ||
		order.Status != sluice.Cancelled {
		t.Errorf("cancelled meanwhile: %+v, %v", order, err)
	}

	switched(false)
	for i, buyer := range []string{"cem", "dan"} { // two units: one was left, one comes back
		until(t, "the same claims to be accepted", func() bool { return accepted(branches[i], buyer) })
	}
	for _, b := range branches {
		until(t, "the server to be ready", func() bool {
			_, err := b.client.Ready(t.Context())
			return err == nil
		})
		for buyer := range orders {
			if !accepted(b, buyer) {
				t.Errorf("%s has lost the order", buyer)
			}
		}
	}
	until(t, "the orders to be stored", settled(3))
	if got, err := branches[0].client.AdminSale(t.Context(), "phones"); err != nil || got.Epoch != 1 || got.Fence != "" {
		t.Errorf("%+v, %v; want it never loaded again", got, err)
	}
	if report, err := branches[0].engine.Audit(t.Context(), "phones"); err != nil || !report.OK {
		t.Errorf("the audit: %+v, %v", report, err)
	}
}
