package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
)

var errReadOnly = errors.New("the store is open for reading only")

// CreateSale adds a sale.
func (s *Store) CreateSale(ctx context.Context, sale sluice.Sale) (_ sluice.Sale, err error) {
	defer s.wrap(&err, "create sale=%s", sale.ID)
	sale.Version, sale.Epoch, sale.LoadedEpoch, sale.Fence, sale.Taken = 1, 0, 0, "", 0
	sale.Cap, sale.ArchivedAt = sale.Total, time.Time{}
	if err := storable(&sale); err != nil {
		return sluice.Sale{}, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		sale.CreatedAt, sale.UpdatedAt = now, now
		args := append([]any{sale.ID}, editableArgs(&sale)...)
		args = append(args, termsArgs(s.d, &sale.Terms)...)
		args = append(args, sale.Epoch, sale.LoadedEpoch, sale.Fence, sale.Taken, limitArg(sale.Cap), s.d.Time(now), s.d.Time(now), nil)
		inserted, err := exec(ctx, tx, s.sql.InsertSale, args...)
		if err != nil {
			return err
		}
		if !inserted {
			return sluice.ErrSaleExists
		}
		if err := s.addTerms(ctx, tx, &sale); err != nil {
			return err
		}
		return s.addSaleEvent(ctx, tx, sluice.EventSaleCreated, &sale, now)
	})
	if err != nil {
		return sluice.Sale{}, err
	}
	return sale, nil
}

// addTerms appends the sale's terms to their history.
func (s *Store) addTerms(ctx context.Context, tx *sql.Tx, sale *sluice.Sale) error {
	args := append([]any{sale.ID}, termsArgs(s.d, &sale.Terms)...)
	_, err := exec(ctx, tx, s.sql.InsertTerms, append(args, s.d.Time(sale.UpdatedAt))...)
	return err
}

// storable validates a sale and cuts its times to whole milliseconds.
func storable(sale *sluice.Sale) error {
	sale.OpensAt, sale.ClosesAt = WholeMillis(sale.OpensAt), WholeMillis(sale.ClosesAt)
	if err := sale.Validate(); err != nil {
		return err
	}
	// Not every database can hold a NUL in a text.
	for _, text := range []struct{ name, value string }{{"sku", sale.SKU}, {"title", sale.Title}} {
		if strings.Contains(text.value, "\x00") {
			return fmt.Errorf("%s: want no NUL characters", text.name)
		}
	}
	return nil
}

// Sale returns one sale.
func (s *Store) Sale(ctx context.Context, id sluice.SaleID) (sale sluice.Sale, err error) {
	defer s.wrap(&err, "read sale=%s", id)
	if err := s.enter(ctx); err != nil {
		return sale, err
	}
	return oneSale(s.read.QueryRowContext(ctx, s.sql.SelectSale, id))
}

func (s *Store) lockSale(ctx context.Context, tx *sql.Tx, id sluice.SaleID) (sluice.Sale, error) {
	return oneSale(tx.QueryRowContext(ctx, s.sql.LockSale, id))
}

func oneSale(r row) (sluice.Sale, error) {
	sale, err := scanSale(r)
	if errors.Is(err, sql.ErrNoRows) {
		err = sluice.ErrSaleNotFound
	}
	if err != nil {
		return sluice.Sale{}, err
	}
	return sale, nil
}

// Sales returns all sales.
func (s *Store) Sales(ctx context.Context) (all []sluice.Sale, err error) {
	defer s.wrap(&err, "list sales")
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	err = each(ctx, s.read, s.sql.SelectSales, nil, func(r *sql.Rows) error {
		sale, err := scanSale(r)
		all = append(all, sale)
		return err
	})
	return all, err
}

// SelectSales returns some sales.
func (s *Store) SelectSales(ctx context.Context, f sluice.SaleFilter) (list []sluice.Sale, err error) {
	defer s.wrap(&err, "select sales")
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	query, args := s.sql.PageOfSales, []any{f.After, f.Limit}
	switch {
	case f.Live:
		query, args = s.sql.LiveSales, nil
	case f.IDs != nil:
		ids := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			ids[i] = string(id)
		}
		query, args = s.sql.NamedSales, []any{s.d.List(ids)}
	case f.Limit < 1:
		return nil, errors.New("limit: want 1 or more")
	}
	err = each(ctx, s.read, query, args, func(r *sql.Rows) error {
		sale, err := scanSale(r)
		list = append(list, sale)
		return err
	})
	return list, err
}

