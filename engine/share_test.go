package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
)

// nodes is a store that knows which servers live, or is silent.
type nodes struct {
	port.Store
	live   []port.Server
	silent error
}

func (n *nodes) Heartbeat(context.Context, port.Server) error { return n.silent }

func (n *nodes) LiveServers(context.Context, time.Duration) ([]port.Server, error) {
	return n.live, n.silent
}

// A server divides by the last number of servers that the store has named.
func TestASilentStoreLeavesTheNumberOfServers(t *testing.T) {
	store := &nodes{live: []port.Server{{Node: "a"}, {Node: "b"}, {Node: "c"}}, silent: errors.New("silent")}
	f := &follower{node: "a", peers: &peers{}, store: store, board: admission.NewBoard(nil, nil, admission.BoardOptions{})}
	for i, c := range []struct {
		live   int
		silent error
		want   int64
	}{
		{3, store.silent, 0},
		{3, nil, 3},
		{2, store.silent, 3},
		{2, nil, 2},
		{0, nil, 1}, // the store's clock was set: this server lives
	} {
		store.live, store.silent = store.live[:c.live], c.silent
		_ = f.beat(t.Context())
		if got := f.board.Servers(); got != c.want {
			t.Errorf("beat %d: %d servers, want %d", i, got, c.want)
		}
	}
}

// Of 20 units at a ratio of 1.5 no more than 30 claims are in flight over three servers,
// ten on each; and all units are sold.
func TestServersShareTheAdmissionRatio(t *testing.T) {
	t.Parallel()
	redis, store := servertest.StartRedis(t), servertest.Postgres(t)
	var servers []*Engine
	for _, node := range []string{"one", "two", "three"} {
		e := must.Get(Open(t.Context(), Config{DataDir: t.TempDir(), Ledger: redis.URL(), Store: store, Node: node}))(t)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = e.Close(ctx)
		})
		servers = append(servers, e)
	}
	sale := sluice.NewSale(20, 1)
	sale.ID, sale.SKU, sale.Title, sale.Price = "phone", "SKU-1", "A phone", sluice.Money{Amount: 1, Currency: "CNY"}
	sale.OpensAt, sale.Rules.AdmissionRatio = time.Now().Add(-time.Hour), 1.5
	must.Get(servers[0].Control().Create(t.Context(), sale))(t)
	await := func(what string, reached func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited a minute for %s", what)
			}
		}
	}
	for _, e := range servers {
		await("three servers that sell", func() bool {
			view := e.board.View("phone")
			return e.board.Servers() == 3 && view != nil && view.InStep()
		})
	}

	redis.Freeze()
	var crowd sync.WaitGroup
	var mu sync.Mutex
	codes := map[sluice.Code]int{}
	for i, e := range servers {
		for n := range 15 {
			crowd.Go(func() {
				claim := sluice.Claim{Buyer: sluice.BuyerID(fmt.Sprint("buyer-", i, "-", n)), Key: "attempt-1", Quantity: 1}
				d, err := e.Claim(t.Context(), "phone", claim, sluice.Caller{})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				codes[d.Code]++
			})
		}
	}
	inFlight := func() (all []int64) {
		for _, e := range servers {
			all = append(all, e.batcher.InFlight())
		}
		return all
	}
	await("all who are over the ratio to be refused", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return codes[sluice.Overloaded]+codes[sluice.Unavailable] == 15
	})
	if got := inFlight(); got[0] != 10 || got[1] != 10 || got[2] != 10 {
		t.Errorf("in flight are %d, want ten on each server", got)
	}
	redis.Thaw()
	crowd.Wait()
	if codes[sluice.Accepted] != 20 || codes[sluice.SoldOut] != 10 {
		t.Errorf("%v, want 20 accepted and 10 sold out", codes)
	}
}
