package admission

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Try counts a try at something that comes before a claim ("ticket", say) by
// the sale's rates, and returns how long to wait if it is not within them. Each
// kind of try has the rates' allowance to itself, so that preparing a claim uses
// up nothing of the claim's. A rate over all servers is counted where that of
// claims is, under a name of its own; who is denied there is denied here without
// asking again, until the wait is over.
//
// Limits fail closed: with an error (ErrOverloaded, or the context's) the try
// must not pass.
func (g *Gate) Try(ctx context.Context, kind string, view *View, buyer sluice.BuyerID, address netip.Addr) (wait time.Duration, err error) {
	name := view.Sale.ID + sluice.SaleID("/"+kind) // no sale is called so
	rules := &view.Sale.Rules
	if _, wait = g.rates.check(rules, name, buyer, address, g.now()); wait > 0 {
		return wait, nil
	}
	rate := sharedRate(rules)
	if rate == (sluice.BuyerRate{}) {
		return 0, nil
	}
	if wait, err = g.batcher.tries.count(ctx, name, rate, buyer); wait > 0 {
		g.rates.denied(rules, name, buyer, address, wait, g.now())
	}
	return wait, err
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
func (t *tries) count(ctx context.Context, name sluice.SaleID, rate sluice.BuyerRate, buyer sluice.BuyerID) (time.Duration, error) {
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

// run makes calls until nobody waits.
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
	waits, err := t.allow(name, batch)
	for i, c := range batch {
		if c.err = err; err == nil {
			c.wait = waits[i]
		}
		close(c.done)
	}
	return err == nil
}

func (t *tries) allow(name sluice.SaleID, batch []*counted) ([]time.Duration, error) {
	if t.limiter == nil {
		return nil, errNotCounted
	}
	buyers := make([]sluice.BuyerID, len(batch))
	for i, c := range batch {
		buyers[i] = c.buyer
	}
	rate := batch[len(batch)-1].rate // the newest, when it has changed just now
	waits, err := t.limiter.Allow(context.Background(), name, rate, buyers)
	if err == nil && len(waits) != len(buyers) {
		err = fmt.Errorf("%d answers to %d tries", len(waits), len(buyers))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errNotCounted, err)
	}
	return waits, nil
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
