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
		if made, err := s.restocked(ctx, tx, id, restock, delta); err != nil || made {
			return err
		}
		if err := s.addUnits(ctx, tx, &sale, delta); err != nil {
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

// UndoLowering takes back the lowering that the ledger refused.
func (s *Store) UndoLowering(ctx context.Context, id sluice.SaleID, version int64) (sale sluice.Sale, err error) {
	defer s.wrap(&err, "undo lowering sale=%s version=%d", id, version)
	err = s.change(ctx, func(tx *sql.Tx) error {
		if sale, err = s.lockSale(ctx, tx, id); err != nil || sale.Version != version {
			return err
		}
		return s.undoLowering(ctx, tx, &sale)
	})
	if err != nil {
		return sluice.Sale{}, err
	}
	return sale, nil
}

// undoLowering raises the total of a sale, which is locked, to the cap again, as
// a new version, and frees the id of the restock that had lowered it. The cap
// has covered that total all along (I1). It changes nothing if no lowering waits.
func (s *Store) undoLowering(ctx context.Context, tx *sql.Tx, sale *sluice.Sale) error {
	if sale.Cap == sale.Total {
		return nil
	}
	if _, err := exec(ctx, tx, s.sql.DeleteLowering, sale.ID, sale.ID, sale.Cap); err != nil {
		return err
	}
	sale.Total = sale.Cap
	sale.Version++
	return s.writeChange(ctx, tx, sale)
}

// Restocked reads a sale, and whether a restock of it was made, at one moment.
func (s *Store) Restocked(ctx context.Context, id sluice.SaleID, restock string, delta int64) (sale sluice.Sale, made bool, err error) {
	defer s.wrap(&err, "read restock sale=%s restock=%s", id, restock)
	err = s.view(ctx, func(tx *sql.Tx) error {
		if sale, err = oneSale(tx.QueryRowContext(ctx, s.sql.SelectSale, id)); err != nil {
			return err
		}
		made, err = s.restocked(ctx, tx, id, restock, delta)
		return err
	})
	if err != nil {
		return sluice.Sale{}, false, err
	}
	return sale, made, nil
}

// restocked reports whether a restock was made, with this delta.
func (s *Store) restocked(ctx context.Context, tx *sql.Tx, id sluice.SaleID, restock string, delta int64) (bool, error) {
	var done int64
	err := tx.QueryRowContext(ctx, s.sql.SelectRestock, id, restock).Scan(&done)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	case done != delta:
		return false, fmt.Errorf("it was %d before, and is %d now: %w", done, delta, sluice.ErrRestockReused)
	}
	return true, nil
}

// addUnits writes a sale, which is locked, with another total as a new version
// of its terms. The new total must cover what is taken (I1).
func (s *Store) addUnits(ctx context.Context, tx *sql.Tx, sale *sluice.Sale, delta int64) error {
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
	case total < sale.Taken:
		return fmt.Errorf("total %d, taken %d: %w", total, sale.Taken, sluice.ErrBelowTaken)
	}
	if err := sale.TotalCanBe(total); err != nil {
		return err
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
