package sqlcore

import (
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// rests are sales that made a loop over all sales wait. Such a sale is passed
// over for a while, so that it delays the others now and then, not every time.
type rests struct {
	mu sync.Mutex
	of map[sluice.SaleID]rest
}

type rest struct {
	pause time.Duration
	until time.Time
}

const (
	// isSlow is how long a failure must take to be followed by a rest: those that
	// come at once delay nothing, and may be over as quickly.
	isSlow              = time.Second
	firstRest, longRest = 10 * time.Second, time.Minute
	// Together, sales that make the loop wait take this share of its time at most,
	// unless they rest for longestRest each.
	slowShare   = 4
	longestRest = 5 * time.Minute
)

func (r *rests) resting(sale sluice.SaleID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.of[sale].until)
}

// note says how long the sale took, and whether in vain. Each rest is twice as
// long as the one before.
func (r *rests) note(sale sluice.SaleID, took time.Duration, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !failed || took < isSlow {
		delete(r.of, sale)
		return
	}
	if r.of == nil {
		r.of = map[sluice.SaleID]rest{}
	}
	pause := min(max(2*r.of[sale].pause, firstRest), longRest)
	pause = min(max(pause, slowShare*took*time.Duration(len(r.of))), longestRest)
	r.of[sale] = rest{pause, time.Now().Add(pause)}
}
