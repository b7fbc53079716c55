package sqlcore

import (
	"context"
	"database/sql"

	"github.com/sluicehq/sluice"
)

var (
	sqlRaiseEpoch  = newStatement("RaiseEpoch", update("sales", "epoch, updated_at")+` WHERE id = ?`)
	sqlConfirmLoad = newStatement("ConfirmLoad", update("sales", "fence, loaded_epoch, updated_at")+` WHERE id = ?`)
	// LastSeq is NULL if there is none.
	sqlLastSeq = newStatement("LastSeq", `SELECT max(seq) FROM orders WHERE sale_id = ? AND epoch = ? AND bucket = 0`)
)

// BeginLoad raises the epoch of a sale and reads what a ledger needs. The lock
// of the sale's row keeps every Insert out, so the orders read are complete.
func (s *Store) BeginLoad(ctx context.Context, id sluice.SaleID) (image sluice.LoadImage, err error) {
	defer s.wrap(&err, "begin load sale=%s", id)
	err = s.changeWithin(ctx, longTimeout, onSale(id, func(tx *conn, sale *sluice.Sale) error {
		if !sale.ArchivedAt.IsZero() {
			return sluice.ErrArchived
		}
		if sale.Epoch > 0 && sale.LoadedEpoch == sale.Epoch && sale.Fence == "" {
			return sluice.ErrSaleLive
		}
		// What waits in the old ledger, if there is one, may hold more than a lower
		// total that it has not decided about (I1).
		if sale.Epoch > 0 {
			tx.undoLowering(sale)
		}
		tx.set(sqlRaiseEpoch, sale.Epoch+1, storeNow, id)
		image = sluice.LoadImage{Sale: id, Epoch: sale.Epoch + 1, Terms: sale.Terms}
		return tx.ordersOfSale(id, func(o sluice.Order) bool {
			record := o.Record()
			if record.Live {
				image.Taken += record.Quantity
			}
			image.Records = append(image.Records, record)
			return true
		})
	}))
	return unless(image, err)
}

// ConfirmLoad records that a ledger holds the sale. Repeating it lifts no
// fence that has been set since.
func (s *Store) ConfirmLoad(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer s.wrap(&err, "confirm load sale=%s", id)
	return s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		if sale.Epoch != epoch || epoch < 1 {
			return sluice.ErrStaleEpoch
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
