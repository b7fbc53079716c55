package sluice

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Status is where an order is in its life:
//
//	queued (in the journal) -> pending -> paid -> refunded
//	                        |          -> cancelled | expired
//	                        -> paid, of a free sale
//	                        -> rejected
//
// and after that RefundDue, by a payment that came too late.
type Status string

// The statuses of an order. RefundDue is a payment that came too late: it
// holds no units, and is listed until the merchant has given the money back.
const (
	Queued    Status = "queued"
	Pending   Status = "pending"
	Paid      Status = "paid"
	Rejected  Status = "rejected"
	Cancelled Status = "cancelled"
	Expired   Status = "expired"
	Refunded  Status = "refunded"
	RefundDue Status = "refund_due"
)

// Statuses lists every status.
func Statuses() []Status {
	return []Status{Queued, Pending, Paid, Rejected, Cancelled, Expired, Refunded, RefundDue}
}

// Live reports whether an order with this status holds units.
func (s Status) Live() bool { return s == Queued || s == Pending || s == Paid }

// NotCovered is the reason of an order that the store rejected because its
// units would have exceeded the total (I1 for the second time). It is reserved:
// Change rejects no order with it.
const NotCovered = "not_covered"

// Order is a hold as the store knows it.
type Order struct {
	ID       OrderID
	Sale     SaleID
	Buyer    BuyerID
	Key      Key
	Quantity int64
	Meta     string
	Counters Counters // of the claim; they count as long as the order is live
	Price    Money    // of one unit, when the order was stored

	Status Status
	Reason string // why it was rejected; else empty

	Epoch int64 // with Seq: its claim's place in the ledger
	Seq   int64
	Terms int64 // version of the terms its claim was decided under

	AcceptedAt time.Time // by the ledger's clock
	StoredAt   time.Time // by the store's clock; zero while queued
	ExpiresAt  time.Time // the buyer's deadline to pay; zero while queued
	KeepUntil  time.Time // ExpiresAt plus the sale's grace: a payment before it is in time
	UpdatedAt  time.Time // of the last change of status

	PaymentID string // of a payment that was recorded, in time or too late

	// Unpaid: it ended because its buyer did not pay, by expiry or by the
	// buyer's own cancel, and counts against Terms.MaxUnpaid. A payment that
	// comes later does not change it.
	Unpaid bool
}

// Due is the amount to charge for the order: the price of one times the quantity.
func (o *Order) Due() Money {
	due := Money{Amount: math.MaxInt64, Currency: o.Price.Currency} // as far as it can be counted
	if o.Quantity < 1 || o.Price.Amount <= due.Amount/o.Quantity {
		due.Amount = o.Price.Amount * o.Quantity
	}
	return due
}

// Free reports whether the order was paid when it was stored, because its sale was free: every other order that is
// paid has a payment.
func (o *Order) Free() bool { return o.PaymentID == "" && (o.Status == Paid || o.Status == Refunded) }

// Action is what happens to a stored order.
type Action string

// The actions, and who takes them.
const (
	Pay    Action = "pay"    // the merchant's payment callback
	Cancel Action = "cancel" // the buyer or the merchant, of an order that is not paid, or was free
	Expire Action = "expire" // the expiry job, when the units are kept no longer
	Reject Action = "reject" // the merchant: the order failed after the grab
	Refund Action = "refund" // the merchant, when the money has been given back
	Extend Action = "extend" // the merchant: more time to pay
)

// Valid reports whether there is such an action.
func (a Action) Valid() bool {
	return a == Pay || a == Cancel || a == Expire || a == Reject || a == Refund || a == Extend
}

// Step is what an action does to an order with some status. It is the whole
// state machine of a stored order, with Order.Step:
//
//	pending    -- pay in time --> paid         -- refund --> refunded   *
//	pending    -- pay too late --> refund_due * -- refund --> refunded
//	pending    -- cancel | expire | reject --> cancelled | expired | rejected   *
//	cancelled, expired, rejected -- pay --> refund_due
//	pending    -- extend in time --> pending
//	paid, of a free sale -- cancel | refund --> refunded   *
//
// An asterisk: the units return (I6: each order passes at most one of them).
// A repeat of the action that led to a status changes nothing.
type Step struct {
	To       Status
	Releases bool // the order's units return
	Repeat   bool // nothing changes: the order is already there
}

// Step returns what action does to the order, as Status.Step. A free one has no money to give back,
// so a cancel ends it as a refund does.
func (o *Order) Step(action Action, late bool) (Step, bool) {
	if action == Cancel && o.Free() {
		action = Refund
	}
	return o.Status.Step(action, late)
}

// Step returns what action does to an order with status s, or false when the
// status does not allow it. Late says that the order's KeepUntil has passed,
// by the store's clock: its units are no longer kept for a payment.
func (s Status) Step(action Action, late bool) (Step, bool) {
	switch action {
	case Pay:
		switch s {
		case Pending:
			if late {
				return Step{To: RefundDue, Releases: true}, true
			}
			return Step{To: Paid}, true
		case Cancelled, Expired, Rejected:
			return Step{To: RefundDue}, true
		case Paid, RefundDue, Refunded: // a PaymentConflictError if the payment is another one
			return Step{To: s, Repeat: true}, true
		}
	case Cancel:
		return end(s, Cancelled)
	case Reject:
		return end(s, Rejected)
	case Expire:
		if s == Pending && !late {
			return Step{}, false
		}
		return end(s, Expired)
	case Refund:
		switch s {
		case Paid:
			return Step{To: Refunded, Releases: true}, true
		case RefundDue:
			return Step{To: Refunded}, true
		case Refunded:
			return Step{To: Refunded, Repeat: true}, true
		}
	case Extend:
		return Step{To: s}, s == Pending && !late
	}
	return Step{}, false
}

