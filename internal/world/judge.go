package world

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// judge compares what is at rest with what clients were told.
func (w *world) judge(ctx context.Context) []string {
	c := w.claims
	s := w.live(0)
	if s == nil {
		return append(c.wrong, "no server lives")
	}
	orders := map[sluice.OrderID]api.Order{}
	for n := range w.plan.Sales {
		w.judgeSelling(ctx, s, n)
	}
	w.judgeRepeats()
	w.settle(ctx)
	for n := range w.plan.Sales {
		w.judgeSale(ctx, s, n, orders)
	}
	w.judgePromises(orders)
	w.judgeOrders(orders)
	w.judgeFeed(ctx, s, orders)
	w.judgeWebhook(ctx, s)
	return c.wrong
}

// judgeSale judges one sale, and collects its orders: what they hold is covered (I1), and the audit has nothing to
// say.
func (w *world) judgeSale(ctx context.Context, s *server, n int, orders map[sluice.OrderID]api.Order) {
	c := w.claims
	id := w.plan.Sales[n].ID
	sale, err := s.admin.AdminSale(ctx, id)
	if err != nil {
		if client.CodeOf(err) != sluice.SaleNotFound.String() || !c.mayLack(n) {
			c.complain("%s at rest: %v", id, err)
		}
		return
	}
	if !c.total(n, *sale.Total-w.plan.Sales[n].Total) {
		c.complain("%s has %d units, which is not what was asked for: %+v", id, *sale.Total, c.of[n])
	}
	var units int64
	for order, err := range s.admin.AllAdminOrders(ctx, sluice.OrderFilter{Sale: id}) {
		if err != nil {
			c.complain("the orders of %s at rest: %v", id, err)
			break
		}
		if orders[order.OrderID] = order; order.Status.Live() {
			units += order.Quantity
		}
	}
	if units > *sale.Total || units != sale.Taken && sale.ArchivedAt == nil {
		c.complain("orders hold %d units of %d of %s, the ledger says %d (I1)", units, *sale.Total, id, sale.Taken)
	}
	// What is lost and had to be is listed in a dead letter, without an order, or as not_covered.
	report, err := s.admin.Audit(ctx, id)
	if err != nil || !report.OK && slices.ContainsFunc(report.Checks, func(check sluice.AuditCheck) bool {
		return !check.OK && (check.ID != "I1" && check.ID != "I5" || !c.lacks(n, orders))
	}) {
		c.complain("the audit of %s at rest: %+v, %v", id, report.Checks, err)
	}
}

// judgeSelling: what is left at rest can be bought (I7).
func (w *world) judgeSelling(ctx context.Context, s *server, n int) {
	id := w.plan.Sales[n].ID
	sale, err := s.admin.AdminSale(ctx, id)
	if err != nil || sale.State != sluice.StateOpen || sale.Available == nil || *sale.Available == 0 {
		return
	}
	last := Act{Do: "claim", Sale: n, Key: 1, N: 1} // by buyer-0, who has not claimed before
	for range 3 {
		w.claim(&last)
		if order := w.claims.last(&last); order != "" {
			time.Sleep(3 * time.Second)
			w.settleOrder(ctx, &Act{Do: "pay", Sale: n}, order)
			return
		}
		time.Sleep(time.Second)
	}
	w.claims.complain("at rest %d units of %s are available, and a new buyer gets none (I7)", *sale.Available, id)
}

// judgeRepeats: who asks again at rest hears the same (I4), also of a sale that is over or archived.
func (w *world) judgeRepeats() {
	c := w.claims
	tries := slices.SortedFunc(maps.Keys(c.promised), func(a, b attempt) int {
		return cmp.Or(cmp.Compare(a.sale, b.sale), cmp.Compare(a.buyer, b.buyer), cmp.Compare(a.key, b.key))
	})
	for i, try := range tries {
		if i%max(len(tries)/10, 1) > 0 || c.strange[try.buyer] {
			continue
		}
		number, err := strconv.Atoi(strings.TrimPrefix(string(try.buyer), "buyer-"))
		if err != nil {
			panic(err)
		}
		again := Act{Do: "claim", Server: i, Sale: try.sale, Buyer: number, Key: try.key, N: c.promised[try].quantity}
		if !w.claim(&again) {
			c.complain("at rest %v asks again, and gets no answer (I4)", try)
		}
	}
}

