package httpapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/port"
)

// slowCounter is a store that takes so long to count orders, one more each time.
type slowCounter struct {
	port.Store
	takes time.Duration
	asked int64
}

func (s *slowCounter) CountOrders(ctx context.Context, _ sluice.SaleID) (map[sluice.Status]int64, error) {
	s.asked++
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.takes):
		return map[sluice.Status]int64{sluice.Paid: s.asked}, nil
	}
}

// Orders are counted for a share of the time, and what was counted last is what everybody is told.
func TestOrdersAreCountedSeldom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, old  time.Duration
		asked, paid int64 // after a minute in which somebody looks all the time; -1: not known
	}{
		"soon":             {10 * time.Millisecond, countEvery, 12, 12},
		"in half a second": {500 * time.Millisecond, 11 * time.Second, 6, 6},
		"never":            {time.Hour, 0, 1, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &slowCounter{takes: c.takes}
				s := &Server{Options: Options{Store: store, Now: time.Now}}
				if c.paid > 0 { // two who look first are both told
					other := make(chan *api.OrderCounts)
					go func() { other <- s.orders.of(s, "phone") }()
					if first, second := s.orders.of(s, "phone"), <-other; first == nil || first != second {
						t.Fatalf("told %v and %v", first, second)
					}
					time.Sleep(countPause * c.takes)
					store.asked, s.orders.last = 0, nil
				}
				var last int64
				for begun := time.Now(); time.Since(begun) < time.Minute-time.Millisecond; time.Sleep(100 * time.Millisecond) {
					look := time.Now()
					counts := s.orders.of(s, "phone")
					if took := time.Since(look); took > countPatience {
						t.Fatalf("a look took %v", took)
					}
					last = -1
					if counts != nil {
						last = counts.ByStatus[sluice.Paid]
						if age := time.Since(counts.At.Time); age > c.old {
							t.Fatalf("told what was counted %v ago", age)
						}
						if _, ok := counts.ByStatus[sluice.Pending]; !ok || len(counts.ByStatus) != len(sluice.Statuses())-1 {
							t.Fatalf("the statuses of %v", counts.ByStatus)
						}
					}
				}
				if store.asked != c.asked || last != c.paid {
					t.Errorf("the store was asked %d times, want %d; told %d, want %d", store.asked, c.asked, last, c.paid)
				}
				// Each sale has its turn, more seldom the more there are, and those that nobody looks at are forgotten.
				pauses := time.Until(s.orders.last["phone"].again)
				if counts := s.orders.of(s, "another"); (counts == nil) != (c.paid < 0) {
					t.Errorf("another sale: %v", counts)
				}
				if another := time.Until(s.orders.last["another"].again); c.takes > time.Second/10 && another < 2*pauses {
					t.Errorf("of two sales one is counted again after %v, of one after %v", another, pauses)
				}
				time.Sleep(10 * time.Minute)
				s.orders.of(s, "another")
				if len(s.orders.last) != 1 {
					t.Errorf("%d sales are kept", len(s.orders.last))
				}
				before := s.orders.last["another"].counts
				store.takes = time.Hour
				time.Sleep(10 * time.Minute)
				s.orders.last["another"] = &orderCount{counts: before, looked: time.Now()}
				if counts := s.orders.of(s, "another"); counts != before || s.orders.busy != nil {
					t.Errorf("when the store is slow, %v is known, and %v is told", before, counts)
				}
			})
		})
	}
}
