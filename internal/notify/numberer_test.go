package notify_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/internal/notify"
)

// stuckStore grants every lease, and numbers nothing in time.
type stuckStore struct{ leases int }

func (s *stuckStore) Lease(context.Context, string, string, int64, time.Duration) (int64, error) {
	s.leases++
	return 1, nil
}

func (*stuckStore) Unlease(context.Context, string, string) error { return nil }

func (*stuckStore) NumberEvents(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// quietStore has news for one look after each order.
type quietStore struct {
	stuckStore
	news  atomic.Bool
	looks atomic.Int64
	last  atomic.Pointer[time.Time]
}

func (s *quietStore) NumberEvents(context.Context, int) (int, error) {
	now := time.Now()
	s.last.Store(&now)
	s.looks.Add(1)
	if s.news.Swap(false) {
		return 1, nil
	}
	return 0, nil
}

// While nothing is new the store is asked ever less; what this server stores has its
// number at once, and in a rush the store is not asked after each transaction.
func TestNumberingRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		store := &quietStore{}
		n := notify.NewNumberer(store, notify.NumbererOptions{Node: "a"})
		go n.Run(ctx)
		time.Sleep(10 * time.Second)
		if looks := store.looks.Load(); looks > 20 {
			t.Errorf("%d looks in 10 s of nothing, want at most 20", looks)
		}
		store.news.Store(true)
		n.Wake()
		begun := time.Now()
		synctest.Wait()
		if last := *store.last.Load(); store.news.Load() || last != begun {
			t.Errorf("looked after %v, and the event has no number: %v", last.Sub(begun), store.news.Load())
		}
		before := store.looks.Load()
		for range 1000 { // of transactions in 2 s
			store.news.Store(true)
			n.Wake()
			time.Sleep(2 * time.Millisecond)
		}
		if looks := store.looks.Load() - before; looks > 30 {
			t.Errorf("%d looks in 2 s, want about 20: two each 200 ms", looks)
		}
		cancel()
		synctest.Wait()
	})
}

// A database that does not answer keeps the numberer for seconds, not for ever:
// it asks for the lease again.
func TestNumberingEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		store := &stuckStore{}
		notify.NewNumberer(store, notify.NumbererOptions{Node: "a"}).Run(ctx)
		if store.leases < 4 {
			t.Errorf("the lease was asked for %d times in a minute, want 5 or so", store.leases)
		}
	})
}
