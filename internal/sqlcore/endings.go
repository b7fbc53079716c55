package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	// LockOrder holds the row until the transaction ends.
	sqlLockOrder = newStatement("LockOrder", `SELECT `+OrderColumns+` FROM orders WHERE order_id = ? FOR NO KEY UPDATE`)
	// ChangeOrder judges the time again by (keep_until <= now) = late.
	sqlChangeOrder = newStatement("ChangeOrder", update("orders", "status, reason, payment_id, updated_at, unpaid")+`
		WHERE order_id = ? AND status = ? AND (keep_until <= ?) = ?`)
	sqlFenceOf    = newStatement("FenceOf", `SELECT fence FROM sales WHERE id = ?`)
	sqlLowerTaken = newStatement("LowerTaken", `UPDATE sales SET taken = taken - ? WHERE id = ?`)
	sqlAddChange  = newStatement("AddChange", insertInto("order_changes", changeColumns))
	// AddRefusal inserts nothing if the payment was refused in this status before.
	sqlAddRefusal = newStatement("AddRefusal",
		insertInto("order_changes", changeColumns)+` ON CONFLICT (order_id, from_status, refused) DO NOTHING`)
)

// byExpiry is who ends an order whose time has passed, in its history.
const byExpiry = "expiry"

// Change takes an action on a stored order. The order's row is locked before
// the clock is read, so of two changes the second one sees what the first one
// did, and a payment is judged by the moment in which it is recorded.
func (s *Store) Change(ctx context.Context, c sluice.Change) (order sluice.Order, err error) {
	defer s.wrap(&err, "%s order=%s", c.Action, c.Order)
	if _, ok := c.Order.Sale(); !ok { // no order has this id; the database need not see it
		return sluice.Order{}, sluice.ErrOrderNotFound
	}
	if err := checkChange(&c); err != nil {
		return sluice.Order{}, err
	}
	if c.Buyer != "" && c.Action != sluice.Pay { // a repeat of which may be another payment
		if order, done, err := s.answered(ctx, &c); done || err != nil {
			return order, err
		}
	}
	var refused error // and that is recorded
	err = s.change(ctx, func(tx *conn) (err error) {
		order, refused, err = tx.changeOrder(&c)
		return err
	})
	return unless(order, cmp.Or(err, refused))
}

// answered answers a buyer's change that changes nothing, without a transaction
// for changes: any buyer may send as many as they like for orders that are not
// there, are another's or have ended. What an order is after its end it stays, as
// far as buyers can do anything about it; only a pending one is left to the lock.
func (s *Store) answered(ctx context.Context, c *sluice.Change) (o sluice.Order, done bool, err error) {
	o, err = s.Order(ctx, c.Order)
	switch {
	case err != nil:
		return sluice.Order{}, true, err
	case o.Buyer != c.Buyer:
		return sluice.Order{}, true, sluice.ErrOrderNotFound
	case o.Status == sluice.Pending:
		return o, false, nil
	}
	if step, ok := o.Step(c.Action, true); !ok {
		return sluice.Order{}, true, &sluice.OrderStateError{Order: o.ID, Status: o.Status, Action: c.Action}
	} else if !step.Repeat {
		return o, false, nil
	}
	return o, true, nil
}

// checkChange refuses what cannot be stored, and makes texts storable.
func checkChange(c *sluice.Change) error {
	switch id := c.PaymentID; {
	case !c.Action.Valid():
		return errors.New("there is no such action")
	case c.Action != sluice.Pay && (id != "" || c.Paid != sluice.Money{}):
		return errors.New("payment id and amount: only a payment has them")
	case (c.Action == sluice.Extend) == c.ExpiresAt.IsZero():
		return errors.New("deadline: an extension has one, and nothing else")
	case c.Action == sluice.Pay &&
		(len(id) < 1 || len(id) > 128 || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl)):
		return fmt.Errorf("payment id of %d bytes: want 1 to 128 bytes of UTF-8, without control characters", len(id))
	case c.Action == sluice.Reject && c.Reason == sluice.NotCovered:
		return fmt.Errorf("reason: %s is what the store itself says of an order beyond the total; want another word",
			sluice.NotCovered)
	case len(c.By) > 256 || len(c.Reason) > 1024:
		return fmt.Errorf("by of %d bytes, reason of %d: want at most 256 and 1024", len(c.By), len(c.Reason))
	}
	c.By, c.Reason = cleanText(c.By), cleanText(c.Reason)
	return nil
}

// changeOrder does what Status.Step says. A refused payment is recorded and
// returned apart, for the transaction must be committed then.
func (q *conn) changeOrder(c *sluice.Change) (o sluice.Order, refused, err error) {
	if o = q.lockOrder(c.Order); q.err != nil {
		return o, nil, q.missing(c.Order)
	}
	now := q.now()
	late := !now.Before(o.KeepUntil)
	step, ok := o.Step(c.Action, late)
	switch {
	case q.err != nil:
		return o, nil, q.err
	case c.Buyer != "" && c.Buyer != o.Buyer:
		return o, nil, sluice.ErrOrderNotFound
	case q.olderStore(o.Sale):
		return o, nil, cmp.Or(q.err, sluice.ErrStoreOlder)
	case !ok:
		return o, nil, &sluice.OrderStateError{Order: o.ID, Status: o.Status, Action: c.Action}
	}
	if c.Action == sluice.Pay {
		refused, err = q.pay(c, &o, step, now, late)
		return o, refused, err
	}
	if step.Repeat {
		return o, nil, nil
	}
	if c.Action == sluice.Extend {
		return o, nil, q.extend(c, &o, now)
	}
	if err := q.takeStep(c, &o, step, now, late); err != nil {
		return o, nil, err
	}
	q.eraseAgain(&o)
	return o, nil, nil
}

