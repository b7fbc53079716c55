package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

var (
	// TryLockSale holds the row, and selects nothing if another transaction does.
	sqlTryLockSale = newStatement("TryLockSale", `SELECT fence FROM sales WHERE id = ? FOR NO KEY UPDATE SKIP LOCKED`)
	// SelectDue selects orders that are due and of none of the sales listed, the
	// most overdue first; it holds them, and passes over those that another
	// transaction holds. Where that would hold, in the index by which it finds
	// them, those that it passes over as well, FindDue (with the same arguments)
	// finds them first and holds none. SelectDue then takes their list, until when they
	// are due (one may have been extended since), and the limit.
	sqlSelectDue = newStatement("SelectDue", `SELECT order_id, sale_id, quantity FROM orders
		WHERE status = 'pending' AND keep_until <= ? AND sale_id <> ALL (?::text[])
		ORDER BY keep_until LIMIT ? FOR NO KEY UPDATE SKIP LOCKED`)
	sqlFindDue = newStatement("FindDue", "")
	// AnyDue selects one order that is due, if there is one.
	sqlAnyDue = newStatement("AnyDue", `SELECT order_id FROM orders FORCE INDEX (orders_to_expire)
		WHERE status = 'pending' AND keep_until <= ? ORDER BY keep_until LIMIT 1`)
	// ExpireOrders takes the store's clock, a list, and until when they are due:
	// updated_at does not go back.
	sqlExpireOrders = newStatement("ExpireOrders", `UPDATE orders
		SET status = 'expired', unpaid = true, updated_at = greatest(updated_at, ?)
		WHERE order_id = ANY (?::text[]) AND status = 'pending' AND keep_until <= ?`)
	// AddExpired adds the change from pending to expired, by the one named.
	sqlAddExpired = newStatement("AddExpired", `INSERT INTO order_changes (`+changeColumns+`)
		SELECT o.order_id, o.updated_at, 'pending', 'expired', 'expire', ?, '', '', ''
		FROM orders o WHERE o.order_id = ANY (?::text[])`)
)

// dueRoom is how many times the orders that one call is asked to end are found:
// room for as many servers, which pass over what others hold.
const dueRoom = 8

