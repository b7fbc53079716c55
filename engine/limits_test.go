package engine_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// threeBranches are three servers of one shop, on real servers.
func threeBranches(t *testing.T) []*branch {
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	var all []*branch
	for _, node := range []string{"one", "two", "three"} {
		all = append(all, openBranch(t, engine.Config{Ledger: redis.URL(), Store: store, Node: node}))
	}
	return all
}

// sell creates a sale that is open, and returns when every server sells it.
func sell(t *testing.T, branches []*branch, sale sluice.Sale) {
	t.Helper()
	must.Get(branches[0].engine.Control().Create(t.Context(), sale))(t)
	for _, b := range branches {
		until(t, "every server to know the sale", func() bool {
			seen, err := b.client.Sale(t.Context(), sale.ID)
			return err == nil && seen.State == sluice.StateOpen
		})
	}
}

// try makes one try with a key of its own, and returns the code, accepted or
// another.
func (b *branch) try(sale, buyer, key string) string {
	status, answer := b.post("/v1/sales/"+sale+"/orders", buyer, map[string]string{"Idempotency-Key": key},
		`{"quantity":1}`)
	if status == http.StatusAccepted {
		return "accepted"
	}
	code, _ := answer["code"].(string)
	return code
}

// A buyer who hammers three servers at once gets the same rate as at one
// server; other buyers are not delayed.
func TestTheSharedRateHoldsOnThreeServers(t *testing.T) {
	branches := threeBranches(t)
	sale := prepared("phones", time.Now().Add(-time.Minute),
		sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 20, PerS: 86_400, Shared: true}})
	sale.Total, sale.MaxPerBuyer, sale.MaxOrders = 10_000, sluice.Unlimited, sluice.Unlimited
	sell(t, branches, sale)
	var mu sync.Mutex
	codes := map[string]int{}
	var crowd sync.WaitGroup
	for i, b := range branches {
		for hand := range 4 {
			crowd.Go(func() {
				for n := range 30 {
					code := b.try("phones", "abuser", fmt.Sprintf("key-%d-%d-%d", i, hand, n))
					mu.Lock()
					codes[code]++
					mu.Unlock()
				}
			})
		}
		crowd.Go(func() {
			for n := range 10 {
				buyer := fmt.Sprintf("buyer-%d-%d", i, n)
				if code := b.try("phones", buyer, "key-00001"); code != "accepted" {
					t.Errorf("%s gets %s", buyer, code)
				}
			}
		})
	}
	crowd.Wait()
	// A claim that loses to others of the same buyer again and again is unavailable, and has used up a try.
	if codes["accepted"]+codes["unavailable"] != 20 || codes["unavailable"] > 3 || codes["rate_limited"] != 340 {
		t.Errorf("the abuser gets %v, want 20 accepted and 340 rate_limited", codes)
	}

	// Rules that one server changes hold on the others.
	must.Get(branches[0].client.PatchSale(t.Context(), "phones",
		api.PatchSale{PatchRules: api.PatchRules{BuyerRate: api.Null[sluice.BuyerRate]()}}))(t)
	for i, b := range branches {
		until(t, "the rate to be gone on every server", func() bool {
			return b.try("phones", "abuser", fmt.Sprintf("late-%d-%d", i, time.Now().UnixNano())) == "accepted"
		})
	}
}

// One address with many accounts gets the same through three servers as through
// one, claims and tickets alike; a buyer from elsewhere is not delayed.
func TestTheSharedRateOfAnAddressHoldsOnThreeServers(t *testing.T) {
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	var branches []*branch
	for _, node := range []string{"one", "two", "three"} {
		branches = append(branches, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: node,
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, // that of httptest
		}))
	}
	rules := sluice.Rules{
		BuyerRate:   sluice.BuyerRate{Requests: 2, PerS: 86_400, Shared: true},
		AddressRate: sluice.AddressRate{Requests: 20, PerS: 86_400, Shared: true},
	}
	phones := prepared("phones", time.Now().Add(-time.Minute), rules)
	rules.Ticket = sluice.Ticket{BeforeS: 60}
	tickets := prepared("tickets", time.Now().Add(-time.Minute), rules)
	for _, sale := range []sluice.Sale{phones, tickets} {
		sale.Total = 10_000
		sell(t, branches, sale)
	}
	for what, path := range map[string]string{"claim": "/v1/sales/phones/orders", "ticket": "/v1/sales/tickets/ticket"} {
		try := func(b *branch, buyer, from string) string {
			body := ""
			if what == "claim" {
				body = `{"quantity":1}`
			}
			_, answer := b.post(path, buyer, map[string]string{"Idempotency-Key": "key-00001", "X-Forwarded-For": from}, body)
			code, _ := answer["code"].(string)
			return code
		}
		var mu sync.Mutex
		codes := map[string]int{}
		var crowd sync.WaitGroup
		for i, b := range branches {
			for hand := range 4 {
				crowd.Go(func() {
					for n := range 10 {
						code := try(b, fmt.Sprintf("account-%d-%d-%d", i, hand, n), fmt.Sprintf("2001:db8:0:1::%x", 1+n))
						mu.Lock()
						codes[code]++
						mu.Unlock()
					}
				})
			}
			crowd.Go(func() {
				for n := range 6 {
					if code := try(b, fmt.Sprintf("buyer-%d-%d", i, n), "203.0.113.9"); code != "" {
						t.Errorf("a %s from elsewhere gets %q", what, code)
					}
				}
			})
		}
		crowd.Wait()
		if codes[""] != 20 || codes["rate_limited"] != 100 {
			t.Errorf("one address gets %v for 120 times a %s, want 20 and 100 times rate_limited", codes, what)
		}
	}
}

// A server that starts while the store does not answer sells on, by the rules
// that it knew; what it does not know it does not sell.
func TestRulesHoldOverAStartWithoutTheStore(t *testing.T) {
	t.Parallel()
	redis, postgres := servertest.StartRedis(t), servertest.StartPostgres(t)
	cfg := engine.Config{DataDir: t.TempDir(), Ledger: redis.URL(), Store: postgres.URL(), Node: "one"}
	before := openBranch(t, cfg)
	limited := prepared("phones", time.Now().Add(-time.Minute),
		sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 1, PerS: 86_400}})
	limited.MaxPerBuyer = 10
	sell(t, []*branch{before}, limited)
	sell(t, []*branch{before}, prepared("tickets", time.Now().Add(-time.Minute),
		sluice.Rules{Ticket: sluice.Ticket{BeforeS: 60}}))
	before.close()
	postgres.Stop(t)
	after := openBranch(t, cfg)
	for i, want := range []string{"accepted", "rate_limited"} {
		if code := after.try("phones", "ann", fmt.Sprintf("key-0000%d", i)); code != want {
			t.Errorf("try %d gets %s, want %s", i, code, want)
		}
	}
	if code := after.try("tickets", "ann", "key-00001"); code != "forbidden" {
		t.Errorf("without a ticket: %s, want forbidden", code)
	}
	if code := after.try("made-up", "ann", "key-00001"); code != "unavailable" {
		t.Errorf("an unknown sale: %s, want unavailable", code)
	}
}
