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
)

// byExpiry is who ends an order whose time has passed, in its history.
const byExpiry = "expiry"

// Change takes an action on a stored order. The order's row is locked before
// the clock is read, so of two changes the second one sees what the first one
// did, and a payment is judged by the moment in which it is recorded.
func (s *Store) Change(ctx context.Context, c sluice.Change) (order sluice.Order, err error) {
	defer s.wrap(&err, "%s order=%s", c.Action, c.Order)
	if _, ok := c.Order.Sale(); !ok { // it is nobody's; the database need not see it
		return sluice.Order{}, sluice.ErrOrderNotFound
	}
	if err := checkChange(&c); err != nil {
		return sluice.Order{}, err
	}
	if c.Buyer != "" {
		if order, done, err := s.answered(ctx, &c); done || err != nil {
			return order, err
		}
	}
	var refused error // and that is recorded
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		order, refused, err = s.changeOrder(ctx, tx, &c)
		return err
	})
	if err = cmp.Or(err, refused); err != nil {
		return sluice.Order{}, err
	}
	return order, nil
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
	if step, ok := o.Status.Step(c.Action, true); !ok {
		return sluice.Order{}, true, &sluice.OrderStateError{Order: o.ID, Status: o.Status, Action: c.Action}
	} else if !step.Repeat {
		return o, false, nil
	}
	return o, true, nil
}

// checkChange refuses what cannot be stored, and makes texts storable.
func checkChange(c *sluice.Change) error {
	switch id := c.PaymentID; {
	case !slices.Contains(sluice.Actions(), c.Action):
		return errors.New("there is no such action")
	case c.Action != sluice.Pay && id != "":
		return errors.New("payment id: only a payment has one")
	case c.Action == sluice.Pay && (len(id) < 1 || len(id) > 128 || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl)):
		return fmt.Errorf("payment id of %d bytes: want 1 to 128 bytes of UTF-8, without control characters", len(id))
	case c.Action == sluice.Reject && c.Reason == sluice.NotCovered:
		return fmt.Errorf("reason: %s is what the store itself says of an order beyond the total; want another word", sluice.NotCovered)
	case len(c.By) > 256 || len(c.Reason) > 1024:
		return fmt.Errorf("by of %d bytes, reason of %d: want at most 256 and 1024", len(c.By), len(c.Reason))
	}
	c.By, c.Reason = cleanText(c.By), cleanText(c.Reason)
	return nil
}

// changeOrder does what Status.Step says. A refused payment is recorded and
// returned apart, for the transaction must be committed then.
func (s *Store) changeOrder(ctx context.Context, tx *sql.Tx, c *sluice.Change) (o sluice.Order, refused, err error) {
	o, _, err = ScanOrder(tx.QueryRowContext(ctx, s.sql.LockOrder, c.Order))
	if errors.Is(err, sql.ErrNoRows) || err == nil && c.Buyer != "" && c.Buyer != o.Buyer {
		err = sluice.ErrOrderNotFound
	}
	if err != nil {
		return o, nil, err
	}
	now, err := s.d.Now(ctx, tx)
	if err != nil {
		return o, nil, err
	}
	late := !now.Before(o.KeepUntil)
	step, ok := o.Status.Step(c.Action, late)
	switch {
	case !ok:
		return o, nil, &sluice.OrderStateError{Order: o.ID, Status: o.Status, Action: c.Action}
	case step.Repeat && c.Action == sluice.Pay && c.PaymentID != o.PaymentID:
		entry := sluice.HistoryEntry{From: o.Status, To: o.Status, Action: c.Action, By: c.By, Reason: c.Reason, PaymentID: c.PaymentID}
		refused = &sluice.PaymentConflictError{Order: o.ID, Have: o.PaymentID}
		return o, refused, s.addHistory(ctx, tx, &o, now, entry)
	case step.Repeat:
		return o, nil, nil
	}
	return o, nil, s.takeStep(ctx, tx, c, &o, step, now, late)
}

