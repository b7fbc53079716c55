package settle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/lock"
)

// Control implements sluice.Control. Loader.Follow repairs, on any server, what a
// crash between store and ledger left.
type Control struct {
	store  controlStore
	ledger Ledger
	loader *Loader
}

// controlStore is what a Control needs of port.Store.
type controlStore interface {
	loadStore
	lock.Backend
	Orders(ctx context.Context, filter sluice.OrderFilter) (page []sluice.Order, next string, err error)
	Lists(ctx context.Context) ([]port.BuyerList, error)
	PutPicture(ctx context.Context, id sluice.SaleID, picture sluice.Picture) error
}

// NewControl returns the operators' side of a store and a ledger.
func NewControl(store controlStore, ledger Ledger, loader *Loader) *Control {
	return &Control{store: store, ledger: ledger, loader: loader}
}

func (c *Control) Create(ctx context.Context, sale sluice.Sale) (sluice.Sale, error) {
	if err := c.loader.forgotten(ctx, sale.ID); err != nil {
		return sluice.Sale{}, err
	}
	if sale.Rules.LimitSalt = ""; sale.Rules.Limits != (sluice.Limits{}) {
		sale.Rules.LimitSalt = rand.Text()
	}
	sale, err := c.store.CreateSale(ctx, sale)
	if err != nil {
		return sluice.Sale{}, err
	}
	if err := c.loader.Load(ctx, sale.ID); err != nil {
		return sale, &sluice.PendingError{Cause: err}
	}
	return c.store.Sale(ctx, sale.ID)
}

func (c *Control) Open(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return c.change(ctx, id, func(s *sluice.Sale, now time.Time) error {
		switch s.Terms.Refusal(now) {
		case sluice.NotOpen:
			s.OpensAt = now
		case sluice.Closed:
			return &sluice.StateError{Sale: id, Detail: "it is closed; move closes_at to open it again"}
		}
		return nil
	})
}

// Pause implements sluice.Control. A sale that is paused gets a new version as well: the
// pause may be that of a change that is going on (whileUnsold), and would end with it.
func (c *Control) Pause(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return c.write(ctx, id, true, func(s *sluice.Sale, now time.Time) error {
		if s.Terms.Refusal(now) == sluice.Closed {
			return &sluice.StateError{Sale: id, Detail: "it is closed"}
		}
		s.Paused = true
		return nil
	})
}

func (c *Control) Resume(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return c.change(ctx, id, func(s *sluice.Sale, _ time.Time) error {
		s.Paused = false
		return nil
	})
}

func (c *Control) Close(ctx context.Context, id sluice.SaleID) (sluice.Sale, error) {
	return c.change(ctx, id, func(s *sluice.Sale, now time.Time) error {
		switch s.Terms.Refusal(now) {
		case sluice.Closed:
			return nil
		case sluice.NotOpen: // a window must not be empty; no claim comes in the past
			s.OpensAt = now.Add(-time.Millisecond)
		}
		s.ClosesAt = now
		return nil
	})
}

// margin is how long before the opening everything may change.
const margin = 2 * sluice.RefusalLease

// loweringMargin is the same for a lower total. It is much longer: a lower
// total that reaches the ledger after the opening would come too late, and
// no buyer may be promised a unit that the store refuses.
const loweringMargin = 30 * time.Second

func (c *Control) Patch(ctx context.Context, id sluice.SaleID, edit func(*sluice.Sale) error) (sluice.Sale, error) {
	sale, err := c.patch(ctx, id, edit)
	if errors.Is(err, errOpened) {
		return c.postpone(ctx, id, edit)
	}
	return sale, err
}

