// Package admission is everything between a request and the ledger: the board
// (what this server knows of every sale), the gate (refusals that need no
// network) and the batcher (many claims, one ledger call).
package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// The batcher turns claims that arrive one by one into ledger calls that
// decide hundreds.
//
// It is self-clocking. While a call is in flight, claims gather; when it
// returns, all that gathered go out together. There is no timer and no target
// size: an idle system sends a claim at once, alone; a busy one makes exactly
// the batches that its ledger's latency asks for, and a slower ledger gets
// bigger ones. A second call may overlap the first only when a whole batch
// is already waiting: then waiting longer could not make it bigger, and the
// server encodes one batch while the ledger decides the other.
//
// Each sale has its own lane, so a hot sale does not delay the others.
//
// The batcher gives a claim its order id, if it has none, when it makes the batch. So the
// ids of a sale grow as its claims do, and so do a store's indexes of them.
//
// Rejected designs: a ticker (adds half its period to every claim of an idle
// system, and is too slow for a busy one); a batch of fixed size (waits for
// ever for the last claim of a rush); one global queue (a ledger call is per
// sale, so a batch of mixed sales is many calls); a channel per lane (a
// channel send costs as much as the mutex and cannot be drained in one step).
//
// The queue is bounded, in all and for each buyer. When it is full the answer is
// ErrOverloaded, at once: a longer queue would only delay the same answer.
//
// A caller may leave (its context ends): the claim is still decided and its
// order still made, because the ledger may have it already (I4, I5).

// ErrOverloaded: nothing was decided; there is no slot, the lane's queue is full, or it
// holds as many claims of the buyer as it may.
var ErrOverloaded = errors.New("admission: overloaded")

// ErrUnanswered: nothing was decided; the ledger does not answer.
var ErrUnanswered = errors.New("admission: the ledger does not answer, and nothing was decided")

// ErrRefusesWrites: nothing was decided; the ledger has refused to write.
var ErrRefusesWrites = errors.New("admission: nothing was decided")

// ErrOutcomeUnknown: the ledger did not answer, or not in time. The claim may
// have been accepted; the same claim id will tell.
var ErrOutcomeUnknown = errors.New("admission: the ledger's answer is not known")

// BatcherOptions are the settings of a Batcher. Zero values mean the defaults.
type BatcherOptions struct {
	MaxBatch int // claims in one ledger call; default 250
	MaxQueue int // claims waiting in one lane; default 20,000
	Calls    int // ledger calls of one lane at a time; default 2
	// MaxPerBuyer bounds the claims of one buyer that wait in one lane; default 16. More are
	// refused at once. A call of the ledger has one of each buyer; the next goes with another call.
	MaxPerBuyer int
	// MaxInFlight bounds the claims of all sales in flight (Batcher.Acquire);
	// default 50,000.
	MaxInFlight int
	// Attempts bounds how often a batch is sent when the outcome is unknown;
	// default 4. Repeating is safe, since the claim ids are the same.
	Attempts int
	// Backoff is the pause before the second attempt; it doubles. Default 25 ms.
	Backoff time.Duration

	// Decided is called after every ledger call, from the lane's goroutine,
	// with what it decided. It must not block, nor keep the slices.
	Decided func(sale sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision)

	// Took is called, from the lane's goroutine, with how long so many claims were in a
	// stage (its index in Stages), and CallTook with how long one call of the ledger took.
	// They must not block.
	Took     func(stage int, took time.Duration, claims int)
	CallTook func(took time.Duration, err error)

	// Traced is called after a call of the ledger, from the lane's goroutine, for each of its
	// claims that made an order, or may have; nil: it is not. It must not block.
	Traced func(way Way)

	// Failed is called when a batch is given up, or its tries cannot be counted, with the
	// cause. It must not block.
	Failed func(sale sluice.SaleID, err error)

	// Limiter counts the tries that rates over all servers bound. Without
	// one, no such try passes.
	Limiter port.RateLimiter
}