// ChangeSale edits a sale. The change must not use the store: it runs inside
// the transaction.
func (s *Store) ChangeSale(ctx context.Context, id sluice.SaleID, change func(*sluice.Sale) error) (sluice.Sale, error) {
	var sale sluice.Sale
	var refused error // by change; it is returned as it is
	err := s.change(ctx, func(tx *sql.Tx) error {
		before, err := s.lockSale(ctx, tx, id)
		if err != nil {
			return err
		}
		if !before.ArchivedAt.IsZero() {
			return sluice.ErrArchived
		}
		sale = before
		if refused = change(&sale); refused != nil {
			return refused
		}
		if err := edited(&before, &sale); err != nil {
			return err
		}
		return s.writeChange(ctx, tx, &sale)
	})
	if refused != nil {
		return sluice.Sale{}, refused
	}
	if err != nil {
		s.wrap(&err, "change sale=%s", id)
		return sluice.Sale{}, err
	}
	return sale, nil
}

// writeChange writes a sale that was edited, and its new version of the terms.
func (s *Store) writeChange(ctx context.Context, tx *sql.Tx, sale *sluice.Sale) (err error) {
	if sale.UpdatedAt, err = s.d.Now(ctx, tx); err != nil {
		return err
	}
	args := append(editableArgs(sale), termsArgs(s.d, &sale.Terms)...)
	args = append(args, limitArg(sale.Cap), s.d.Time(sale.UpdatedAt), sale.ID)
	if _, err := exec(ctx, tx, s.sql.UpdateSale, args...); err != nil {
		return err
	}
	if err := s.addTerms(ctx, tx, sale); err != nil {
		return err
	}
	return s.addSaleEvent(ctx, tx, sluice.EventSaleUpdated, sale, sale.UpdatedAt)
}

// edited judges a change of a sale and raises the version of its terms.
// Fields that only the store moves must be as they were.
func edited(before, after *sluice.Sale) error {
	switch {
	case after.ID != before.ID:
		return errors.New("the id of a sale cannot be changed")
	case after.Epoch != before.Epoch || after.LoadedEpoch != before.LoadedEpoch || after.Fence != before.Fence || after.Taken != before.Taken || after.Cap != before.Cap:
		return errors.New("epoch, fence, taken and cap of a sale are the store's own")
	case !after.ArchivedAt.Equal(before.ArchivedAt) || !after.CreatedAt.Equal(before.CreatedAt) || !after.UpdatedAt.Equal(before.UpdatedAt):
		return errors.New("the times of a sale's row are the store's own")
	}
	after.Version = before.Version + 1
	if err := storable(after); err != nil {
		return err
	}
	// A total that stays may be below taken: lowered, and then passed by claims
	// that were accepted before (see raiseCap).
	if after.Total != before.Total && after.Total != sluice.Unlimited && after.Total < after.Taken { // I1
		return fmt.Errorf("total %d, taken %d: %w", after.Total, after.Taken, sluice.ErrBelowTaken)
	}
	raiseCap(after)
	return nil
}

// raiseCap lets the cap follow a new total. A lowered one leaves it: claims that
// the ledger accepted under the old total may still be on their way, and only
// ConfirmTotal knows that it accepts no more of them. A sale that was never
// loaded has no such claims.
func raiseCap(sale *sluice.Sale) {
	if sale.Total == sluice.Unlimited || sale.Cap == sluice.Unlimited || sale.Epoch == 0 {
		sale.Cap = sale.Total
	}
	sale.Cap = max(sale.Cap, sale.Total)
}

// FenceSale records why the sale's claims must be refused.
func (s *Store) FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) (err error) {
	defer s.wrap(&err, "fence sale=%s", id)
	reason = cleanText(reason)
	if reason == "" {
		return errors.New("a fence needs a reason")
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		fenced, err := exec(ctx, tx, s.sql.FenceSale, reason, s.d.Time(now), id, epoch)
		if err != nil {
			return err
		}
		if fenced {
			return s.addSaleEventOf(ctx, tx, sluice.EventSaleUnavailable, id, now)
		}
		_, err = s.lockSale(ctx, tx, id)
		return err
	})
}

// cleanText makes a text storable in any database. It is for texts that may
// quote damaged data.
func cleanText(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