// AddPicture implements sluice.Control. A sale that cannot show it is asked first, so that nothing is
// kept that no sale names.
func (c *Control) AddPicture(ctx context.Context, id sluice.SaleID, picture sluice.Picture) (sluice.Sale, error) {
	add := func(s *sluice.Sale) error {
		names := s.Pictures.Names()
		switch {
		case slices.Contains(names, picture.ID):
			return nil
		case len(names) == sluice.MaxPictures:
			return &sluice.StateError{Sale: id, Detail: fmt.Sprintf("it has %d pictures, and no sale has more: take one away "+
				"first", len(names))}
		}
		s.Pictures = sluice.PicturesOf(append(names, picture.ID)...)
		return nil
	}
	sale, err := c.store.Sale(ctx, id)
	if err == nil {
		err = add(&sale)
	}
	if err == nil {
		err = c.store.PutPicture(ctx, id, picture)
	}
	if err != nil {
		return sluice.Sale{}, err
	}
	return c.Patch(ctx, id, add)
}

func (c *Control) patch(ctx context.Context, id sluice.SaleID, edit func(*sluice.Sale) error) (sluice.Sale, error) {
	return c.change(ctx, id, func(s *sluice.Sale, now time.Time) error {
		before := s.Terms
		if err := edit(s); err != nil {
			return err
		}
		// The change must be in force, and known to all servers, before the opening.
		if before.Refusal(now.Add(margin)) == sluice.NotOpen {
			if !s.OpensAt.Equal(before.OpensAt) && s.OpensAt.Before(now.Add(margin)) {
				return &sluice.StateError{Sale: id, Detail: "opens_at is less than a second away; use open to start at once"}
			}
			if s.Total < before.Total && before.Total != sluice.Unlimited &&
				before.Refusal(now.Add(loweringMargin)) != sluice.NotOpen {
				return &sluice.StateError{Sale: id, Detail: "the sale opens in a moment: the total can only be raised"}
			}
			return nil
		}
		if !s.OpensAt.Equal(before.OpensAt) {
			return errOpened
		}
		return fixed(s, &before)
	})
}

// fixed returns nil if nothing is changed that is fixed from the opening on.
func fixed(s *sluice.Sale, before *sluice.Terms) error {
	switch {
	case s.MaxPerBuyer != before.MaxPerBuyer:
		return &sluice.StateError{Sale: s.ID, Detail: "max_per_buyer is fixed once the sale has opened"}
	case s.MaxOrders != before.MaxOrders:
		return &sluice.StateError{Sale: s.ID, Detail: "max_orders_per_buyer is fixed once the sale has opened"}
	case s.Total != before.Total && (s.Total == sluice.Unlimited || before.Total == sluice.Unlimited):
		return &sluice.StateError{Sale: s.ID, Detail: "a total cannot come or go once the sale has opened"}
	case s.Total < before.Total:
		return &sluice.StateError{Sale: s.ID, Detail: "the total can only be raised once the sale has opened"}
	}
	return nil
}

// Restock implements sluice.Control. Raising: the store first, then the ledger, so that the ledger never promises
// what the store would refuse. Lowering: the ledger decides whether that many
// are still there, and only then does the store lower its own cap; until then
// claims accepted under the old total are covered (I1). A lowering that the
// ledger refused, or that a load has found undecided, is taken back, by whichever
// server comes first; so the answer is what the store's row says at the end.
func (c *Control) Restock(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error) {
	reading, err := c.read(ctx, id)
	if err != nil {
		return sluice.Sale{}, err
	}
	if delta < 0 && !decides(&reading) {
		return c.restocked(ctx, id, restock, delta)
	}
	sale, err := c.store.Sale(ctx, id)
	if err == nil {
		err = behind(&sale, &reading)
	}
	if err != nil {
		return sluice.Sale{}, err
	}
	sale, err = c.store.Restock(ctx, id, restock, delta)
	if err != nil || !reading.Loaded {
		return sale, err // if it is not loaded, the load will bring the new total
	}
	refused, err := c.loader.apply(ctx, &sale)
	if delta < 0 {
		if refused { // taken back, in the store at least
			return sale, sluice.ErrBelowTaken
		}
		now, undecided := c.restocked(ctx, id, restock, delta)
		if err == nil || undecided == nil {
			return now, undecided
		}
	}
	if err != nil {
		return sale, &sluice.PendingError{Cause: err}
	}
	return sale, c.waitCooldown(ctx, id)
}

