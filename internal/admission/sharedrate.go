package admission

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
)

// A rate over all servers is counted where all of them can ask, one call for a
// whole batch, just before the ledger decides it: so it costs no call per claim,
// and needs no queue of its own. A batch that is sent again is not counted
// again.

// errNotCounted: nobody knows whether the try was within the rate. Limits fail
// closed: nothing was decided.
var errNotCounted = fmt.Errorf("%w: the rates cannot be counted", ErrOverloaded)

// within counts the tries of a batch that a rate over all servers bounds,
// answers those that are not within it, and returns the calls that go on, in
// order.
func (b *Batcher) within(sale sluice.SaleID, l *lane, batch []*call) []*call {
	var rate sluice.BuyerRate
	var buyers []sluice.BuyerID
	for _, c := range batch {
		if c.rate != (sluice.BuyerRate{}) {
			rate = c.rate // the newest, when it has changed just now
			if buyers == nil {
				buyers = make([]sluice.BuyerID, 0, len(batch))
			}
			buyers = append(buyers, c.claim.Buyer)
		}
	}
	if len(buyers) == 0 {
		return batch
	}
	err := errNotCounted
	if b.opts.Limiter != nil {
		waits, failed := b.opts.Limiter.Allow(context.Background(), sale, rate, buyers)
		if failed == nil && len(waits) == len(buyers) {
			i := 0
			return b.part(l, batch, func(c *call) bool {
				if c.rate == (sluice.BuyerRate{}) {
					return true
				}
				wait := waits[i]
				i++
				if wait <= 0 {
					return true
				}
				c.decision = sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait}
				return false
			})
		}
		if failed == nil {
			failed = fmt.Errorf("%d answers to %d tries", len(waits), len(buyers))
		}
		err = fmt.Errorf("%w: %v", errNotCounted, failed)
	}
	return b.part(l, batch, func(c *call) bool {
		if c.rate != (sluice.BuyerRate{}) {
			c.err = err
		}
		return c.err == nil
	})
}

// part lands the calls that are answered, which is what goesOn says of each in
// turn, and returns the others. It uses the batch's own array for them.
func (b *Batcher) part(l *lane, batch []*call, goesOn func(*call) bool) []*call {
	asking := batch[:0]
	var answered []*call
	for _, c := range batch {
		if goesOn(c) {
			asking = append(asking, c)
		} else {
			answered = append(answered, c)
		}
	}
	b.land(l, answered)
	return asking
}
