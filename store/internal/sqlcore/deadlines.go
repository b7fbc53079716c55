package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	// ExtendOrder judges the time again.
	sqlExtendOrder = newStatement("ExtendOrder", update("orders", "expires_at, keep_until, updated_at")+`
		WHERE order_id = ? AND status = 'pending' AND keep_until > ?`)
	// Expiring selects pending orders of these sales that are kept until between two
	// times, from a place on, and the last deadline that was noted of each.
	sqlExpiring = newStatement("Expiring", `SELECT o.order_id, o.sale_id, o.expires_at, o.keep_until, o.position,
			coalesce((SELECT max(c.refused) FROM order_changes c
				WHERE c.order_id = o.order_id AND c.from_status = 'pending' AND c.action = 'remind'), '')
		FROM orders o FORCE INDEX (orders_to_expire)
		WHERE o.status = 'pending' AND o.keep_until >= ? AND o.keep_until <= ? AND (o.keep_until > ? OR o.position > ?)
			AND o.sale_id = ANY (?::text[])
		ORDER BY o.keep_until, o.position LIMIT ?`)
	// LockPending holds the pending ones of a list, but for those that another
	// transaction holds.
	sqlLockPending = newStatement("LockPending", `SELECT o.order_id, o.expires_at, o.updated_at
		FROM orders o WHERE o.order_id = ANY (?::text[]) AND o.status = 'pending' FOR NO KEY UPDATE SKIP LOCKED`)
)

// Sizes: of a page of orders that may be near their deadline, and of a transaction that
// notes it and holds them.
const (
	remindPage = 1000
	remindHold = 100
)

// Remind notes that deadlines are near. It costs as much as there are open orders whose
// deadline is as near as the longest notice of all these sales.
func (s *Store) Remind(ctx context.Context, notices map[sluice.SaleID]sluice.Notice) (noted int, err error) {
	defer s.wrap(&err, "note which orders are about to expire")
	if err := s.enterToChange(ctx); err != nil || len(notices) == 0 {
		return 0, err
	}
	now, err := s.Clock(ctx)
	if err != nil {
		return 0, err
	}
	var sales []string
	var longest time.Duration
	for sale, n := range notices {
		sales, longest = append(sales, string(sale)), max(longest, n.Ahead+n.Grace)
	}
	place := expiring{keepUntil: now}
	for more := true; more; {
		var near []string
		rows := 0
		err := s.reads(ctx).each(sqlExpiring, []any{
			place.keepUntil, now.Add(longest), place.keepUntil, place.position, sales, remindPage,
		}, func(r row) error {
			rows++
			if err := r.Scan(&place.order, &place.sale, moment{&place.expiresAt}, moment{&place.keepUntil}, &place.position,
				&place.noted); err != nil {
				return err
			}
			ahead := place.expiresAt.Sub(now)
			if ahead > 0 && ahead <= notices[place.sale].Ahead && place.noted != subjectOf(reminder(place.expiresAt)) {
				near = append(near, string(place.order))
			}
			return nil
		})
		if err != nil {
			return noted, err
		}
		for part := range slices.Chunk(near, remindHold) {
			n := 0
			err := s.change(ctx, func(tx *conn) (err error) {
				n, err = tx.remind(part)
				return err
			})
			if err != nil {
				return noted, err
			}
			noted += n
		}
		more = rows == remindPage
	}
	return noted, nil
}

// expiring is a row of Expiring.
type expiring struct {
	order                sluice.OrderID
	sale                 sluice.SaleID
	expiresAt, keepUntil time.Time
	position             int64
	noted                string
}

func reminder(deadline time.Time) *sluice.HistoryEntry {
	return &sluice.HistoryEntry{
		From: sluice.Pending, To: sluice.Pending, Action: sluice.Remind, By: byExpiry, ExpiresAt: deadline,
	}
}

// remind notes the deadlines that orders have now, under their locks: one may have been
// paid or extended since it was found. The key of the history has each once.
func (q *conn) remind(ids []string) (noted int, err error) {
	held, _ := all(q, sqlLockPending, func(r row) (o sluice.Order, err error) {
		err = r.Scan(&o.ID, moment{&o.ExpiresAt}, moment{&o.UpdatedAt})
		return o, err
	}, ids)
	now := q.now()
	for i := range held {
		if o := &held[i]; now.Before(o.ExpiresAt) {
			e := reminder(o.ExpiresAt)
			if q.changed(sqlAddRefusal, o.ID, later(now, o.UpdatedAt), string(e.From), string(e.To), string(e.Action), e.By, "",
				"", subjectOf(e)) {
				noted++
			}
		}
	}
	return noted, q.err
}

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
