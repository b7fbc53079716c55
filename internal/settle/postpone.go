package settle

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/lock"
)

// The opening of a sale that has opened moves only while no claim was accepted. The
// ledger alone knows, so it is stopped before it is asked: paused, it accepts nothing
// more, and a claim that it accepted a moment earlier is among its records. What
// follows changes the very version of the terms that was paused, or nothing.

// errOpened: the edit moves the opening of a sale that has opened.
var errOpened = errors.New("settle: the sale has opened")

// deciding bounds what is done with a sale that is paused for it.
const deciding = 10 * time.Second

// postpone moves the opening of a sale that has opened, or does so in a moment.
func (c *Control) postpone(ctx context.Context, id sluice.SaleID, edit func(*sluice.Sale) error) (sluice.Sale, error) {
	apply := func(s *sluice.Sale, now time.Time) error {
		before := s.Terms
		if err := edit(s); err != nil {
			return err
		}
		if s.OpensAt.Before(now.Add(margin)) {
			return &sluice.StateError{Sale: id, Detail: "opens_at of a sale that has opened can only be moved to later"}
		}
		return fixed(s, &before)
	}
	return c.whileUnsold(ctx, id, func(sale sluice.Sale, now time.Time) error { return apply(&sale, now) },
		func(ctx context.Context, held int64, paused bool) (sluice.Sale, error) {
			return c.change(ctx, id, func(s *sluice.Sale, now time.Time) error {
				if s.Version != held {
					return changedMeanwhile(id)
				}
				s.Paused = paused
				return apply(s, now)
			})
		})
}

func changedMeanwhile(id sluice.SaleID) error {
	return &sluice.StateError{Sale: id, Detail: "it was changed at the same moment; look at it, and try again"}
}

// whileUnsold calls do while the sale is paused and no claim of it was ever accepted,
// with the version of the terms under which that holds, and whether an operator had
// paused it before. If one was accepted, or do fails, the pause is taken back. Allowed
// judges the sale first, before anything changes.
func (c *Control) whileUnsold(ctx context.Context, id sluice.SaleID,
	allowed func(sluice.Sale, time.Time) error,
	do func(ctx context.Context, held int64, paused bool) (sluice.Sale, error),
) (sluice.Sale, error) {
	if err := c.unsold(ctx, id); err != nil { // most are refused here, without a pause
		return sluice.Sale{}, err
	}
	// One at a time: a second postponement would mistake the first one's pause for one that an
	// operator has made, and keep it.
	locker := lock.Locker{Backend: c.store, TTL: 2 * deciding, Owner: rand.Text()}
	var sale sluice.Sale
	err := locker.Do(ctx, "unsold:"+string(id), func(ctx context.Context, _ int64) (err error) {
		sale, err = c.pausedFor(ctx, id, allowed, do)
		return err
	})
	if errors.Is(err, lock.ErrHeld) {
		err = &sluice.StateError{Sale: id, Detail: "another such change is going on, or broke off a moment ago; " +
			"try again in 20 seconds"}
	}
	return sale, err
}

func (c *Control) pausedFor(ctx context.Context, id sluice.SaleID,
	allowed func(sluice.Sale, time.Time) error,
	do func(ctx context.Context, held int64, paused bool) (sluice.Sale, error),
) (sluice.Sale, error) {
	paused := false
	held, err := c.change(ctx, id, func(s *sluice.Sale, now time.Time) error {
		paused, s.Paused = s.Paused, true
		return allowed(*s, now)
	})
	if held.Version == 0 {
		return held, err
	}
	// From here on it must be ended, also if the caller has left.
	ctx = context.WithoutCancel(ctx)
	doing, cancel := context.WithTimeout(ctx, deciding)
	defer cancel()
	if err == nil {
		err = c.unsold(doing, id)
	}
	if err == nil {
		var sale sluice.Sale
		if sale, err = do(doing, held.Version, paused); err == nil {
			return sale, nil
		}
	}
	if !paused {
		ctx, cancel := context.WithTimeout(ctx, deciding) // what took too long has left no time
		defer cancel()
		kept := false
		_, back := c.change(ctx, id, func(s *sluice.Sale, _ time.Time) error {
			// Another change may have been an operator's pause, and must stay one.
			if kept = s.Paused && s.Version != held.Version; !kept {
				s.Paused = false
			}
			return nil
		})
		if err = errors.Join(err, back); kept {
			err = stillPaused(id, err)
		}
	}
	return sluice.Sale{}, err
}

