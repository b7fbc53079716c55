package sqlcore

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Take raises taken by n unless that exceeds the cap: n, sale, n. That is I1 for
// the second time: the row does not match when it would not hold.
var sqlTake = newStatement("Take",
	`UPDATE sales SET taken = taken + ? WHERE id = ? AND (cap IS NULL OR taken + ? <= cap)`)

// AddStored writes the event that orders were stored, which are the last of their sale. Its
// arguments are the sale, the position before them, the sale, how many they are, and when.
var sqlAddStored = newStatement("Events.AddStored",
	`INSERT INTO order_events (sale_id, after_position, upto_position, orders, stored_at) VALUES (?, ?,
		(SELECT position FROM orders FORCE INDEX (orders_of_sale) WHERE sale_id = ?
			ORDER BY position DESC LIMIT 1), ?, ?)`)

// Insert stores the claims of journal entries, each exactly once.
//
// Nearly always every claim is new and covered, so that is tried first, without
// reading anything: raise taken, insert, count. If the count is not the
// batch's, the transaction is rolled back, and a second one looks each claim
// up under the lock of the sale's row.
func (s *Store) Insert(
	ctx context.Context, sale sluice.SaleID, entries []port.Entry,
) (stored port.Stored, err error) {
	defer s.wrap(&err, "insert sale=%s", sale)
	batch, err := newBatch(sale, entries)
	if err != nil {
		return port.Stored{}, fmt.Errorf("%w: %w", port.ErrUnstorable, err)
	}
	if len(batch.Claims) == 0 {
		return port.Stored{}, s.enter(ctx)
	}
	done, err := s.insertFast(ctx, batch)
	if err != nil {
		return port.Stored{}, err
	}
	if done {
		return port.Stored{Inserted: len(batch.Claims)}, nil
	}
	err = s.change(ctx, func(tx *conn) error {
		stored, err = tx.insertWithCare(batch)
		return err
	})
	return unless(stored, err)
}

// errNotAllNew ends the first transaction of Insert.
var errNotAllNew = fmt.Errorf("not every claim of the batch is new and covered")

// insertFast stores the batch if every claim of it is new and covered.
func (s *Store) insertFast(ctx context.Context, batch *Batch) (done bool, err error) {
	if fast, ok := s.d.(FastInserter); ok {
		if err := s.enterToChange(ctx); err != nil {
			return false, err
		}
		ctx, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		done, err := fast.InsertFast(ctx, batch)
		if err != nil && s.d.Retry(err) {
			return false, nil // the careful way tries again
		}
		return done, err
	}
	err = s.change(ctx, func(tx *conn) error {
		if !tx.changed(sqlTake, batch.Units, batch.Sale, batch.Units) {
			return errNotAllNew
		}
		sale := tx.lockSale(batch.Sale)
		if sale.Epoch > batch.Epoch {
			return errNotAllNew
		}
		now := tx.now()
		orders := make([]NewOrder, len(batch.Claims))
		for i := range batch.Claims {
			orders[i] = batch.Claims[i].order(&sale, now)
		}
		if n := tx.insertOrders(orders); n != len(orders) {
			return errNotAllNew
		}
		return nil
	})
	if err == errNotAllNew {
		return false, nil
	}
	return err == nil, err
}

// insertOrders inserts orders of a sale, with their event, and returns how many; 0 with an error.
func (q *conn) insertOrders(orders []NewOrder) int {
	if q.err != nil {
		return 0
	}
	n, after, err := q.s.d.InsertOrders(q.ctx, q.tx, orders)
	if q.fail(err) == nil && n == len(orders) {
		err = q.set(sqlAddStored, orders[0].Sale, after, orders[0].Sale, n, orders[0].StoredAt)
	}
	if err != nil {
		return 0
	}
	return n
}

// insertWithCare looks each claim up and stores the new ones.
func (q *conn) insertWithCare(batch *Batch) (port.Stored, error) {
	sale := q.lockSale(batch.Sale)
	if q.err != nil {
		return port.Stored{}, q.err
	}
	existing, err := q.s.d.Existing(q.ctx, q.tx, batch)
	now := q.now()
	if err = q.fail(err); err != nil {
		return port.Stored{}, err
	}
	plan, err := planBatch(batch, &sale, existing, now)
	if err != nil {
		return port.Stored{}, err
	}
	stored := port.Stored{Inserted: len(plan.orders), Redelivered: plan.redelivered, Rejected: plan.rejected}
	if len(plan.orders) == 0 {
		return stored, nil
	}
	// The sale's row is locked and every claim was looked up, so a unique key that is
	// met now is not one of ours; or a trigger left orders out.
	if n := q.insertOrders(plan.orders); n != len(plan.orders) {
		return port.Stored{}, fmt.Errorf("%w: %d of %d new orders met a unique key", port.ErrUnstorable,
			len(plan.orders)-n, len(plan.orders))
	}
	// Without units the row stays as it is, which MySQL counts as not changed.
	if plan.units > 0 && !q.changed(sqlTake, plan.units, batch.Sale, plan.units) {
		return port.Stored{}, fmt.Errorf("taken %d of cap %d do not leave %d units", sale.Taken, sale.Cap, plan.units)
	}
	if len(plan.rejected) == 0 {
		return stored, nil
	}
	// A promise that cannot be kept is visible, never silent. Whatever epoch
	// it was given under, ledger and store disagree now.
	reason := fmt.Sprintf("%s: %d orders, %s the first, would exceed the total of %d",
		sluice.NotCovered, len(plan.rejected), plan.rejected[0], sale.Cap)
	if q.changed(sqlFenceSale, reason, now, sale.ID, sale.Epoch) {
		q.addSaleEventOf(sluice.EventSaleUnavailable, sale.ID, now)
	}
	return stored, nil
}
