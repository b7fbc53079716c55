package world

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// claims is what clients were told, and what they and the world did that bears on it.
type claims struct {
	mu       sync.Mutex
	promised map[attempt]promise
	asked    map[attempt]int64                // units that the attempts so far asked for at most
	tries    map[attempt]int                  // how often each was made
	latest   map[attempt]sluice.OrderID       // of a buyer in a sale: the attempt has no key
	strange  map[sluice.BuyerID]bool          // who may have been erased, and is a stranger since
	paid     map[sluice.OrderID]string        // the payments that were answered with success
	over     map[sluice.OrderID]sluice.Status // endings that were
	refunded map[sluice.OrderID]bool          // whose money the shop would have given back
	seen     map[sluice.OrderID]sluice.Status // as buyers saw them last
	stored   map[sluice.OrderID]bool          // which the store was seen to have
	events   map[int64]string                 // what the feed's reader was given
	of       []bounds                         // by sale
	answered int
	wrong    []string

	marked   time.Time // when the ledger was copied
	losses   []loss
	restored bool // the store became an older copy of itself
	aside    bool // dead letters may wait
}

// bounds are what may hold of a sale, by what was asked for.
type bounds struct {
	lowest, highest int64         // total
	limit           int64         // the highest per buyer
	first           time.Duration // the opening of the plan, after the world's beginning
	opens, late     time.Duration // the opening, and the latest that was asked for
	postponed       time.Time     // when an operator was told of the opening
	pausedAt        time.Time     // since when a pause is known to be in force; zero: it is not
	closedAt        time.Time     // when an operator was told that it is closed; zero: none was
	pauses          int           // how often a pause was asked for
	answered, ended int           // how many of them were answered with success, and then ended by a resume
	restocked       int64         // by restocks that were answered with success
	unsure          []int64       // restocks without a clear answer
	closing         bool          // an operator has asked for it to be closed
	resumed         int           // how often a resume was asked for
	resuming        int           // how many of them have no clear answer
	keptUntil       time.Time     // no order expires before
	deleted, half   bool          // a deletion was asked for; one had no clear answer
}

type (
	attempt struct {
		sale  int
		buyer sluice.BuyerID
		key   int
	}
	promise struct {
		order    sluice.OrderID
		quantity int64
		server   *server // that answered first
		asked    time.Time
		at       time.Time
	}
	// loss is a time of which a ledger has forgotten what it accepted.
	loss struct {
		from, to time.Time
		sale     int // -1: of all
	}
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

func newClaims(p *Plan) *claims {
	c := &claims{
		promised: map[attempt]promise{}, asked: map[attempt]int64{}, tries: map[attempt]int{},
		latest: map[attempt]sluice.OrderID{}, strange: map[sluice.BuyerID]bool{},
		paid: map[sluice.OrderID]string{}, over: map[sluice.OrderID]sluice.Status{},
		refunded: map[sluice.OrderID]bool{},
		seen:     map[sluice.OrderID]sluice.Status{}, stored: map[sluice.OrderID]bool{}, events: map[int64]string{},
	}
	for _, t := range p.Sales {
		c.of = append(c.of, bounds{
			lowest: t.Total, highest: t.Total, limit: t.MaxPerBuyer, first: t.Opens, opens: t.Opens, late: t.Opens,
		})
	}
	return c
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
	try := attempt{a.Sale, buyer, a.Key}
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
	of := &c.of[a.act.Sale]
	try := attempt{a.act.Sale, a.buyer, a.act.Key}
	before, known := c.promised[try]
	known = known && !c.strange[a.buyer] && !c.excused(try, &before)
	wrong := func(format string, args ...any) { c.wrong = append(c.wrong, fmt.Sprintf(format, args...)) }
	if a.status == 202 {
		c.latest[attempt{sale: try.sale, buyer: try.buyer}] = a.order
	}
	switch since := a.asked.Sub(a.server.world.begins); {
	case a.status == 202 && !known:
		c.promised[try] = promise{a.order, a.act.N, a.server, a.asked, time.Now()}
	case a.status == 202 && (before.order != a.order || before.quantity != a.act.N):
		wrong("%v was promised %s for %d, and now %s for %d (I4)", try, before.order, before.quantity, a.order, a.act.N)
	case known && before.quantity == a.act.N && refused(a.status) && a.asked.After(before.at):
		wrong("%v was promised %s, and its repeat gets %d %s (I4)", try, before.order, a.status, a.code)
	case a.code == sluice.SoldOut.String():
		var units int64 // that may have been accepted
		for other, n := range c.asked {
			if other.sale == try.sale && other != try {
				units += n
			}
		}
		if units < of.lowest {
			wrong("%v hears sold_out, and others can have %d units of %d at most (I7)", try, units, of.lowest)
		}
	case a.code == sluice.NotOpen.String() && since > of.late+5*time.Second && a.server.world.steady():
		wrong("%v hears not_open %v after the opening (I8)", try, since-of.late)
	}
	if a.status == 202 && c.tries[try] == 1 && !of.pausedAt.IsZero() && a.asked.After(of.pausedAt) {
		wrong("%v is accepted while the sale is paused (I8)", try)
	}
	if a.status == 202 && c.tries[try] == 1 && !of.closedAt.IsZero() && a.asked.After(of.closedAt) {
		wrong("%v is accepted after the sale was closed (I8)", try)
	}
}

// refused reports whether an answer is no order, and will not become one.
func refused(status int) bool {
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError &&
		status != http.StatusTooManyRequests
}

// gathers is how long after a loss of the ledger a server that dies, or is frozen, may not have told what it remembers.
const gathers = 30 * time.Second

// lacks reports whether a promise of a sale is lost that may be.
func (c *claims) lacks(sale int, orders map[sluice.OrderID]api.Order) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for try, p := range c.promised {
		o, there := orders[p.order]
		if try.sale == sale && (!there || o.Status == sluice.Rejected) && c.excused(try, &p) {
			return true
		}
	}
	return false
}