// orDefault replaces a setting that is not positive.
func orDefault[T int | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

func (o BatcherOptions) withDefaults() BatcherOptions {
	orDefault(&o.MaxBatch, 250)
	orDefault(&o.MaxQueue, 20_000)
	orDefault(&o.Calls, 2)
	orDefault(&o.MaxPerBuyer, 16)
	orDefault(&o.MaxInFlight, defaultMaxInFlight)
	orDefault(&o.Attempts, 4)
	orDefault(&o.Backoff, 25*time.Millisecond)
	if o.Decided == nil {
		o.Decided = func(sluice.SaleID, []sluice.Claim, []sluice.Decision) {}
	}
	if o.Took == nil {
		o.Took = func(int, time.Duration, int) {}
	}
	if o.CallTook == nil {
		o.CallTook = func(time.Duration, error) {}
	}
	if o.Failed == nil {
		o.Failed = func(sluice.SaleID, error) {}
	}
	return o
}

// Batcher gathers claims into ledger calls. It is safe for concurrent use.
type Batcher struct {
	ledger port.Decider
	opts   BatcherOptions
	lanes  *xsync.Map[sluice.SaleID, *lane]
	calls  sync.Pool // of *call
	closed atomic.Bool
	flying sync.WaitGroup
	slots  atomic.Int64 // taken, of all lanes
	tries  *tries       // at what comes before a claim

	refusing atomic.Int64 // when the ledger last refused to write, in Unix nanoseconds; 0: it has written since
}

// NewBatcher returns a batcher in front of the ledger.
func NewBatcher(ledger port.Decider, opts BatcherOptions) *Batcher {
	opts = opts.withDefaults()
	return &Batcher{
		ledger: ledger, opts: opts, lanes: xsync.NewMap[sluice.SaleID, *lane](),
		tries: &tries{
			limiter: opts.Limiter, failed: opts.Failed, batch: opts.MaxBatch, most: opts.MaxQueue,
			waiting: map[sluice.SaleID][]*counted{},
		},
		calls: sync.Pool{New: func() any { return &call{done: make(chan struct{}, 1)} }},
	}
}

// The stages of a claim that goes to the ledger: the gate's checks; waiting for a call
// of the ledger, with what is counted over all servers before; and its calls.
const (
	stageAdmission = iota
	stageWait
	stageLedger
)

// Stages are the names of the stages of a claim that goes to the ledger, in order.
func Stages() []string { return []string{"admission", "wait", "ledger"} }

// Way is the way of one claim to its decision.
type Way struct {
	Order               sluice.OrderID
	Err                 error     // the outcome is unknown
	Began               time.Time // when the gate had it; the zero time: it came without the gate
	Queued, Left, Ended time.Time // Left: its call of the ledger began
	Claims              int       // of that call
}

// call is one claim on its way through a lane.
type call struct {
	claim    sluice.Claim
	began    time.Time // when the gate had it; the zero time: it came without the gate
	queued   time.Time
	attempt  attempt // at the rates over all servers
	decision sluice.Decision
	err      error
	done     chan struct{} // receives one value when decision and err are set
}

// lane is the queue of one sale.
type lane struct {
	mu      sync.Mutex
	waiting []*call
	buyers  map[sluice.BuyerID]int // whose claims are waiting, and how many
	flying  int                    // ledger calls in flight

	slots atomic.Int64 // taken
}

// Acquire takes a slot for a claim, of which the sale may have most
// (sluice.Unlimited: any number), and all sales together BatcherOptions.MaxInFlight.
// When there is none it returns an error at once, without waiting.
func (b *Batcher) Acquire(sale sluice.SaleID, most int64) (Slot, error) {
	l, ok := b.lanes.Load(sale)
	if !ok {
		l, _ = b.lanes.LoadOrStore(sale, &lane{})
	}
	if !raise(&b.slots, int64(b.opts.MaxInFlight)) {
		return Slot{}, errNoSlot
	}
	// A sale may have as many as are free for the others: one whose shard hangs
	// gathers claims, and must not take every slot.
	if n := l.slots.Load(); n >= int64(b.opts.MaxBatch) && n > int64(b.opts.MaxInFlight)-b.slots.Load() {
		b.slots.Add(-1)
		return Slot{}, errNoSlot
	}
	if !raise(&l.slots, most) {
		b.slots.Add(-1)
		return Slot{}, errSaleFull
	}
	return Slot{batcher: b, lane: l, sale: sale}, nil
}

// Full reports whether there is no slot at all, at the price of looking.
func (b *Batcher) Full() bool { return b.slots.Load() >= int64(b.opts.MaxInFlight) }

// InFlight returns how many slots are taken.
func (b *Batcher) InFlight() int64 { return b.slots.Load() }

// Claim is Acquire, without a bound for the sale, and then Slot.Claim, without
// rates.
func (b *Batcher) Claim(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
	slot, err := b.Acquire(sale, sluice.Unlimited)
	if err != nil {
		return sluice.Decision{}, err
	}
	decision, _, err := slot.Claim(ctx, &claim, netip.Addr{}, port.Rates{})
	return decision, err
}

func (b *Batcher) enqueue(sale sluice.SaleID, l *lane, c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b.closed.Load() {
		return sluice.ErrClosed
	}
	if len(l.waiting) >= b.opts.MaxQueue || l.buyers[c.claim.Buyer] >= b.opts.MaxPerBuyer {
		return ErrOverloaded
	}
	if l.buyers == nil {
		l.buyers = map[sluice.BuyerID]int{}
	}
	l.buyers[c.claim.Buyer]++
	l.waiting = append(l.waiting, c)
	if l.flying == 0 || l.flying < b.opts.Calls && len(l.waiting) >= b.opts.MaxBatch {
		l.flying++
		b.flying.Add(1)
		go b.fly(sale, l)
	}
	return nil
}

// fly takes, prepares, sends and lands batches until nothing waits that is worth another
// call.
func (b *Batcher) fly(sale sluice.SaleID, l *lane) {
	defer b.flying.Done()
	var batch []*call
	var claims []sluice.Claim
	for b.take(l, &batch) {
		asking := b.within(sale, l, batch)
		left := time.Now()
		if claims = b.prepare(sale, asking, claims[:0], left); len(claims) > 0 {
			b.send(sale, l, asking, claims, left)
			b.land(l, asking)
		}
		clear(batch)
	}
}

// take moves calls from the head of the lane into the batch, one of each buyer. It returns
// false, and ends this flight, if there is none, or only a few that the other flight will take.
func (b *Batcher) take(l *lane, batch *[]*call) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), b.opts.MaxBatch)
	if n == 0 || n < b.opts.MaxBatch && l.flying > 1 {
		l.flying--
		return false
	}
	taken, rest := (*batch)[:0], l.waiting[:0]
	var several map[sluice.BuyerID]bool // who has others in the lane, and one in the batch
	for i, c := range l.waiting {
		if len(taken) == b.opts.MaxBatch {
			rest = append(rest, l.waiting[i:]...)
			break
		}
		buyer := c.claim.Buyer
		if several[buyer] {
			rest = append(rest, c)
			continue
		}
		taken = append(taken, c)
		if l.buyers[buyer]--; l.buyers[buyer] == 0 {
			delete(l.buyers, buyer)
			continue
		}
		if several == nil {
			several = map[sluice.BuyerID]bool{}
		}
		several[buyer] = true
	}
	clear(l.waiting[len(rest):])
	*batch, l.waiting = taken, rest
	return true
}

