package settle

import (
	"context"
	"errors"

	"github.com/sluicehq/sluice"
)

// repair does what is safe, the most certain first: the store's counter must be
// right before orders are stored.
func (c *comparison) repair(ctx context.Context) error {
	c.complete = true
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
		stored, err := c.store.Insert(ctx, c.sale, []sluice.Entry{restored(r)})
		var conflict *sluice.ConflictError
		switch {
		case errors.As(err, &conflict):
			c.unrestorable(r.Order, conflict.Error())
		case errors.Is(err, sluice.ErrStaleEpoch):
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
func restored(r *sluice.Record) sluice.Entry {
	return sluice.Entry{
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

// fence stops a sale of which the ledger holds something wrong; its rebuild
// loads what the store has.
func (c *comparison) fence(ctx context.Context) error {
	if c.why == "" {
		return nil
	}
	if err := current(ctx, c.ledger, c.sale); err != nil {
		return err
	}
	reason := sluice.FenceLost + ": " + c.why
	if err := c.store.FenceSale(ctx, c.sale, c.First.Epoch, reason); err != nil {
		return err
	}
	err := c.ledger.Fence(ctx, c.sale, c.First.Epoch, reason)
	if errors.Is(err, sluice.ErrStaleEpoch) {
		return errMoved
	}
	if err == nil {
		for class, n := range c.blamed {
			c.report.Of(class).Repaired += n
		}
	}
	return err
}
