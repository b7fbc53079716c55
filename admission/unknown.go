package admission

import (
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// unknownSales remembers, for a second, ids that are no sale's, so that a
// flood of made-up ids does not become a flood of queries.
type unknownSales struct {
	mu    sync.Mutex
	since time.Time
	ids   map[sluice.SaleID]struct{}
}

// maxUnknown bounds the memory that made-up ids can take.
const maxUnknown = 10_000

func (u *unknownSales) has(id sluice.SaleID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, ok := u.ids[id]
	return ok && time.Since(u.since) < time.Second
}

func (u *unknownSales) add(id sluice.SaleID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil || len(u.ids) >= maxUnknown || time.Since(u.since) >= time.Second {
		u.ids, u.since = map[sluice.SaleID]struct{}{}, time.Now()
	}
	u.ids[id] = struct{}{}
}
