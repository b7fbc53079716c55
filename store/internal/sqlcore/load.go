package sqlcore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/sluicehq/sluice"
)

// BeginLoad raises the epoch of a sale and reads what a ledger needs. The lock
// of the sale's row keeps every Insert out, so the orders read are complete.
func (s *Store) BeginLoad(ctx context.Context, id sluice.SaleID) (image sluice.LoadImage, err error) {
	defer s.wrap(&err, "begin load sale=%s", id)
	err = s.changeWithin(ctx, longTimeout, func(tx *sql.Tx) error {
		sale, err := s.lockSale(ctx, tx, id)
		if err != nil {
			return err
		}
		if !sale.ArchivedAt.IsZero() {
			return sluice.ErrArchived
		}
		if sale.Epoch > 0 && sale.LoadedEpoch == sale.Epoch && sale.Fence == "" {
			return sluice.ErrSaleLive
		}
		// What waits in the old ledger, if there is one, may hold more than a lower total that it has not decided about (I1).
		if sale.Epoch > 0 {
			if err := s.undoLowering(ctx, tx, &sale); err != nil {
				return err
			}
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := exec(ctx, tx, s.sql.RaiseEpoch, sale.Epoch+1, s.d.Time(now), id); err != nil {
			return err
		}
		image = sluice.LoadImage{Sale: id, Epoch: sale.Epoch + 1, Terms: sale.Terms}
		return s.ordersOfSale(ctx, tx, id, func(o sluice.Order) bool {
			record := o.Record()
			if record.Live {
				image.Taken += record.Quantity
			}
			image.Records = append(image.Records, record)
			return true
		})
	})
	if err != nil {
		return sluice.LoadImage{}, err
	}
	return image, nil
}

// ConfirmLoad records that a ledger holds the sale. Repeating it lifts no
// fence that has been set since.
func (s *Store) ConfirmLoad(ctx context.Context, id sluice.SaleID, epoch int64) (err error) {
	defer s.wrap(&err, "confirm load sale=%s", id)
	return s.change(ctx, func(tx *sql.Tx) error {
		sale, err := s.lockSale(ctx, tx, id)
		if err != nil {
			return err
		}
		if sale.Epoch != epoch || epoch < 1 {
			return sluice.ErrStaleEpoch
		}
		if sale.LoadedEpoch == epoch {
			return nil
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		if _, err = exec(ctx, tx, s.sql.ConfirmLoad, "", epoch, s.d.Time(now), id); err != nil {
			return err
		}
		return s.addSaleEventOf(ctx, tx, sluice.EventSaleAvailable, id, now)
	})
}

// LastSeq returns the highest sequence stored of an epoch.
func (s *Store) LastSeq(ctx context.Context, id sluice.SaleID, epoch int64) (seq int64, err error) {
	defer s.wrap(&err, "last sequence sale=%s", id)
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	var last sql.NullInt64
	if err := s.read.QueryRowContext(ctx, s.sql.LastSeq, id, epoch).Scan(&last); err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	return last.Int64, nil
}

// SetAside keeps an entry that could not be stored. It may be damaged, so its
// claims are kept as bytes, and nothing else of it can be a reason to fail.
func (s *Store) SetAside(ctx context.Context, l sluice.DeadLetter) (err error) {
	defer s.wrap(&err, "set aside sale=%s entry=%s", l.Sale, l.EntryID)
	return s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.sql.InsertDeadLetter, cleanText(string(l.Sale)), l.Epoch, cleanText(l.EntryID), cleanText(l.Reason),
			[]byte(l.Claims), l.FirstSeq, l.Terms, cleanText(l.Node), s.d.Time(WholeMillis(l.At)), s.d.Time(now))
		return err
	})
}

// DeadLetters returns the entries set aside.
func (s *Store) DeadLetters(ctx context.Context, sale sluice.SaleID) (all []sluice.DeadLetter, err error) {
	defer s.wrap(&err, "list dead letters")
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if sale == "" {
		return deadLetters(ctx, s.read, s.sql.SelectDeadLetters)
	}
	return deadLetters(ctx, s.read, s.sql.DeadLettersOfSale, sale)
}

func deadLetters(ctx context.Context, q querier, query string, args ...any) (all []sluice.DeadLetter, err error) {
	err = each(ctx, q, query, args, func(r *sql.Rows) error {
		letter, err := scanDeadLetter(r)
		all = append(all, letter)
		return err
	})
	return all, err
}
