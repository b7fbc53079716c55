package settle

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/lock"
)

// Orders that another system has sold go into the store, and the ledger learns of them
// as it learns of all that is stored: by a load. Until then the sale is fenced, in the
// ledger before the first order is stored, in the store with it. And it is paused, so
// that one half of a file is never taken for the whole: a server that dies on the way
// leaves a sale that is paused, and that any server loads with what is stored.

const (
	importing   = 10 * time.Minute
	importBatch = 1000 // orders of one transaction
	importFence = "earlier orders are imported"
)

// Import implements sluice.Control.
func (c *Control) Import(ctx context.Context, id sluice.SaleID, orders []sluice.EarlierOrder) (
	done sluice.Imported, err error,
) {
	wrong := &sluice.ImportError{}
	line := make(map[sluice.OrderID]int, len(orders)) // of the first order with this id
	for i := range orders {
		o := &orders[i]
		order := id.Order(o.Suffix(id))
		if first, twice := line[order]; twice {
			wrong.Add(o.Line, "the order id of line %d", first)
		}
		line[order] = o.Line
	}
	if err := wrong.OrNil(); err != nil {
		return done, err
	}
	allowed := func(s sluice.Sale, now time.Time) error {
		if s.Terms.Refusal(now.Add(margin)) != sluice.NotOpen {
			return &sluice.StateError{Sale: id, Detail: "earlier orders are imported before the sale opens"}
		}
		return nil
	}
	done.Sale, err = c.whileUnsold(ctx, id, importing, allowed,
		func(ctx context.Context, held int64, paused bool) (sluice.Sale, error) {
			sale, err := c.store.Sale(ctx, id)
			if err == nil && sale.Version != held {
				err = changedMeanwhile(id)
			}
			var more []sluice.EarlierOrder
			if err == nil {
				more, err = c.unknown(ctx, &sale, orders)
			}
			if err != nil {
				return sale, err
			}
			for i := range more {
				done.Units += more[i].Quantity
			}
			done.Orders, done.Before = int64(len(more)), int64(len(orders)-len(more))
			var late error
			if len(more) > 0 {
				late, err = c.bringIn(ctx, &sale, more)
			}
			if err != nil {
				return sale, err
			}
			// Whoever loads the sale from now on loads all of them.
			sale, err = c.change(ctx, id, func(s *sluice.Sale, _ time.Time) error {
				if s.Version == held {
					s.Paused = paused
				}
				return nil
			})
			if late != nil || err != nil {
				err = unfinished{&sluice.PendingError{Cause: errors.Join(late, err)}}
			}
			return sale, err
		})
	return done, err
}

// unknown returns the orders that the store does not have, if it can take all of them.
func (c *Control) unknown(ctx context.Context, sale *sluice.Sale, orders []sluice.EarlierOrder) (
	[]sluice.EarlierOrder, error,
) {
	wrong := &sluice.ImportError{Conflict: true}
	stored := map[sluice.OrderID]bool{}
	line := make(map[sluice.OrderID]*sluice.EarlierOrder, len(orders))
	for i := range orders {
		line[sale.ID.Order(orders[i].Suffix(sale.ID))] = &orders[i]
	}
	for filter := (sluice.OrderFilter{Sale: sale.ID, Limit: sluice.MaxPage}); ; {
		page, next, err := c.store.Orders(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page {
			o := line[page[i].ID]
			if o == nil {
				continue
			}
			if stored[page[i].ID] = true; o.Buyer != page[i].Buyer || o.Quantity != page[i].Quantity {
				wrong.Add(o.Line, "the order was imported before, with another buyer or quantity")
			}
		}
		if filter.Cursor = next; next == "" {
			break
		}
	}
	more := slices.DeleteFunc(slices.Clone(orders), func(o sluice.EarlierOrder) bool {
		return stored[sale.ID.Order(o.Suffix(sale.ID))]
	})
	left := sale.Cap - sale.Taken
	for i := range more {
		if sale.Cap == sluice.Unlimited {
			break
		}
		if left -= more[i].Quantity; left < 0 {
			wrong.Add(more[i].Line, "with this order more units are sold than the total of %d", sale.Cap)
			break
		}
	}
	return more, wrong.OrNil()
}

// bringIn stores orders of a sale that is paused, and loads it. An error says that some
// are not stored; late, that all are and the ledger does not have them yet. It holds the
// lease of rebuilds, since a sale that is fenced is rebuilt at once.
func (c *Control) bringIn(ctx context.Context, sale *sluice.Sale, orders []sluice.EarlierOrder) (late, err error) {
	locker := lock.Locker{Backend: c.store, TTL: leaseFor, Owner: rand.Text(), Patient: true}
	err = locker.Do(ctx, rebuildLease+string(sale.ID), func(ctx context.Context, _ int64) error {
		reading, err := c.fenced(ctx, sale)
		if err != nil {
			return err
		}
		stored := false
		for batch := range slices.Chunk(orders, importBatch) {
			err := c.store.Import(ctx, sluice.Import{
				Sale: sale.ID, Version: sale.Version, Epoch: sale.Epoch, At: reading.Now, Fence: importFence, Orders: batch,
			})
			if _, refused := errors.AsType[*sluice.StateError](err); refused && !stored {
				return err
			}
			if err != nil { // it may be stored all the same
				return unfinished{err}
			}
			stored = true
		}
		late = c.loader.Load(ctx, sale.ID)
		return nil
	})
	if errors.Is(err, lock.ErrHeld) {
		err = changedMeanwhile(sale.ID)
	}
	return late, err
}

// fenced fences a sale in the ledger, which has accepted nothing in its epoch.
func (c *Control) fenced(ctx context.Context, sale *sluice.Sale) (sluice.Reading, error) {
	err := current(ctx, c.ledger, sale.ID)
	if err == nil {
		err = c.ledger.Fence(ctx, sale.ID, sale.Epoch, importFence)
	}
	if err != nil {
		return sluice.Reading{}, err
	}
	reading, err := c.read(ctx, sale.ID)
	if err == nil && (reading.Epoch != sale.Epoch || reading.Fence != importFence || reading.Seq > 0) {
		err = changedMeanwhile(sale.ID)
	}
	return reading, err
}
