package httpapi

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// To count a sale's orders the store reads each of them. So it is given up after countPatience; those of a sale are
// counted again after countEvery at the earliest, and no sale's while countPause times as long as the last time took
// has not passed: those who look at sales take a small share of the store's time, however many they are.
const (
	countPatience = time.Second
	countEvery    = 5 * time.Second
	countPause    = 20
	// countStands is how long a count is told that cannot be made again.
	countStands = time.Minute
)

// orderCounts keeps how many orders of each status the sales had that somebody looked at.
type orderCounts struct {
	mu   sync.Mutex
	busy bool      // one sale's are counted at a time
	rest time.Time // until when none are
	last map[sluice.SaleID]*api.OrderCounts
}

// of counts the orders of a sale, or returns what was counted last; nil if that is nothing.
func (c *orderCounts) of(s *Server, id sluice.SaleID) *api.OrderCounts {
	now := s.Now()
	c.mu.Lock()
	maps.DeleteFunc(c.last, func(_ sluice.SaleID, old *api.OrderCounts) bool { return now.Sub(old.At.Time) > countStands })
	known := c.last[id]
	due := known == nil || now.Sub(known.At.Time) >= countEvery
	if c.busy || now.Before(c.rest) || !due {
		c.mu.Unlock()
		return known
	}
	c.busy = true
	c.mu.Unlock()
	// Not the context of who asks: others wait for the count as well.
	ctx, cancel := context.WithTimeout(context.Background(), countPatience)
	defer cancel()
	begun := time.Now()
	byStatus, err := s.Store.CountOrders(ctx, id)
	took := time.Since(begun)
	if err == nil {
		known = &api.OrderCounts{At: api.At(now), ByStatus: map[sluice.Status]int64{}}
		for _, status := range sluice.Statuses() {
			if status != sluice.Queued { // those are in the ledger
				known.ByStatus[status] = byStatus[status]
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.rest = false, s.Now().Add(countPause*took)
	if c.last == nil {
		c.last = map[sluice.SaleID]*api.OrderCounts{}
	}
	if known != nil {
		c.last[id] = known
	}
	return known
}
