package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

// ReissueRelease writes the release of an ended order again. It locks the order
// and then its sale, as an ending does.
func (s *Store) ReissueRelease(ctx context.Context, id sluice.OrderID, epoch int64) (written bool, err error) {
	defer s.wrap(&err, "write a release again order=%s", id)
	of, ok := id.Sale()
	if !ok { // it is nobody's; the database need not see it
		return false, sluice.ErrOrderNotFound
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		written = false
		order, _, err := ScanOrder(tx.QueryRowContext(ctx, s.sql.LockOrder, id))
		if errors.Is(err, sql.ErrNoRows) {
			err = sluice.ErrOrderNotFound
		}
		if err != nil || order.Status.Live() {
			return err
		}
		if first, err := s.firstStatus(ctx, tx, &order); err != nil || first != sluice.Pending {
			return err
		}
		sale, err := s.lockSale(ctx, tx, of)
		if err != nil || sale.Epoch != epoch || !sale.ArchivedAt.IsZero() {
			return err
		}
		var waiting int
		if err := tx.QueryRowContext(ctx, s.sql.ReleaseOf, id).Scan(&waiting); err != nil || waiting > 0 {
			return err
		}
		written = true
		return s.addReleases(ctx, tx, []string{string(id)})
	})
	return written && err == nil, err
}

// RecountTaken sets taken to the units of the live orders. Whatever changes them
// holds the sale's row when it does, so under its lock they stand still.
func (s *Store) RecountTaken(ctx context.Context, id sluice.SaleID) (before, after int64, err error) {
	defer s.wrap(&err, "count taken again sale=%s", id)
	err = s.change(ctx, func(tx *sql.Tx) error {
		sale, err := s.lockSale(ctx, tx, id)
		if err != nil {
			return err
		}
		before = sale.Taken
		if err := tx.QueryRowContext(ctx, s.sql.LiveUnits, id).Scan(&after); err != nil || before == after {
			return err
		}
		if sale.Cap != sluice.Unlimited && after > sale.Cap { // I1
			return fmt.Errorf("live orders hold %d units, more than the cap of %d", after, sale.Cap)
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.sql.SetTaken, after, s.d.Time(now), id)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return before, after, nil
}
