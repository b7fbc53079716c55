package sqlcore

import (
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// rests are sales that made a loop over all sales wait. Such a sale is passed
// over for a while, so that it delays the others now and then, not every time.
type rests struct {
	mu    sync.Mutex
	until map[sluice.SaleID]time.Time
	ended time.Time // when a success last ended the rests of all
}

const (
	// isSlow is how long a failure must take to be followed by a rest: those that
	// come at once delay nothing, and may be over as quickly.
	isSlow = time.Second
	// Together, sales that make the loop wait take about one part in slowShare of its
	// time at most, unless they rest for longestRest each.
	slowShare   = 4
	longestRest = 5 * time.Minute
)

func (r *rests) resting(sale sluice.SaleID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[sale])
}

// note notes how long the sale took, and whether in vain. A success after a rest
// ends the rests of all: what they wait for is often the same, and one that still
// has to wait costs its time once more. That happens once per longestRest at most: a
// sale that comes and goes must not wake those whose shard hangs each time.
func (r *rests) note(sale sluice.SaleID, took time.Duration, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, rested := time.Now(), !r.until[sale].IsZero()
	switch {
	case !failed && rested && now.Sub(r.ended) >= longestRest:
		clear(r.until)
		r.ended = now
	case !failed || took < isSlow:
		delete(r.until, sale)
	default:
		// A sale that had nothing to do after its rest is not noted again.
		maps.DeleteFunc(r.until, func(_ sluice.SaleID, until time.Time) bool { return now.Sub(until) > longestRest })
		if r.until == nil {
			r.until = map[sluice.SaleID]time.Time{}
		}
		r.until[sale] = now
		r.until[sale] = now.Add(min(slowShare*took*time.Duration(len(r.until)), longestRest))
	}
}