// end is an ending that only a pending order can have.
func end(from, to Status) (Step, bool) {
	switch from {
	case Pending:
		return Step{To: to, Releases: true}, true
	case to:
		return Step{To: to, Repeat: true}, true
	}
	return Step{}, false
}

// Change asks for one action on one order.
type Change struct {
	Order  OrderID
	Action Action
	Buyer  BuyerID // if given, this buyer asks, and the order must be theirs

	By        string // who asks, for the history: "buyer", the name of an admin's key, a node's name
	Reason    string // why; kept on the order when it is rejected
	PaymentID string // of Pay: 1 to 128 bytes
	Paid      Money  // of Pay: what was paid; zero if that is not known

	ExpiresAt time.Time // of Extend: the new deadline; MaxPaymentWindow after StoredAt at the latest
}

// Unpaid reports whether the change, if it ends a pending order, is an unpaid
// ending (Order.Unpaid): the order expires, or its own buyer cancels it. What
// the merchant cancels or rejects is none, nor is a payment that came too late.
func (c *Change) Unpaid() bool {
	return c.Action == Expire || c.Action == Cancel && c.Buyer != ""
}

// HistoryEntry is one change of an order, as it is kept for ever.
type HistoryEntry struct {
	Order     OrderID
	At        time.Time // by the store's clock
	From, To  Status    // the same when a payment was refused, then the reason says why; and of Extend
	Action    Action
	By        string
	Reason    string
	PaymentID string
	ExpiresAt time.Time // of Extend: the deadline from then on
}

// OrderStateError: the order's status does not allow the action.
type OrderStateError struct {
	Order  OrderID
	Status Status
	Action Action
}

func (e *OrderStateError) Error() string {
	return fmt.Sprintf("order %s is %s: %s is not possible", e.Order, e.Status, e.Action)
}

// PaymentConflictError: the order was paid with another payment, or the payment
// is another order's. The attempt is in the order's history.
type PaymentConflictError struct {
	Order OrderID
	Have  string  // the payment that the order has, or
	Other OrderID // the order that has the payment; neither: there is nothing to pay, the sale was free
}

func (e *PaymentConflictError) Error() string {
	if e.Other != "" {
		return fmt.Sprintf("order %s: the payment is order %s's", e.Order, e.Other)
	}
	if e.Have == "" {
		return fmt.Sprintf("order %s was free: there is nothing to pay", e.Order)
	}
	return fmt.Sprintf("order %s was paid with another payment, %q", e.Order, e.Have)
}

// PaymentAmountError: what was paid is not what the order costs (Order.Due). The
// attempt is in the order's history.
type PaymentAmountError struct {
	Order     OrderID
	Paid, Due Money
}

func (e *PaymentAmountError) Error() string {
	return fmt.Sprintf("order %s: %s was paid, %s is due", e.Order, e.Paid, e.Due)
}

// ExtensionError: the order cannot be extended as far as that.
type ExtensionError struct {
	Order  OrderID
	Latest time.Time
}

func (e *ExtensionError) Error() string {
	return fmt.Sprintf("order %s can be extended to %s at the latest", e.Order, e.Latest.Format(time.RFC3339))
}

// String is the amount in minor units, and the currency.
func (m Money) String() string { return fmt.Sprintf("%d %s", m.Amount, m.Currency) }

// Remains is what is kept of the deleted orders of a sale.
type Remains struct {
	At         time.Time `json:"-"`                     // when the last one was deleted; zero before
	Sums       []Sum     `json:"sums"`                  // by status and currency
	NotCovered int64     `json:"not_covered,omitempty"` // orders that never held units (I1)
	// Err says why the store cannot read them. Only lists of sales have it, so that one
	// damaged row hides no other sale; to read that sale alone is an error.
	Err error `json:"-"`
}

// Sum adds up the orders that ended with one status and were sold in one currency.
type Sum struct {
	Status   Status `json:"status"`
	Currency string `json:"currency"`
	Orders   int64  `json:"orders"`
	Units    int64  `json:"units"`
	Amount   int64  `json:"amount"` // in minor units
}

// Add counts an order that is deleted; uncovered if it never held units.
func (r *Remains) Add(o *Order, uncovered bool) {
	i := slices.IndexFunc(r.Sums, func(s Sum) bool { return s.Status == o.Status && s.Currency == o.Price.Currency })
	if i < 0 {
		i, r.Sums = len(r.Sums), append(r.Sums, Sum{Status: o.Status, Currency: o.Price.Currency})
	}
	r.Sums[i].Orders++
	r.Sums[i].Units += o.Quantity
	r.Sums[i].Amount += o.Quantity * o.Price.Amount
	if uncovered {
		r.NotCovered++
	}
}

// Live returns the units of those that were paid: they count as taken.
func (r *Remains) Live() (units int64) {
	for _, s := range r.Sums {
		if s.Status.Live() {
			units += s.Units
		}
	}
	return units
}

// OrderFilter selects orders; empty fields select all.
type OrderFilter struct {
	Sale   SaleID
	Buyer  BuyerID
	Status Status
	// Payment finds the order that was paid with it: one, or none.
	Payment string

	Limit  int    // page size, 1 to MaxPage
	Cursor string // from the page before, of the same filter; empty for the first
}

// MaxPage is the largest page of orders.
const MaxPage = 1000
