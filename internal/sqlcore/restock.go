package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

var (
	sqlSelectRestock = newStatement("SelectRestock", `SELECT delta FROM restocks WHERE sale_id = ? AND restock_id = ?`)
	sqlInsertRestock = newStatement("InsertRestock",
		insertInto("restocks", "sale_id, restock_id, delta, terms_version, created_at"))
	// DeleteLowering deletes what has lowered the total since it last was the cap:
	// sale, sale, cap.
	sqlDeleteLowering = newStatement("DeleteLowering", `DELETE FROM restocks
		WHERE sale_id = ? AND delta < 0 AND terms_version >
		(SELECT MAX(version) FROM sale_terms WHERE sale_id = ? AND (total IS NULL OR total >= ?))`)
	sqlSetCap = newStatement("SetCap", update("sales", "cap, updated_at")+` WHERE id = ?`)
)

// Restock changes the total of a sale, once per restock id. The lock of the
// sale's row makes restocks follow each other, and inserts: so none is lost, and
// I1 is judged by a taken that stands still.
func (s *Store) Restock(
	ctx context.Context, id sluice.SaleID, restock string, delta int64,
) (sale sluice.Sale, err error) {
	defer s.wrap(&err, "restock sale=%s restock=%s", id, restock)
	switch {
	case !shortText(restock):
		return sluice.Sale{}, errNotShort("restock id", restock)
	case delta == 0 || delta < -sluice.MaxUnits || delta > sluice.MaxUnits:
		return sluice.Sale{}, fmt.Errorf("delta %d: want units to add, or to take away, at most %d",
			delta, int64(sluice.MaxUnits))
	}
	err = s.changeSale(ctx, id, func(tx *conn, locked *sluice.Sale) error {
		sale = *locked
		if made, err := tx.restocked(id, restock, delta); err != nil || made {
			return err
		}
		if err := tx.addUnits(&sale, delta); err != nil {
			return err
		}
		return tx.set(sqlInsertRestock, id, restock, delta, sale.Version, sale.UpdatedAt)
	})
	return unless(sale, err)
}

// UndoLowering takes back the lowering that the ledger refused.
func (s *Store) UndoLowering(ctx context.Context, id sluice.SaleID, version int64) (sale sluice.Sale, err error) {
	defer s.wrap(&err, "undo lowering sale=%s version=%d", id, version)
	err = s.changeSale(ctx, id, func(tx *conn, locked *sluice.Sale) error {
		if sale = *locked; sale.Version != version {
			return nil
		}
		return tx.undoLowering(&sale)
	})
	return unless(sale, err)
}

// undoLowering raises the total of a sale, which is locked, to the cap again, as
// a new version, and frees the id of the restock that had lowered it. The cap
// has covered that total all along (I1). It changes nothing if no lowering waits.
func (q *conn) undoLowering(sale *sluice.Sale) error {
	if sale.Cap == sale.Total {
		return nil
	}
	q.exec(sqlDeleteLowering, sale.ID, sale.ID, sale.Cap)
	sale.Total = sale.Cap
	sale.Version++
	return q.writeChange(sale)
}

// Restocked reads a sale, and whether a restock of it was made, at one moment.
func (s *Store) Restocked(
	ctx context.Context, id sluice.SaleID, restock string, delta int64,
) (sale sluice.Sale, made bool, err error) {
	defer s.wrap(&err, "read restock sale=%s restock=%s", id, restock)
	err = s.view(ctx, func(tx *conn) error {
		sale, _ = tx.sale(sqlSelectSale, id)
		made, err = tx.restocked(id, restock, delta)
		return err
	})
	if err != nil {
		return sluice.Sale{}, false, err
	}
	return sale, made, nil
}

// restocked reports whether a restock was made, with this delta.
func (q *conn) restocked(id sluice.SaleID, restock string, delta int64) (bool, error) {
	done, err := only[int64](q.row(sqlSelectRestock, id, restock))
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
func (q *conn) addUnits(sale *sluice.Sale, delta int64) error {
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
	return q.writeChange(sale)
}

// ConfirmTotal lowers the cap to the total. Taken is at most the ledger's, and
// the ledger's at most the total, unless the ledger lost data: then the cap stays,
// for I1 is for the audit to judge and not for a constraint to fail.
func (s *Store) ConfirmTotal(ctx context.Context, id sluice.SaleID, version int64) (err error) {
	defer s.wrap(&err, "confirm total sale=%s version=%d", id, version)
	return s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		if sale.Version != version || sale.Cap == sale.Total || sale.Taken > sale.Total {
			return nil
		}
		return tx.set(sqlSetCap, limitArg(sale.Total), storeNow, id)
	})
}