// decides reports whether a ledger can decide about a lower total.
func decides(r *port.Reading) bool { return r.Loaded && r.Fence == "" }

// restocked says what became of a lowering.
func (c *Control) restocked(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sluice.Sale, error) {
	sale, made, err := c.store.Restocked(ctx, id, restock, delta)
	switch {
	case err != nil:
		return sale, err
	case !made:
		return sale, sluice.ErrTotalUndecided
	case sale.Cap != sale.Total:
		return sale, &sluice.PendingError{Cause: sluice.ErrTotalUndecided}
	}
	return sale, nil
}

// change edits the sale at the ledger's time, applies the new terms, and
// returns when they are in force, also on servers that have not heard yet (see
// sluice.RefusalLease). An edit that changes nothing writes nothing.
func (c *Control) change(ctx context.Context, id sluice.SaleID, edit func(*sluice.Sale, time.Time) error) (sluice.Sale,
	error,
) {
	return c.write(ctx, id, false, edit)
}

// write is change; always writes what changes nothing as well.
func (c *Control) write(ctx context.Context, id sluice.SaleID, always bool,
	edit func(*sluice.Sale, time.Time) error,
) (sluice.Sale, error) {
	reading, err := c.read(ctx, id)
	if err != nil {
		return sluice.Sale{}, err
	}
	received := time.Now()
	var before sluice.Sale
	var lowered bool
	sale, err := c.store.ChangeSale(ctx, id, func(s *sluice.Sale) error {
		before = *s
		if err := behind(s, &reading); err != nil {
			return err
		}
		now := reading.Now.Add(time.Since(received)).UTC().Truncate(time.Millisecond) // the row may have been waited for
		if err := edit(s, now); err != nil {
			return err
		}
		// Claims come with the counters that their server knows of. None may know of others.
		if s.Rules.Limits != before.Rules.Limits || s.Rules.LimitSalt != before.Rules.LimitSalt {
			return &sluice.StateError{Sale: id, Detail: "the limits of a sale stay as they were when it was created"}
		}
		if *s == before && !always {
			return errUnchanged
		}
		lowered = before.Lowers(s.Total)
		if lowered && before.Epoch > 0 && !decides(&reading) {
			return sluice.ErrTotalUndecided
		}
		return before.TotalCanBe(s.Total)
	})
	if errors.Is(err, errUnchanged) {
		sale, err = before, nil
	}
	if err != nil {
		return sluice.Sale{}, err
	}
	refused, err := c.loader.apply(ctx, &sale)
	switch {
	case errors.Is(err, port.ErrNotLoaded) && sale.LoadedEpoch == sale.Epoch:
		// When the change was written no load was under way. The next one has read
		// the new terms; one that was under way may open the sale under the old.
		return sale, nil
	case err != nil:
		return sale, &sluice.PendingError{Cause: err}
	case lowered && refused:
		return sale, sluice.ErrBelowTaken
	}
	return sale, c.waitCooldown(ctx, id)
}

var errUnchanged = errors.New("settle: nothing to change")

func (c *Control) read(ctx context.Context, id sluice.SaleID) (port.Reading, error) {
	readings, err := c.ledger.Read(ctx, []sluice.SaleID{id})
	if err != nil {
		return port.Reading{}, err
	}
	return readings[0], nil
}

// waitCooldown returns when the cooldown of a reopened sale is over, after RefusalLease at the
// latest, so that the operator who reopened it finds it open.
func (c *Control) waitCooldown(ctx context.Context, id sluice.SaleID) error {
	reading, err := c.read(ctx, id)
	if err != nil || reading.CooldownUntil.IsZero() {
		return nil // it is open in a moment; the operator need not know how soon
	}
	select {
	case <-time.After(min(reading.CooldownUntil.Sub(reading.Now), sluice.RefusalLease)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
