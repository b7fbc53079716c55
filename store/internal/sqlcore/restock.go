package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Restock changes the total of a sale, once per restock id. The lock of the
// sale's row makes restocks follow each other, and inserts: so none is lost, and
// I1 is judged by a taken that stands still.
func (s *Store) Restock(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sale sluice.Sale, err error) {
	defer s.wrap(&err, "restock sale=%s restock=%s", id, restock)
	switch {
	case !shortText(restock):
		return sluice.Sale{}, errNotShort("restock id", restock)
	case delta == 0 || delta < -sluice.MaxUnits || delta > sluice.MaxUnits:
		return sluice.Sale{}, fmt.Errorf("delta %d: want units to add, or to take away, at most %d", delta, int64(sluice.MaxUnits))
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		if sale, err = s.lockSale(ctx, tx, id); err != nil {
			return err
		}
		done, found, err := s.restockOf(ctx, tx, id, restock)
		switch {
		case err != nil:
			return err
		case found && done != delta:
			return fmt.Errorf("it was %d before, and is %d now: %w", done, delta, sluice.ErrRestockReused)
		case found:
			return nil
		}
		if err := s.addUnits(ctx, tx, &sale, delta, true); err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.sql.InsertRestock, id, restock, delta, sale.Version, s.d.Time(sale.UpdatedAt))
		return err
	})
	if err != nil {
		return sluice.Sale{}, err
	}
	return sale, nil
}

// UndoRestock takes back a restock, which then was never made.
func (s *Store) UndoRestock(ctx context.Context, id sluice.SaleID, restock string) (sale sluice.Sale, err error) {
	defer s.wrap(&err, "undo restock sale=%s restock=%s", id, restock)
	if !shortText(restock) {
		return sluice.Sale{}, errNotShort("restock id", restock)
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		if sale, err = s.lockSale(ctx, tx, id); err != nil {
			return err
		}
		done, found, err := s.restockOf(ctx, tx, id, restock)
		if err != nil || !found {
			return err
		}
		// A total that goes up again may still be below taken, when it was
		// lowered twice: each step up must be possible.
		if err := s.addUnits(ctx, tx, &sale, -done, done > 0); err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.sql.DeleteRestock, id, restock)
		return err
	})
	if err != nil {
		return sluice.Sale{}, err
	}
	return sale, nil
}

// restockOf returns what a restock added, and whether it was made.
func (s *Store) restockOf(ctx context.Context, tx *sql.Tx, id sluice.SaleID, restock string) (delta int64, found bool, err error) {
	err = tx.QueryRowContext(ctx, s.sql.SelectRestock, id, restock).Scan(&delta)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	return delta, err == nil, err
}

// addUnits writes a sale, which is locked, with another total as a new version
// of its terms. If covered, the new total must cover what is taken (I1).
func (s *Store) addUnits(ctx context.Context, tx *sql.Tx, sale *sluice.Sale, delta int64, covered bool) error {
	if !sale.ArchivedAt.IsZero() {
		return sluice.ErrArchived
	}
	if sale.Total == sluice.Unlimited {
		return sluice.ErrNoTotal
	}
	total := sale.Total + delta
	switch {
	case total > sluice.MaxUnits:
		return fmt.Errorf("total %d and %d more: want at most %d in all", sale.Total, delta, int64(sluice.MaxUnits))
	case total < 0, covered && total < sale.Taken:
		return fmt.Errorf("total %d, taken %d: %w", total, sale.Taken, sluice.ErrBelowTaken)
	}
	sale.Total = total
	sale.Version++
	raiseCap(sale)
	return s.writeChange(ctx, tx, sale)
}

// ConfirmTotal lowers the cap to the total. Taken is at most the ledger's, and
// the ledger's at most the total, unless the ledger lost data: then the cap stays,
// for I1 is for the audit to judge and not for a constraint to fail.
func (s *Store) ConfirmTotal(ctx context.Context, id sluice.SaleID, version int64) (err error) {
	defer s.wrap(&err, "confirm total sale=%s version=%d", id, version)
	return s.change(ctx, func(tx *sql.Tx) error {
		sale, err := s.lockSale(ctx, tx, id)
		if err != nil || sale.Version != version || sale.Cap == sale.Total || sale.Taken > sale.Total {
			return err
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.sql.SetCap, limitArg(sale.Total), s.d.Time(now), id)
		return err
	})
}
