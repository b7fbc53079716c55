package sqlcore

import (
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	// AddPayment inserts nothing if an order has the payment, or the order has one. It
	// waits for a transaction that is about to give it to one.
	sqlAddPayment = newStatement("AddPayment",
		insertInto("payments", "payment_id, order_id")+` ON CONFLICT DO NOTHING`)
	sqlPaidOrder = newStatement("PaidOrder", `SELECT order_id FROM payments WHERE payment_id = ?`)
	sqlPaymentOf = newStatement("PaymentOf", `SELECT payment_id FROM payments WHERE order_id = ?`)
	// Reprice sets the price of one unit.
	sqlReprice = newStatement("Reprice", update("orders", "price_amount, currency")+` WHERE order_id = ?`)
)

// pay records a payment of an order, whose row is locked, or why it is refused.
//
// In a sale that takes units again, the payment of a pending order is never too late:
// its units are still held. That of an expired one is the order's in its place, if there
// is one; the rows are locked in the order of their claims. No units move: the two steps
// are of orders that hold theirs, or have given them back.
func (q *conn) pay(c *sluice.Change, o *sluice.Order, step sluice.Step, now time.Time, late bool,
) (paid sluice.Order, refused, err error) {
	retakes := q.retakes(o, late)
	if retakes && o.Status == sluice.Pending {
		step = sluice.Step{To: sluice.Paid}
	}
	owner := o
	if retakes && o.Status == sluice.Expired && c.Replacement != "" {
		if in := q.lockOrder(c.Replacement); in.Status == sluice.Pending && in.Replaces() == o.ID {
			owner = &in
		}
	}
	why, refused := q.refusal(c, o, step, owner.ID)
	switch {
	case q.err != nil:
		return *o, nil, q.err
	case refused != nil:
		q.refusePayment(c, o, now, why)
		return *o, refused, nil
	case step.Repeat:
		return *o, nil, nil
	case owner != o:
		return *owner, nil, q.replace(c, o, owner, now, late)
	case c.Retake && retakes && o.Status == sluice.Expired:
		return *o, nil, &sluice.RetakeError{Order: *o}
	}
	if err := q.takeStep(c, o, step, now, late); err != nil {
		return *o, nil, err
	}
	q.eraseAgain(o)
	return *o, nil, nil
}

// retakes reports whether the units of an order can be kept or taken again for a payment
// that comes too late. An archived sale has no ledger for that, and one whose rules are
// damaged does not say so.
func (q *conn) retakes(o *sluice.Order, late bool) bool {
	if o.Status != sluice.Expired && !(o.Status == sluice.Pending && late) {
		return false
	}
	sale, err := one(q, sluice.ErrSaleNotFound, sqlSelectSale, scanListed, o.Sale)
	return err == nil && sale.Rules.LatePayment == sluice.LateRetake && sale.ArchivedAt.IsZero()
}

// replace makes a pending order the one that is paid, at the price that was paid, in the
// place of an expired one.
func (q *conn) replace(c *sluice.Change, expired, by *sluice.Order, now time.Time, late bool) error {
	if by.Price != expired.Price {
		by.Price = expired.Price
		q.set(sqlReprice, by.Price.Amount, by.Price.Currency, by.ID)
	}
	if err := q.takeStep(c, by, sluice.Step{To: sluice.Paid}, now, !now.Before(by.KeepUntil)); err != nil {
		return err
	}
	why := *c
	why.Reason = string(by.ID)
	return q.takeStep(&why, expired, sluice.Step{To: sluice.Retaken}, now, late)
}

// refusal returns why a payment is not the order's, or gives it to the owner: the order,
// or the one in its place. Their rows are locked and the sale's is not yet: another
// transaction that waits for the payment holds nothing that this one needs.
func (q *conn) refusal(c *sluice.Change, o *sluice.Order, step sluice.Step, owner sluice.OrderID,
) (why string, refused error) {
	const another = "payment_conflict: the order has another payment"
	if due := o.Due(); c.Paid != (sluice.Money{}) && c.Paid != due {
		return fmt.Sprintf("payment_amount: %s was paid, %s is due", c.Paid, due),
			&sluice.PaymentAmountError{Order: o.ID, Paid: c.Paid, Due: due}
	}
	if step.Repeat {
		if c.PaymentID == o.PaymentID || q.s.masks.ofOrder(o.ID, maskPayment, c.PaymentID) == o.PaymentID {
			return "", nil
		}
		return another, &sluice.PaymentConflictError{Order: o.ID, Have: o.PaymentID}
	}
	if q.changed(sqlAddPayment, c.PaymentID, owner) {
		return "", nil
	}
	// The rows of payments may be newer than those of orders, where those alone were
	// restored: then the order has the payment, or one that its row does not know.
	other, err := only[sluice.OrderID](q.row(sqlPaidOrder, c.PaymentID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		have, err := only[string](q.row(sqlPaymentOf, owner))
		q.fail(err)
		return another, &sluice.PaymentConflictError{Order: o.ID, Have: have}
	case q.fail(err) != nil || other == owner:
		return "", nil
	}
	return fmt.Sprintf("payment_conflict: the order %s has this payment", other),
		&sluice.PaymentConflictError{Order: o.ID, Other: other}
}

// refusePayment records a payment that the order does not get.
func (q *conn) refusePayment(c *sluice.Change, o *sluice.Order, now time.Time, why string) {
	entry := historyEntry(c, o.Status, o.Status)
	entry.Reason = why
	if isErased(o) && o.Status != sluice.RefundDue {
		entry.PaymentID = q.s.masks.ofOrder(o.ID, maskPayment, c.PaymentID)
	}
	q.addHistory(o, now, entry)
	q.eraseAgain(o)
}
