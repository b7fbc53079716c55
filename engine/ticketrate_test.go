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

// ask asks for a ticket, or what else comes before a claim, and returns the
// code, empty for an answer that is none.
func (b *branch) ask(what, sale, buyer string) string {
	_, answer := b.post("/v1/sales/"+sale+"/"+what, buyer, nil, "")
	code, _ := answer["code"].(string)
	return code
}

// Who asks three servers for tickets gets as many as from one, and so with
// challenges; others are not held up, and the claim has its own allowance.
func TestTheSharedRateHoldsForTickets(t *testing.T) {
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	var branches []*branch
	for _, node := range []string{"one", "two", "three"} {
		branches = append(branches, openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: node}))
	}
	sale := prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{
		BuyerRate: sluice.BuyerRate{Requests: 5, PerS: 86_400, Shared: true}, Ticket: sluice.Ticket{BeforeS: 60},
	})
	sale.Total = 100
	sell(t, branches, sale)
	for what, passed := range map[string]string{"ticket": "", "challenge": "sale_state"} { // no challenge is asked for
		var mu sync.Mutex
		codes := map[string]int{}
		var crowd sync.WaitGroup
		for i, b := range branches {
			for range 4 {
				crowd.Go(func() {
					for range 5 {
						code := b.ask(what, "phones", "abuser")
						mu.Lock()
						codes[code]++
						mu.Unlock()
					}
				})
			}
			crowd.Go(func() {
				for n := range 3 {
					if code := b.ask(what, "phones", fmt.Sprintf("buyer-%d-%d", i, n)); code != passed {
						t.Errorf("another buyer asks for a %s and gets %q, want %q", what, code, passed)
					}
				}
			})
		}
		crowd.Wait()
		if codes[passed] != 5 || codes["rate_limited"] != 55 {
			t.Errorf("a buyer who asks for a %s 60 times gets %v, want 5 times %q and 55 times rate_limited",
				what, codes, passed)
		}
	}
	if code := branches[2].try("phones", "abuser", "key-00001"); code != "forbidden" {
		t.Errorf("the claim gets %s, want forbidden: it has no ticket", code)
	}

	// Without a count, no buyer gets one.
	redis.Stop()
	status, answer := branches[0].post("/v1/sales/phones/ticket", "late", nil, "")
	if status != http.StatusServiceUnavailable || answer["code"] != "unavailable" ||
		answer["detail"] != "the ledger (Redis) does not answer" {
		t.Errorf("without Redis: %d %v, want 503 unavailable", status, answer)
	}
}