// takeStep makes one change of an order: if its units return, the sale's taken
// and the release (I2, I6), the order, and its history. The sale comes before
// the order's change; the package's comment says why.
func (s *Store) takeStep(ctx context.Context, tx *sql.Tx, c *sluice.Change, o *sluice.Order, step sluice.Step, now time.Time, late bool) error {
	from := o.Status
	o.Status = step.To
	switch c.Action {
	case sluice.Pay:
		o.PaymentID = c.PaymentID
	case sluice.Reject:
		o.Reason = c.Reason
	}
	o.Unpaid = o.Unpaid || c.Unpaid()
	if now.After(o.UpdatedAt) { // a clock may be set back
		o.UpdatedAt = now
	}
	if step.Releases {
		if err := s.lowerTaken(ctx, tx, map[sluice.SaleID]int64{o.Sale: o.Quantity}); err != nil {
			return err
		}
	}
	changed, err := exec(ctx, tx, s.sql.ChangeOrder, string(o.Status), o.Reason, o.PaymentID, s.d.Time(o.UpdatedAt), o.Unpaid, o.ID, string(from), s.d.Time(now), late)
	if err != nil {
		return err
	}
	if !changed {
		return fmt.Errorf("it was %s a moment ago, and is no longer", from)
	}
	var entries []sluice.HistoryEntry
	if from == sluice.Pending && step.To == sluice.RefundDue { // nobody had expired it yet
		entries = append(entries, sluice.HistoryEntry{From: from, To: sluice.Expired, Action: sluice.Expire, By: byExpiry})
		from = sluice.Expired
	}
	entries = append(entries, sluice.HistoryEntry{From: from, To: step.To, Action: c.Action, By: c.By, Reason: c.Reason, PaymentID: c.PaymentID})
	if err := s.addHistory(ctx, tx, o, o.UpdatedAt, entries...); err != nil || !step.Releases {
		return err
	}
	return s.addReleases(ctx, tx, []string{string(o.ID)})
}

func (s *Store) addHistory(ctx context.Context, tx *sql.Tx, o *sluice.Order, at time.Time, entries ...sluice.HistoryEntry) error {
	for i := range entries {
		e := &entries[i]
		add, payment, refused := s.sql.AddChange, e.PaymentID, ""
		if e.From == e.To {
			add, payment, refused = s.sql.AddRefusal, "", e.PaymentID
		}
		_, err := exec(ctx, tx, add, o.ID, s.d.Time(at), string(e.From), string(e.To), string(e.Action), e.By, e.Reason, payment, refused)
		if err != nil {
			return err
		}
	}
	return nil
}

