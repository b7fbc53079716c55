package admission

import (
	"container/heap"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// How often a sale is read in the ledger.
//
// A sale that is claimed or looked at here, or that changes, is hot: it is read
// every Refresh. Anybody may look at any sale, so readers alone keep few of them hot, and none on which nothing moves:
// long before it opens, or after it has closed. The others are idle: together they are read idleReads times a
// second, each at most once in idlePace, so that ten idle sales are known to
// the second, and a hundred thousand cost no more than a few hundred. A claim
// on an idle sale goes to the ledger and makes the sale hot; opening and closing
// are read when they are due.
//
// Sales that are due are read together. A call that has not ended after a while
// is no reason to wait: its sales are read again by a call of their own each,
// and those that answer in time go back to the others. So a shard that hangs is
// known by its own sales only, and costs the others one refresh.
const (
	hotFor    = 10 * time.Second
	idlePace  = time.Second
	idleReads = 250
	// beforeOpening is how long before it opens a sale gets hot: limits fail closed, so
	// rules that another server has changed before must hold for the first claim.
	beforeOpening = 2 * time.Second
	// watchedAtATime is how many sales are hot because of readers, and watchedBefore how long before it opens one
	// can be.
	watchedAtATime = 100
	watchedBefore  = time.Minute
	// together bounds the sales of one call.
	together = 500
	// minPatience is the least time that a call for several sales may take.
	minPatience = 100 * time.Millisecond
)

// readCall is one reading of the ledger.
type readCall struct {
	sales []*boardSale
	asked time.Time
	done  chan struct{} // closed when its views are on the board
	err   error         // set then; of the first sale that could not be read
}

// What wakes a sale.
const (
	wokenClaimed = 1 << iota // a claim: it is read at the pace of a hot sale
	wokenWatched             // a reader: the same, unless the replica is read for it
	wokenChanged             // something has changed: it is read at once
)

// woken gathers the sales that have been woken.
type woken struct {
	mu  sync.Mutex
	all []*boardSale
}

// wake takes no lock but for the first reason since the last look. Of many
// callers with the same reason one writes.
func (e *boardSale) wake(why uint32) {
	if e.why.Load()&why != 0 || e.why.Or(why) != 0 {
		return
	}
	w := &e.board.woken
	w.mu.Lock()
	w.all = append(w.all, e)
	w.mu.Unlock()
	if e.board.rests.Load() {
		e.board.bell.Ring()
	}
}

func (w *woken) drain() []*boardSale {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// readDue begins to read the sales that are due, and returns when it is to be called again:
// every Refresh while a sale is hot or a call for several is under way. Else it rests until a
// sale is due, and the bell rings when one is woken or planned before that.
func (b *Board) readDue(ctx context.Context) (again time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.rests.Store(!now.Before(b.hotUntil))
	b.again = time.Time{}
	for _, e := range b.woken.drain() {
		why := e.why.Swap(0)
		if e.retired {
			continue
		}
		claimed, watched := why&wokenClaimed != 0, why&wokenWatched != 0 && b.isWatched(e, now)
		if claimed || watched {
			b.heat(e, now)
		}
		switch v := e.view.Load(); {
		case why&wokenChanged != 0 || v == nil:
			b.plan(e, now)
		case claimed || watched && !b.replicaUp.Load():
			b.plan(e, v.Asked.Add(b.opts.Refresh))
		}
	}
	b.split(ctx, now)
	var group []*boardSale
	for len(b.due) > 0 && !b.due[0].at.After(now.Add(2*minPause)) {
		e := b.due[0].sale
		b.unplan(e)
		if e.apart {
			b.begin(ctx, e)
		} else if group = append(group, e); len(group) == together {
			b.begin(ctx, group...)
			group = nil
		}
	}
	if len(group) > 0 {
		b.begin(ctx, group...)
	}
	if now.Before(b.hotUntil) {
		b.rests.Store(false)
		return now.Add(b.opts.Refresh)
	}
	next := now.Add(idlePace)
	switch {
	case len(b.flying) > 0:
		next = now.Add(b.opts.Refresh)
	case len(b.due) > 0 && b.due[0].at.Before(next):
		next = b.due[0].at
	}
	b.again = now.Add(max(next.Sub(now)-2*minPause, minPause))
	return b.again
}

// isWatched reports whether readers keep a sale hot. The caller holds mu.
func (b *Board) isWatched(e *boardSale, now time.Time) bool {
	if v := e.view.Load(); v != nil && v.InStep() {
		r := v.Shown()
		at := r.Now.Add(now.Sub(v.Received))
		if r.Terms.OpensAt.Sub(at) > watchedBefore || r.State(at) == sluice.StateClosed {
			return false
		}
	}
	if len(b.looked) >= watchedAtATime {
		maps.DeleteFunc(b.looked, func(one *boardSale, _ struct{}) bool { return !now.Before(one.hotUntil) })
	}
	if _, is := b.looked[e]; !is && len(b.looked) >= watchedAtATime {
		return false
	}
	b.looked[e] = struct{}{}
	return true
}

// split reads the sales of calls that take too long by calls of their own. The
// caller holds mu.
func (b *Board) split(ctx context.Context, now time.Time) {
	for c := range b.flying {
		if now.Sub(c.asked) < max(b.opts.Refresh, minPatience)-2*minPause {
			continue
		}
		delete(b.flying, c)
		for _, e := range c.sales {
			if e.call == c {
				e.apart = true
				b.begin(ctx, e)
			}
		}
	}
}

// begin starts a call. The caller holds mu.
func (b *Board) begin(ctx context.Context, sales ...*boardSale) *readCall {
	c := &readCall{sales: sales, asked: time.Now(), done: make(chan struct{})}
	if b.life.Err() != nil {
		c.err = sluice.ErrClosed
		for _, e := range sales {
			if !e.retired {
				b.fail(e, e.view.Load(), c.asked, c.err) // which shows the row that the store has now
			}
		}
		close(c.done)
		return c
	}
	ids := make([]sluice.SaleID, len(sales))
	for i, e := range sales {
		b.unplan(e)
		e.call, e.again, ids[i] = c, false, e.id
	}
	if len(sales) > 1 {
		b.flying[c] = struct{}{}
	}
	b.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.opts.Timeout)
		defer cancel()
		readings, err := b.ledger.Read(ctx, ids)
		received := time.Now()
		b.mu.Lock()
		defer b.mu.Unlock()
		defer close(c.done)
		delete(b.flying, c)
		b.end(c, readings, err, received)
	})
	return c
}

