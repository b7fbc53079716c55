package world

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
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

func (c *claims) recovered(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keptUntil = until
	c.pausedAt = time.Time{}
}

// judge compares what is at rest with what clients were told.
func (w *world) judge(ctx context.Context) []string {
	c := &w.claims
	s := w.live(0)
	if s == nil {
		return append(c.wrong, "no server lives")
	}
	sale, err := s.admin.AdminSale(ctx, saleID)
	if err != nil {
		return append(c.wrong, fmt.Sprintf("the sale at rest: %v", err))
	}
	archived := sale.ArchivedAt != nil // the ledger has forgotten it
	if !archived && (sale.Fence != "" || sale.Backlog != 0 || sale.Taken != sale.StoredTaken ||
		sale.State == sluice.StateUnavailable) {
		c.complain("at rest the sale is %s, fence %q, backlog %d, taken %d by the ledger and %d by the store", sale.State,
			sale.Fence, sale.Backlog, sale.Taken, sale.StoredTaken)
	}
	orders := map[sluice.OrderID]api.Order{}
	for order, err := range s.admin.AllAdminOrders(ctx, sluice.OrderFilter{Sale: saleID}) {
		if err != nil {
			c.complain("the orders at rest: %v", err)
			break
		}
		orders[order.OrderID] = order
	}
	w.judgeSelling(ctx, s, &sale)
	w.judgeRepeats()
	w.judgePromises(orders)
	w.judgeUnits(orders, &sale)
	w.judgeOrders(orders)
	w.judgeFeed(ctx, s, orders)
	w.judgeWebhook()
	if report, err := s.admin.Audit(ctx, saleID); err != nil || !report.OK {
		c.complain("the audit at rest: %+v, %v", report.Checks, err)
	}
	if ready, err := s.admin.Ready(ctx); err != nil {
		c.complain("readiness at rest: %+v, %v", ready, err)
	}
	return c.wrong
}

// judgeSelling: what is left at rest can be bought (I7).
func (w *world) judgeSelling(ctx context.Context, s *server, sale *api.AdminSale) {
	if sale.State != sluice.StateOpen || sale.Available == nil || *sale.Available == 0 {
		return
	}
	for range 5 {
		status, reply := w.ask(s, http.MethodPost, "/v1/sales/"+string(saleID)+"/orders", "the-last-buyer", "attempt-1",
			`{"quantity":1}`)
		if w.tell("the last buyer: %d %s", status, reply); status == 202 {
			time.Sleep(time.Minute) // until a webhook is tried again
			return
		}
		time.Sleep(time.Second)
	}
	w.claims.complain("at rest %d units are available, and nobody can buy one (I7)", *sale.Available)
}

// judgeRepeats: who asks again at rest hears the same (I4), also of a sale that is over or archived.
func (w *world) judgeRepeats() {
	c := &w.claims
	tries := slices.SortedFunc(maps.Keys(c.promised), func(a, b attempt) int {
		return cmp.Or(cmp.Compare(a.buyer, b.buyer), cmp.Compare(a.key, b.key))
	})
	for _, try := range tries[:min(len(tries), 10)] {
		number, err := strconv.Atoi(strings.TrimPrefix(string(try.buyer), "buyer-"))
		if err != nil {
			panic(err)
		}
		w.claim(&Act{Do: "claim", Buyer: number, Key: try.key, N: c.promised[try].quantity})
	}
}

// judgePromises: each order that was promised is there, once, and as it was promised (I4, I5);
// what was answered about it still holds (I3).
func (w *world) judgePromises(orders map[sluice.OrderID]api.Order) {
	c := &w.claims
	kept := c.keptUntil.After(w.storeClock.now())
	for try, p := range c.promised {
		o, there := orders[p.order]
		switch {
		case !there || o.Status == sluice.Rejected && o.Reason == sluice.NotCovered:
			if !c.excused(&p) {
				c.complain("%v was promised %s, which is gone: %q", try, p.order, o.Reason)
			}
		case o.BuyerID != try.buyer || o.Quantity != p.quantity:
			c.complain("%v was promised %s for %d, which is %s's, for %d", try, p.order, p.quantity, o.BuyerID, o.Quantity)
		case o.Status == sluice.Queued, o.Status == sluice.Pending && !kept:
			c.complain("%s of %v is %s at rest", p.order, try, o.Status)
		}
	}
	for id := range c.paid {
		o, there := orders[id]
		if there && o.Status != sluice.Paid && o.Status != sluice.Refunded && (!c.restored || o.Status != sluice.RefundDue) {
			c.complain("%s was paid, and is %s (I3)", id, o.Status)
		}
	}
	for id, was := range c.over {
		late := []sluice.Status{was, sluice.RefundDue, sluice.Refunded}
		if o, there := orders[id]; there && !slices.Contains(late, o.Status) && !c.restored {
			c.complain("%s was %s, and is %s (I3)", id, was, o.Status)
		}
	}
}

