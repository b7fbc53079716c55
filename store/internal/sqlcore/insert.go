package sqlcore

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Take raises taken by n unless that exceeds the cap: n, sale, n. That is I1 for
// the second time: the row does not match when it would not hold.
var sqlTake = newStatement("Take",
	`UPDATE sales SET taken = taken + ? WHERE id = ? AND (cap IS NULL OR taken + ? <= cap)`)

// Insert stores the claims of journal entries, each exactly once.
//
// Nearly always every claim is new and covered, so that is tried first, without
// reading anything: raise taken, insert, count. If the count is not the
// batch's, the transaction is rolled back, and a second one looks each claim
// up under the lock of the sale's row.
func (s *Store) Insert(
	ctx context.Context, sale sluice.SaleID, entries []sluice.Entry,
) (stored sluice.Stored, err error) {
	defer s.wrap(&err, "insert sale=%s", sale)
	batch, err := NewBatch(sale, entries)
	if err != nil {
		return sluice.Stored{}, err
	}
	if len(batch.Claims) == 0 {
		return sluice.Stored{}, s.enter(ctx)
	}
	done, err := s.insertFast(ctx, batch)
	if err != nil {
		return sluice.Stored{}, err
	}
	if done {
		return sluice.Stored{Inserted: len(batch.Claims)}, nil
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
		covered, err := tx.changed(sqlTake, batch.Units, batch.Sale, batch.Units)
		if err != nil {
			return err
		}
		if !covered {
			return errNotAllNew
		}
		sale, err := tx.lockSale(batch.Sale)
		if err != nil {
			return err
		}
		if sale.Epoch > batch.Epoch {
			return errNotAllNew
		}
		now, err := tx.now()
		if err != nil {
			return err
		}
		orders := make([]NewOrder, len(batch.Claims))
		for i := range batch.Claims {
			orders[i] = batch.Claims[i].order(&sale, now)
		}
		n, err := s.d.InsertOrders(tx.ctx, tx.tx, orders)
		if err == nil && n != len(orders) {
			return errNotAllNew
		}
		return err
	})
	if err == errNotAllNew {
		return false, nil
	}
	return err == nil, err
}

// insertWithCare looks each claim up and stores the new ones.
func (q *conn) insertWithCare(batch *Batch) (sluice.Stored, error) {
	sale, err := q.lockSale(batch.Sale)
	if err != nil {
		return sluice.Stored{}, err
	}
	existing, err := q.s.d.Existing(q.ctx, q.tx, batch)
	if err != nil {
		return sluice.Stored{}, err
	}
	now, err := q.now()
	if err != nil {
		return sluice.Stored{}, err
	}
	plan, err := planBatch(batch, &sale, existing, now)
	if err != nil {
		return sluice.Stored{}, err
	}
	stored := sluice.Stored{Inserted: len(plan.orders), Redelivered: plan.redelivered, Rejected: plan.rejected}
	if len(plan.orders) == 0 {
		return stored, nil
	}
	// The sale's row is locked and every claim was looked up, so a unique key
	// that is met now is nothing we know how to explain.
	n, err := q.s.d.InsertOrders(q.ctx, q.tx, plan.orders)
	if err == nil && n != len(plan.orders) {
		err = fmt.Errorf("%d of %d new orders met a unique key", len(plan.orders)-n, len(plan.orders))
	}
	if err != nil {
		return sluice.Stored{}, err
	}
	if plan.units > 0 { // else the row stays as it is, which MySQL counts as not changed
		covered, err := q.changed(sqlTake, plan.units, batch.Sale, plan.units)
		if err == nil && !covered {
			err = fmt.Errorf("taken %d of cap %d do not leave %d units", sale.Taken, sale.Cap, plan.units)
		}
		if err != nil {
			return sluice.Stored{}, err
		}
	}
	if len(plan.rejected) == 0 {
		return stored, nil
	}
	// A promise that cannot be kept is visible, never silent. Whatever epoch
	// it was given under, ledger and store disagree now.
	reason := fmt.Sprintf("%s: %d orders, %s the first, would exceed the total of %d",
		sluice.NotCovered, len(plan.rejected), plan.rejected[0], sale.Cap)
	fenced, err := q.changed(sqlFenceSale, reason, now, sale.ID, sale.Epoch)
	if err == nil && fenced {
		err = q.addSaleEventOf(sluice.EventSaleUnavailable, sale.ID, now)
	}
	return stored, err
}
