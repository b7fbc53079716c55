package admission

import (
	"errors"
	"sync/atomic"

	"github.com/sluicehq/sluice"
)

// DefaultMaxPlaces is how many claims one server has on their way at a time,
// unless told otherwise.
const DefaultMaxPlaces = 50_000

// errSaleFull: the sale has no place left. The server may have.
var errSaleFull = errors.New("admission: the sale has no place left")

// Place is the place of one claim among those on their way: let through and not
// decided. It ends by Claim or Leave, once. When the caller of Claim has left,
// it ends with the decision: a crowd that hangs up makes no room.
type Place struct {
	batcher *Batcher
	lane    *lane
	sale    sluice.SaleID
}

// Enter takes a place for a claim, of which the sale may have most (Unlimited:
// any number), and all sales together BatcherOptions.MaxPlaces. When there is
// none it says so at once, with an error, and nobody waits.
func (b *Batcher) Enter(sale sluice.SaleID, most int64) (Place, error) {
	if !raise(&b.places, int64(b.opts.MaxPlaces)) {
		return Place{}, ErrOverloaded
	}
	l, ok := b.lanes.Load(sale)
	if !ok {
		l, _ = b.lanes.LoadOrStore(sale, &lane{})
	}
	// A sale may have as many as are free for the others: one whose shard hangs
	// gathers claims, and must not take every place.
	if n := l.places.Load(); n >= int64(b.opts.MaxBatch) && n > int64(b.opts.MaxPlaces)-b.places.Load() {
		b.places.Add(-1)
		return Place{}, ErrOverloaded
	}
	if !raise(&l.places, most) {
		b.places.Add(-1)
		return Place{}, errSaleFull
	}
	return Place{batcher: b, lane: l, sale: sale}, nil
}

// Leave gives the place free without a claim.
func (p Place) Leave() {
	p.lane.places.Add(-1)
	p.batcher.places.Add(-1)
}

// Full reports whether there is no place at all, at the price of looking.
func (b *Batcher) Full() bool { return b.places.Load() >= int64(b.opts.MaxPlaces) }

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

// OnTheirWay returns how many places are taken.
func (b *Batcher) OnTheirWay() int64 { return b.places.Load() }
