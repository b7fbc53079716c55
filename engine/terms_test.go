package engine_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Terms that a person changes in Redis are noticed by the next reading: the sale
// is fenced, rebuilt from the store, and goes on, with every order it had. A version that the
// store lacks proves an older store, and waits for a person: TestRestore.
func TestTermsChangedByHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 100)
	c := must.Get(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr()}, DisableCache: true}))(t)
	defer c.Close()
	_, first := f.claim(0, 1)
	for i, change := range [][2]string{
		{"total", "1000"}, {"max_buyer", "-1"}, {"max_unpaid", "0"}, {"closes", "1"},
	} {
		epoch := int64(i) + 2
		set := c.B().Hset().Key("sluice:{phone}:sale").FieldValue().FieldValue(change[0], change[1]).Build()
		must.Succeed(t, c.Do(t.Context(), set).Error())
		began := time.Now()
		for server := range f.engines {
			f.until("the sale to go on after "+change[0]+" was changed", func() bool {
				status, order := f.claim(server, 1)
				if order != "" && order != first {
					t.Fatalf("%s: a repeat gets order %s, the first was %s", change[0], order, first)
				}
				now, err := c.Do(t.Context(), c.B().Hget().Key("sluice:{phone}:sale").Field("epoch").Build()).AsInt64()
				return status == 202 && err == nil && now == epoch
			})
		}
		t.Logf("%s: on again after %v", change[0], time.Since(began))
	}
	if status, _ := f.claim(1, 2); status != 202 {
		t.Errorf("another buyer: %d", status)
	}
	f.until("the second order to be stored", func() bool {
		sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
		return err == nil && sale.StoredTaken == 2
	})
	report, err := f.engines[0].Audit(t.Context(), f.sale)
	if err != nil || !report.OK {
		t.Errorf("the audit: %+v, %v", report, err)
	}
}

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
