package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// slowLedger accepts everything after a delay, and remembers its batches.
type slowLedger struct {
	delay time.Duration
	fail  atomic.Int64 // calls that fail first
	short bool         // one decision is missing

	mu       sync.Mutex
	batches  [][]sluice.Claim
	inFlight int
	most     int // calls in flight at a time
}

func (l *slowLedger) Claim(_ context.Context, _ sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	l.mu.Lock()
	l.batches = append(l.batches, append([]sluice.Claim(nil), claims...))
	l.inFlight++
	l.most = max(l.most, l.inFlight)
	l.mu.Unlock()
	time.Sleep(l.delay)
	l.mu.Lock()
	l.inFlight--
	l.mu.Unlock()
	if l.fail.Add(-1) >= 0 {
		return nil, errors.New("the line is cut")
	}
	decisions := make([]sluice.Decision, len(claims))
	for i, c := range claims {
		decisions[i] = sluice.Decision{Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity}
	}
	if l.short {
		decisions = decisions[1:]
	}
	return decisions, nil
}

func (l *slowLedger) sizes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sizes []int
	for _, b := range l.batches {
		sizes = append(sizes, len(b))
	}
	return sizes
}

func claim(n int) sluice.Claim {
	return sluice.Claim{
		Buyer: sluice.BuyerID(fmt.Sprintf("buyer-%d", n)), Key: "key-00001", Quantity: 1,
		Order: sluice.SaleID("sale").Order(fmt.Sprintf("%032x", n)),
	}
}

// send hands n claims to the batcher at this moment, each from its own goroutine.
func send(b *Batcher, from, n int) *sync.WaitGroup {
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { _, _ = b.Claim(context.Background(), "sale", claim(from+i)) })
	}
	synctest.Wait()
	return &done
}

func TestBatcherClocksItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Millisecond}
		b := NewBatcher(ledger, BatcherOptions{MaxBatch: 100})
		started := time.Now()
		first := send(b, 0, 1) // goes at once, alone
		rest := send(b, 1, 70) // gather while it flies
		first.Wait()
		rest.Wait()
		if got := fmt.Sprint(ledger.sizes()); got != "[1 70]" {
			t.Errorf("batches of %s, want [1 70]", got)
		}
		if took := time.Since(started); took != 2*time.Millisecond {
			t.Errorf("took %v: an idle system must add no delay to two calls of 1 ms", took)
		}
	})
}

// The ids of orders grow with the claims of a batch, and a batch that is sent again has the
// same ones (I4).
func TestBatcherMakesOrderIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Millisecond}
		ledger.fail.Store(1)
		b := NewBatcher(ledger, BatcherOptions{})
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				c := claim(i)
				c.Order = ""
				if d, err := b.Claim(context.Background(), "sale", c); err != nil || d.Code != sluice.Accepted {
					t.Errorf("claim %d: %+v, %v", i, d, err)
				}
			})
		}
		all.Wait()
		var last sluice.OrderID
		for i, batch := range ledger.batches {
			if i == 1 {
				if !slices.Equal(batch, ledger.batches[0]) {
					t.Errorf("sent %v, and then %v", ledger.batches[0], batch)
				}
				continue
			}
			for _, c := range batch {
				if sale, ok := c.Order.Sale(); !ok || sale != "sale" || c.Order <= last {
					t.Errorf("an order %q after %q", c.Order, last)
				}
				last = c.Order
			}
		}
	})
}

func TestBatcherOverlapsOnlyFullBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Millisecond}
		b := NewBatcher(ledger, BatcherOptions{MaxBatch: 100, Calls: 2})
		send(b, 0, 1)
		send(b, 1, 99)
		if got := fmt.Sprint(ledger.sizes()); got != "[1]" {
			t.Fatalf("batches of %s while the first flies, want [1]: 99 are not a whole batch", got)
		}
		send(b, 100, 1)
		if got := fmt.Sprint(ledger.sizes()); got != "[1 100]" {
			t.Fatalf("batches of %s, want [1 100]", got)
		}
		send(b, 200, 350).Wait()
		if ledger.most != 2 {
			t.Errorf("%d calls in flight at a time, want at most 2", ledger.most)
		}
		total := 0
		for _, n := range ledger.sizes() {
			total += n
			if n > 100 {
				t.Errorf("a batch of %d, want at most 100", n)
			}
		}
		if total != 451 {
			t.Errorf("%d claims were sent, want 451", total)
		}
	})
}

func TestBatcherRefusesWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Second}
		b := NewBatcher(ledger, BatcherOptions{MaxBatch: 10, MaxQueue: 5, Calls: 1})
		first := send(b, 0, 1)
		waiting := send(b, 1, 5)
		before := time.Now()
		if _, err := b.Claim(t.Context(), "sale", claim(99)); !errors.Is(err, ErrOverloaded) {
			t.Errorf("the sixth in a queue of five: %v, want ErrOverloaded", err)
		}
		if time.Since(before) != 0 {
			t.Error("a full queue must refuse at once")
		}
		if _, err := b.Claim(t.Context(), "other", claim(99)); err != nil {
			t.Errorf("another sale's lane is full as well: %v", err)
		}
		first.Wait()
		waiting.Wait()
	})
}

func TestBatcherDecidesForACallerWhoLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Second}
		b := NewBatcher(ledger, BatcherOptions{})
		first := send(b, 0, 1)
		ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer leave()
		if _, err := b.Claim(ctx, "sale", claim(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("err = %v, want the deadline", err)
		}
		first.Wait()
		time.Sleep(2 * time.Second)
		if got := fmt.Sprint(ledger.sizes()); got != "[1 1]" {
			t.Errorf("batches of %s, want [1 1]: the claim of the caller who left is still decided", got)
		}
	})
}

func TestBatcherRepeatsAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{}
		ledger.fail.Store(3)
		var traced []Way
		b := NewBatcher(ledger, BatcherOptions{Attempts: 4, Traced: func(way Way) { traced = append(traced, way) }})
		d, err := b.Claim(t.Context(), "sale", claim(7))
		if err != nil || d.Order != claim(7).Order {
			t.Fatalf("decision %+v, %v; want accepted after three failures", d, err)
		}
		for _, batch := range ledger.batches {
			if len(batch) != 1 || batch[0] != claim(7) {
				t.Errorf("sent %+v, want the same claim every time (I4)", batch)
			}
		}

		ledger.fail.Store(4)
		if _, err := b.Claim(t.Context(), "sale", claim(8)); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("err = %v after four failures, want ErrOutcomeUnknown", err)
		}
		if len(traced) != 2 || traced[0].Order != claim(7).Order || traced[0].Err != nil || traced[0].Claims != 1 ||
			traced[0].Ended.Sub(traced[0].Left) < 3*25*time.Millisecond || traced[1].Err == nil {
			t.Errorf("traced %+v, want both claims, with their retries", traced)
		}
	})
}

// When the ledger does not answer, no caller waits in line to learn it: what was
// not sent is refused, and what was sent stays unknown, however it ended.
func TestBatcherGivesUpForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: 2 * time.Second}
		ledger.fail.Store(1000)
		b := NewBatcher(ledger, BatcherOptions{MaxBatch: 10, Calls: 1})
		var unknown, unanswered atomic.Int64
		var done sync.WaitGroup
		started := time.Now()
		for i := range 100 {
			done.Go(func() {
				switch _, err := b.Claim(context.Background(), "sale", claim(i)); {
				case errors.Is(err, ErrOutcomeUnknown):
					unknown.Add(1)
				case errors.Is(err, ErrUnanswered):
					unanswered.Add(1)
				}
			})
		}
		done.Wait()
		sent := map[sluice.OrderID]bool{}
		for _, batch := range ledger.batches {
			for _, c := range batch {
				sent[c.Order] = true
			}
		}
		if unknown.Load() != int64(len(sent)) || unanswered.Load() != 100-unknown.Load() {
			t.Errorf("%d unknown and %d unanswered; %d were sent", unknown.Load(), unanswered.Load(), len(sent))
		}
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("the last of 100 waited %v", took)
		}
		if n := len(waitingBuyers(b)); n != 0 {
			t.Errorf("%d buyers are counted when nothing waits", n)
		}
	})
}

