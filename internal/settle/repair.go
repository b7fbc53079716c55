package settle

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// repair does what is safe, the most certain first: the store's counter must be
// right before orders are stored.
func (c *comparison) repair(ctx context.Context) error {
	c.complete = true
	if c.storeOlder != "" { // nothing is stored beside what a recovery stores
		return c.fence(ctx)
	}
	if c.recount {
		before, after, err := c.store.RecountTaken(ctx, c.sale)
		if err != nil {
			return err
		}
		drift := c.report.Of(sluice.Drift)
		drift.Repaired++
		note(drift, "the store's taken was %d, and is %d", before, after)
	}
	for _, id := range c.reissue {
		written, err := c.store.ReissueRelease(ctx, id, c.First.Epoch)
		if err != nil {
			return err
		}
		if written {
			c.report.Of(sluice.LostRelease).Repaired++
		}
	}
	if err := c.restoreOrders(ctx); err != nil {
		return err
	}
	return c.fence(ctx)
}

// restoreOrders stores lost orders from the ledger's records, each once (I5).
// One that the cap does not cover is left as it is: storing it would refuse it.
func (c *comparison) restoreOrders(ctx context.Context) error {
	for i := range c.restore {
		r := &c.restore[i]
		sale, err := c.store.Sale(ctx, c.sale)
		if err != nil {
			return err
		}
		if sale.Epoch != c.First.Epoch || sale.Fence != "" {
			return errMoved
		}
		// After the row, which would count it: another reconciliation may have stored it.
		if _, err := c.store.Order(ctx, r.Order); !errors.Is(err, sluice.ErrOrderNotFound) {
			if err != nil {
				return err
			}
			c.report.Of(sluice.LostOrder).Repaired++
			continue
		}
		if sale.Cap != sluice.Unlimited && sale.Taken+r.Quantity > sale.Cap {
			c.unrestorable(r.Order, "the cap does not cover it")
			continue
		}
		stored, err := c.store.Insert(ctx, c.sale, []port.Entry{restored(r)})
		var conflict *port.ConflictError
		switch {
		case errors.As(err, &conflict):
			c.unrestorable(r.Order, conflict.Error())
		case errors.Is(err, port.ErrStaleEpoch):
			return errMoved
		case err != nil:
			return err
		case len(stored.Rejected) > 0:
			c.unrestorable(r.Order, "the cap did not cover it")
		default:
			c.report.Of(sluice.LostOrder).Repaired++
		}
	}
	return nil
}

// restored is the journal entry that a record once was a part of.
func restored(r *port.Record) port.Entry {
	return port.Entry{
		ID: "reconcile/" + string(r.Order), Sale: r.Sale, Epoch: r.Epoch, Terms: r.Terms, At: r.At,
		FirstSeq: r.Seq, Claims: []sluice.Claim{r.Claim},
	}
}

// unrestorable makes an orphan hold of a lost order.
func (c *comparison) unrestorable(order sluice.OrderID, why string) {
	lost := c.report.Of(sluice.LostOrder)
	lost.Count--
	for i, id := range lost.Orders {
		if id == order {
			lost.Orders = append(lost.Orders[:i], lost.Orders[i+1:]...)
			break
		}
	}
	c.blame(sluice.OrphanHold, order, "%s: %s", order, why)
}

// fence stops a sale of which the ledger holds something wrong: its rebuild loads what the
// store has. If the store is older than its ledger, it stops the sale for a person.
func (c *comparison) fence(ctx context.Context) error {
	if c.why == "" && c.storeOlder == "" {
		return nil
	}
	sale, err := c.store.Sale(ctx, c.sale)
	switch {
	case err != nil:
		return err
	case sale.Epoch != c.First.Epoch:
		return errMoved
	case c.storeOlder != "":
		return c.loader.fenceOlder(ctx, &sale, &c.First, c.storeOlder)
	}
	if err := c.loader.lost(ctx, &sale, &c.First, c.why); err != nil {
		return err
	}
	for class, n := range c.blamed {
		c.report.Of(class).Repaired += n
	}
	return nil
}
