package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
)

// Orders is a store as those see it who ask for one order by its id: the merchant and
// buyers. The id of a retaken order leads to the one in its place, in every method; and a
// payment that comes too late takes the units of its order again, where the sale says so
// (ADR 16). What settles asks the store itself, where each order stands for its claim.
type Orders struct {
	sluice.Store
	opts OrdersOptions

	mu     sync.Mutex
	flying map[sluice.SaleID]int // retakes
	all    int
}

// OrdersOptions are what a retake needs.
type OrdersOptions struct {
	// Ledger is asked whether it has the order's units back, and Claim for them. Its
	// error means that the outcome is not known.
	Ledger sluice.Reader
	Claim  func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error)
	// Wake has units given back at once.
	Wake func()
	Log  *slog.Logger
}

// Bounds of retakes. Each waits for ledger and pipeline, so that a sale whose shard hangs
// may have a few, and all such sales together not more than some requests.
const (
	retakesOfSale = 16
	retakesAtOnce = 256
	// retakePatience bounds what a payment waits for the ledger, and storedPatience then
	// for the order to be stored.
	retakePatience = 3 * time.Second
	storedPatience = 2 * time.Second
	retakePause    = 50 * time.Millisecond
)

// UndecidedError: a payment came too late, and it is not known yet whether its order's
// units can be taken again. Nothing is recorded; the same payment, reported again, will
// tell. Code is Unavailable or Overloaded if nothing was decided, else 0.
type UndecidedError struct {
	Order sluice.OrderID
	Code  sluice.Code
	Cause error
}

func (e *UndecidedError) Error() string {
	return fmt.Sprintf("order %s was paid too late, and its units are not taken again yet: %v", e.Order, e.Cause)
}

func (e *UndecidedError) Unwrap() error { return e.Cause }

// NewOrders returns a store's orders.
func NewOrders(store sluice.Store, opts OrdersOptions) *Orders {
	return &Orders{Store: store, opts: opts, flying: map[sluice.SaleID]int{}}
}

// Order returns a stored order, or the one in its place. Where that one is deleted, the
// first one is left.
func (s *Orders) Order(ctx context.Context, id sluice.OrderID) (sluice.Order, error) {
	order, err := s.Store.Order(ctx, id)
	if by := order.ReplacedBy(); err == nil && by != "" {
		in, err := s.Store.Order(ctx, by)
		if !errors.Is(err, sluice.ErrOrderNotFound) {
			return in, err
		}
	}
	return order, err
}

// History returns the changes of an order, after those of the one in whose place it is.
func (s *Orders) History(ctx context.Context, id sluice.OrderID) ([]sluice.HistoryEntry, error) {
	order, err := s.Order(ctx, id)
	if err != nil {
		return nil, err
	}
	var before []sluice.HistoryEntry
	if of := order.Replaces(); of != "" {
		first, err := s.Store.Order(ctx, of)
		if err == nil && first.ReplacedBy() == order.ID {
			before, err = s.Store.History(ctx, of)
		}
		if err != nil && !errors.Is(err, sluice.ErrOrderNotFound) {
			return nil, err
		}
	}
	entries, err := s.Store.History(ctx, order.ID)
	return append(before, entries...), err
}

// Change takes an action on an order, or on the one in its place.
func (s *Orders) Change(ctx context.Context, c sluice.Change) (sluice.Order, error) {
	order, err := s.change(ctx, c)
	if state, ok := errors.AsType[*sluice.OrderStateError](err); ok && state.Status == sluice.Retaken {
		in, missing := s.Order(ctx, c.Order)
		if missing != nil || in.ID == c.Order {
			return order, errors.Join(err, missing)
		}
		c.Order = in.ID
		return s.Store.Change(ctx, c)
	}
	return order, err
}

