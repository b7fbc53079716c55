package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	// Expiring selects pending orders that are kept until between two times, from a
	// place on.
	sqlExpiring = newStatement("Expiring", `SELECT o.order_id, o.sale_id, o.expires_at, o.keep_until, o.position
		FROM orders o FORCE INDEX (orders_to_expire)
		WHERE o.status = 'pending' AND o.keep_until >= ? AND o.keep_until <= ? AND (o.keep_until > ? OR o.position > ?)
		ORDER BY o.keep_until, o.position LIMIT ?`)
	// Reminded selects the last deadline that was noted of each order of a list.
	sqlReminded = newStatement("Reminded", `SELECT o.order_id, coalesce((SELECT max(c.refused) FROM order_changes c
			WHERE c.order_id = o.order_id AND c.from_status = 'pending' AND c.action = 'remind'), '')
		FROM orders o WHERE o.order_id = ANY (?::text[])`)
	// LockPending holds the pending ones of a list, but for those that another
	// transaction holds.
	sqlLockPending = newStatement("LockPending", `SELECT o.order_id, o.expires_at, o.updated_at
		FROM orders o WHERE o.order_id = ANY (?::text[]) AND o.status = 'pending' FOR NO KEY UPDATE SKIP LOCKED`)
	// AddReminders is AddRefusal of remindHold rows, which may be the same.
	sqlAddReminders = newStatement("AddReminders", insertInto("order_changes", changeColumns)+
		strings.Repeat(", "+Placeholders(changeWidth), remindHold-1)+
		` ON CONFLICT (order_id, from_status, refused) DO NOTHING`)
)

// Sizes: of a page of orders that may be near their deadline, and of a transaction that
// notes it and holds them.
const (
	remindPage  = 1000
	remindHold  = 100
	changeWidth = 9 // of changeColumns
)

// Remind reads one page of the orders that are next to end, of all sales together: there
// is no index of those of one sale, which every order would have to pay for.
func (s *Store) Remind(
	ctx context.Context, notices map[sluice.SaleID]sluice.Notice, from sluice.Due,
) (found sluice.Reminded, err error) {
	defer s.wrap(&err, "note which orders are about to expire")
	if err := s.enterToChange(ctx); err != nil {
		return found, err
	}
	if found.Now, err = s.Clock(ctx); err != nil {
		return found, err
	}
	longest := time.Duration(0)
	for _, n := range notices {
		longest = max(longest, n.Ahead+n.Grace)
	}
	if from.KeepUntil.Before(found.Now) {
		from = sluice.Due{KeepUntil: found.Now}
	}
	end := found.Now.Add(longest)
	near := map[string]string{} // the deadline of each order, as it would be noted
	rows := 0
	q := s.reads(ctx)
	err = q.each(sqlExpiring, []any{from.KeepUntil, end, from.KeepUntil, from.Position, remindPage}, func(r row) error {
		rows++
		var order, sale string
		var expires time.Time
		if err := r.Scan(&order, &sale, moment{&expires}, moment{&found.Next.KeepUntil}, &found.Next.Position); err != nil {
			return err
		}
		if ahead := expires.Sub(found.Now); ahead > 0 && ahead <= notices[sluice.SaleID(sale)].Ahead {
			near[order] = subjectOf(reminder(expires))
		}
		return nil
	})
	if found.Done = rows < remindPage; found.Done {
		found.Next = sluice.Due{KeepUntil: end}
	}
	if len(near) > 0 {
		ids := slices.Collect(maps.Keys(near))
		err = q.each(sqlReminded, []any{ids}, func(r row) error {
			var order, noted string
			err := r.Scan(&order, &noted)
			if near[order] == noted {
				delete(near, order)
			}
			return err
		})
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(near)), remindHold) {
		if err != nil {
			break
		}
		noted := 0
		err = s.change(ctx, func(tx *conn) (err error) {
			noted, err = tx.remind(part, near)
			return err
		})
		found.Noted += noted
	}
	return found, err
}

func reminder(deadline time.Time) *sluice.HistoryEntry {
	return &sluice.HistoryEntry{
		From: sluice.Pending, To: sluice.Pending, Action: sluice.Remind, By: byExpiry, ExpiresAt: deadline,
	}
}

// remind notes the deadlines that are near, under the orders' locks: one may have been
// paid or extended since it was found. The key of the history has each once.
func (q *conn) remind(ids []string, near map[string]string) (noted int, err error) {
	held, _ := all(q, sqlLockPending, func(r row) (o sluice.Order, err error) {
		err = r.Scan(&o.ID, moment{&o.ExpiresAt}, moment{&o.UpdatedAt})
		return o, err
	}, ids)
	now := q.now()
	held = slices.DeleteFunc(held, func(o sluice.Order) bool {
		return !now.Before(o.ExpiresAt) || subjectOf(reminder(o.ExpiresAt)) != near[string(o.ID)]
	})
	if len(held) == 0 {
		return 0, q.err
	}
	args := make([]any, 0, remindHold*changeWidth)
	for i := range remindHold {
		o := &held[min(i, len(held)-1)] // the statement has its number of rows
		e := reminder(o.ExpiresAt)
		args = append(args, o.ID, later(now, o.UpdatedAt), string(e.From), string(e.To), string(e.Action), e.By, "", "",
			subjectOf(e))
	}
	return int(q.count(sqlAddReminders, args...)), q.err
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
