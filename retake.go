package sluice

import (
	"fmt"
	"strings"
)

// LatePayment says what a payment does that comes after its order has expired.
type LatePayment string

// The policies. The zero LatePayment is that of LateRefundDue.
const (
	LateRefundDue LatePayment = ""       // the order becomes RefundDue
	LateRetake    LatePayment = "retake" // its units are taken again if they can be, for another order that is paid
)

// A late payment takes the units of its order again by a claim of its own, which the
// ledger decides as any other: of the same buyer, quantity and meta, and with a key that
// names the order. So each order still ends once (I6), and the same payment, however
// often it is reported, gets the same order (I4).

const retakePrefix = "retake-"

// RetakeClaim returns the claim that takes the order's units again. Its order id is to
// be made.
func (o *Order) RetakeClaim() Claim {
	suffix := strings.TrimPrefix(string(o.ID), string(o.Sale)+".")
	return Claim{Buyer: o.Buyer, Key: Key(retakePrefix + suffix), Quantity: o.Quantity, Meta: o.Meta}
}

// OfBuyer says what is wrong with a key that a buyer gives: a RetakeClaim has one of the
// server's own.
func (k Key) OfBuyer() error {
	if k.Retake() {
		return fmt.Errorf("key %q: keys of this form are the server's own; want another one", string(k))
	}
	return k.Validate()
}

// Retake reports whether the key is that of a RetakeClaim.
func (k Key) Retake() bool {
	_, ok := k.retakes("sale")
	return ok
}

// retakes returns the order whose units a claim of the sale with this key takes again.
func (k Key) retakes(sale SaleID) (OrderID, bool) {
	suffix, ok := strings.CutPrefix(string(k), retakePrefix)
	if !ok {
		return "", false
	}
	order := sale.Order(suffix)
	_, ok = order.Sale()
	return order, ok
}

// Replaces returns the expired order for whose late payment this one was claimed; empty
// for nearly all.
func (o *Order) Replaces() OrderID {
	order, _ := o.Key.retakes(o.Sale)
	return order
}

// ReplacedBy returns the order that took the place of a Retaken one; else it is empty.
func (o *Order) ReplacedBy() OrderID {
	if o.Status != Retaken {
		return ""
	}
	return OrderID(o.Reason)
}

// RetakeError: the payment came too late, and its order's units can be taken again
// (Change.Retake). Nothing was changed.
type RetakeError struct{ Order Order }

func (e *RetakeError) Error() string {
	return fmt.Sprintf("order %s has expired: its units are not taken again yet", e.Order.ID)
}
