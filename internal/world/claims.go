package world

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// claims is what clients were told, and what they and the world did that bears on it.
type claims struct {
	mu       sync.Mutex
	promised map[attempt]promise
	asked    map[attempt]int64 // units that the attempts so far asked for at most
	tries    map[attempt]int   // how often each was made
	latest   map[sluice.BuyerID]sluice.OrderID
	paid     map[sluice.OrderID]string        // the payments that were answered with success
	over     map[sluice.OrderID]sluice.Status // endings that were
	seen     map[sluice.OrderID]sluice.Status // as buyers saw them last
	events   map[int64]string                 // what the feed's reader was given
	lowest   int64                            // the lowest total that there may have been
	highest  int64                            // and the highest
	limit    int64                            // the highest limit per buyer
	answered int
	wrong    []string

	pausedAt  time.Time // since when a pause is known to be in force; zero: it is not
	marked    time.Time // when the ledger was copied
	losses    []loss
	restored  bool      // the store became an older copy of itself
	keptUntil time.Time // no order expires before
}

type (
	attempt struct {
		buyer sluice.BuyerID
		key   int
	}
	promise struct {
		order    sluice.OrderID
		quantity int64
		server   *server // that answered first
		at       time.Time
	}
	// loss is a time of which a ledger has forgotten what it accepted.
	loss struct{ from, to time.Time }
	// answer is what a buyer was told.
	answer struct {
		buyer  sluice.BuyerID
		act    *Act
		server *server
		asked  time.Time
		status int // 0: there was no answer
		code   string
		order  sluice.OrderID
	}
)

func newClaims(p *Plan) claims {
	return claims{
		promised: map[attempt]promise{}, asked: map[attempt]int64{}, tries: map[attempt]int{},
		latest: map[sluice.BuyerID]sluice.OrderID{}, seen: map[sluice.OrderID]sluice.Status{}, events: map[int64]string{},
		paid: map[sluice.OrderID]string{}, over: map[sluice.OrderID]sluice.Status{}, lowest: p.Total, highest: p.Total,
		limit: p.MaxPerBuyer,
	}
}

// complain notes what is wrong.
func (c *claims) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// asks notes that a buyer is about to ask.
func (c *claims) asks(buyer sluice.BuyerID, a *Act) {
	c.mu.Lock()
	defer c.mu.Unlock()
	try := attempt{buyer, a.Key}
	c.asked[try] = max(c.asked[try], a.N)
	c.tries[try]++
}

// answer notes what a buyer was told, and judges what can be judged at once.
func (c *claims) answer(a *answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.status != 0 {
		c.answered++
	}
	try := attempt{a.buyer, a.act.Key}
	before, known := c.promised[try]
	wrong := func(format string, args ...any) { c.wrong = append(c.wrong, fmt.Sprintf(format, args...)) }
	switch {
	case a.status == 202 && !known:
		c.promised[try] = promise{a.order, a.act.N, a.server, time.Now()}
		c.latest[a.buyer] = a.order
	case a.status == 202 && (before.order != a.order || before.quantity != a.act.N) && !c.excused(&before):
		wrong("%v was promised %s for %d, and now %s for %d (I4)", try, before.order, before.quantity, a.order, a.act.N)
	case a.status == 202:
		c.latest[a.buyer] = a.order
	case known && before.quantity == a.act.N && refused(a.status) && !c.excused(&before):
		wrong("%v was promised %s, and its repeat gets %d %s (I4)", try, before.order, a.status, a.code)
	case a.code == sluice.SoldOut.String():
		var units int64 // that may have been accepted
		for _, n := range c.asked {
			units += n
		}
		if units-c.asked[try] < c.lowest {
			wrong("%v hears sold_out, and at most %d units of %d can have been accepted (I7)", try, units, c.lowest)
		}
	case a.code == sluice.NotOpen.String() && a.asked.Sub(a.server.world.begins) > opens+5*time.Second &&
		a.server.world.steady():
		wrong("%v hears not_open %v after the opening (I8)", try, a.asked.Sub(a.server.world.begins)-opens)
	}
	if a.status == 202 && c.tries[try] == 1 && !c.pausedAt.IsZero() && a.asked.After(c.pausedAt) {
		wrong("%v is accepted while the sale is paused (I8)", try)
	}
}

// refused reports whether an answer is no order, and will not become one.
func refused(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
		status != http.StatusTooManyRequests
}

// excused reports whether a promise may be lost: the ledger forgot it, and the server that made it died.
func (c *claims) excused(p *promise) bool {
	return p.server.dead.Load() && slices.ContainsFunc(c.losses, func(l loss) bool {
		return !p.at.Before(l.from) && !p.at.After(l.to)
	})
}

func (c *claims) last(buyer sluice.BuyerID) sluice.OrderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest[buyer]
}

// settled notes what the shop was told.
func (c *claims) settled(order sluice.OrderID, did, payment string, status sluice.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case did == "pay" && status == sluice.Paid:
		c.paid[order] = payment
	case !status.Live():
		c.over[order] = status
		delete(c.paid, order)
	}
}

func (c *claims) payment(order sluice.OrderID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paid[order]
}

// saw notes how a buyer's order looks to them: nothing is undone (I3).
func (c *claims) saw(order sluice.OrderID, status int, is sluice.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.seen[order]
	switch {
	case c.restored:
	case status == http.StatusNotFound && len(c.losses) == 0:
		c.wrong = append(c.wrong, fmt.Sprintf("%s was promised, and its buyer does not find it (I4)", order))
	case status != http.StatusOK:
	case was != "" && !was.Live() && is.Live(), was == sluice.Paid && (is == sluice.Pending || is == sluice.Queued):
		c.wrong = append(c.wrong, fmt.Sprintf("%s was %s to its buyer, and is %s", order, was, is))
	}
	if status == http.StatusOK {
		c.seen[order] = is
	}
}

// payments are the orders that the shop knows as paid.
func (c *claims) payments() []sluice.OrderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.paid))
}

// restocks notes a change of the total that is about to be asked for.
func (c *claims) restocks(delta int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.highest += max(delta, 0)
	c.lowest += min(delta, 0)
}

// limits notes a limit per buyer that is about to be asked for.
func (c *claims) limits(most int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = max(c.limit, most)
}

// paused notes the answer to a pause, resumes that it may end from now on.
func (c *claims) paused(at time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.pausedAt = at
	}
}

func (c *claims) resumes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pausedAt = time.Time{}
}

// mark notes that the ledger is copied, forget that it becomes that copy, or an empty one.
func (c *claims) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marked = time.Now()
}

func (c *claims) forget(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := loss{c.marked, time.Now()}
	if all {
		l.from = time.Time{}
	}
	c.losses = append(c.losses, l)
}

// restore notes that the store becomes an older copy, recovered that a person has recovered the sale.
func (c *claims) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored = true
	c.pausedAt = time.Time{}
}

func (c *claims) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restored
}

// kept reports whether no order expires yet.
func (c *claims) kept(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keptUntil.After(now)
}

func (c *claims) recovered(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keptUntil = until
	c.pausedAt = time.Time{}
}