// lowerTaken lowers the taken of sales by the units of orders that the
// transaction holds and is about to end. It takes the sales by id, so that two
// cannot wait for each other.
func (s *Store) lowerTaken(ctx context.Context, tx *sql.Tx, units map[sluice.SaleID]int64) error {
	for _, sale := range slices.Sorted(maps.Keys(units)) {
		lowered, err := exec(ctx, tx, s.sql.LowerTaken, units[sale], sale)
		if err == nil && !lowered {
			err = fmt.Errorf("sale %s: %w", sale, sluice.ErrSaleNotFound)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// execAll runs a statement that must change exactly n rows.
func execAll(ctx context.Context, tx *sql.Tx, n int, query string, args ...any) error {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return err
	}
	changed, err := result.RowsAffected()
	if err == nil && changed != int64(n) {
		err = fmt.Errorf("%d rows changed instead of %d", changed, n)
	}
	return err
}

// DueFinder is a dialect that would hold, in the index by which it finds orders
// that are due, those that it passes over as well. It finds them first and holds
// none, by FindDue (now, list of sales, limit), which selects ids; its SelectDue
// then takes their list and the limit.
type DueFinder interface{ FindDue() string }

// dueRoom is how many times the orders that one call is asked to end are found:
// room for as many servers, which pass over what others hold.
const dueRoom = 8

// ExpireDue ends pending orders whose time has passed, of all sales together,
// the most overdue first.
//
// A sale whose row another transaction holds is passed over. At the end one such
// sale is waited for: the row of a sale that sells is nearly always held, so not
// to wait would mean not to get it. A sale that was waited for in vain rests.
func (s *Store) ExpireDue(ctx context.Context, limit int, until func(now time.Time) time.Time) (expired map[sluice.SaleID]int, err error) {
	defer s.wrap(&err, "expire orders")
	if limit < 1 {
		return nil, fmt.Errorf("limit %d: want 1 or more", limit)
	}
	if until == nil {
		until = func(now time.Time) time.Time { return now }
	}
	expired = map[sluice.SaleID]int{}
	pass := func(skip []string, wait sluice.SaleID) (held []string, err error) {
		ended, held, err := s.expirePass(ctx, limit, skip, wait, until)
		for sale, n := range ended {
			expired[sale] += n
			limit -= n
		}
		return held, err
	}
	var held []string // sales that are passed over
	for limit > 0 {
		others, err := pass(held, "")
		if err != nil {
			return expired, err
		}
		if len(others) == 0 {
			break
		}
		held = append(held, others...)
	}
	wait := s.waitFor(held)
	if limit <= 0 || wait == "" {
		return expired, nil
	}
	held = slices.DeleteFunc(held, func(sale string) bool { return sale == string(wait) })
	begun := time.Now()
	_, err = pass(held, wait)
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

// expirePass is one transaction. It returns the sales whose orders it passed
// over because another transaction holds their rows; it waits only for the row
// of the sale wait, if there is one.
func (s *Store) expirePass(
	ctx context.Context, limit int, skip []string, wait sluice.SaleID, until func(now time.Time) time.Time,
) (expired map[sluice.SaleID]int, held []string, err error) {
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		expired, held, err = s.expireDue(ctx, tx, limit, skip, wait, until)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return expired, held, nil
}

func (s *Store) expireDue(
	ctx context.Context, tx *sql.Tx, limit int, skip []string, wait sluice.SaleID, until func(now time.Time) time.Time,
) (map[sluice.SaleID]int, []string, error) {
	if wait != "" { // before anything else is held
		if _, err := s.lockSale(ctx, tx, wait); err != nil {
			return nil, nil, err
		}
	}
	read, err := s.d.Now(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	now, latest := s.d.Time(read), s.d.Time(earlier(read, until(read)))
	due, err := s.selectDue(ctx, tx, latest, skip, limit)
	if err != nil || len(due) == 0 {
		return nil, nil, err
	}
	var ids, held []string
	units, expired := map[sluice.SaleID]int64{}, map[sluice.SaleID]int{}
	for _, sale := range slices.Sorted(maps.Keys(due)) {
		if err := tx.QueryRowContext(ctx, s.sql.TryLockSale, sale).Scan(new(string)); errors.Is(err, sql.ErrNoRows) {
			held = append(held, string(sale))
			continue
		} else if err != nil {
			return nil, nil, err
		}
		for _, o := range due[sale] {
			ids = append(ids, o.id)
			units[sale] += o.quantity
			expired[sale]++
		}
	}
	if len(ids) == 0 {
		return nil, held, nil
	}
	if err := s.lowerTaken(ctx, tx, units); err != nil {
		return nil, nil, err
	}
	list := s.d.List(ids)
	if err := execAll(ctx, tx, len(ids), s.sql.ExpireOrders, now, list, latest); err != nil {
		return nil, nil, err
	}
	if err := execAll(ctx, tx, len(ids), s.sql.AddExpired, byExpiry, list); err != nil {
		return nil, nil, err
	}
	return expired, held, s.addReleases(ctx, tx, ids)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// dueOrder is a pending order whose time has passed.
type dueOrder struct {
	id       string
	quantity int64
}

// selectDue locks orders that are due, without changing them yet.
func (s *Store) selectDue(ctx context.Context, tx *sql.Tx, now any, skip []string, limit int) (map[sluice.SaleID][]dueOrder, error) {
	args := []any{now, s.d.List(skip), limit}
	if finder, ok := s.d.(DueFinder); ok {
		found, err := texts(ctx, tx, finder.FindDue(), now, s.d.List(skip), limit*dueRoom)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		args = []any{s.d.List(found), limit}
	}
	due := map[sluice.SaleID][]dueOrder{}
	err := each(ctx, tx, s.sql.SelectDue, args, func(r *sql.Rows) error {
		var o dueOrder
		var sale sluice.SaleID
		err := r.Scan(&o.id, &sale, &o.quantity)
		due[sale] = append(due[sale], o)
		return err
	})
	return due, err
}