// prepare appends the claims of calls that leave for the ledger, each with its order id, and
// reports how long they waited.
func (b *Batcher) prepare(sale sluice.SaleID, calls []*call, claims []sluice.Claim, left time.Time) []sluice.Claim {
	for _, c := range calls {
		if c.claim.Order == "" {
			c.claim.Order = NewOrderID(sale)
		}
		claims = append(claims, c.claim)
		b.opts.Took(stageWait, left.Sub(c.queued), 1)
		if !c.began.IsZero() {
			b.opts.Took(stageAdmission, c.queued.Sub(c.began), 1)
		}
	}
	return claims
}

// send asks the ledger for the decisions of calls, and sets them, or the error of all.
func (b *Batcher) send(sale sluice.SaleID, l *lane, calls []*call, claims []sluice.Claim, left time.Time) {
	decisions, err := b.decide(sale, claims)
	ended := time.Now()
	b.opts.Took(stageLedger, ended.Sub(left), len(claims))
	if err != nil {
		b.opts.Failed(sale, err)
		b.giveUp(l, err)
	}
	for i, c := range calls {
		if err != nil {
			c.err = err
		} else {
			c.decision = decisions[i]
		}
		own := c.decision.Order == c.claim.Order // a repeat's is another
		if b.opts.Traced != nil && (own || errors.Is(err, ErrOutcomeUnknown)) {
			b.opts.Traced(Way{c.claim.Order, err, c.began, c.queued, left, ended, len(claims)})
		}
	}
}

