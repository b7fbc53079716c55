package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Two of a shop's bad moments at once.

// keptAll fails the test unless every promise is kept on every server and the audit agrees.
func (f *fleet) keptAll(t *testing.T, promised map[int]string) {
	t.Helper()
	f.until("the orders to be stored", f.stored)
	lost := 0
	for buyer, order := range promised {
		if !f.keeps(buyer%len(f.engines), buyer, order) {
			if lost++; lost == 5 {
				break
			}
		}
	}
	report, err := f.engines[0].Audit(t.Context(), f.sale)
	if err != nil || !report.OK {
		t.Errorf("audit: %+v, %v", report.Checks, err)
	}
}

// sells claims for so many buyers from the first on, on all servers.
func (f *fleet) sells(t *testing.T, first, n int) map[int]string {
	t.Helper()
	var mu sync.Mutex
	promised := map[int]string{}
	var crowd sync.WaitGroup
	for hand := range 16 {
		crowd.Go(func() {
			for buyer := first + hand; buyer < first+n; buyer += 16 {
				for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
					status, order := f.claim(buyer%len(f.engines), buyer)
					if status == http.StatusAccepted {
						mu.Lock()
						promised[buyer] = order
						mu.Unlock()
						break
					}
					if time.Now().After(deadline) {
						t.Errorf("buyer %d: %d", buyer, status)
						return
					}
				}
			}
		})
	}
	crowd.Wait()
	return promised
}

// Redis is emptied, and has no memory for what the rebuild brings in. It is tried again,
// and the sale goes on when there is room; until then nothing is accepted.
func TestRedisIsEmptiedAndHasNoMemory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 10_000)
	promised := f.sells(t, 0, 1500)
	f.keptAll(t, promised)
	f.flush()
	info := must.Get(f.redis.Ask("INFO memory"))(t)
	var used int
	for _, line := range info {
		if text, ok := strings.CutPrefix(line, "used_memory:"); ok {
			fmt.Sscan(text, &used)
		}
	}
	limit := func(bytes int) {
		must.Get(f.redis.Ask(fmt.Sprint("CONFIG SET maxmemory ", bytes)))(t)
	}
	limit(used + 100_000)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if status, _ := f.claim(0, 5000); status == http.StatusAccepted {
			sale, err := f.clients[0].AdminSale(t.Context(), f.sale)
			t.Fatalf("accepted without the records of the others: %+v, %v", sale, err)
		}
	}
	limit(0)
	begun := time.Now()
	for buyer, order := range f.sells(t, 5000, 100) {
		promised[buyer] = order
	}
	t.Logf("on again after %v", time.Since(begun))
	f.keptAll(t, promised)
}

// An operator changes all that may be changed while the sale is lost again and again. What
// the answers say has happened, has; no promise is lost.
func TestAnOperatorActsWhileRedisIsEmptied(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 2, 1000)
	promised := f.sells(t, 0, 500)
	total, done := int64(1000), 0
	for n := range 6 {
		c := f.clients[n%2]
		f.flush()
		delta := int64(100 - 30*(n%5))
		id := fmt.Sprint("restock-", n)
		var err error
		f.until(id, func() bool {
			_, err = c.RestockSale(t.Context(), f.sale, id, delta)
			return err == nil || client.CodeOf(err) == api.CodeBelowTaken
		})
		if err == nil {
			total += delta
			done++
		}
		for _, act := range []func() error{
			func() error { _, err := c.PauseSale(t.Context(), f.sale); return err },
			func() error { _, err := c.ResumeSale(t.Context(), f.sale); return err },
		} {
			f.until("the operator's word", func() bool { return act() == nil })
		}
		for buyer, order := range f.sells(t, 1000+10*n, 10) {
			promised[buyer] = order
		}
	}
	f.until("the sale to be whole", func() bool {
		sale, err := f.clients[1].AdminSale(t.Context(), f.sale)
		return err == nil && sale.Fence == "" && sale.Backlog == 0 && sale.StoredTaken == sale.Taken
	})
	sale, err := f.clients[1].AdminSale(t.Context(), f.sale)
	if err != nil || sale.Total == nil || *sale.Total != total || sale.Paused {
		t.Errorf("%d restocks were done, total %d: %+v, %v", done, total, sale, err)
	}
	t.Logf("epoch %d, %d restocks", sale.Epoch, done)
	f.keptAll(t, promised)
}

// Redis comes back empty, with a clock that is an hour off.
func TestRedisIsEmptiedAndItsClockIsSet(t *testing.T) {
	t.Parallel()
	redis, set := servertest.StartRedisWithClock(t)
	f := &fleet{t: t, redis: redis, sale: "phones"}
	store := servertest.Postgres(t)
	var branches []*branch
	for i := range 2 {
		b := openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: fmt.Sprint("node-", i)})
		branches, f.engines, f.clients = append(branches, b), append(f.engines, b.engine), append(f.clients, b.client)
	}
	sale := prepared("phones", time.Now().Add(-3*time.Hour), sluice.Rules{AdmissionRatio: 1.5})
	sale.Total = 5000
	sell(t, branches, sale)
	promised := map[int]string{}
	for n, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Hour, 0} {
		set(ahead)
		f.flush()
		begun := time.Now()
		for buyer, order := range f.sells(t, n*100, 100) {
			promised[buyer] = order
		}
		t.Logf("ahead by %v: a hundred claims are accepted after %v", ahead, time.Since(begun))
		set(-ahead) // while entries are on their way
		for buyer, order := range f.sells(t, n*100+1000, 100) {
			promised[buyer] = order
		}
		f.keptAll(t, promised)
	}
}
