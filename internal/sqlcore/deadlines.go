package sqlcore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// ExtendOrder judges the time again.
var sqlExtendOrder = newStatement("ExtendOrder", update("orders", "expires_at, keep_until, updated_at")+`
	WHERE order_id = ? AND status = 'pending' AND keep_until > ?`)

// extend moves the deadline of a pending order, whose row is locked: expiry passes over
// it meanwhile, and judges it by the new deadline afterwards.
func (q *conn) extend(c *sluice.Change, o *sluice.Order, now time.Time) error {
	until, latest := WholeMillis(c.ExpiresAt), o.StoredAt.Add(sluice.MaxPaymentWindow)
	switch {
	case !until.After(o.ExpiresAt): // a repeat, or it was extended further since
		return nil
	case until.After(latest):
		return &sluice.ExtensionError{Order: o.ID, Latest: latest}
	}
	o.ExpiresAt, o.KeepUntil = until, o.KeepUntil.Add(until.Sub(o.ExpiresAt))
	o.UpdatedAt = later(now, o.UpdatedAt) // a clock may be set back
	if !q.changed(sqlExtendOrder, o.ExpiresAt, o.KeepUntil, o.UpdatedAt, o.ID, now) {
		return q.fail(errors.New("its time had not passed a moment ago, and now has"))
	}
	entry := historyEntry(c, o.Status, o.Status)
	entry.ExpiresAt = until
	q.addHistory(o, o.UpdatedAt, entry)
	return q.err
}

// A change that leaves the status as it is has its subject in the column refused, once
// for each status: the payment that was refused, or the action and the deadline after
// a byte that no payment has.
const deadlineMark = "\t"

func subjectOf(e *sluice.HistoryEntry) string {
	if e.ExpiresAt.IsZero() {
		return e.PaymentID
	}
	return fmt.Sprintf("%s%s %d", deadlineMark, e.Action, e.ExpiresAt.UnixMilli())
}

// readSubject is the inverse of subjectOf, of an entry whose action is known.
func readSubject(e *sluice.HistoryEntry, subject string) error {
	deadline, found := strings.CutPrefix(subject, deadlineMark+string(e.Action)+" ")
	if !found {
		e.PaymentID += subject // a change of the status has none
		return nil
	}
	ms, err := strconv.ParseInt(deadline, 10, 64)
	e.ExpiresAt = time.UnixMilli(ms).UTC()
	return err
}