// excused reports whether a promise may be lost: the ledger forgot it, and the server that made it died, or was silent
// for so long that it told of it when the sale was over, or its units were sold. Or the sale was deleted, and either
// the ledger forgot that, or the store is a copy from before it was created again.
func (c *claims) excused(try attempt, p *promise) bool {
	if c.of[try.sale].deleted && c.restored {
		return true
	}
	if c.stored[p.order] && !c.restored {
		return false
	}
	return slices.ContainsFunc(c.losses, func(l loss) bool {
		return (l.sale == -1 || l.sale == try.sale) && (c.of[try.sale].deleted ||
			p.server.missedBy(l.to, l.to.Add(gathers)) && !p.at.Before(l.from) && !p.asked.After(l.to))
	})
}

// last returns the order that the buyer of an act was promised last in its sale; empty: none.
func (c *claims) last(a *Act) sluice.OrderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest[attempt{sale: a.Sale, buyer: a.buyer()}]
}

// settled notes what the shop was told.
func (c *claims) settled(order sluice.OrderID, did, payment string, status sluice.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored[order] = true
	switch {
	case did == "pay" && status == sluice.Paid:
		c.paid[order] = payment
		for other, with := range c.paid {
			if with == payment && other != order {
				c.wrong = append(c.wrong, fmt.Sprintf("%s and %s are paid by one payment", order, other))
			}
		}
	case !status.Live():
		c.over[order] = status
		delete(c.paid, order)
	}
}

// refunds notes that the shop says that it has given the money of an order back.
func (c *claims) refunds(order sluice.OrderID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refunded[order] = true
}

// payment returns the payment with which the shop paid an order; empty: it has not.
func (c *claims) payment(order sluice.OrderID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.paid[order]
}

// saw notes how a buyer's order looks to them: nothing is undone (I3).
func (c *claims) saw(buyer sluice.BuyerID, order sluice.OrderID, status int, is sluice.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.seen[order]
	switch {
	case c.restored, c.strange[buyer]:
	case status == http.StatusNotFound && len(c.losses) == 0:
		c.wrong = append(c.wrong, fmt.Sprintf("%s was promised, and its buyer does not find it (I4)", order))
	case status != http.StatusOK:
	case was != "" && !was.Live() && is.Live(), was == sluice.Paid && (is == sluice.Pending || is == sluice.Queued):
		c.wrong = append(c.wrong, fmt.Sprintf("%s was %s to its buyer, and is %s", order, was, is))
	}
	if status == http.StatusOK {
		c.stored[order] = c.stored[order] || is != sluice.Queued
		c.seen[order] = is
	}
}

