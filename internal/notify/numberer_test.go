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

// quietStore numbers at once what is new.
type quietStore struct {
	stuckStore
	news  atomic.Int64
	looks atomic.Int64
	last  atomic.Pointer[time.Time]
}

func (s *quietStore) NumberEvents(_ context.Context, limit int) (int, error) {
	now := time.Now()
	s.last.Store(&now)
	s.looks.Add(1)
	n := min(s.news.Load(), int64(limit))
	s.news.Add(-n)
	return int(n), nil
}

// While nothing is new the store is asked ever less; what this server stores has its
// number at once, however much it is, and in a rush the store is asked once a turn.
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
		store.news.Store(100_000)
		n.Wake()
		begun := time.Now()
		synctest.Wait()
		if last, left := *store.last.Load(), store.news.Load(); left > 0 || last != begun {
			t.Errorf("looked after %v, and %d events have no number", last.Sub(begun), left)
		}
		before := store.looks.Load()
		for range 1000 { // of transactions in 2 s
			store.news.Add(1)
			n.Wake()
			time.Sleep(2 * time.Millisecond)
		}
		if looks := store.looks.Load() - before; looks < 6 || looks > 12 {
			t.Errorf("%d looks in 2 s, want about 8: one each 250 ms", looks)
		}
		time.Sleep(300 * time.Millisecond)
		if left := store.news.Load(); left > 0 {
			t.Errorf("%d events of the rush have no number", left)
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
