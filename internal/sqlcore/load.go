package sqlcore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	sqlRaiseEpoch  = newStatement("RaiseEpoch", update("sales", "epoch, ledger, updated_at")+` WHERE id = ?`)
	sqlConfirmLoad = newStatement("ConfirmLoad", update("sales", "fence, loaded_epoch, updated_at")+` WHERE id = ?`)
	// LastSeq is NULL if there is none.
	sqlLastSeq = newStatement("LastSeq", `SELECT max(seq) FROM orders WHERE sale_id = ? AND epoch = ? AND bucket = 0`)
)

// BeginLoad raises the epoch of a sale and reads what a ledger needs. The lock
// of the sale's row keeps every Insert out, so the orders read are complete.
func (s *Store) BeginLoad(ctx context.Context, id sluice.SaleID, passed int64) (image port.LoadImage, err error) {
	defer s.wrap(&err, "begin load sale=%s", id)
	err = s.changeWithin(ctx, longTimeout, onSale(id, func(tx *conn, sale *sluice.Sale) error {
		if !sale.ArchivedAt.IsZero() {
			return sluice.ErrArchived
		}
		name := cmp.Or(s.usesLedger(), sale.Ledger)
		if !sale.DecidedBy(name) {
			return fmt.Errorf("%w: %s", port.ErrOtherLedger, sale.Ledger)
		}
		if sale.Epoch > 0 && sale.LoadedEpoch == sale.Epoch && sale.Fence == "" {
			return port.ErrSaleLive
		}
		last := max(sale.Epoch, passed)
		if last == 0 { // servers remember the epochs of a deleted sale that had the id
			if last, err = only[int64](tx.row(sqlGatheredLast, id)); err != nil {
				return err
			}
		}
		if last >= port.MaxEpoch {
			return &sluice.StateError{Sale: id, Detail: fmt.Sprintf("it has had epoch %d, and no server counts that far: "+
				"another program has changed it (docs/operating.md, A fenced sale)", last)}
		}
		tx.set(sqlRaiseEpoch, last+1, name, storeNow, id)
		image = port.LoadImage{Sale: id, Epoch: last + 1}
		err := tx.ordersOfSale(id, func(o sluice.Order) bool {
			record := port.RecordOf(&o)
			if record.Live {
				image.Taken += record.Quantity
			}
			image.Records = append(image.Records, record)
			return true
		})
		if err == nil {
			err = tx.passTerms(sale, image.Records)
		}
		// What waits in the old ledger, if there is one, may hold more than a lower
		// total that it has not decided about (I1).
		if err == nil && sale.Epoch > 0 {
			err = tx.undoLowering(sale)
		}
		image.Terms = sale.Terms
		return err
	}))
	return unless(image, err)
}

// passTerms gives the terms of a sale, which is locked, the number after those under which claims
// were accepted that are stored or set aside, if the store does not know these: it was restored
// from an older copy, and the ledger that decided by them is lost as well. No change reuses
// their numbers (I8). Nobody knows what they said: they are written as terms that let in what was
// accepted under them.
func (q *conn) passTerms(sale *sluice.Sale, records []port.Record) error {
	letters, err := all(q, sqlDeadLettersOfSale, scanDeadLetter, sale.ID)
	if err != nil {
		return err
	}
	first, own := map[int64]time.Time{}, sale.Version
	see := func(version int64, at time.Time) {
		if version <= own || version-own > port.MaxForgotten || at.IsZero() {
			return
		}
		if known, seen := first[version]; !seen || at.Before(known) {
			first[version] = at
		}
	}
	for i := range records {
		see(records[i].Terms, records[i].At)
	}
	for i := range letters {
		see(letters[i].Terms, letters[i].At)
	}
	if len(first) == 0 {
		return nil
	}
	unknown := *sale
	unknown.Paused, unknown.ClosesAt, unknown.UpdatedAt = false, time.Time{}, q.now()
	for version, at := range first {
		unknown.Version, unknown.OpensAt = version, sale.OpensAt
		if at.Before(unknown.OpensAt) {
			unknown.OpensAt = at
		}
		q.addTerms(&unknown)
		sale.Version = max(sale.Version, version+1)
	}
	return q.writeChange(sale)
}

// ConfirmLoad records that a ledger holds the sale. Repeating it lifts no
// fence that has been set since.
func (s *Store) ConfirmLoad(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer s.wrap(&err, "confirm load sale=%s", id)
	return s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		if sale.Epoch != epoch || epoch < 1 {
			return port.ErrStaleEpoch
		}
		if sale.LoadedEpoch == epoch {
			return nil
		}
		now := tx.now()
		tx.set(sqlConfirmLoad, "", epoch, now, id)
		return tx.addSaleEventOf(sluice.EventSaleAvailable, id, now)
	})
}