// payments are the orders that the shop knows as paid.
func (c *claims) payments() []sluice.OrderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.paid))
}

// about notes what is about to be asked for, or what it did, of a sale.
func (c *claims) about(sale int, note func(*bounds)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	note(&c.of[sale])
}

// estranges notes that a buyer is about to be erased.
func (c *claims) estranges(buyer sluice.BuyerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strange[buyer] = true
}

// differ says what differs, as a reconciliation found it. Where nothing was lost nothing does.
func (c *claims) differ(report *api.ReconcileReport) (what string) {
	for _, d := range report.Differences {
		if d.Class != sluice.InFlight && d.Count > 0 {
			what += fmt.Sprintf("%d of %s, %d repaired; ", d.Count, d.Class, d.Repaired)
		}
	}
	c.mu.Lock()
	lost := c.restored || len(c.losses) > 0
	c.mu.Unlock()
	if what != "" && !lost {
		c.complain("a reconciliation finds differences, and nothing was lost: %s", what)
	}
	return what
}

// mark notes that the ledger is copied.
func (c *claims) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marked = time.Now()
}

// forget notes that the ledger has lost all of a sale, or what came after the copy; of every sale if it is -1.
func (c *claims) forget(all bool, sale int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := loss{c.marked, time.Now(), sale}
	if all {
		l.from = time.Time{}
	}
	c.losses = append(c.losses, l)
}

// setAside notes that there may be dead letters from now on.
func (c *claims) setAside() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.aside = true
}

// recovered notes that an operator has recovered a sale, and until when none of its orders expires.
func (c *claims) recovered(sale int, until time.Time) {
	c.about(sale, func(of *bounds) { of.keptUntil, of.pausedAt = until, time.Time{} })
}

// restore notes that the store becomes an older copy.
func (c *claims) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restored = true
	for n := range c.of {
		c.of[n].pausedAt, c.of[n].closedAt, c.of[n].opens = time.Time{}, time.Time{}, c.of[n].first
	}
}

// lacking reports whether an audit is right to miss something: an older copy of the store lacks it, a dead letter has
// it, or the ledger has lost it just now and is not rebuilt.
func (c *claims) lacking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restored || c.aside || slices.ContainsFunc(c.losses, func(l loss) bool {
		return time.Since(l.to) < 30*time.Second
	})
}

// old reports whether the store became an older copy.
func (c *claims) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.restored
}

// allows reports whether a sale may be in a state at rest, so long after the world's beginning by the ledger's clock.
func (c *claims) allows(sale int, state sluice.State, left int64, now, closes time.Duration) (may bool) {
	c.about(sale, func(of *bounds) {
		switch state {
		case sluice.StateUpcoming:
			may = now <= of.late
		case sluice.StatePaused:
			may = of.pauses > of.ended || c.restored && of.pauses > 0 ||
				of.half // a server that died has left it so, and the command can be repeated
		case sluice.StateSoldOut:
			may = left == 0
		case sluice.StateClosed:
			may = of.closing || closes > 0 && now >= closes
		case sluice.StateOpen:
			may = left > 0 && (of.closedAt.IsZero() || c.restored)
		}
	})
	return may
}

// total reports whether restocks may have changed a total by so much.
func (c *claims) total(sale int, by int64) (may bool) {
	c.about(sale, func(of *bounds) {
		sums := map[int64]bool{of.restocked: true}
		for _, n := range of.unsure {
			for sum := range maps.Clone(sums) {
				sums[sum+n] = true
			}
		}
		may = sums[by] || c.restored || of.deleted
	})
	return may
}

// mayLack reports whether a sale may be gone.
func (c *claims) mayLack(sale int) (may bool) {
	c.about(sale, func(of *bounds) { may = of.deleted })
	return may
}

// kept reports whether no order of a sale expires yet.
func (c *claims) kept(sale int, now time.Time) (kept bool) {
	c.about(sale, func(of *bounds) { kept = of.keptUntil.After(now) })
	return kept
}