// A claim does not wait for four calls of a ledger that takes long to fail, nor does one
// that came meanwhile.
func TestBatcherRepeatsNoLongCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: 10 * time.Second}
		ledger.fail.Store(10)
		b := NewBatcher(ledger, BatcherOptions{})
		begun := time.Now()
		waiting := send(b, 0, 3)
		if _, err := b.Claim(t.Context(), "sale", claim(4)); !errors.Is(err, ErrUnanswered) {
			t.Errorf("behind a call that failed: %v, want ErrUnanswered", err)
		}
		waiting.Wait()
		if took := time.Since(begun); took != ledger.delay {
			t.Errorf("answered after %v, want one call, %v", took, ledger.delay)
		}
	})
}

func TestBatcherTrustsNoShortAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBatcher(&slowLedger{short: true}, BatcherOptions{})
		if _, err := b.Claim(t.Context(), "sale", claim(1)); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("err = %v when a decision is missing, want ErrOutcomeUnknown", err)
		}
	})
}

func TestBatcherCloseLandsWhatFlies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Second}
		b := NewBatcher(ledger, BatcherOptions{MaxBatch: 2, Calls: 1})
		if !b.Idle("sale") {
			t.Error("busy before the first claim")
		}
		sent := send(b, 0, 5)
		if b.Idle("sale") || !b.Idle("other") {
			t.Errorf("idle: %v with five claims on their way, %v with none; want false and true", b.Idle("sale"),
				b.Idle("other"))
		}
		must.Succeed(t, b.Close(t.Context()))
		if _, err := b.Claim(t.Context(), "sale", claim(9)); !errors.Is(err, sluice.ErrClosed) {
			t.Errorf("err = %v after Close, want ErrClosed", err)
		}
		sent.Wait()
		total := 0
		for _, n := range ledger.sizes() {
			total += n
		}
		if total != 5 {
			t.Errorf("%d claims decided before Close returned, want 5", total)
		}
		late, cancel := context.WithCancel(t.Context())
		cancel()
		_ = b.Close(late) // idempotent
	})
}

func BenchmarkBatcher(b *testing.B) {
	batcher := NewBatcher(instant{}, BatcherOptions{})
	b.SetParallelism(1000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c := claim(1)
		for pb.Next() {
			_, _ = batcher.Claim(context.Background(), "sale", c)
		}
	})
}

// instant answers at once, from one slice.
type instant struct{}

var accepted = make([]sluice.Decision, 250)

func (instant) Claim(_ context.Context, _ sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	return accepted[:len(claims)], nil
}

// However many claims one buyer sends at a time, a ledger call has one of them, a few wait,
// and the others are answered at once: the rest of the crowd is in the next call.
func TestACallHasOneClaimOfABuyer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{delay: time.Second}
		b := NewBatcher(ledger, BatcherOptions{Calls: 1, MaxPerBuyer: 3})
		var refused atomic.Int64
		flood := func(n int) *sync.WaitGroup {
			var done sync.WaitGroup
			for i := range n {
				c := claim(0)
				c.Key = sluice.Key(fmt.Sprintf("key-%05d", i))
				done.Go(func() {
					if _, err := b.Claim(context.Background(), "sale", c); errors.Is(err, ErrOverloaded) {
						refused.Add(1)
					}
				})
			}
			synctest.Wait()
			return &done
		}
		first := send(b, 100, 1) // while this call is in flight the others gather
		floods := flood(50)
		if n := refused.Load(); n != 47 {
			t.Errorf("%d of 50 claims of one buyer are refused while 3 may wait", n)
		}
		crowd := send(b, 1, 60)
		first.Wait()
		synctest.Wait()
		again := flood(5) // what was taken into a call waits no longer
		if n := refused.Load(); n != 51 {
			t.Errorf("%d claims refused, want 4 more", n)
		}
		floods.Wait()
		crowd.Wait()
		again.Wait()
		if got := fmt.Sprint(ledger.sizes()); got != "[1 61 1 1 1]" {
			t.Errorf("calls of %s claims, want 1, 61, and one for each that waited", got)
		}
		if n := len(waitingBuyers(b)); n != 0 {
			t.Errorf("%d buyers are counted when nothing waits", n)
		}
	})
}

