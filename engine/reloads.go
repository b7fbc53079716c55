package engine

import "time"

// reloads are the loads of one sale that were seen, of all servers. If a sale is
// lost again as soon as it is loaded, the first repetition does not wait, and each
// later one longer, up to restMax: servers must not do nothing else. A load that
// failed is none: it is repeated at once.
type reloads struct {
	vain  int       // loads in a row that did not hold
	last  time.Time // when the last one was seen
	until time.Time // when the next one is due
}

// reloadHeld is how long a load lasts that has held.
const reloadHeld = 2 * restMax

// note notes a load.
func (r *reloads) note(now time.Time) {
	if now.Sub(r.last) > reloadHeld {
		r.vain = 0
	} else {
		r.vain++
		r.until = now.Add(min(restMin<<min(r.vain, 10), restMax))
	}
	r.last = now
}

// due reports whether the sale may be loaded now.
func (r *reloads) due(now time.Time) bool { return !now.Before(r.until) }
