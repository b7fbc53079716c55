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
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// judge compares what is at rest with what clients were told.
func (w *world) judge(ctx context.Context) []string {
	c := &w.claims
	s := w.live(0)
	if s == nil {
		return append(c.wrong, "no server lives")
	}
	w.judgeSelling(ctx, s)
	sale, err := s.admin.AdminSale(ctx, saleID)
	if err != nil {
		return append(c.wrong, fmt.Sprintf("the sale at rest: %v", err))
	}
	orders := map[sluice.OrderID]api.Order{}
	for order, err := range s.admin.AllAdminOrders(ctx, sluice.OrderFilter{Sale: saleID}) {
		if err != nil {
			c.complain("the orders at rest: %v", err)
			break
		}
		orders[order.OrderID] = order
	}
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
func (w *world) judgeSelling(ctx context.Context, s *server) {
	sale, err := s.admin.AdminSale(ctx, saleID)
	if err != nil || sale.State != sluice.StateOpen || sale.Available == nil || *sale.Available == 0 {
		return
	}
	for range 5 {
		status, reply := w.ask(s, http.MethodPost, "/v1/sales/"+string(saleID)+"/orders", "the-last-buyer", "attempt-1",
			`{"quantity":1}`)
		if w.tell("the last buyer: %d %s", status, reply); status == 202 {
			w.settle(ctx)
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
	kept := c.kept(w.storeClock.now())
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
	if c.restored {
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
