package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// minVisit is how long a buyer waits before coming back again.
const minVisit = 250 * time.Millisecond

// Comeback is what happened to those who came back.
type Comeback struct {
	Buyers    int       `json:"buyers"`    // who came back
	Requests  int64     `json:"requests"`  // sent, repeats too
	Decisions Decisions `json:"decisions"` // of their tries
	Errors    int64     `json:"errors"`    // tries without a decision
	Left      int       `json:"left"`      // buyers who went away with nothing
}

// ComeBack sends the buyers refused as sold_out in the rush again, with the key they
// had: a refused key may be tried again, and units may have returned. Buyers
// who got something in the rush do not come. They come one after the other, at
// rate tries a second, and round again, until every buyer has got one, enough
// says so, or ctx ends. enough is asked before each try, and may make it wait.
// A buyer comes back at most every quarter of a second.
//
// Call it after Rush, with Options.Remember.
func (c *Crowd) ComeBack(ctx context.Context, rate float64, enough func() bool) *Comeback {
	queue := c.unlucky()
	r := &comeback{crowd: c, queue: queue, rate: rate, enough: enough, codes: map[sluice.Code]int64{}}
	r.wanting.Store(int64(len(queue)))
	result := &Comeback{Buyers: len(queue)}
	before, start := c.requests.Load(), time.Now()
	// Those who wait for their turn go when the others have had enough; a try
	// under way is answered all the same.
	waiting, over := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for range min(c.o.Connections, 32, len(queue)) {
		workers.Go(func() {
			w := &worker{c: c}
			defer w.close()
			defer over()
			r.run(ctx, waiting, w, start)
		})
	}
	workers.Wait()
	over()
	result.Requests = c.requests.Load() - before
	result.Decisions, result.Errors = r.codes, r.codes[0]
	result.Left = result.Buyers - int(r.codes[sluice.Accepted])
	delete(result.Decisions, 0)
	return result
}

// comeback is one run of ComeBack.
type comeback struct {
	crowd  *Crowd
	queue  chan visitor
	rate   float64
	enough func() bool

	tries   atomic.Int64
	wanting atomic.Int64 // buyers who will come back

	mu    sync.Mutex
	codes Decisions
}

// visitor is a buyer in the queue.
type visitor struct {
	attempt
	last time.Time
}

// unlucky queues the buyers refused as sold_out who got nothing, each once.
func (c *Crowd) unlucky() chan visitor {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]bool, len(c.tokens)) // got one, or is in the queue
	for _, p := range c.promises {
		out[p.Buyer] = true
	}
	queue := make(chan visitor, len(c.refused))
	for _, a := range c.refused {
		if !out[a.buyer] {
			out[a.buyer] = true
			queue <- visitor{attempt: a}
		}
	}
	return queue
}

// run is one connection: it serves the queue until no buyer wants to go on.
func (r *comeback) run(ctx, waiting context.Context, w *worker, start time.Time) {
	for waiting.Err() == nil && r.wanting.Load() > 0 && !r.enough() {
		n := r.tries.Add(1) - 1
		turn := start.Add(time.Duration(float64(n) / r.rate * float64(time.Second)))
		if !sleep(waiting, time.Until(turn)) {
			return
		}
		var v visitor
		select {
		case v = <-r.queue:
		case <-waiting.Done():
			return
		}
		if !sleep(waiting, time.Until(v.last.Add(minVisit))) {
			return
		}
		v.last = time.Now()
		got := w.try(ctx, v.buyer, v.key, v.last.Add(w.c.o.RetryFor))
		if got.code == 0 && ctx.Err() != nil {
			return
		}
		if r.again(v, got) {
			r.queue <- v
		} else {
			r.wanting.Add(-1)
		}
	}
}

// again counts a try and says whether the buyer comes back with the same key:
// after these refusals the same key may still be accepted.
func (r *comeback) again(v visitor, got verdict) bool {
	r.mu.Lock()
	r.codes[got.code]++
	r.mu.Unlock()
	switch got.code {
	case sluice.Accepted:
		r.crowd.mu.Lock()
		defer r.crowd.mu.Unlock()
		r.crowd.promised(Promise{Buyer: v.buyer, Key: v.key, Order: got.order})
		return false
	case 0, sluice.SoldOut, sluice.Insufficient, sluice.RateLimited, sluice.Paused:
		return true
	}
	return false
}

// Promises returns every promise so far, those of ComeBack too.
func (c *Crowd) Promises() []Promise {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.promises[:len(c.promises):len(c.promises)]
}