// land frees the slots of calls whose decisions or errors are set, and wakes
// their callers, who own the calls then.
func (b *Batcher) land(l *lane, calls []*call) {
	l.slots.Add(-int64(len(calls)))
	b.slots.Add(-int64(len(calls)))
	for _, c := range calls {
		c.done <- struct{}{}
	}
}

// sift lands the calls of a batch that are answered, and returns those that go on, in
// order, in the batch's own array.
func (b *Batcher) sift(l *lane, batch []*call, goesOn func(*call) bool) []*call {
	going := batch[:0]
	var answered []*call
	for _, c := range batch {
		if goesOn(c) {
			going = append(going, c)
		} else {
			answered = append(answered, c)
		}
	}
	b.land(l, answered)
	return going
}

// giveUp refuses everything that waits, after the ledger has failed to answer:
// those claims were never sent, and each batch in turn would only learn the
// same, later and later.
func (b *Batcher) giveUp(l *lane, cause error) {
	if !errors.Is(cause, ErrRefusesWrites) {
		cause = ErrUnanswered
	}
	l.mu.Lock()
	waiting := l.waiting
	l.waiting, l.buyers = nil, nil
	l.mu.Unlock()
	for _, c := range waiting {
		c.err = cause
	}
	b.land(l, waiting)
}

// repeatFor is how long after the first call of a batch another may begin. A call takes up
// to twenty seconds if another process locks the embedded ledger's file (ten to fail, ten to
// read the file again), and a claim cannot wait for Attempts of them: a request ends after 30.
const repeatFor = 10 * time.Second

// decide calls the ledger until it answers, at most Attempts times, and not again
// after repeatFor.
func (b *Batcher) decide(sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	pause := b.opts.Backoff
	refused := true // by every attempt
	first := time.Now()
	for attempt := 1; ; attempt++ {
		begun := time.Now()
		decisions, err := b.ledger.Claim(context.Background(), sale, claims)
		b.opts.CallTook(time.Since(begun), err)
		if err == nil && len(decisions) != len(claims) {
			err = fmt.Errorf("%d decisions for %d claims", len(decisions), len(claims))
		}
		if err == nil {
			b.refusing.Store(0)
			b.opts.Decided(sale, claims, decisions)
			return decisions, nil
		}
		if refused = refused && errors.Is(err, sluice.ErrRefusesWrites); refused {
			b.refusing.Store(time.Now().UnixNano())
		}
		last := attempt >= b.opts.Attempts || time.Since(first) >= repeatFor
		if refused && last {
			return nil, fmt.Errorf("%w: %w", ErrRefusesWrites, err)
		}
		if last || errors.Is(err, sluice.ErrClosed) {
			return nil, fmt.Errorf("%w: %v", ErrOutcomeUnknown, err) // whatever the cause was, this is what the caller must know
		}
		time.Sleep(pause)
		pause *= 2
	}
}

// refusingFor is how long a refusal to write counts. It must end by itself: a
// server that is not ready may get no claims, by which it would learn that the
// ledger writes again.
const refusingFor = 5 * time.Second

// Refusing reports whether the ledger has refused to write the last claims, a
// moment ago.
func (b *Batcher) Refusing() bool {
	at := b.refusing.Load()
	ago := time.Since(time.Unix(0, at))
	return at != 0 && ago >= 0 && ago < refusingFor // less than 0: the clock was set back
}

// Idle reports whether no claim of the sale is on its way to the ledger.
func (b *Batcher) Idle(sale sluice.SaleID) bool {
	l, ok := b.lanes.Load(sale)
	if !ok {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flying == 0 && len(l.waiting) == 0
}

// Close refuses new claims and waits until all that were taken are decided, or
// the context ends. It is idempotent.
func (b *Batcher) Close(ctx context.Context) error {
	b.closed.Store(true)
	// A claim that passed the check above holds its lane's lock: pass through
	// each, so that none is added to flying after Wait has begun.
	for _, l := range b.lanes.Range {
		l.mu.Lock()
		//lint:ignore SA2001 a barrier, not a critical section
		l.mu.Unlock()
	}
	landed := make(chan struct{})
	go func() {
		b.flying.Wait()
		close(landed)
	}()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("admission: claims are still being decided: %w", ctx.Err())
	}
}
