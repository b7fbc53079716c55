package world

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// claims is what clients were told.
type claims struct {
	mu       sync.Mutex
	promised map[string]promise // by buyer and key
	latest   map[sluice.BuyerID]sluice.OrderID
	paid     map[sluice.OrderID]bool
	over     map[sluice.OrderID]sluice.Status // endings that were answered with success
	raised   int64                            // by how much the total was raised at most
	answered int
	wrong    []string
}

type promise struct {
	order    sluice.OrderID
	buyer    sluice.BuyerID
	quantity int64
}

func newClaims() claims {
	return claims{
		promised: map[string]promise{}, latest: map[sluice.BuyerID]sluice.OrderID{},
		paid: map[sluice.OrderID]bool{}, over: map[sluice.OrderID]sluice.Status{},
	}
}

func (c *claims) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// answer notes an answer to a claim.
func (c *claims) answer(buyer sluice.BuyerID, a *Act, status int, code string, order sluice.OrderID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status != 0 {
		c.answered++
	}
	key := fmt.Sprint(buyer, "/", a.Key)
	before, known := c.promised[key]
	switch {
	case status == 202 && known && (before.order != order || before.quantity != a.N):
		c.wrong = append(c.wrong, fmt.Sprintf("%s was promised %s for %d, and now %s for %d (I4)", key, before.order,
			before.quantity, order, a.N))
	case status == 202:
		c.promised[key] = promise{order, buyer, a.N}
		c.latest[buyer] = order
	case known && before.quantity == a.N && status >= 400 && status < 500 && status != 429:
		c.wrong = append(c.wrong, fmt.Sprintf("%s was promised %s, and its repeat gets %d %s (I4)", key, before.order, status,
			code))
	}
}

func (c *claims) last(buyer sluice.BuyerID) sluice.OrderID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest[buyer]
}

// settled notes an answer to the shop.
func (c *claims) settled(order sluice.OrderID, did string, status sluice.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if did == "pay" && status == sluice.Paid {
		c.paid[order] = true
	}
	if !status.Live() {
		c.over[order] = status
	}
}

func (c *claims) restocked(delta int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delta > 0 { // also if nobody knows whether it was
		c.raised += delta
	}
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
	if sale.Fence != "" || sale.Backlog != 0 || sale.Taken != sale.StoredTaken || sale.State == sluice.StateUnavailable {
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
	w.judgePromises(orders)
	w.judgeUnits(orders, &sale)
	w.judgeFeed(ctx, s, orders)
	if report, err := s.admin.Audit(ctx, saleID); err != nil || !report.OK {
		c.complain("the audit at rest: %+v, %v", report.Checks, err)
	}
	if ready, err := s.admin.Ready(ctx); err != nil {
		c.complain("readiness at rest: %+v, %v", ready, err)
	}
	return c.wrong
}

// judgePromises: each order that was promised is there, once, and as it was promised (I4, I5);
// what was answered about it still holds (I3).
func (w *world) judgePromises(orders map[sluice.OrderID]api.Order) {
	c := &w.claims
	for key, p := range c.promised {
		o, there := orders[p.order]
		switch {
		case !there:
			c.complain("%s was promised %s, which is gone", key, p.order)
		case o.BuyerID != p.buyer || o.Quantity != p.quantity:
			c.complain("%s was promised %s for %d, which is %s's, for %d", key, p.order, p.quantity, o.BuyerID, o.Quantity)
		case o.Status == sluice.Rejected && o.Reason == sluice.NotCovered:
			c.complain("%s was promised %s, which is not covered", key, p.order)
		case o.Status == sluice.Queued, o.Status == sluice.Pending:
			c.complain("%s of %s is %s at rest", p.order, key, o.Status)
		}
	}
	for id := range c.paid {
		if o := orders[id]; o.Status != sluice.Paid && o.Status != sluice.Refunded {
			c.complain("%s was paid, and is %s (I3)", id, o.Status)
		}
	}
	for id, was := range c.over {
		paidLate := []sluice.Status{sluice.RefundDue, sluice.Refunded}
		if o := orders[id]; o.Status != was && !slices.Contains(paidLate, o.Status) {
			c.complain("%s was %s, and is %s (I3)", id, was, o.Status)
		}
	}
}

// judgeUnits: what is held is covered (I1), and no buyer has more than they may (I2).
func (w *world) judgeUnits(orders map[sluice.OrderID]api.Order, sale *api.AdminSale) {
	c := &w.claims
	var units int64
	of := map[sluice.BuyerID]int64{}
	for _, o := range orders {
		if o.Status.Live() {
			units += o.Quantity
			of[o.BuyerID] += o.Quantity
		}
	}
	if units > *sale.Total || units != sale.Taken {
		c.complain("orders hold %d units of %d, the ledger says %d (I1)", units, *sale.Total, sale.Taken)
	}
	for buyer, n := range of {
		if n > w.plan.MaxPerBuyer {
			c.complain("%s holds %d units of at most %d (I2)", buyer, n, w.plan.MaxPerBuyer)
		}
	}
}

// judgeFeed: the feed has no gap, each order's events are in order, and no moment of it shows
// more units held than there ever were.
func (w *world) judgeFeed(ctx context.Context, s *server, orders map[sluice.OrderID]api.Order) {
	c := &w.claims
	status := map[sluice.OrderID]sluice.Status{}
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
			o := e.Data.Order
			if o == nil || e.Type == sluice.EventPaymentRefused || e.Type == sluice.EventOrderExtended {
				continue
			}
			was := status[o.OrderID]
			if !follows(was, o.Status) {
				c.complain("%s: the feed has %s after %q", o.OrderID, o.Status, was)
			}
			if o.Status.Live() && was == "" {
				held += o.Quantity
			} else if !o.Status.Live() && was.Live() {
				held -= o.Quantity
			}
			status[o.OrderID] = o.Status
			if most := w.plan.Total + c.raised; held > most {
				c.complain("after event %d the feed has %d units held, of %d at most (I1)", seq, held, most)
			}
		}
		if after = page.Next; len(page.Events) == 0 {
			break
		}
	}
	for id, o := range orders {
		if status[id] != o.Status {
			c.complain("%s is %s, and in the feed %q", id, o.Status, status[id])
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
