package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// defaultMaxInFlight is how many claims one server has in flight at a time,
// unless it is set.
const defaultMaxInFlight = 50_000

// errSaleFull: the sale has all the slots that its bound allows; errNoSlot: those of the
// server are taken, or the free ones are for other sales.
var (
	errSaleFull = errors.New("admission: the sale has no slot left")
	errNoSlot   = fmt.Errorf("%w: no slot is left", ErrOverloaded)
)

// Slot is the place of one claim among those in flight: let through and not
// decided. It ends by Claim or Release, once. When the caller of Claim has left,
// it ends with the decision: a crowd that hangs up makes no room.
type Slot struct {
	batcher *Batcher
	lane    *lane
	sale    sluice.SaleID
	began   time.Time // when the gate had the claim; the zero time: it came without the gate
}

// Claim hands a valid claim to the ledger and waits for the decision. By rates
// that are not zero the try is counted over all servers first; if it has to wait
// for one of them, the decision is RateLimited. It ends the slot.
//
// Errors: ErrOverloaded, ErrUnanswered and ErrRefusesWrites (nothing was
// decided), ErrOutcomeUnknown, the context's error (the outcome is unknown too), sluice.ErrClosed.
func (s Slot) Claim(ctx context.Context, claim *sluice.Claim, address netip.Addr, rates port.Rates) (
	sluice.Decision, port.Wait, error,
) {
	b := s.batcher
	c := b.calls.Get().(*call)
	c.claim, c.began, c.queued = *claim, s.began, time.Now()
	c.attempt = attempt{buyer: claim.Buyer, address: address, rates: rates}
	if err := b.enqueue(s.sale, s.lane, c); err != nil {
		s.Release()
		b.calls.Put(c)
		return sluice.Decision{}, port.Wait{}, err
	}
	select {
	case <-c.done:
		decision, wait, err := c.decision, c.attempt.wait, c.err
		c.decision, c.err = sluice.Decision{}, nil
		b.calls.Put(c)
		return decision, wait, err
	case <-ctx.Done():
		return sluice.Decision{}, port.Wait{}, ctx.Err() // the lane still owns c, and its slot
	}
}

// Release ends a slot without a claim.
func (s Slot) Release() {
	s.lane.slots.Add(-1)
	s.batcher.slots.Add(-1)
}

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
