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
)

// pay records a payment of an order, whose row is locked, or why it is refused.
func (q *conn) pay(c *sluice.Change, o *sluice.Order, step sluice.Step, now time.Time, late bool) (refused, err error) {
	why, refused := q.refusal(c, o, step)
	switch {
	case q.err != nil:
		return nil, q.err
	case refused != nil:
		q.refusePayment(c, o, now, why)
		return refused, nil
	case step.Repeat:
		return nil, nil
	}
	if err := q.takeStep(c, o, step, now, late); err != nil {
		return nil, err
	}
	q.eraseAgain(o)
	return nil, nil
}

// refusal returns why a payment is not the order's, or gives it to the order. Its row is
// locked and the sale's is not yet: another transaction that waits for the payment holds
// nothing that this one needs.
func (q *conn) refusal(c *sluice.Change, o *sluice.Order, step sluice.Step) (why string, refused error) {
	const another = "payment_conflict: the order has another payment"
	if due := o.Due(); c.Paid != (sluice.Money{}) && c.Paid != due {
		return fmt.Sprintf("payment_amount: %s was paid, %s is due", c.Paid, due),
			&sluice.PaymentAmountError{Order: o.ID, Paid: c.Paid, Due: due}
	}
	if step.Repeat {
		if c.PaymentID == o.PaymentID || q.s.masks.ofOrder(o.ID, maskPayment, c.PaymentID) == o.PaymentID {
			return "", nil
		}
		if o.Free() {
			return "payment_conflict: there is nothing to pay for the order", &sluice.PaymentConflictError{Order: o.ID}
		}
		return another, &sluice.PaymentConflictError{Order: o.ID, Have: o.PaymentID}
	}
	if q.changed(sqlAddPayment, c.PaymentID, o.ID) {
		return "", nil
	}
	// The rows of payments may be newer than those of orders, where those alone were
	// restored: then the order has the payment, or one that its row does not know.
	other, err := only[sluice.OrderID](q.row(sqlPaidOrder, c.PaymentID))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		have, err := only[string](q.row(sqlPaymentOf, o.ID))
		q.fail(err)
		return another, &sluice.PaymentConflictError{Order: o.ID, Have: have}
	case q.fail(err) != nil || other == o.ID:
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