// judgeUnits: what is held is covered (I1).
func (w *world) judgeUnits(orders map[sluice.OrderID]api.Order, sale *api.AdminSale) {
	var units int64
	for _, o := range orders {
		if o.Status.Live() {
			units += o.Quantity
		}
	}
	if units > *sale.Total || units != sale.Taken && sale.ArchivedAt == nil {
		w.claims.complain("orders hold %d units of %d, the ledger says %d (I1)", units, *sale.Total, sale.Taken)
	}
}

// judgeOrders: each was accepted in the window by the ledger's clock (I8), no buyer has too many (I3), and none
// expired before its time.
func (w *world) judgeOrders(orders map[sluice.OrderID]api.Order) {
	c := &w.claims
	of := map[sluice.BuyerID]int64{}
	for id, o := range orders {
		of[o.BuyerID]++
		at := o.AcceptedAt.Sub(w.begins.Truncate(time.Millisecond))
		if at < opens || w.plan.Closes > 0 && at >= w.plan.Closes {
			c.complain("%s was accepted at %v, in a sale from %v to %v (I8)", id, at, opens, w.plan.Closes)
		}
		if o.Status == sluice.Expired && o.UpdatedAt.Before(o.KeepUntil.Time) {
			c.complain("%s expired at %v, and is kept until %v", id, o.UpdatedAt, o.KeepUntil)
		}
	}
	for buyer, n := range of {
		if most := w.plan.MaxOrders; most > 0 && n > most {
			c.complain("%s has %d orders of at most %d (I3)", buyer, n, most)
		}
	}
}

// judgeFeed: the feed has no gap, each order's events are in order, and no moment of it shows
// more units held than there ever were.
func (w *world) judgeFeed(ctx context.Context, s *server, orders map[sluice.OrderID]api.Order) {
	c := &w.claims
	status := map[sluice.OrderID]sluice.Status{}
	of := map[sluice.BuyerID]int64{} // units held
	var seq, held int64
	after := ""
	for {
		page, err := s.admin.Events(ctx, after, 1000)
		if err != nil {
			c.complain("the feed: %v", err)
			return
		}
		for i := range page.Events {
			e := &page.Events[i]
			if seq++; e.Seq != seq {
				c.complain("event %d of the feed has the number %d", seq, e.Seq)
			}
			c.event(e)
			o := e.Data.Order
			if o == nil || e.Type == sluice.EventPaymentRefused || e.Type == sluice.EventOrderExtended {
				continue
			}
			was := status[o.OrderID]
			if !follows(was, o.Status) {
				c.complain("%s: the feed has %s after %q", o.OrderID, o.Status, was)
			}
			if o.Status.Live() && was == "" {
				held, of[o.BuyerID] = held+o.Quantity, of[o.BuyerID]+o.Quantity
			} else if !o.Status.Live() && was.Live() {
				held, of[o.BuyerID] = held-o.Quantity, of[o.BuyerID]-o.Quantity
			}
			status[o.OrderID] = o.Status
			if (held > c.highest || of[o.BuyerID] > c.limit) && !c.restored { // a recovery stores what has ended, too
				c.complain("after event %d of the feed %d units are held, of %d at most (I1), and %d by %s, of %d (I3)", seq, held,
					c.highest, of[o.BuyerID], o.BuyerID, c.limit)
			}
		}
		if after = page.Next; len(page.Events) == 0 {
			break
		}
	}
	if len(c.events) > int(seq) && !c.restored {
		c.complain("the feed has %d events at rest, and its reader was given %d", seq, len(c.events))
	}
	for id, o := range orders {
		if status[id] != o.Status {
			c.complain("%s is %s, and in the feed %q", id, o.Status, status[id])
		}
	}
}

// judgeWebhook: each event of the feed has reached the receiver, those of one order in order.
func (w *world) judgeWebhook() {
	c := &w.claims
	if !w.hooked || c.restored {
		return
	}
	got := w.receiver.events()
	came := map[int64]bool{}
	last := map[sluice.OrderID]int64{}
	for i := range got {
		e := &got[i]
		o := e.Data.Order
		if o != nil && !came[e.Seq] && e.Seq < last[o.OrderID] {
			c.complain("event %d of %s reaches the webhook after event %d", e.Seq, o.OrderID, last[o.OrderID])
		}
		if came[e.Seq] = true; o != nil {
			last[o.OrderID] = max(last[o.OrderID], e.Seq)
		}
	}
	for seq, said := range c.events {
		if !came[seq] && strings.HasPrefix(said, "order.") { // the sale is older than the webhook
			c.complain("event %d, %s, has not reached the webhook", seq, said)
		}
	}
}

// follows says which status an order may have after another.
func follows(was, is sluice.Status) bool {
	switch was {
	case "":
		return is == sluice.Pending || is == sluice.Rejected || is == sluice.Cancelled
	case sluice.Pending:
		return is == sluice.Paid || is == sluice.Cancelled || is == sluice.Expired || is == sluice.Rejected
	case sluice.Paid:
		return is == sluice.Refunded
	case sluice.Cancelled, sluice.Expired, sluice.Rejected:
		return is == sluice.RefundDue
	case sluice.RefundDue:
		return is == sluice.Refunded
	}
	return false
}