// end puts what a call has read on the board. The caller holds mu.
func (b *Board) end(c *readCall, readings []port.Reading, err error, received time.Time) {
	if len(readings) != len(c.sales) {
		if err == nil {
			err = fmt.Errorf("%d readings of %d sales", len(readings), len(c.sales))
		}
		readings = nil
	}
	c.err = err
	b.clock.take(c.asked, received, readings)
	views := make(map[sluice.SaleID]*View, len(c.sales))
	for i, e := range c.sales {
		mine := e.call == c
		if mine {
			e.call = nil
		}
		failed := err
		if readings != nil {
			failed = readings[i].Err
		}
		switch old := e.view.Load(); {
		case e.retired:
			continue
		case failed != nil && mine:
			b.fail(e, old, c.asked, failed)
		case failed == nil && (old == nil || !c.asked.Before(old.Asked)):
			v := &View{Sale: e.sale, Reading: readings[i], Asked: c.asked, Received: received, onBoard: e}
			if received.Sub(c.asked) < max(b.opts.Refresh, minPatience) {
				e.apart = false
			}
			b.answered.Store(received.UnixNano())
			b.recovered(e)
			b.follow(e, v, old)
			b.show(e, v, old)
			views[e.id] = v
		}
		if mine && e.again {
			b.plan(e, time.Now())
		} else if e.call == nil && e.index < 0 {
			b.plan(e, b.nextReading(e, c.asked))
		}
	}
	if len(views) > 0 {
		b.opts.Refreshed(views)
	}
}

// follow does what a new view asks for. The caller holds mu.
func (b *Board) follow(e *boardSale, v, old *View) {
	v.holders = e.holders
	r := &v.Reading
	if r.Loaded && r.Terms.Version > max(v.Sale.Version, e.newer) {
		e.newer = r.Terms.Version // once for each version: whatever an operator changes raises it
		e.rowAsked = time.Time{}
		b.askRow(e)
	} else if !v.InStep() {
		b.askRow(e)
	}
	wait := r.Terms.OpensAt.Sub(r.Now)
	if 0 < wait && wait <= beforeOpening || !v.InStep() || r.Backlog > 0 || old != nil &&
		(old.Down || differ(r, &old.Reading)) {
		b.heat(e, v.Asked)
	}
	if v.InStep() && (v.Hidden() || v.State(v.Received) != sluice.StateOpen) && !v.holders.covers(r) {
		b.fetchHolders(e, *r)
	}
}

// differ reports whether something was sold, returned or changed between two
// readings, or a moment has come.
func differ(a, b *port.Reading) bool {
	return a.Loaded != b.Loaded || a.Epoch != b.Epoch || a.Seq != b.Seq || a.Taken != b.Taken || a.Terms != b.Terms ||
		a.Fence != b.Fence ||
		a.State(a.Now) != b.State(b.Now)
}