// change records a payment that came too late in three steps: the store says that the
// order has expired, the ledger accepts the claim for its units, and the store makes the
// order of that claim the paid one. Each may be cut off, and the payment reported again,
// on any server: the claim is the same one, and its order too. What is never reported
// again expires unpaid, as any order.
func (s *Orders) change(ctx context.Context, c sluice.Change) (sluice.Order, error) {
	if c.Action != sluice.Pay {
		return s.Store.Change(ctx, c)
	}
	c.Retake = true
	order, err := s.Store.Change(ctx, c)
	ask, ok := errors.AsType[*sluice.RetakeError](err)
	if !ok {
		return order, err
	}
	expired := &ask.Order
	leave := s.enter(expired.Sale)
	if leave == nil {
		return sluice.Order{}, &UndecidedError{expired.ID, sluice.Overloaded, errors.New("too many wait for the ledger")}
	}
	defer leave()
	decision, err := s.retake(ctx, expired)
	if err != nil {
		return sluice.Order{}, err
	}
	c.Retake = false
	if decision.Code != sluice.Accepted {
		s.opts.Log.Info("an order was paid too late, and its units cannot be taken again", "order", expired.ID,
			"because", decision.Code.String())
		return s.Store.Change(ctx, c)
	}
	c.Replacement = decision.Order
	if err := s.stored(ctx, expired.ID, c.Replacement); err != nil {
		return sluice.Order{}, err
	}
	order, err = s.Store.Change(ctx, c)
	if err == nil && order.ID != c.Replacement || isRefused(err) {
		// The payment is another order's, or the other ended. If this one waits for a
		// payment still, its units are free at once; else that is refused.
		_, _ = s.Store.Change(ctx, sluice.Change{
			Order: c.Replacement, Action: sluice.Cancel, By: byRetake, Reason: "the payment that it was claimed for was refused",
		})
		s.opts.Wake()
	}
	return order, err
}

// byRetake is who cancels an order that was claimed in vain, in its history.
const byRetake = "retake"

func isRefused(err error) bool {
	_, conflict := errors.AsType[*sluice.PaymentConflictError](err)
	_, amount := errors.AsType[*sluice.PaymentAmountError](err)
	return conflict || amount
}

// enter counts a retake of a sale, unless there are too many. The function ends it.
func (s *Orders) enter(sale sluice.SaleID) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[sale] >= retakesOfSale || s.all >= retakesAtOnce {
		return nil
	}
	s.flying[sale]++
	s.all++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.flying[sale]--; s.flying[sale] == 0 {
			delete(s.flying, sale)
		}
	}
}

// retake asks the ledger for an expired order's units. Those may be on their way back to
// it still, or for sale again in a moment: what it says until then is no answer.
func (s *Orders) retake(ctx context.Context, o *sluice.Order) (sluice.Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, retakePatience)
	defer cancel()
	undecided := func(code sluice.Code, cause error) error { return &UndecidedError{o.ID, code, cause} }
	var refused sluice.Decision
	for reopened := false; ; {
		record, err := s.opts.Ledger.Find(ctx, o.ID, o.Buyer)
		if err != nil && !errors.Is(err, sluice.ErrOrderNotFound) {
			return sluice.Decision{}, undecided(sluice.Unavailable, err)
		}
		if err != nil || !record.Live {
			decision, err := s.opts.Claim(ctx, o.Sale, o.RetakeClaim())
			switch {
			case err != nil:
				return decision, undecided(0, err)
			case decision.Code == sluice.Unavailable, decision.Code == sluice.Overloaded:
				return decision, undecided(decision.Code, errors.New("the ledger has not decided"))
			case decision.Code != sluice.SoldOut:
				return decision, nil
			}
			cooling, open := s.reopening(ctx, o.Sale)
			if !cooling && (!open || reopened) {
				return decision, nil
			}
			refused, reopened = decision, !cooling
		} else {
			s.opts.Wake()
		}
		if !loop.Sleep(ctx, retakePause) {
			if refused.Code != 0 { // all that time
				return refused, nil
			}
			return sluice.Decision{}, undecided(sluice.Unavailable, errors.New("its units are on their way back"))
		}
	}
}

// reopening reports whether a sale says that it is sold out although units have returned
// (sluice.RefusalLease), and whether it is open: then it may have said so a moment ago.
func (s *Orders) reopening(ctx context.Context, sale sluice.SaleID) (cooling, open bool) {
	readings, err := s.opts.Ledger.Read(ctx, []sluice.SaleID{sale})
	if err != nil {
		return false, false
	}
	r := &readings[0]
	return sluice.InCooldown(r.Now, r.CooldownUntil), r.State(r.Now) == sluice.StateOpen
}

// stored waits until the order that was accepted is stored.
func (s *Orders) stored(ctx context.Context, expired, id sluice.OrderID) error {
	ctx, cancel := context.WithTimeout(ctx, storedPatience)
	defer cancel()
	for {
		_, err := s.Store.Order(ctx, id)
		if err == nil || !errors.Is(err, sluice.ErrOrderNotFound) && ctx.Err() == nil {
			return err
		}
		if !loop.Sleep(ctx, retakePause) {
			return &UndecidedError{expired, 0, fmt.Errorf("order %s is not stored yet", id)}
		}
	}
}
