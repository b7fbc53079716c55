package httpapi

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// To count a sale's orders the store reads each of them. So the server counts one sale's at a time, and only of sales
// that an admin looks at: each after countEvery at the earliest, and all of them in one part of countPause of the time,
// however many admins look.
const (
	countEvery = 5 * time.Second
	countPause = 20
	// countPatience is when a count is given up. A database may go on with it for a while: it counts as countLost.
	countPatience = time.Second
	countLost     = 6 * time.Second
	// countKept is for how long a sale shares that time after an admin has looked at it.
	countKept = time.Minute
)

// orderCounts keeps how many orders of each status a sale had, of those that admins look at.
type orderCounts struct {
	mu   sync.Mutex
	busy chan struct{} // closed when the sale that is being counted has been; nil: none is
	last map[sluice.SaleID]*orderCount
}

type orderCount struct {
	counts *api.OrderCounts // nil: not known
	again  time.Time        // when they may be counted again
	looked time.Time        // when an admin looked last
}

// of counts the orders of a sale, or returns what was counted last; nil if that is nothing.
func (c *orderCounts) of(s *Server, id sluice.SaleID) *api.OrderCounts {
	now := s.Now()
	o, counting := c.look(id, now)
	if counting != nil {
		select {
		case <-counting:
		case <-time.After(countPatience):
		}
	}
	done := c.begin(o, now)
	if done == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return o.counts
	}
	var counts *api.OrderCounts
	took := countLost
	defer func() { done(counts, s.Now(), took) }()
	counts, took = s.countOrders(id, now)
	return cmp.Or(counts, o.counts)
}

// look notes that an admin looks at a sale, and returns what is known of it, and what ends the count that is under way
// if it may be this sale's first one.
func (c *orderCounts) look(id sluice.SaleID, now time.Time) (o *orderCount, counting chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.last, func(_ sluice.SaleID, o *orderCount) bool {
		return now.Sub(o.looked) > countKept && now.After(o.again)
	})
	if c.last == nil {
		c.last = map[sluice.SaleID]*orderCount{}
	}
	if o = c.last[id]; o == nil {
		o = &orderCount{}
		c.last[id] = o
	}
	if o.looked = now; o.counts == nil && o.again.IsZero() {
		counting = c.busy
	}
	return o, counting
}

// begin begins to count a sale's orders, and returns what ends that; nil: it is not the time for it.
func (c *orderCounts) begin(o *orderCount, now time.Time) (done func(*api.OrderCounts, time.Time, time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy != nil || now.Before(o.again) {
		return nil
	}
	c.busy = make(chan struct{})
	return func(counts *api.OrderCounts, ended time.Time, took time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		close(c.busy)
		c.busy = nil
		o.counts, o.again = cmp.Or(counts, o.counts), ended.Add(countPause*took*time.Duration(len(c.last)))
		if earliest := now.Add(countEvery); o.again.Before(earliest) {
			o.again = earliest
		}
	}
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