// heat has a sale read often for a while. The caller holds mu.
func (b *Board) heat(e *boardSale, now time.Time) {
	e.hotUntil = now.Add(hotFor)
	if b.hotUntil.Before(e.hotUntil) {
		b.hotUntil = e.hotUntil
	}
	if b.opts.Replica != nil {
		b.hot[e] = struct{}{}
	}
}

// nextReading is when a sale that was read at asked is to be read again. The
// caller holds mu.
func (b *Board) nextReading(e *boardSale, asked time.Time) time.Time {
	hot := asked.Before(e.hotUntil)
	pace := b.opts.Refresh
	if !hot || b.replicaUp.Load() {
		pace = max(pace, idlePace)
	}
	if !hot {
		pace = max(pace, time.Duration(b.sales.Size())*time.Second/idleReads)
	}
	next := asked.Add(pace)
	if !hot { // at a whole second, so that one call reads all that are due then
		next = next.Add(next.Round(idlePace).Sub(next))
	}
	v := e.view.Load()
	if v == nil || v.Asked.Before(asked) {
		return next
	}
	terms := &v.Reading.Terms
	for _, at := range [...]time.Time{
		terms.OpensAt.Add(-beforeOpening), terms.OpensAt, terms.ClosesAt, v.Reading.CooldownUntil,
	} {
		if at.After(v.Reading.Now) {
			if due := v.Received.Add(at.Sub(v.Reading.Now)); due.Before(next) {
				next = due
			}
		}
	}
	return next
}

// downAfter is how long readers get the last known state when the ledger does
// not answer for a sale.
const downAfter = 3 * time.Second

// fail notes a reading that failed: after a while, or at once if there was none
// before, the sale is down. The caller holds mu.
func (b *Board) fail(e *boardSale, old *View, asked time.Time, err error) {
	if e.failed.IsZero() {
		e.failed = asked
		if len(b.failing) == 0 {
			b.opts.Log.Warn("the ledger does not answer for a sale; it may be others, too", "sale", e.id, "error", err)
		}
		b.failing[e.id] = struct{}{}
	}
	down := old == nil || old.Down || time.Since(e.failed) >= downAfter
	if old != nil && old.Down == down && old.Sale == e.sale {
		return
	}
	v := &View{Reading: port.Reading{Sale: e.id}, onBoard: e}
	if old != nil {
		*v = *old
	}
	v.Sale, v.Down, v.Cause = e.sale, down, err
	b.show(e, v, old)
}

// recovered ends fail. The caller holds mu.
func (b *Board) recovered(e *boardSale) {
	if e.failed.IsZero() {
		return
	}
	e.failed = time.Time{}
	if delete(b.failing, e.id); len(b.failing) == 0 {
		b.opts.Log.Info("the ledger answers for all sales again")
	}
}

// show publishes a view. The caller holds mu.
func (b *Board) show(e *boardSale, v, old *View) {
	v.Body = b.opts.Encode(v, old)
	e.view.Store(v)
	if old == nil || old.Body != v.Body || old.Sale != v.Sale {
		b.version.Add(1)
	}
}

// plan has a sale read at a moment, or sooner if that is planned. While it is
// being read, it is read once more. The caller holds mu.
func (b *Board) plan(e *boardSale, at time.Time) {
	if at.Before(b.again) {
		b.bell.Ring()
	}
	switch {
	case e.retired:
	case e.call != nil:
		e.again = true
	case e.index < 0:
		heap.Push(&b.due, dueSale{at, e})
	case at.Before(b.due[e.index].at):
		b.due[e.index].at = at
		heap.Fix(&b.due, e.index)
	}
}

func (b *Board) unplan(e *boardSale) {
	if e.index >= 0 {
		heap.Remove(&b.due, e.index)
	}
}

// dueHeap orders sales by when they are to be read. The moments are in the heap, since sales are
// far apart in memory, and nothing is looked at more often on an idle server.
type dueHeap []dueSale

type dueSale struct {
	at   time.Time
	sale *boardSale
}

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].sale.index, h[j].sale.index = i, j
}

func (h *dueHeap) Push(x any) {
	due := x.(dueSale)
	due.sale.index = len(*h)
	*h = append(*h, due)
}

func (h *dueHeap) Pop() any {
	old := *h
	due := old[len(old)-1]
	old[len(old)-1] = dueSale{}
	*h = old[:len(old)-1]
	due.sale.index = -1
	return due
}