// stillPaused says that the pause of a change that failed is there yet.
func stillPaused(id sluice.SaleID, err error) error {
	why := err.Error()
	if state, ok := errors.AsType[*sluice.StateError](err); ok {
		why = state.Detail
	}
	return &sluice.StateError{Sale: id, Detail: why + "; it stays paused, since others have changed it at the same " +
		"moment: resume it if it is to sell"}
}

// unsold returns nil if no claim of the sale was ever accepted, as far as ledger and
// store know now.
func (c *Control) unsold(ctx context.Context, id sluice.SaleID) error {
	sale, err := c.store.Sale(ctx, id)
	if err != nil {
		return err
	}
	reading, err := c.read(ctx, id)
	if err != nil {
		return err
	}
	if !reading.Loaded || reading.Fence != "" || sale.Fence != "" || reading.Epoch != sale.Epoch {
		return &sluice.StateError{Sale: id, Detail: "it is being loaded or rebuilt, so nothing is known of its claims; " +
			"try again in a moment"}
	}
	if err := current(ctx, c.ledger, id); err != nil {
		return err
	}
	sold := reading.Seq > 0
	if !sold { // records of earlier epochs have no part in the sequence
		err = c.ledger.Records(ctx, id, func(port.Record) bool {
			sold = true
			return false
		})
	}
	if err == nil && !sold {
		var orders []sluice.Order
		orders, _, err = c.store.Orders(ctx, sluice.OrderFilter{Sale: id, Limit: 1})
		sold = len(orders) > 0
	}
	if err == nil && !sold {
		var letters []port.DeadLetter
		letters, err = c.store.DeadLetters(ctx, id)
		sold = len(letters) > 0
	}
	if err == nil && sold {
		err = &sluice.StateError{Sale: id, Detail: "a buyer has had a claim accepted already"}
	}
	return err
}

// Delete implements sluice.Control. The ledger forgets the sale first: a server that
// dies in between leaves a sale that is paused and will be loaded again, and the
// command can be repeated; never one in the ledger of which the store knows nothing.
func (c *Control) Delete(ctx context.Context, id sluice.SaleID) error {
	allowed := func(s sluice.Sale, now time.Time) error {
		if s.Terms.Refusal(now) != sluice.NotOpen {
			return &sluice.StateError{Sale: id, Detail: "only a sale that has not opened yet can be deleted; close it instead"}
		}
		return nil
	}
	lists, err := c.store.Lists(ctx)
	if err != nil {
		return err
	}
	listed := int64(0)
	for i := range lists {
		if lists[i].Sale == id {
			listed += lists[i].Size
		}
	}
	if listed > port.MaxDeletedBuyers { // the store would refuse it, but the ledger has forgotten the sale by then
		return &sluice.StateError{Sale: id, Detail: "its lists are long: empty them first, then delete it"}
	}
	_, err = c.whileUnsold(ctx, id, allowed, func(ctx context.Context, held int64, _ bool) (sluice.Sale, error) {
		sale, err := c.store.Sale(ctx, id)
		if err == nil && sale.Version != held {
			err = changedMeanwhile(id)
		}
		if err == nil {
			err = c.ledger.Drop(ctx, id, sale.Epoch)
		}
		if err == nil {
			err = c.store.DeleteSale(ctx, id, held)
		}
		return sale, err
	})
	return err
}
