package admission

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A rate over all servers is counted where all of them can ask. Tries of claims
// are counted with one call for a whole batch, just before the ledger decides it
// (Batcher.within): so that costs no call per claim, and needs no queue of its
// own. A batch that is sent again is not counted again. Tries at what comes
// before a claim gather here.

// errNotCounted: whether the try was within the rate is not known. Limits fail
// closed: nothing was decided.
var errNotCounted = fmt.Errorf("%w: the rates cannot be counted", ErrUnanswered)

// attempt is one try that rates over all servers may bound, and how long it has to
// wait.
type attempt struct {
	buyer   sluice.BuyerID
	address netip.Addr
	rates   port.Rates
	wait    port.Wait
}

// allow asks the limiter how long each of these has to wait.
func allow(limiter port.RateLimiter, name sluice.SaleID, attempts []*attempt) error {
	if limiter == nil {
		return errNotCounted
	}
	rates := attempts[len(attempts)-1].rates // the newest, when they have changed just now
	tries := make([]port.Try, len(attempts))
	for i, a := range attempts {
		tries[i].Buyer = a.buyer
		if rates.Address != (sluice.AddressRate{}) {
			tries[i].Address = NetworkOf(a.address).String()
		}
	}
	waits, err := limiter.Allow(context.Background(), name, rates, tries)
	if err == nil && len(waits) != len(tries) {
		err = fmt.Errorf("%d answers to %d tries", len(waits), len(tries))
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errNotCounted, err)
	}
	for i, a := range attempts {
		a.wait = waits[i]
	}
	return nil
}

// within counts the tries of a batch that a rate over all servers bounds,
// answers those that are not within it, and returns the calls that go on, in
// order, in the batch's own array.
func (b *Batcher) within(sale sluice.SaleID, l *lane, batch []*call) []*call {
	var bounded []*attempt
	for _, c := range batch {
		if c.attempt.rates != (port.Rates{}) {
			if bounded == nil {
				bounded = make([]*attempt, 0, len(batch))
			}
			bounded = append(bounded, &c.attempt)
		}
	}
	if len(bounded) == 0 {
		return batch
	}
	err := allow(b.opts.Limiter, sale, bounded)
	if err != nil {
		b.opts.Failed(sale, err)
	}
	return b.sift(l, batch, func(c *call) bool {
		if c.attempt.rates != (port.Rates{}) {
			c.err = err
		}
		wait := c.attempt.wait.Longest()
		if wait > 0 {
			c.decision = sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait}
		}
		return wait <= 0 && c.err == nil
	})
}

// tries has the tries of a crowd counted over all servers. It is self-clocking,
// as the batcher is: while a call is under way the next one gathers. So the
// ledger is asked one thing at a time of each name, however large the crowd.
type tries struct {
	limiter port.RateLimiter // nil: nothing can be counted
	failed  func(name sluice.SaleID, err error)
	batch   int // tries in one call
	most    int // that wait, of one name

	mu      sync.Mutex
	waiting map[sluice.SaleID][]*counted // by name; it is there while a call is under way
}

// counted is one try. Its wait and err are set when done is closed.
type counted struct {
	attempt
	err  error
	done chan struct{}
}

// count returns how long the try has to wait: not at all if it is within the
// rates.
func (t *tries) count(ctx context.Context, name sluice.SaleID, a attempt) (port.Wait, error) {
	c := &counted{attempt: a, done: make(chan struct{})}
	t.mu.Lock()
	waiting, underWay := t.waiting[name]
	if len(waiting) >= t.most {
		t.mu.Unlock()
		return port.Wait{}, ErrOverloaded
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
		return port.Wait{}, ctx.Err()
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
	attempts := make([]*attempt, len(batch))
	for i, c := range batch {
		attempts[i] = &c.attempt
	}
	err := allow(t.limiter, name, attempts)
	if err != nil {
		t.failed(name, err)
	}
	for _, c := range batch {
		c.err = err
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
