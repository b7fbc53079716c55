package engine_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// The rules of one sale are damaged by hand. No claim on it passes without them, other
// sales sell, new ones are created, and once they are mended it sells again; so does a
// server that starts meanwhile.
func TestRulesAreDamaged(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	open := func(node string) *branch {
		return openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: node})
	}
	branches := []*branch{open("one")}
	for _, id := range []string{"broken", "well"} {
		sell(t, branches, prepared(id, time.Now().Add(-time.Minute), sluice.Rules{}))
	}
	db := must.Get(sql.Open("pgx", store))(t)
	defer db.Close()
	write := func(rules string) {
		must.Get(db.Exec(`UPDATE sales SET rules = $1 WHERE id = 'broken'`, rules))(t)
	}
	write(`[]`)
	until(t, "the damage to be seen", func() bool {
		return branches[0].try("broken", "ann", "attempt-1") == "unavailable"
	})
	branches = append(branches, open("two"))
	sell(t, branches, prepared("new", time.Now().Add(-time.Minute), sluice.Rules{}))
	for i, b := range branches {
		for _, id := range []string{"well", "new"} {
			if code := b.try(id, fmt.Sprint("buyer-", i), "attempt-1"); code != "accepted" {
				t.Errorf("%s on server %d: %s", id, i, code)
			}
		}
		if code := b.try("broken", "ann", "attempt-1"); code == "accepted" || code == "sale_not_found" {
			t.Errorf("a sale without its rules, server %d: %s", i, code)
		}
		if list, err := b.client.AdminSales(t.Context()); err != nil || len(list) != 3 {
			t.Errorf("server %d lists %d sales, %v", i, len(list), err)
		}
	}
	write(`{}`)
	for _, b := range branches {
		until(t, "the sale to be sold again", func() bool { return b.try("broken", "ann", "attempt-1") == "accepted" })
	}
}