func waitingBuyers(b *Batcher) map[sluice.BuyerID]int {
	l, _ := b.lanes.Load("sale")
	return l.buyers
}

// full is a ledger that refuses to write.
type full struct{ port.Decider }

func (full) Claim(context.Context, sluice.SaleID, []sluice.Claim) ([]sluice.Decision, error) {
	return nil, fmt.Errorf("disk full: %w", sluice.ErrRefusesWrites)
}

// A ledger that refuses to write is distinguished from an unknown outcome, and
// its cause is passed on.
func TestBatcherKnowsARefusalToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cause error
		b := NewBatcher(full{}, BatcherOptions{Failed: func(_ sluice.SaleID, err error) { cause = err }})
		_, err := b.Claim(t.Context(), "sale", claim(1))
		if !errors.Is(err, ErrRefusesWrites) || errors.Is(err, ErrOutcomeUnknown) || !b.Refusing() ||
			!errors.Is(cause, sluice.ErrRefusesWrites) {
			t.Errorf("%v; refusing %t, cause %v", err, b.Refusing(), cause)
		}
		time.Sleep(refusingFor)
		if b.Refusing() {
			t.Error("a server that is not ready gets no claims, and must find out all the same that the ledger writes again")
		}
		if _, err := b.Claim(t.Context(), "sale", claim(3)); !errors.Is(err, ErrRefusesWrites) || !b.Refusing() {
			t.Errorf("%v; refusing %t", err, b.Refusing())
		}
		b.ledger = instant{}
		if _, err := b.Claim(t.Context(), "sale", claim(2)); err != nil || b.Refusing() {
			t.Errorf("when it writes again: %v, refusing %t", err, b.Refusing())
		}
	})
}

// One sale whose ledger hangs does not take every slot.
func TestOneSaleLeavesPlaces(t *testing.T) {
	b := NewBatcher(instant{}, BatcherOptions{MaxInFlight: 100, MaxBatch: 10})
	n := 0
	for ; ; n++ {
		if _, err := b.Acquire("hung", sluice.Unlimited); err != nil {
			break
		}
	}
	if n < 49 || n > 51 {
		t.Errorf("one sale has %d of 100 slots, want half", n)
	}
	for range 200 { // those that are refused take none
		if _, err := b.Acquire("hung", sluice.Unlimited); err == nil {
			t.Fatal("the sale gets one slot more")
		}
	}
	for range 20 {
		must.Get(b.Acquire("other", sluice.Unlimited))(t)
	}
}

// Every claim that is decided is measured once in each stage, however it waited.
func TestStagesAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := map[int]time.Duration{}
		claims, calls := map[int]int{}, 0
		b := NewBatcher(&slowLedger{delay: time.Second}, BatcherOptions{
			MaxBatch: 10, Calls: 1,
			Took: func(stage int, d time.Duration, n int) {
				took[stage] += d * time.Duration(n)
				claims[stage] += n
			},
			CallTook: func(d time.Duration, err error) {
				if calls++; d != time.Second || err != nil {
					t.Errorf("a call took %v, %v", d, err)
				}
			},
		})
		slot := must.Get(b.Acquire("sale", sluice.Unlimited))(t)
		slot.began = time.Now()
		time.Sleep(time.Millisecond)
		var first sync.WaitGroup
		first.Go(func() {
			c := claim(0)
			_, _, _ = slot.Claim(t.Context(), &c, netip.Addr{}, port.Rates{})
		})
		synctest.Wait()
		time.Sleep(time.Second / 4)
		send(b, 1, 3).Wait() // they wait for the end of the first call
		first.Wait()
		for stage, want := range []struct {
			took   time.Duration
			claims int
		}{{time.Millisecond, 1}, {3 * 3 * time.Second / 4, 4}, {4 * time.Second, 4}} {
			if took[stage] != want.took || claims[stage] != want.claims {
				t.Errorf("%s: %d claims took %v, want %d and %v", Stages()[stage], claims[stage], took[stage], want.claims,
					want.took)
			}
		}
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	})
}
