package world

import (
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// When a server is killed by a call.
const (
	killBefore = 1 + iota // it takes no effect
	killAfter
)

// fault waits for calls of a port.
type fault struct {
	kind   string
	server int            // -1: of any
	to     string         // "ledger" or "store"
	op     string         // empty: any
	sale   sluice.SaleID  // empty: any
	skip   int64          // calls that pass before it begins
	buyer  sluice.BuyerID // whose orders cannot be stored; empty: no one's
	count  int64          // how many it meets; 0: all until it ends
	until  time.Time      // zero: no end
}

// met is what happens to one call.
type met struct {
	refused    error
	slow, late time.Duration // before it takes effect, and after
	kills      int
	cut, twice bool // the answer is lost; it is made twice
}

// faults are what a world's calls meet.
type faults struct {
	mu   sync.Mutex
	list []*fault
}

func (f *faults) add(one fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &one)
}

// heal ends all faults.
func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

// meet returns what one call meets, and counts it.
func (f *faults) meet(server int, to string, c *call) (m met) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	left := f.list[:0]
	for _, one := range f.list {
		if !one.until.IsZero() && now.After(one.until) {
			continue
		}
		left = append(left, one)
		switch {
		case one.buyer != "", one.server >= 0 && one.server != server, one.to != to, one.op != "" && one.op != c.op,
			one.sale != "" && one.sale != c.sale:
			continue
		case one.skip > 0:
			one.skip--
			continue
		}
		one.happen(c, &m)
		if one.count == 1 {
			left = left[:len(left)-1]
		}
		one.count--
	}
	f.list = left
	return m
}

// refuses reports whether an order of these entries cannot be stored for what it is.
func (f *faults) refuses(entries []port.Entry) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.list, func(one *fault) bool {
		return one.buyer != "" && slices.ContainsFunc(entries, func(e port.Entry) bool {
			return e.Sale == one.sale && slices.ContainsFunc(e.Claims, func(c sluice.Claim) bool { return c.Buyer == one.buyer })
		})
	})
}

// happen adds what a fault does to a call.
func (f *fault) happen(c *call, m *met) {
	switch f.kind {
	case "down":
		m.refused = errCut
	case "full":
		if c.writes {
			m.refused = sluice.ErrRefusesWrites
		}
	case "busy":
		m.slow, m.refused = 2*time.Second, sluice.ErrStoreBusy
	case "unstorable":
		m.refused = port.ErrUnstorable
	case "slow":
		m.slow = 700 * time.Millisecond
	case "late":
		m.late = 3 * time.Second
	case "cut":
		m.cut = true
	case "twice":
		m.twice = c.writes && c.op != "ReadJournal" // no adapter asks for entries again by itself: they are handed out once
	case "kill before":
		m.kills = killBefore
	case "kill after":
		m.kills = killAfter
	}
}