// LastSeq returns the highest sequence stored of an epoch.
func (s *Store) LastSeq(ctx context.Context, id sluice.SaleID, epoch int64) (seq int64, err error) {
	defer s.wrap(&err, "last sequence sale=%s", id)
	last, err := only[sql.NullInt64](s.reads(ctx).row(sqlLastSeq, id, epoch))
	return last.Int64, err
}

var (
	sqlSelectTerms = newStatement("SelectTerms",
		`SELECT `+termsColumns+` FROM sale_terms WHERE sale_id = ? ORDER BY version`)
	sqlOrdersOfSale = newStatement("OrdersOfSale", `SELECT `+OrderColumns+` FROM orders FORCE INDEX (orders_of_sale)
		WHERE sale_id = ? AND position > ? ORDER BY position LIMIT ?`)
	sqlReturningOfSale = newStatement("ReturningOfSale", `SELECT order_id FROM releases WHERE sale_id = ?`)
	// EndingsOfSale selects orders that left pending or paid for another status, and
	// how often.
	sqlEndingsOfSale = newStatement("EndingsOfSale", `SELECT c.order_id, count(*)
		FROM orders o FORCE INDEX (orders_of_sale) STRAIGHT_JOIN order_changes c ON c.order_id = o.order_id
		WHERE o.sale_id = ? AND c.from_status IN ('pending', 'paid') AND c.to_status NOT IN ('pending', 'paid')
		GROUP BY c.order_id`)
)

// Snapshot calls read with a view of one sale, all of it of one moment.
func (s *Store) Snapshot(ctx context.Context, id sluice.SaleID, read func(port.Snapshot) error) (err error) {
	var judged error // by read; it is returned as it is
	err = s.viewWithin(ctx, longTimeout, func(tx *conn) (err error) {
		snap := &snapshot{conn: tx}
		if snap.sale, err = tx.sale(sqlSelectSale, id); err != nil {
			return err
		}
		if snap.terms, err = all(tx, sqlSelectTerms, scanTerms, id); err != nil {
			return err
		}
		judged = read(snap)
		return judged
	})
	if judged == nil {
		s.wrap(&err, "snapshot sale=%s", id)
	}
	return err
}

type snapshot struct {
	conn  *conn
	sale  sluice.Sale
	terms []sluice.Terms
}

func (n *snapshot) Sale() sluice.Sale { return n.sale }

func (n *snapshot) TermsVersions() []sluice.Terms { return n.terms }

func (n *snapshot) Orders(yield func(sluice.Order) bool) (err error) {
	defer n.conn.s.wrap(&err, "snapshot orders sale=%s", n.sale.ID)
	return n.conn.ordersOfSale(n.sale.ID, yield)
}

func (n *snapshot) DeadLetters() (letters []port.DeadLetter, err error) {
	defer n.conn.s.wrap(&err, "snapshot dead letters sale=%s", n.sale.ID)
	return all(n.conn, sqlDeadLettersOfSale, scanDeadLetter, n.sale.ID)
}

func (n *snapshot) Endings(yield func(order sluice.OrderID, times int64) bool) (err error) {
	defer n.conn.s.wrap(&err, "snapshot endings sale=%s", n.sale.ID)
	var order sluice.OrderID
	var times int64
	return n.until(sqlEndingsOfSale, func() bool { return yield(order, times) }, &order, &times)
}

func (n *snapshot) Returning(yield func(order sluice.OrderID) bool) (err error) {
	defer n.conn.s.wrap(&err, "snapshot outbox sale=%s", n.sale.ID)
	var order sluice.OrderID
	return n.until(sqlReturningOfSale, func() bool { return yield(order) }, &order)
}

// until scans the sale's rows, one after the other, until one is enough.
func (n *snapshot) until(st statement, more func() bool, into ...any) error {
	return n.conn.each(st, []any{n.sale.ID}, func(r row) error {
		err := r.Scan(into...)
		if err == nil && !more() {
			err = errEnough
		}
		return err
	})
}

// pageOfSale bounds the memory of reading a sale.
const pageOfSale = 2000

// ordersOfSale calls yield with the orders of a sale, oldest first, until it
// returns false. It reads in pages, so that yield may use the transaction.
func (q *conn) ordersOfSale(id sluice.SaleID, yield func(sluice.Order) bool) error {
	var page []sluice.Order // as long as a page of a large sale; most are idle
	for after := int64(0); ; {
		page = page[:0]
		err := q.each(sqlOrdersOfSale, []any{id, after, pageOfSale}, func(r row) error {
			order, position, err := scanOrderAt(r)
			page, after = append(page, order), position
			return err
		})
		if err != nil {
			return err
		}
		for i := range page {
			if !yield(page[i]) {
				return nil
			}
		}
		if len(page) < pageOfSale {
			return nil
		}
	}
}
