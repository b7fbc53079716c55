package engine_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
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
