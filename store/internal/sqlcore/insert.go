package sqlcore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Insert stores the claims of journal entries, each exactly once.
//
// Nearly always every claim is new and covered, so that is tried first, without
// reading anything: raise taken, insert, count. If the count is not the
// batch's, the transaction is rolled back, and a second one finds out about
// each claim under the lock of the sale's row.
func (s *Store) Insert(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (stored sluice.Stored, err error) {
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
	err = s.change(ctx, func(tx *sql.Tx) error {
		stored, err = s.insertWithCare(ctx, tx, batch)
		return err
	})
	if err != nil {
		return sluice.Stored{}, err
	}
	return stored, nil
}

// errNotAllNew ends the first transaction of Insert.
var errNotAllNew = fmt.Errorf("not every claim of the batch is new and covered")

// insertFast stores the batch if every claim of it is new and covered.
func (s *Store) insertFast(ctx context.Context, batch *Batch) (done bool, err error) {
	if fast, ok := s.d.(FastInserter); ok {
		if err := s.enter(ctx); err != nil {
			return false, err
		}
		if s.ReadOnly {
			return false, errReadOnly
		}
		ctx, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		done, err := fast.InsertFast(ctx, batch)
		if err != nil && s.d.Retry(err) {
			return false, nil // the careful way tries again
		}
		return done, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		covered, err := exec(ctx, tx, s.sql.Take, batch.Units, batch.Sale, batch.Units)
		if err != nil {
			return err
		}
		if !covered {
			return errNotAllNew
		}
		sale, err := s.lockSale(ctx, tx, batch.Sale)
		if err != nil {
			return err
		}
		if sale.Epoch > batch.Epoch {
			return errNotAllNew
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		orders := make([]NewOrder, len(batch.Claims))
		for i := range batch.Claims {
			orders[i] = batch.Claims[i].order(&sale, now)
		}
		n, err := s.d.InsertOrders(ctx, tx, orders)
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

// insertWithCare finds out about each claim and stores the new ones.
func (s *Store) insertWithCare(ctx context.Context, tx *sql.Tx, batch *Batch) (sluice.Stored, error) {
	sale, err := s.lockSale(ctx, tx, batch.Sale)
	if err != nil {
		return sluice.Stored{}, err
	}
	existing, err := s.d.Existing(ctx, tx, batch)
	if err != nil {
		return sluice.Stored{}, err
	}
	now, err := s.d.Now(ctx, tx)
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
	n, err := s.d.InsertOrders(ctx, tx, plan.orders)
	if err == nil && n != len(plan.orders) {
		err = fmt.Errorf("%d of %d new orders met a unique key", len(plan.orders)-n, len(plan.orders))
	}
	if err != nil {
		return sluice.Stored{}, err
	}
	if plan.units > 0 { // else the row stays as it is, which MySQL counts as not changed
		covered, err := exec(ctx, tx, s.sql.Take, plan.units, batch.Sale, plan.units)
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
	fenced, err := exec(ctx, tx, s.sql.FenceSale, reason, s.d.Time(now), sale.ID, sale.Epoch)
	if err == nil && fenced {
		err = s.addSaleEventOf(ctx, tx, sluice.EventSaleUnavailable, sale.ID, now)
	}
	return stored, err
}
