package engine_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// standing waits until a server says of a condition that it holds, or that it does not.
func (b *branch) standing(name string, holds bool) (found api.Condition) {
	b.t.Helper()
	var status api.Status
	for end := time.Now().Add(25 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		status = must.Get(b.client.Status(b.t.Context(), ""))(b.t)
		i := slices.IndexFunc(status.Conditions, func(c api.Condition) bool { return c.Name == name })
		if holds == (i >= 0) {
			if holds {
				return status.Conditions[i]
			}
			return api.Condition{}
		}
	}
	b.t.Fatalf("%s: want that it holds: %v, have %+v", name, holds, status)
	return api.Condition{}
}

// What is planted in real servers is said, one after the other, and nothing is left of it afterwards: package condition
// has a test of each sentence.
func TestWhatIsWrongIsSeen(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.StartPostgres(t)
	open := func(node string) *branch {
		return openBranch(t, engine.Config{Ledger: redis.URL(), Store: store.URL(), Node: node})
	}
	one, two := open("one"), open("two")
	onSale(t, one.engine, "phones", 10)
	onSale(t, one.engine, "lamps", 0, func(s *sluice.Sale) {
		s.OpensAt, s.Total = time.Now().Add(10*time.Minute), 0
	})
	ask := func(command string) { must.Get(redis.Ask(command))(t) }
	stop := make(chan struct{})
	for _, fault := range []struct {
		name        string
		plant, undo func()
		sale        sluice.SaleID
	}{
		{"not_ready", func() {}, func() { must.Get(one.client.RestockSale(t.Context(), "lamps", "r1", 5))(t) }, "lamps"},
		{
			"paused", func() { must.Get(two.client.PauseSale(t.Context(), "phones"))(t) },
			func() { must.Get(two.client.ResumeSale(t.Context(), "phones"))(t) }, "phones",
		},
		{"ledger_down", redis.Freeze, redis.Thaw, ""},
		{"store_down", func() { store.Stop(t) }, func() { store.Start(t) }, ""},
		{
			"ledger_evicts", func() { ask("CONFIG SET maxmemory 1gb"); ask("CONFIG SET maxmemory-policy allkeys-lru") },
			func() { ask("CONFIG SET maxmemory-policy noeviction") }, "",
		},
		{
			"everybody_refused", func() {
				go func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(5 * time.Millisecond):
							one.post("/v1/sales/phones/orders", "", map[string]string{"Authorization": "Bearer no.such.token"}, `{}`)
						}
					}
				}()
			}, func() { close(stop) }, "phones",
		},
	} {
		fault.plant()
		begun := time.Now()
		c := one.standing(fault.name, true)
		if c.SaleID != fault.sale || c.What == "" || c.Cost == "" || c.Do == "" || c.Since.Before(begun.Add(-time.Minute)) {
			t.Errorf("%s: %+v", fault.name, c)
		}
		fault.undo()
		one.standing(fault.name, false)
	}
	two.close() // in order: the other one does not speak of it any more
	var status api.Status
	until(t, "one server to be left", func() bool {
		status = must.Get(one.client.Status(t.Context(), ""))(t)
		return len(status.Servers) == 1
	})
	if len(status.Conditions) > 0 || status.Servers[0].Node != "one" || status.Node != "one" {
		t.Errorf("at the end: %+v", status)
	}
}

// A server that refuses what the other one accepts is named by both.
func TestOneServerRefuses(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	one := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: "one"})
	two := openBranch(t, engine.Config{
		Ledger: redis.URL(), Store: store, Node: "two", BuyerSecret: "another-secret-than-that-of-the-fleet",
	})
	onSale(t, one.engine, "phones", 1000)
	stop := make(chan struct{})
	defer close(stop)
	go func() { // on and on: a server that does not know the sale yet does not count its claims apart
		for i := 0; ; i++ {
			for _, b := range []*branch{one, two} {
				b.claim("phones", fmt.Sprint("buyer-", i), "")
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	for _, b := range []*branch{one, two} {
		if c := b.standing("one_refuses", true); !strings.HasPrefix(c.Detail, "two: ") {
			t.Errorf("it is named %q", c.Detail)
		}
		b.standing("servers_differ", true)
	}
}

// What three servers have counted of a rush is one curve, which says what their metrics and the audit say.
func TestTheCurveOfARush(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	var all []*branch
	for _, node := range []string{"one", "two", "three"} {
		all = append(all, openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: node}))
	}
	onSale(t, all[0].engine, "phones", 20)
	for i := range 60 {
		all[i%3].post("/v1/sales/phones/orders", "buyer-"+string(rune('a'+i%26))+string(rune('a'+i/26)),
			map[string]string{"Idempotency-Key": "attempt-1"}, `{"quantity":1}`)
		time.Sleep(50 * time.Millisecond)
	}
	var accepted, others int64
	for end := time.Now().Add(10 * time.Second); accepted != 20 || others != 40; time.Sleep(100 * time.Millisecond) {
		curve := must.Get(all[1].client.Curve(t.Context(), "phones", time.Time{}, time.Time{}))(t)
		accepted, others = 0, 0
		for kind, counts := range curve.Answers {
			for _, n := range counts {
				if kind == "accepted" {
					accepted += n
				} else {
					others += n
				}
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d accepted and %d others, want 20 and 40: %+v", accepted, others, curve)
		}
	}
	until(t, "metrics and audit to say the same", func() bool {
		counted := 0
		for _, b := range all {
			for line := range strings.Lines(metricsOf(t, b.engine)) {
				name, n, _ := strings.Cut(strings.TrimSpace(line), " ")
				if name == `sluice_claims_total{code="accepted",sale="phones"}` {
					counted += must.Get(strconv.Atoi(n))(t)
				}
			}
		}
		report := must.Get(all[2].client.Audit(t.Context(), "phones"))(t)
		return counted == 20 && report.OK && report.Figures != nil && report.Figures.Store.Orders == 20
	})
}
