package referee

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// crowd is the buyers and what they heard.
type crowd struct {
	sys      System
	t        Trial
	attempts []*attempt
	promises chan struct{} // one for each attempt of the rush that hears a promise
	index    map[string]int
	denied   []int // buyers who are refused as sold out at the end, while units are left

	begin    time.Time
	decided  atomic.Int64 // when the last decision was heard: nanoseconds since begin
	hopeless atomic.Bool  // the shop decides nothing any more

	mu    sync.Mutex
	tally map[string]int // answers, by what the shop said
}

// attempt is a wish of a buyer, as often as it is sent. One goroutine at a time
// has it.
type attempt struct {
	buyer        int
	key          string
	lost, reload bool

	// What the buyer heard.
	promised, soldOut, refused bool
	unknown                    bool     // also, or only, no decision
	orders                     []string // ids of promises, each once
}

func buyerName(i int) string { return fmt.Sprintf("buyer-%06d", i) }

func newCrowd(sys System, t Trial) *crowd {
	c := &crowd{
		sys: sys, t: t, begin: time.Now(), tally: map[string]int{}, index: make(map[string]int, t.Buyers),
	}
	r := c.random(1)
	add := func(buyer, n int) {
		c.attempts = append(c.attempts, &attempt{
			buyer: buyer, key: c.key(buyer, n), lost: r.Float64() < t.Lost, reload: r.Float64() < t.Reload,
		})
	}
	for i := range t.Buyers {
		c.index[buyerName(i)] = i
		add(i, 1)
	}
	for _, i := range r.Perm(t.Buyers)[:int(float64(t.Buyers)*t.Again+0.5)] {
		add(i, 2)
	}
	r.Shuffle(len(c.attempts), func(i, j int) { c.attempts[i], c.attempts[j] = c.attempts[j], c.attempts[i] })
	c.promises = make(chan struct{}, len(c.attempts))
	return c
}

// key returns the idempotency key of a buyer's n-th attempt.
func (c *crowd) key(buyer, n int) string {
	return fmt.Sprintf("referee-%x-%06d-%d", c.t.Seed, buyer, n)
}

// run sends attempts, so many at a time, and returns when each has ended.
func (c *crowd) run(ctx context.Context, stage string, attempts []*attempt) {
	var next, ended atomic.Int64
	var workers sync.WaitGroup
	for range min(c.t.Connections, len(attempts)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(attempts)) && ctx.Err() == nil && !c.hopeless.Load(); i = next.Add(1) - 1 {
				c.try(ctx, attempts[i])
				ended.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.t.Progress(stage, int(ended.Load()), len(attempts))
		case <-done:
			c.t.Progress(stage, int(ended.Load()), len(attempts))
			return
		}
	}
}

// try sends an attempt until it is decided, or the buyer gives up.
func (c *crowd) try(ctx context.Context, a *attempt) {
	begin := time.Now()
	deadline := begin.Add(c.t.RetryFor)
	pause := 20 * time.Millisecond
	for lost := a.lost; ; {
		answer := c.buy(ctx, a)
		if lost && answer.Kind != Unknown {
			lost, answer = false, Answer{}
		}
		if a.hear(answer) {
			break
		}
		if time.Now().Add(pause).After(deadline) || !sleep(ctx, pause) {
			if c.decided.Load() < int64(begin.Sub(c.begin)) {
				c.hopeless.Store(true) // the others would wait in vain, each as long as this one
			}
			return
		}
		pause = min(2*pause, time.Second)
	}
	c.decided.Store(int64(time.Since(c.begin)))
	if a.reload {
		a.hear(c.buy(ctx, a))
	}
	if a.promised {
		c.promises <- struct{}{}
	}
}

// buy sends an attempt once.
func (c *crowd) buy(ctx context.Context, a *attempt) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.t.Timeout)
	defer cancel()
	answer, err := c.sys.Buy(ctx, buyerName(a.buyer), a.key)
	if err != nil {
		answer = Answer{Kind: Unknown, Said: "no answer: " + err.Error()}
	}
	said := answer.Kind.String()
	if answer.Said != "" {
		said = answer.Said + ": " + said
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.tally[said]; !known && len(c.tally) >= maxTally {
		said = "others"
	}
	c.tally[said]++
	return answer
}

// maxTally bounds how many different answers are told apart.
const maxTally = 40

// hear notes what the buyer heard, and reports whether it is a decision.
func (a *attempt) hear(answer Answer) bool {
	switch answer.Kind {
	case Promise:
		a.promised = true
		if answer.Order != "" && !slices.Contains(a.orders, answer.Order) {
			a.orders = append(a.orders, answer.Order)
		}
	case SoldOut:
		a.soldOut = true
	case Refused:
		a.refused = true
	default:
		a.unknown = true
		return false
	}
	return true
}
