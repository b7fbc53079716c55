package httpapi

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// To count a sale's orders the store reads each of them. So the orders of those sales that somebody looks at are
// counted one sale at a time, each after countEvery at the earliest, and all of them in one part of countPause of the
// time, however many look.
const (
	countEvery = 5 * time.Second
	countPause = 20
	// countPatience is when a count is given up. A database may go on with it for a while: it counts as countLost.
	countPatience = time.Second
	countLost     = 6 * time.Second
	// countKept is how long a sale is one that somebody looks at.
	countKept = time.Minute
)

// orderCounts keeps how many orders of each status the sales had that somebody looks at.
type orderCounts struct {
	mu   sync.Mutex
	busy chan struct{} // closed when the sale that is being counted has been; nil: none is
	last map[sluice.SaleID]*orderCount
}

type orderCount struct {
	counts *api.OrderCounts // nil: not known
	again  time.Time        // when they may be counted again
	looked time.Time        // when somebody looked last
}

// of counts the orders of a sale, or returns what was counted last; nil if that is nothing.
func (c *orderCounts) of(s *Server, id sluice.SaleID) *api.OrderCounts {
	now := s.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last = map[sluice.SaleID]*orderCount{}
	}
	maps.DeleteFunc(c.last, func(_ sluice.SaleID, o *orderCount) bool { return now.Sub(o.looked) > countKept })
	o := c.last[id]
	if o == nil {
		o = &orderCount{}
		c.last[id] = o
	}
	o.looked = now
	if counting := c.busy; counting != nil && o.again.IsZero() { // it may be this sale
		c.mu.Unlock()
		<-counting
		c.mu.Lock()
	}
	if c.busy != nil || now.Before(o.again) {
		return o.counts
	}
	c.busy = make(chan struct{})
	c.mu.Unlock()
	counts, took := s.countOrders(id, now)
	c.mu.Lock()
	close(c.busy)
	c.busy = nil
	o.counts, o.again = counts, s.Now().Add(countPause*took*time.Duration(len(c.last)))
	if earliest := now.Add(countEvery); o.again.Before(earliest) {
		o.again = earliest
	}
	return counts
}

// countOrders asks the store, and returns how long that kept it at work.
func (s *Server) countOrders(id sluice.SaleID, now time.Time) (counts *api.OrderCounts, took time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), countPatience) // others are told the count as well
	defer cancel()
	begun := time.Now()
	byStatus, err := s.Store.CountOrders(ctx, id)
	if took = time.Since(begun); err != nil {
		if ctx.Err() != nil {
			took = countLost
		}
		return nil, took
	}
	counts = &api.OrderCounts{At: api.At(now), ByStatus: map[sluice.Status]int64{}}
	for _, status := range sluice.Statuses() {
		if status != sluice.Queued { // those are in the ledger
			counts.ByStatus[status] = byStatus[status]
		}
	}
	return counts, took
}