// missing returns the error of a change of an order that is not there: in a sale that is fenced
// the rebuild, or the recovery, may bring it back.
func (q *conn) missing(order sluice.OrderID) error {
	id, ok := order.Sale()
	if !ok || !errors.Is(q.err, sluice.ErrOrderNotFound) {
		return q.err
	}
	q.err = nil
	fence, err := only[string](q.row(sqlFenceOf, id))
	switch {
	case err == nil && waitsForRecovery(fence):
		q.err = sluice.ErrStoreOlder
	case err == nil && fence != "":
		q.err = sluice.ErrOrderQueued
	case err == nil, errors.Is(err, sql.ErrNoRows):
		q.err = sluice.ErrOrderNotFound
	}
	return q.err
}

// olderStore reports whether the store is older than the sale's ledger, or it cannot be read: the store
// cannot tell whether an order has ended, or was paid, since its copy. The sale's row is not locked, so a
// fence that another transaction sets now comes after this change, as if the change had been a moment
// earlier; the recovery, which locks the order, looks at its outcome (EndAgain).
func (q *conn) olderStore(id sluice.SaleID) bool {
	fence, err := only[string](q.row(sqlFenceOf, id))
	return q.fail(err) != nil || waitsForRecovery(fence)
}

// waitsForRecovery reports whether a person recovers the sale, or its rebuild after that has not ended.
func waitsForRecovery(fence string) bool {
	return strings.HasPrefix(fence, port.FenceOlder) || strings.HasPrefix(fence, port.FenceRecovered)
}

func (q *conn) lockOrder(id sluice.OrderID) sluice.Order {
	order, _ := one(q, sluice.ErrOrderNotFound, sqlLockOrder, scanOrder, id)
	return order
}

func historyEntry(c *sluice.Change, from, to sluice.Status) sluice.HistoryEntry {
	return sluice.HistoryEntry{From: from, To: to, Action: c.Action, By: c.By, Reason: c.Reason, PaymentID: c.PaymentID}
}

// takeStep makes one change of an order: if its units return, the sale's taken
// and the release (I2, I6), the order, and its history. The sale comes before
// the order's change; the package's comment says why.
func (q *conn) takeStep(c *sluice.Change, o *sluice.Order, step sluice.Step, now time.Time, late bool) error {
	from := o.Status
	o.Status = step.To
	switch {
	case c.Action == sluice.Reject:
		o.Reason = c.Reason
	case c.Action == sluice.Pay:
		o.PaymentID = c.PaymentID
	}
	o.Unpaid = o.Unpaid || from == sluice.Pending && c.Unpaid()
	if now.After(o.UpdatedAt) { // a clock may be set back
		o.UpdatedAt = now
	}
	if step.Releases {
		q.lowerTaken(map[sluice.SaleID]int64{o.Sale: o.Quantity})
	}
	if !q.changed(sqlChangeOrder, string(o.Status), o.Reason, o.PaymentID, o.UpdatedAt, o.Unpaid,
		o.ID, string(from), now, late) {
		return fmt.Errorf("it was %s a moment ago, and is no longer", from)
	}
	var entries []sluice.HistoryEntry
	if from == sluice.Pending && step.To == sluice.RefundDue { // it had not been expired yet
		entries = append(entries, sluice.HistoryEntry{From: from, To: sluice.Expired, Action: sluice.Expire, By: byExpiry})
		from = sluice.Expired
	}
	q.addHistory(o, o.UpdatedAt, append(entries, historyEntry(c, from, step.To))...)
	if step.Releases {
		q.addReleases([]string{string(o.ID)})
	}
	return nil
}

func (q *conn) addHistory(o *sluice.Order, at time.Time, entries ...sluice.HistoryEntry) {
	for i := range entries {
		e := &entries[i]
		add, payment, refused := sqlAddChange, e.PaymentID, ""
		if e.From == e.To {
			add, payment, refused = sqlAddRefusal, "", subjectOf(e)
		}
		q.set(add, o.ID, at, string(e.From), string(e.To), string(e.Action), e.By, e.Reason, payment, refused)
	}
}

// lowerTaken lowers the taken of sales by the units of orders that the
// transaction holds and is about to end. It takes the sales by id, so that two
// cannot wait for each other.
func (q *conn) lowerTaken(units map[sluice.SaleID]int64) {
	for _, sale := range slices.Sorted(maps.Keys(units)) {
		if !q.changed(sqlLowerTaken, units[sale], sale) {
			q.fail(fmt.Errorf("sale %s: %w", sale, sluice.ErrSaleNotFound))
		}
	}
}
