package sqlcore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	// AnyLetter returns one of the sale's, resolved or not.
	sqlAnyLetter = newStatement("Delete.AnyLetter", `SELECT 1 FROM dead_letters WHERE sale_id = ? LIMIT 1`)
	sqlListed    = newStatement("Delete.Listed", `SELECT COALESCE(SUM(size), 0) FROM sale_lists WHERE sale_id = ?`)
	// What a sale without orders has, in this order: the sale's own row is the last.
	sqlDeleteOfSale = []statement{
		newStatement("Delete.Buyers", `DELETE FROM sale_buyers WHERE sale_id = ?`),
		newStatement("Delete.Pictures", `DELETE FROM pictures WHERE sale_id = ?`),
		sqlDeleteStretches,
		newStatement("Delete.Gathered", `DELETE FROM gathered WHERE sale_id = ?`),
		newStatement("Delete.Lists", `DELETE FROM sale_lists WHERE sale_id = ?`),
		newStatement("Delete.Restocks", `DELETE FROM restocks WHERE sale_id = ?`),
		newStatement("Delete.Terms", `DELETE FROM sale_terms WHERE sale_id = ?`),
		newStatement("Delete.Sale", `DELETE FROM sales WHERE id = ?`),
	}
)

// DeleteSale deletes a sale that no buyer has bought from. The lock of its row keeps
// out what would store an order or begin a load.
func (s *Store) DeleteSale(ctx context.Context, id sluice.SaleID, version int64) (err error) {
	defer s.wrap(&err, "delete sale=%s version=%d", id, version)
	return s.changeWithin(ctx, longTimeout, onSale(id, func(tx *conn, sale *sluice.Sale) error {
		if sale.Version != version || !sale.ArchivedAt.IsZero() {
			return &sluice.StateError{Sale: id, Detail: "it was changed at the same moment; look at it, and try again"}
		}
		for _, st := range []statement{sqlOldestOrder, sqlAnyLetter} {
			if _, err := only[int64](tx.row(st, id)); !errors.Is(err, sql.ErrNoRows) {
				return stateUnless(err, id, "it has orders, or entries that may become some")
			}
		}
		if listed, err := only[int64](tx.row(sqlListed, id)); err != nil || listed > port.MaxDeletedBuyers {
			return stateUnless(err, id, "its lists are long: empty them first, then delete it")
		}
		if err := tx.addSaleEvent(sluice.EventSaleDeleted, sale, tx.now()); err != nil {
			return err
		}
		last, err := only[int64](tx.row(sqlGatheredLast, id))
		if err != nil {
			return err
		}
		for _, st := range sqlDeleteOfSale {
			tx.exec(st, id)
		}
		if last = max(last, sale.Epoch); last > 0 { // the next sale of this id begins behind it
			tx.set(sqlAddGathered, id, last, "", storeNow)
		}
		return tx.err
	}))
}

// stateUnless is err, or a *sluice.StateError if there is none.
func stateUnless(err error, sale sluice.SaleID, detail string) error {
	if err != nil {
		return err
	}
	return &sluice.StateError{Sale: sale, Detail: detail}
}
