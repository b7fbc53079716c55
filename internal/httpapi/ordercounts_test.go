package httpapi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
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
		"never":            {time.Hour, 0, 3, -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &slowCounter{takes: c.takes}
				s := &Server{Options: Options{Store: store, Now: time.Now}}
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
				// Another sale waits while slow ones rest, and what nobody looks at is forgotten.
				if rests := c.takes > countPatience/10; (s.orders.of(s, "another") == nil) != rests {
					t.Errorf("another sale: counted %v, want %v", rests, !rests)
				}
				store.takes = 0
				time.Sleep(countStands + time.Second)
				if counts := s.orders.of(s, "another"); counts == nil || len(s.orders.last) != 1 {
					t.Errorf("%v, and %d sales are kept", counts, len(s.orders.last))
				}
			})
		})
	}
}
