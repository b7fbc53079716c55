package admission

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// A shared admission ratio bounds the claims in flight over all servers
// (docs/adr/0011). Each claim needs a permit then. Those of a batch are leased
// with one call, just before the ledger decides it; the decision ends them, and
// the next call says so. A batch that gets fewer than it wants begins a pause:
// whatever needs a permit meanwhile is refused here, without a call.

// Bound is how many claims of a sale may be in flight.
type Bound struct {
	Most  int64   // on this server; sluice.Unlimited: any number
	Ratio float64 // over all servers, to the units available, by permits; 0: no permit is needed
}

// unbound is no bound at all.
var unbound = Bound{Most: sluice.Unlimited}

// Nothing was decided: errNoPermit, since no permit is left, another claim of the
// buyer in the batch has one, or the claim's is over; errNotLeased, since the
// permits cannot be counted. Limits fail closed.
var (
	errNoPermit  = fmt.Errorf("%w: no permit is left", ErrOverloaded)
	errNotLeased = fmt.Errorf("%w: the permits cannot be counted", ErrUnanswered)
)

// permits are those of one sale on this server.
type permits struct {
	asking chan struct{} // full during a call: one at a time, since it says how many are used
	used   atomic.Int64  // by claims that the ledger is deciding
	noted  atomic.Int64  // how many the ledger counts for this server
	// pause is until when there is no use in asking. It keeps the monotonic clock's
	// reading: a pause does not last longer since the wall clock was set back.
	pause atomic.Pointer[time.Time]
}

func (p *permits) paused() bool {
	until := p.pause.Load()
	return until != nil && time.Now().Before(*until)
}

// begin begins a pause, or makes it longer.
func (p *permits) begin(pause time.Duration) {
	until := time.Now().Add(pause)
	if now := p.pause.Load(); now == nil || now.Before(until) {
		p.pause.Store(&until)
	}
}

// shortOf is the pause after a batch that got fewer permits than it wants. It is
// random: a server that was given the last permit must not always be the first to ask
// again.
func shortOf() time.Duration { return 10*time.Millisecond + rand.N(20*time.Millisecond) }

// soldOutFor is the pause after a claim that the ledger has refused as sold out. The one
// permit that there always is would let one claim after the other through to learn the
// same, until the board knows; units that return cannot be bought for longer than that.
const soldOutFor = sluice.RefusalLease / 2

// owes reports whether the ledger counts permits that have ended.
func (p *permits) owes() bool { return p.noted.Load() > p.used.Load() }

// lease asks for permits, and returns how many there are and until when they may
// be used. It says at the same time how many are in use.
func (b *Batcher) lease(sale sluice.SaleID, l *lane, ratio float64, want int64) (n int64, until time.Time, err error) {
	p := &l.permits
	p.asking <- struct{}{}
	defer func() { <-p.asking }()
	if b.opts.Permitter == nil {
		return 0, until, errNotLeased
	}
	used := p.used.Load()
	until = time.Now().Add(sluice.PermitLease - leaseMargin)
	n, err = b.opts.Permitter.Permits(context.Background(), sale, sluice.PermitAsk{Ratio: ratio, Used: used, Want: want})
	if err == nil && (n < 0 || n > want) {
		n, err = 0, fmt.Errorf("%d permits, where %d were wanted", n, want)
	}
	p.used.Add(n)
	b.permits.Add(n)
	p.noted.Store(used + n)
	return n, until, err
}

// permitted leases the permits of a batch, answers the calls that get none, and
// returns those that go on, in order, in the batch's own array.
func (b *Batcher) permitted(sale sluice.SaleID, l *lane, batch []*call) (going []*call, leased int64, until time.Time) {
	// One for each buyer: those who try many times at once take no turn from others.
	wanting := map[sluice.BuyerID]bool{}
	var ratio float64
	for _, c := range batch {
		if c.ratio > 0 {
			wanting[c.claim.Buyer], ratio = true, c.ratio // the newest, when it has changed just now
		}
	}
	want := int64(len(wanting))
	if want == 0 {
		return batch, 0, until
	}
	var err error
	if !l.permits.paused() {
		if leased, until, err = b.lease(sale, l, ratio, want); leased < want {
			l.permits.begin(shortOf())
		}
		if leased == 0 {
			until = time.Time{} // the others need none
		}
	}
	without := call{err: errNoPermit}
	switch {
	case errors.Is(err, sluice.ErrNotLoaded):
		without = call{decision: sluice.Decision{Code: sluice.Unavailable}}
	case errors.Is(err, sluice.ErrRefusesWrites):
		b.refusing.Store(time.Now().UnixNano())
		without.err = fmt.Errorf("%w: %w", ErrRefusesWrites, err)
		b.opts.Failed(sale, without.err)
	case errors.Is(err, sluice.ErrClosed):
		without.err = err
	case err != nil:
		without.err = fmt.Errorf("%w: %v", errNotLeased, err)
		b.opts.Failed(sale, without.err)
	}
	left := leased
	return b.sift(l, batch, func(c *call) bool {
		switch {
		case c.ratio == 0:
		case left > 0 && wanting[c.claim.Buyer]:
			left--
			delete(wanting, c.claim.Buyer)
		default:
			c.decision, c.err = without.decision, without.err
			return false
		}
		return true
	}), leased, until
}

// over reports whether a lease has ended. The zero time is of none.
func over(until time.Time) bool { return !until.IsZero() && !time.Now().Before(until) }

// inTime returns the calls of a batch that may be sent, and until when: if the lease has
// ended meanwhile, those that need no permit, at any time. The others are answered.
func (b *Batcher) inTime(l *lane, batch []*call, until time.Time) ([]*call, time.Time) {
	if !over(until) {
		return batch, until
	}
	return b.sift(l, batch, func(c *call) bool {
		if c.ratio > 0 {
			c.err = errNoPermit
		}
		return c.ratio == 0
	}), time.Time{}
}

// end ends permits, since the claims are decided or given up.
func (b *Batcher) end(l *lane, n int64) {
	l.permits.used.Add(-n)
	b.permits.Add(-n)
}

// Permits returns how many permits of shared ratios this server uses.
func (b *Batcher) Permits() int64 { return b.permits.Load() }