// judgePromises: each order that was promised is there, once, and as it was promised (I4, I5);
// what was answered about it still holds (I3).
func (w *world) judgePromises(orders map[sluice.OrderID]api.Order) {
	c := w.claims
	for try, p := range c.promised {
		o, there := orders[p.order]
		switch kept := c.kept(try.sale, w.storeClock.now()); {
		case !there || o.Status == sluice.Rejected && o.Reason == sluice.NotCovered:
			if !c.excused(try, &p) {
				c.complain("%v was promised %s, which is gone: %q", try, p.order, o.Reason)
			}
		case o.BuyerID != try.buyer && !c.strange[try.buyer] || o.Quantity != p.quantity:
			c.complain("%v was promised %s for %d, which is %s's, for %d", try, p.order, p.quantity, o.BuyerID, o.Quantity)
		case o.Status == sluice.Queued, o.Status == sluice.Pending && !kept:
			c.complain("%s of %v is %s at rest", p.order, try, o.Status)
		}
	}
	for id, o := range orders {
		if o.Status == sluice.Refunded && !c.refunded[id] {
			c.complain("%s is refunded, and the shop has not given the money back", id)
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

// judgeOrders: each was accepted in the window by the ledger's clock (I8), no buyer has too many (I3), and none
// expired before its time.
func (w *world) judgeOrders(orders map[sluice.OrderID]api.Order) {
	c := w.claims
	of := map[attempt]int64{}
	for id, o := range orders {
		sale := w.number(o.SaleID)
		of[attempt{sale: sale, buyer: o.BuyerID}]++
		at := o.AcceptedAt.Sub(w.begins.Truncate(time.Millisecond))
		opens, closes := c.of[sale].first, w.plan.Sales[sale].Closes
		if o.AcceptedAt.After(c.of[sale].postponed) { // before, it may have been open
			opens = c.of[sale].opens
		}
		if at < opens || closes > 0 && at >= closes {
			c.complain("%s was accepted at %v, in a sale from %v to %v (I8)", id, at, opens, closes)
		}
		if o.Status == sluice.Expired && o.UpdatedAt.Before(o.KeepUntil.Time) {
			c.complain("%s expired at %v, and is kept until %v", id, o.UpdatedAt, o.KeepUntil)
		}
	}
	for who, n := range of {
		if most := w.plan.Sales[who.sale].MaxOrders; most > 0 && n > most {
			c.complain("%s has %d orders of at most %d (I3)", who.buyer, n, most)
		}
	}
}

// number returns the place of a sale in the plan.
func (w *world) number(id sluice.SaleID) int {
	return slices.IndexFunc(w.plan.Sales, func(t Terms) bool { return t.ID == id })
}

// judgeFeed: the feed has no gap, each order's events are in order, and no moment of it shows
// more units held than there ever were.
func (w *world) judgeFeed(ctx context.Context, s *server, orders map[sluice.OrderID]api.Order) {
	c := w.claims
	status := map[sluice.OrderID]sluice.Status{}
	held := map[attempt]int64{} // units, of each buyer and household, and of all with the buyer ""
	var seq int64
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
			// A recovery does not know whether the payment of what has ended was given back.
			unknown := was == sluice.Paid && o.Status == sluice.RefundDue && c.restored
			if !follows(was, o.Status) && !unknown {
				c.complain("%s: the feed has %s after %q", o.OrderID, o.Status, was)
			}
			sale := w.number(o.SaleID)
			all, own := attempt{sale: sale}, attempt{sale: sale, buyer: o.BuyerID}
			home := attempt{sale: sale, buyer: sluice.BuyerID(household(o.BuyerID))}
			units := int64(0)
			if o.Status.Live() && was == "" {
				units = o.Quantity
			} else if !o.Status.Live() && was.Live() {
				units = -o.Quantity
			}
			held[all], held[own] = held[all]+units, held[own]+units
			if home != own {
				held[home] += units
			}
			status[o.OrderID] = o.Status
			most := c.of[sale]
			if limit := w.plan.Sales[sale].Household; limit > 0 && held[home] > limit && !c.restored {
				c.complain("after event %d of the feed %d units of %s are held in %s, of %d (I3)", seq, held[home], o.SaleID,
					home.buyer, limit)
			}
			if (held[all] > most.highest || held[own] > most.limit) && !c.restored { // a recovery stores what has ended, too
				c.complain("after event %d of the feed %d units of %s are held, of %d at most (I1), and %d by %s, of %d (I3)", seq,
					held[all], o.SaleID, most.highest, held[own], o.BuyerID, most.limit)
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
		fresh := o.UpdatedAt != nil && w.storeClock.now().Sub(o.UpdatedAt.Time) < numbered
		if status[id] != o.Status && !fresh {
			c.complain("%s is %s, and in the feed %q", id, o.Status, status[id])
		}
	}
}

// numbered is how long a change of an order may not be in the feed yet.
const numbered = 2 * time.Second

// judgeWebhook: each event of the feed has reached the receiver, those of one order in order.
func (w *world) judgeWebhook(ctx context.Context, s *server) {
	c := w.claims
	if c.restored {
		return
	}
	latest := time.Now().Add(settles)
	for hooks := []api.Webhook{{Behind: 1}}; len(hooks) > 0 && hooks[0].Behind+hooks[0].Pending > 0; {
		if time.Now().After(latest) {
			c.complain("%v after the last fault the webhook waits: %+v", settles, hooks)
			break
		}
		time.Sleep(time.Second)
		hooks, _ = s.admin.Webhooks(ctx)
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
