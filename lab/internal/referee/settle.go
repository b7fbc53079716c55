package referee

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// settle waits for the orders. They have settled when no promise is missing and
// they stand still for Quiet. A claim that is still missing when they have stood still for
// Settle is lost: then the last reading is the one that is judged.
func (c *crowd) settle(ctx context.Context) ([]Order, error) {
	var last []Order
	begin := time.Now()
	changed, read := begin, time.Time{} // last change, last reading; zero: the last one failed
	answered := begin
	var failed error
	for {
		orders, err := c.read(ctx)
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return nil, errInterrupted
		case err != nil:
			failed, read = err, time.Time{}
			if now.Sub(answered) >= c.t.Settle {
				return nil, fmt.Errorf("the orders cannot be listed: %w", failed)
			}
		default:
			if read.IsZero() || !slices.Equal(orders, last) {
				changed = now // after a failure, too: the shop was away and could do nothing
			}
			last, read, answered = orders, now, now
			missing := c.missing(orders)
			c.t.Progress("settle", len(orders), len(orders)+missing)
			still := now.Sub(changed)
			if missing == 0 && still >= c.t.Quiet || still >= c.t.Settle {
				return orders, nil
			}
		}
		if now.Sub(begin) >= 20*c.t.Settle {
			return nil, errors.New("the orders never stand still")
		}
		sleep(ctx, min(c.t.Quiet/4, 500*time.Millisecond))
	}
}

// read lists the orders in an order of its own.
func (c *crowd) read(ctx context.Context) ([]Order, error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.t.Settle, c.t.Timeout))
	defer cancel()
	orders, err := c.sys.Orders(ctx)
	slices.SortFunc(orders, func(a, b Order) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Buyer, b.Buyer))
	})
	return orders, err
}

// missing counts the buyers who were promised a unit and have no order.
func (c *crowd) missing(orders []Order) int {
	missing := 0
	served := c.served(orders)
	for buyer, heard := range c.heard() {
		if heard.promised && len(served[buyer]) == 0 {
			missing++
		}
	}
	return missing
}

// comeBack lets buyers who were refused as sold out ask for the units that are
// left, if any are. A shop may notice only after some time that units are left,
// so they ask again and again until it has sold nothing for Settle. Those of the
// last round who are refused as sold out once more are what it undersold.
func (c *crowd) comeBack(ctx context.Context, orders []Order) ([]Order, error) {
	r := c.random(3)
	begin, sold, pause := time.Now(), time.Now(), c.t.Quiet/2
	for n := 3; ; n++ {
		left, waiting := c.t.Units-len(orders), c.waiting(orders)
		if left <= 0 || len(waiting) == 0 {
			c.denied = nil
			return orders, nil
		}
		r.Shuffle(len(waiting), func(i, j int) { waiting[i], waiting[j] = waiting[j], waiting[i] })
		var attempts []*attempt
		for _, buyer := range waiting[:min(left, len(waiting))] {
			attempts = append(attempts, &attempt{buyer: buyer, key: c.key(buyer, n)})
		}
		c.promises = make(chan struct{}, len(attempts))
		c.hopeless.Store(false)
		c.run(ctx, "come back", attempts)
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		c.attempts = append(c.attempts, attempts...)
		c.denied = nil
		decided, open := false, false
		for _, a := range attempts {
			decided = decided || a.promised || a.soldOut || a.refused
			open = open || a.promised || a.unknown
			if a.soldOut {
				c.denied = append(c.denied, a.buyer)
			}
		}
		if open {
			var err error
			if orders, err = c.settle(ctx); err != nil {
				return nil, err
			}
		} else if late, err := c.read(ctx); err == nil { // of buyers who heard nothing
			orders = late
		}
		if len(c.promises) > 0 {
			sold = time.Now()
		}
		switch lossy := c.missing(orders) > 0; {
		case time.Since(sold) >= c.t.Settle && !decided:
			return nil, fmt.Errorf("%d units are left, and the shop no longer decides; the answers: %s",
				left, tallied(c.tally))
		case time.Since(sold) >= c.t.Settle, lossy && time.Since(begin) >= 3*c.t.Settle:
			return orders, nil
		}
		sleep(ctx, pause)
		pause = min(2*pause, 5*time.Second)
	}
}
