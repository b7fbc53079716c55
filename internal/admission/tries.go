package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// A rate over all servers is counted where all of them can ask. Tries of claims
// are counted with one call for a whole batch, just before the ledger decides it
// (Batcher.within): so that costs no call per claim, and needs no queue of its
// own. A batch that is sent again is not counted again. Tries at what comes
// before a claim gather here.

// errNotCounted: whether the try was within the rate is not known. Limits fail
// closed: nothing was decided.
var errNotCounted = fmt.Errorf("%w: the rates cannot be counted", ErrUnanswered)

// allow asks the limiter how long each of these buyers has to wait.
func allow(limiter sluice.RateLimiter, name sluice.SaleID, rate sluice.BuyerRate,
	buyers []sluice.BuyerID,
) ([]time.Duration, error) {
	if limiter == nil {
		return nil, errNotCounted
	}
	waits, err := limiter.Allow(context.Background(), name, rate, buyers)
	if err == nil && len(waits) != len(buyers) {
		err = fmt.Errorf("%d answers to %d tries", len(waits), len(buyers))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errNotCounted, err)
	}
	return waits, nil
}

// within counts the tries of a batch that a rate over all servers bounds,
// answers those that are not within it, and returns the calls that go on, in
// order, in the batch's own array.
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
	waits, err := allow(b.opts.Limiter, sale, rate, buyers)
	asking := batch[:0]
	var answered []*call
	for _, c := range batch {
		var wait time.Duration
		if c.rate != (sluice.BuyerRate{}) {
			if c.err = err; err == nil {
				wait, waits = waits[0], waits[1:]
			}
		}
		if wait > 0 {
			c.decision = sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait}
		}
		if wait > 0 || c.err != nil {
			answered = append(answered, c)
		} else {
			asking = append(asking, c)
		}
	}
	b.land(l, answered)
	return asking
}

// tries has the tries of a crowd counted over all servers. It is self-clocking,
// as the batcher is: while a call is under way the next one gathers. So the
// ledger is asked one thing at a time of each name, however large the crowd.
type tries struct {
	limiter sluice.RateLimiter // nil: nothing can be counted
	batch   int                // tries in one call
	most    int                // that wait, of one name

	mu      sync.Mutex
	waiting map[sluice.SaleID][]*counted // by name; it is there while a call is under way
}

// counted is one try. Wait and err are set when done is closed.
type counted struct {
	buyer sluice.BuyerID
	rate  sluice.BuyerRate
	wait  time.Duration
	err   error
	done  chan struct{}
}

// count returns how long the buyer has to wait: not at all if the try is within
// the rate.
func (t *tries) count(ctx context.Context, name sluice.SaleID, rate sluice.BuyerRate,
	buyer sluice.BuyerID,
) (time.Duration, error) {
	c := &counted{buyer: buyer, rate: rate, done: make(chan struct{})}
	t.mu.Lock()
	waiting, underWay := t.waiting[name]
	if len(waiting) >= t.most {
		t.mu.Unlock()
		return 0, ErrOverloaded
	}
	t.waiting[name] = append(waiting, c)
	t.mu.Unlock()
	if !underWay {
		go t.run(name)
	}
	select {
	case <-c.done:
		return c.wait, c.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// run makes calls until no try waits.
func (t *tries) run(name sluice.SaleID) {
	for {
		t.mu.Lock()
		all := t.waiting[name]
		if len(all) == 0 {
			delete(t.waiting, name)
			t.mu.Unlock()
			return
		}
		batch, rest := all[:min(len(all), t.batch)], all[min(len(all), t.batch):]
		t.waiting[name] = rest
		t.mu.Unlock()
		if !t.ask(name, batch) {
			t.giveUp(name)
		}
	}
}

// ask makes one call, and answers the batch. It reports whether that worked.
func (t *tries) ask(name sluice.SaleID, batch []*counted) bool {
	buyers := make([]sluice.BuyerID, len(batch))
	for i, c := range batch {
		buyers[i] = c.buyer
	}
	rate := batch[len(batch)-1].rate // the newest, when it has changed just now
	waits, err := allow(t.limiter, name, rate, buyers)
	for i, c := range batch {
		if c.err = err; err == nil {
			c.wait = waits[i]
		}
		close(c.done)
	}
	return err == nil
}

// giveUp refuses everybody who waits, after a call has failed: each in turn
// would only learn the same, later and later.
func (t *tries) giveUp(name sluice.SaleID) {
	t.mu.Lock()
	waiting := t.waiting[name]
	t.waiting[name] = nil
	t.mu.Unlock()
	for _, c := range waiting {
		c.err = errNotCounted
		close(c.done)
	}
}
