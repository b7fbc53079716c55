package notify_test

import (
	"context"
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