// ExpireDue ends pending orders whose time has passed, of all sales together,
// the most overdue first.
//
// A sale whose row another transaction holds is passed over. At the end one such
// sale is waited for: the row of a sale that sells is nearly always held, so not
// to wait would mean not to get it. A sale that was waited for in vain rests.
//
// Orders of a sale that is fenced stay: their payments may be what the store has forgotten.
func (s *Store) ExpireDue(
	ctx context.Context, limit int, may func(sluice.SaleID) bool, until func(now time.Time) time.Time,
) (expired map[sluice.SaleID]int, err error) {
	defer s.wrap(&err, "expire orders")
	if limit < 1 {
		return nil, fmt.Errorf("limit %d: want 1 or more", limit)
	}
	if until == nil {
		until = func(now time.Time) time.Time { return now }
	}
	if err := s.enterToChange(ctx); err != nil {
		return nil, err
	}
	q := s.reads(ctx) // most calls find nothing, and need no transaction
	_, latest, err := q.due(until)
	if err == nil {
		_, err = only[string](q.row(sqlAnyDue, latest))
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	expired = map[sluice.SaleID]int{}
	var held, kept []string // sales that are passed over, for a moment and until they are compared or rebuilt
	pass := func(wait sluice.SaleID) (more bool, err error) {
		var ended map[sluice.SaleID]int
		var others passed
		err = s.change(ctx, func(tx *conn) (err error) {
			ended, others, err = tx.expireDue(limit, slices.Concat(held, kept), wait, may, until)
			return err
		})
		if err != nil {
			return false, err
		}
		for sale, n := range ended {
			expired[sale] += n
			limit -= n
		}
		held, kept = append(held, others.held...), append(kept, others.kept...)
		return len(others.held)+len(others.kept) > 0, nil
	}
	for limit > 0 {
		more, err := pass("")
		if err != nil {
			return expired, err
		}
		if !more {
			break
		}
	}
	wait := s.waitFor(held)
	if limit <= 0 || wait == "" {
		return expired, nil
	}
	held = slices.DeleteFunc(held, func(sale string) bool { return sale == string(wait) })
	begun := time.Now()
	_, err = pass(wait)
	s.slow.expiry.note(wait, time.Since(begun), err != nil)
	if err != nil {
		err = fmt.Errorf("sale=%s: %w", wait, err)
	}
	return expired, err
}

// waitFor chooses the next one, in turns, of the sales that do not rest; empty
// if all do.
func (s *Store) waitFor(held []string) sluice.SaleID {
	var awake []sluice.SaleID
	for _, id := range held {
		if sale := sluice.SaleID(id); !s.slow.expiry.resting(sale) {
			awake = append(awake, sale)
		}
	}
	if len(awake) == 0 {
		return ""
	}
	slices.Sort(awake)
	i, found := slices.BinarySearch(awake, *s.expiring.Load())
	if found {
		i++
	}
	next := awake[i%len(awake)]
	s.expiring.Store(&next)
	return next
}

// passed are sales whose orders one transaction passed over: another one holds their rows,
// or they are fenced: a store that has forgotten payments must not end paid orders.
type passed struct{ held, kept []string }

// expireDue is one transaction. It waits only for the row of the sale wait, if there is one.
func (q *conn) expireDue(
	limit int, skip []string, wait sluice.SaleID, may func(sluice.SaleID) bool, until func(now time.Time) time.Time,
) (_ map[sluice.SaleID]int, others passed, _ error) {
	if wait != "" { // before anything else is held
		q.lockSale(wait)
	}
	now, latest, err := q.due(until)
	if err != nil {
		return nil, others, err
	}
	due, err := q.selectDue(latest, skip, limit)
	if err != nil || len(due) == 0 {
		return nil, others, err
	}
	var ids []string
	units, expired := map[sluice.SaleID]int64{}, map[sluice.SaleID]int{}
	for _, sale := range slices.Sorted(maps.Keys(due)) {
		if may != nil && !may(sale) {
			others.kept = append(others.kept, string(sale))
			continue
		}
		fence, err := only[string](q.row(sqlTryLockSale, sale))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			others.held = append(others.held, string(sale))
			continue
		case err != nil:
			return nil, others, err
		case fence != "":
			others.kept = append(others.kept, string(sale))
			continue
		}
		for _, o := range due[sale] {
			ids = append(ids, o.id)
			units[sale] += o.quantity
			expired[sale]++
		}
	}
	if len(ids) == 0 {
		return nil, others, nil
	}
	q.lowerTaken(units)
	q.exactly(len(ids), q.s.sql[sqlExpireOrders], now, ids, latest)
	q.exactly(len(ids), q.s.sql[sqlAddExpired], byExpiry, ids)
	q.addReleases(ids)
	return expired, others, nil
}

// due reads the clock, and until when orders are due.
func (q *conn) due(until func(now time.Time) time.Time) (now, latest time.Time, err error) {
	if now = q.now(); q.err != nil { // until keeps what it is given
		return now, now, q.err
	}
	latest = now
	if by := until(now); by.Before(now) {
		latest = by
	}
	return now, latest, nil
}

// dueOrder is a pending order whose time has passed.
type dueOrder struct {
	id       string
	quantity int64
}

// selectDue locks orders that are due, without changing them yet.
func (q *conn) selectDue(now time.Time, skip []string, limit int) (map[sluice.SaleID][]dueOrder, error) {
	args := []any{now, skip, limit}
	if q.s.sql[sqlFindDue] != "" {
		found, err := all(q, sqlFindDue, only[string], now, skip, limit*dueRoom)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		args = []any{found, now, limit}
	}
	due := map[sluice.SaleID][]dueOrder{}
	err := q.each(sqlSelectDue, args, func(r row) error {
		var o dueOrder
		var sale sluice.SaleID
		err := r.Scan(&o.id, &sale, &o.quantity)
		due[sale] = append(due[sale], o)
		return err
	})
	return due, err
}
