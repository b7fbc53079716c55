package admission

import (
	"errors"
	"sync/atomic"

	"github.com/sluicehq/sluice"
)

// DefaultMaxInFlight is how many claims one server has in flight at a time,
// unless told otherwise.
const DefaultMaxInFlight = 50_000

// errSaleFull: the sale has no slot left. The server may have.
var errSaleFull = errors.New("admission: the sale has no slot left")

// Slot is the place of one claim among those in flight: let through and not
// decided. It ends by Claim or Release, once. When the caller of Claim has left,
// it ends with the decision: a crowd that hangs up makes no room.
type Slot struct {
	batcher *Batcher
	lane    *lane
	sale    sluice.SaleID
}

// Acquire takes a slot for a claim, of which the sale may have most (Unlimited:
// any number), and all sales together BatcherOptions.MaxInFlight. When there is
// none it says so at once, with an error, and nobody waits.
func (b *Batcher) Acquire(sale sluice.SaleID, most int64) (Slot, error) {
	if !raise(&b.slots, int64(b.opts.MaxInFlight)) {
		return Slot{}, ErrOverloaded
	}
	l, ok := b.lanes.Load(sale)
	if !ok {
		l, _ = b.lanes.LoadOrStore(sale, &lane{})
	}
	// A sale may have as many as are free for the others: one whose shard hangs
	// gathers claims, and must not take every slot.
	if n := l.slots.Load(); n >= int64(b.opts.MaxBatch) && n > int64(b.opts.MaxInFlight)-b.slots.Load() {
		b.slots.Add(-1)
		return Slot{}, ErrOverloaded
	}
	if !raise(&l.slots, most) {
		b.slots.Add(-1)
		return Slot{}, errSaleFull
	}
	return Slot{batcher: b, lane: l, sale: sale}, nil
}

// Release ends a slot without a claim.
func (p Slot) Release() {
	p.lane.slots.Add(-1)
	p.batcher.slots.Add(-1)
}

// Full reports whether there is no slot at all, at the price of looking.
func (b *Batcher) Full() bool { return b.slots.Load() >= int64(b.opts.MaxInFlight) }

// raise adds one unless most is reached. It never passes most, not for a
// moment: those who are turned away must not keep others out.
func raise(count *atomic.Int64, most int64) bool {
	for {
		n := count.Load()
		if most != sluice.Unlimited && n >= most {
			return false
		}
		if count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// InFlight returns how many slots are taken.
func (b *Batcher) InFlight() int64 { return b.slots.Load() }
