package engine

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
)

// ErrOverloaded is returned to buyers' calls while too many others wait for the
// databases; nothing was done.
var ErrOverloaded = errors.New("too many buyers wait for the databases; try again")

// Payment is one that the shop has received.
type Payment struct {
	ID   string       // in the shop's books, 1 to 128 bytes: one payment pays one order
	Paid sluice.Money // what was paid; zero: not compared with what is due
}

// Order returns an order, a queued one too, which the ledger has and the store not yet.
// Errors: sluice.ErrOrderNotFound, *sluice.OrdersGoneError; others say that a database does
// not answer.
func (e *Engine) Order(ctx context.Context, id sluice.OrderID) (sluice.Order, error) {
	return e.server.Order(ctx, id, "")
}

// Orders yields the stored orders that the filter selects, oldest first, from its cursor
// on. Its limit is how many are read at a time, default sluice.MaxPage. An error is the
// last that it yields, with a zero Order: sluice.ErrBadCursor, for one, and
// *sluice.OrdersGoneError for a sale that is named and has no orders any more.
func (e *Engine) Orders(ctx context.Context, filter sluice.OrderFilter) iter.Seq2[sluice.Order, error] {
	filter.Limit = cmp.Or(filter.Limit, sluice.MaxPage)
	return func(yield func(sluice.Order, error) bool) {
		filter := filter // a second loop begins there again
		if filter.Buyer != "" {
			buyer, err := e.who.verifier.BuyerID(filter.Buyer)
			if err != nil {
				yield(sluice.Order{}, err)
				return
			}
			filter.Buyer = buyer
		}
		for {
			page, next, err := e.server.Orders(ctx, filter)
			if err != nil {
				yield(sluice.Order{}, err)
				return
			}
			for _, o := range page {
				if !yield(o, nil) {
					return
				}
			}
			if filter.Cursor = next; next == "" {
				return
			}
		}
	}
}

// Pay records a payment, once by its id: in time it makes the order Paid, too late
// RefundDue. By is who did it, for the order's history.
//
// Errors: sluice.ErrOrderQueued (try again in a moment), sluice.ErrStoreOlder (after the sale is recovered),
// *sluice.PaymentConflictError, *sluice.PaymentAmountError, *sluice.OrderStateError, and those of Order.
func (e *Engine) Pay(ctx context.Context, id sluice.OrderID, payment Payment, by string) (sluice.Order, error) {
	if err := httpapi.CheckWords("payment id", payment.ID); err != nil {
		return sluice.Order{}, err
	}
	return e.change(ctx, sluice.Change{Order: id, Action: sluice.Pay, PaymentID: payment.ID, Paid: payment.Paid, By: by})
}

// Cancel ends an unpaid order for the merchant; Refund a paid one, or one whose payment
// came too late: its units are for sale again. That of a free sale ends by either, and is
// Refunded. Both may be repeated. Errors as of Pay.
func (e *Engine) Cancel(ctx context.Context, id sluice.OrderID, by string) (sluice.Order, error) {
	return e.change(ctx, sluice.Change{Order: id, Action: sluice.Cancel, By: by})
}

// Reject ends an unpaid order that failed after it was accepted, an address that cannot be
// delivered to, say: its units are for sale again. The buyer reads the reason, 1 to 128 bytes.
// Errors as of Pay.
func (e *Engine) Reject(ctx context.Context, id sluice.OrderID, reason, by string) (sluice.Order, error) {
	if err := httpapi.CheckReason(reason); err != nil {
		return sluice.Order{}, err
	}
	return e.change(ctx, sluice.Change{Order: id, Action: sluice.Reject, Reason: reason, By: by})
}

// Extend moves the deadline of an unpaid order to a later moment, at most
// sluice.MaxPaymentWindow after the order was stored; an earlier one changes nothing. Errors
// as of Pay.
func (e *Engine) Extend(ctx context.Context, id sluice.OrderID, until time.Time, by string) (sluice.Order, error) {
	if until.IsZero() {
		return sluice.Order{}, errors.New("until: want a time")
	}
	return e.change(ctx, sluice.Change{Order: id, Action: sluice.Extend, ExpiresAt: until, By: by})
}

// Refund is described with Cancel.
func (e *Engine) Refund(ctx context.Context, id sluice.OrderID, by string) (sluice.Order, error) {
	return e.change(ctx, sluice.Change{Order: id, Action: sluice.Refund, By: by})
}

// CancelOwn ends an order of a buyer that is unpaid, or was free, for the buyer; another's order is not found.
// Buyers share a few connections to the databases: ErrOverloaded if these are busy.
func (e *Engine) CancelOwn(ctx context.Context, id sluice.OrderID, buyer sluice.BuyerID) (sluice.Order, error) {
	buyer, err := e.who.verifier.BuyerID(buyer)
	if err != nil {
		return sluice.Order{}, err
	}
	return e.change(ctx, sluice.Change{Order: id, Action: sluice.Cancel, Buyer: buyer, By: httpapi.ByBuyer})
}

func (e *Engine) change(ctx context.Context, change sluice.Change) (sluice.Order, error) {
	change.By = cmp.Or(change.By, e.node)
	if err := httpapi.CheckWords("by", change.By); err != nil {
		return sluice.Order{}, err
	}
	order, err := e.server.Change(ctx, change)
	if errors.Is(err, httpapi.ErrNoTurn) {
		err = ErrOverloaded
	}
	return order, err
}
