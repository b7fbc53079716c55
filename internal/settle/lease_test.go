package settle_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// leases is a store's lease on a clock that the test owns; everything else of
// the store is one sale.
type leases struct {
	settle.RebuildStore

	mu     sync.Mutex
	sale   sluice.Sale
	holder string
	fence  int64
	until  time.Time
	down   bool
	begun  int // loads
}

func (s *leases) DeadLetters(context.Context, sluice.SaleID) ([]port.DeadLetter, error) {
	return nil, nil
}

func (s *leases) Lease(_ context.Context, _, holder string, _ int64, ttl time.Duration) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return 0, errors.New("connection refused")
	}
	if s.holder != "" && s.holder != holder && time.Now().Before(s.until) {
		return 0, nil
	}
	if s.holder != holder {
		s.fence++
	}
	s.holder, s.until = holder, time.Now().Add(ttl)
	return s.fence, nil
}

func (s *leases) Unlease(_ context.Context, _, holder string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == holder {
		s.holder = ""
	}
	return nil
}

func (s *leases) Sale(context.Context, sluice.SaleID) (sluice.Sale, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sale, nil
}

func (s *leases) BeginLoad(context.Context, sluice.SaleID, int64) (port.LoadImage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	s.sale.Epoch++
	return port.LoadImage{Sale: id, Epoch: s.sale.Epoch}, nil
}

func (s *leases) ConfirmLoad(_ context.Context, _ sluice.SaleID, epoch int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sale.LoadedEpoch = epoch
	return nil
}

func (s *leases) MarkGathered(context.Context, sluice.SaleID, int64, string, string) error {
	return nil
}

func (s *leases) Gathered(context.Context, sluice.SaleID, int64) ([]string, error) {
	return []string{"a"}, nil
}

func (s *leases) LiveServers(context.Context, time.Duration) ([]port.Server, error) {
	return []port.Server{{Node: "a"}, {Node: "frozen"}}, nil
}

// slowLedger takes long to load a sale.
type slowLedger struct {
	settle.RebuildLedger
	takes time.Duration
}

func (l slowLedger) Load(ctx context.Context, _ port.LoadImage) error {
	select {
	case <-time.After(l.takes):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l slowLedger) Read(context.Context, []sluice.SaleID) ([]port.Reading, error) {
	return make([]port.Reading, 1), nil // it holds nothing
}

func (l slowLedger) Fence(context.Context, sluice.SaleID, int64, string) error { return nil }

func (l slowLedger) Unfence(context.Context, sluice.SaleID, int64) error { return nil }

func adopter(node string, store *leases, takes time.Duration) *settle.Rebuilder {
	ledger := slowLedger{takes: takes}
	return settle.NewRebuilder(node, store, ledger, settle.NewLoader(store, ledger), settle.NewMemory(0),
		func(sluice.SaleID) bool { return true }, slog.New(slog.DiscardHandler))
}

// A load that takes longer than any lease is begun once: the others see that a
// server is loading, for as long as it takes.
func TestOneServerLoadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{sale: sluice.Sale{ID: id, Epoch: 1}}
		a, b := adopter("a", store, 10*time.Minute), adopter("b", store, time.Second)
		seen := store.sale
		var adopted bool
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			adopted, err = a.Adopt(t.Context(), &seen)
		}()
		for range 500 {
			time.Sleep(time.Second)
			if mine, err := b.Adopt(t.Context(), &seen); mine || err != nil {
				t.Fatalf("b has adopted the load that a is at: %v, %v", mine, err)
			}
		}
		<-done
		if !adopted || err != nil || store.begun != 1 || store.sale.LoadedEpoch != 2 || store.holder != "" {
			t.Errorf("adopted %v, %v; %d loads, epoch %d loaded, lease of %q; want one load, and the lease given back",
				adopted, err, store.begun, store.sale.LoadedEpoch, store.holder)
		}
		if _, err := b.Adopt(t.Context(), &seen); err != nil || store.begun != 1 {
			t.Errorf("b, whose row is old, has begun load %d, %v", store.begun, err)
		}
	})
}

// A store that is busy for longer than the lease ends no load; a lease that has
// become another server's does.
func TestALostLeaseEndsTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{sale: sluice.Sale{ID: id, Epoch: 1}}
		a := adopter("a", store, 10*time.Minute)
		seen, begun := store.sale, time.Now()
		set := func(change func()) {
			store.mu.Lock()
			defer store.mu.Unlock()
			change()
		}
		go func() {
			time.Sleep(20 * time.Second)
			set(func() { store.down = true })
			time.Sleep(time.Minute)
			set(func() { store.down = false })
			time.Sleep(time.Minute)
			set(func() { store.holder, store.until = "b", time.Now().Add(time.Hour) })
		}()
		_, err := a.Adopt(t.Context(), &seen)
		if took := time.Since(begun); err == nil || took < 140*time.Second || took > 145*time.Second {
			t.Errorf("ended %s after the beginning with %v; another server took the lease after 140 s", took, err)
		}
		if store.sale.LoadedEpoch != 0 || store.holder != "b" {
			t.Errorf("the load is confirmed as %d without a lease, or the lease of %q given back", store.sale.LoadedEpoch,
				store.holder)
		}
	})
}

// The log names the servers that a rebuild waits for, once.
func TestTheLogNamesWhoIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &leases{sale: sluice.Sale{ID: id, Epoch: 1, LoadedEpoch: 1, Fence: port.FenceLost}}
		ledger := slowLedger{}
		var log strings.Builder
		r := settle.NewRebuilder("a", store, ledger, settle.NewLoader(store, ledger), settle.NewMemory(0),
			func(sluice.SaleID) bool { return true },
			slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		for i := range 20 {
			if rebuilt, err := r.Step(t.Context(), &store.sale); rebuilt || err != nil {
				t.Fatalf("rebuilt %v, %v", rebuilt, err)
			}
			if named := strings.Count(log.String(), "servers=[frozen]"); i == 0 && named != 0 || i == 19 && named != 1 {
				t.Errorf("after step %d the servers are named %d times:\n%s", i, named, log.String())
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
}
