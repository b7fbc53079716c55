package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	sqlInsertSale  = newStatement("InsertSale", insertInto("sales", saleColumns)+" ON CONFLICT (id) DO NOTHING")
	sqlInsertTerms = newStatement("InsertTerms", insertInto("sale_terms", "sale_id, "+termsColumns+", changed_at"))
	sqlSelectSale  = newStatement("SelectSale", `SELECT `+saleColumns+` FROM sales WHERE id = ?`)
	// LockSale holds the row until the transaction ends.
	sqlLockSale    = newStatement("LockSale", `SELECT `+saleColumns+` FROM sales WHERE id = ? FOR NO KEY UPDATE`)
	sqlSelectSales = newStatement("SelectSales", `SELECT `+saleColumns+` FROM sales ORDER BY opens_at, id`)
	sqlLiveSales   = newStatement("LiveSales", `SELECT `+saleColumns+` FROM sales WHERE archived_at IS NULL ORDER BY id`)
	// Digest is port.DigestSales of the live sales, made where they are.
	sqlDigest = newStatement("Digest", `SELECT count(*), count(CASE WHEN fence <> '' THEN 1 END),
		coalesce(sum(terms_version), 0), coalesce(sum(epoch + loaded_epoch), 0), coalesce(sum(taken), 0),
		coalesce(sum(cap), 0),
		coalesce(sum((extract(epoch FROM updated_at) * 1000)::bigint % 1000000000), 0) FROM sales WHERE archived_at IS NULL`)
	// FencedSales looks at all live sales, where they are: it returns few.
	sqlFencedSales = newStatement("FencedSales", `SELECT `+saleColumns+` FROM sales
		WHERE archived_at IS NULL AND (fence <> '' OR epoch <> loaded_epoch) ORDER BY id`)
	sqlNamedSales  = newStatement("NamedSales", `SELECT `+saleColumns+` FROM sales WHERE id = ANY (?::text[]) ORDER BY id`)
	sqlPageOfSales = newStatement("PageOfSales", `SELECT `+saleColumns+` FROM sales WHERE id > ? ORDER BY id LIMIT ?`)
	sqlUpdateSale  = newStatement("UpdateSale",
		update("sales", editableColumns+", terms_version, "+limitColumns+", cap, updated_at")+` WHERE id = ?`)
	// FenceSale changes nothing if there is a fence.
	sqlFenceSale = newStatement("FenceSale",
		update("sales", "fence, updated_at")+` WHERE id = ? AND epoch = ? AND fence = ''`)
	// Unsettled reports whether orders are pending, releases wait or dead letters
	// are not resolved.
	sqlUnsettled = newStatement("Unsettled", `SELECT EXISTS (SELECT 1 FROM orders WHERE sale_id = ? AND status = 'pending')
		OR EXISTS (SELECT 1 FROM releases WHERE sale_id = ?)
		OR EXISTS (SELECT 1 FROM dead_letters WHERE sale_id = ? AND resolved_at IS NULL)`)
	sqlArchiveSale = newStatement("ArchiveSale", update("sales", "archived_at, updated_at")+` WHERE id = ?`)
)

// CreateSale adds a sale.
func (s *Store) CreateSale(ctx context.Context, sale sluice.Sale) (_ sluice.Sale, err error) {
	defer s.wrap(&err, "create sale=%s", sale.ID)
	sale.Version, sale.Epoch, sale.LoadedEpoch, sale.Fence, sale.Taken, sale.Ledger = 1, 0, 0, "", 0, ""
	sale.Cap, sale.ArchivedAt = sale.Total, time.Time{}
	if err := storable(&sale); err != nil {
		return sluice.Sale{}, err
	}
	err = s.change(ctx, func(tx *conn) error {
		if err := tx.keepPictures(&sluice.Sale{}, &sale); err != nil {
			return err
		}
		now := tx.now()
		sale.CreatedAt, sale.UpdatedAt = now, now
		if !tx.changed(sqlInsertSale, slices.Concat([]any{sale.ID}, editableArgs(&sale), termsArgs(&sale.Terms),
			[]any{sale.Epoch, sale.LoadedEpoch, sale.Fence, sale.Taken, limitArg(sale.Cap), now, now, nil, nil, nil, ""})...) {
			return sluice.ErrSaleExists
		}
		tx.addTerms(&sale)
		return tx.addSaleEvent(sluice.EventSaleCreated, &sale, now)
	})
	return unless(sale, err)
}

// addTerms appends the sale's terms to their history.
func (q *conn) addTerms(sale *sluice.Sale) {
	q.set(sqlInsertTerms, slices.Concat([]any{sale.ID}, termsArgs(&sale.Terms), []any{sale.UpdatedAt})...)
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
	return s.reads(ctx).sale(sqlSelectSale, id)
}

func (q *conn) sale(st statement, id sluice.SaleID) (sluice.Sale, error) {
	return one(q, sluice.ErrSaleNotFound, st, scanSale, id)
}

func (q *conn) lockSale(id sluice.SaleID) sluice.Sale {
	sale, _ := q.sale(sqlLockSale, id)
	return sale
}

// changeSale calls do with a sale whose row is held.
func (s *Store) changeSale(ctx context.Context, id sluice.SaleID, do func(tx *conn, sale *sluice.Sale) error) error {
	return s.changeWithin(ctx, changeTimeout, onSale(id, do))
}

func onSale(id sluice.SaleID, do func(tx *conn, sale *sluice.Sale) error) func(*conn) error {
	return func(tx *conn) error {
		sale := tx.lockSale(id)
		if tx.err != nil {
			return tx.err
		}
		return do(tx, &sale)
	}
}

// Sales returns all sales.
func (s *Store) Sales(ctx context.Context) (list []sluice.Sale, err error) {
	defer s.wrap(&err, "list sales")
	return all(s.reads(ctx), sqlSelectSales, scanListed)
}

// SelectSales returns some sales.
func (s *Store) SelectSales(ctx context.Context, f port.SaleFilter) (list []sluice.Sale, err error) {
	defer s.wrap(&err, "select sales")
	switch {
	case f.Live:
		q := s.reads(ctx)
		if f.Unless != (port.SalesDigest{}) {
			switch now, err := one(q, sql.ErrNoRows, sqlDigest, scanDigest); {
			case err != nil:
				return nil, err
			case now == f.Unless:
				return nil, port.ErrUnchanged
			}
		}
		return all(q, sqlLiveSales, scanListed)
	case f.Fenced:
		return all(s.reads(ctx), sqlFencedSales, scanListed)
	case f.IDs != nil:
		return all(s.reads(ctx), sqlNamedSales, scanListed, asTexts(f.IDs))
	case f.Limit < 1:
		return nil, errors.New("limit: want 1 or more")
	}
	return all(s.reads(ctx), sqlPageOfSales, scanListed, f.After, f.Limit)
}

func scanDigest(r row) (d port.SalesDigest, err error) {
	err = r.Scan(&d.Sales, &d.Fenced, &d.Versions, &d.Epochs, &d.Taken, &d.Caps, &d.Updated)
	return d, err
}

// asTexts is a list of ids as a statement takes it.
func asTexts[ID ~string](ids []ID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts
}

// ChangeSale edits a sale. The change must not use the store: it runs inside
// the transaction.
func (s *Store) ChangeSale(
	ctx context.Context, id sluice.SaleID, change func(*sluice.Sale) error,
) (sluice.Sale, error) {
	var sale sluice.Sale
	var refused error // by change; it is returned as it is
	err := s.changeSale(ctx, id, func(tx *conn, before *sluice.Sale) error {
		if !before.ArchivedAt.IsZero() {
			return sluice.ErrArchived
		}
		sale = *before
		if refused = change(&sale); refused != nil {
			return refused
		}
		if err := edited(before, &sale); err != nil {
			return err
		}
		if err := tx.keepPictures(before, &sale); err != nil {
			return err
		}
		return tx.writeChange(&sale)
	})
	if refused != nil {
		return sluice.Sale{}, refused
	}
	s.wrap(&err, "change sale=%s", id)
	return unless(sale, err)
}

// writeChange writes a sale that was edited, and its new version of the terms.
func (q *conn) writeChange(sale *sluice.Sale) error {
	sale.UpdatedAt = q.now()
	q.set(sqlUpdateSale, slices.Concat(editableArgs(sale), termsArgs(&sale.Terms),
		[]any{limitArg(sale.Cap), sale.UpdatedAt, sale.ID})...)
	q.addTerms(sale)
	return q.addSaleEvent(sluice.EventSaleUpdated, sale, sale.UpdatedAt)
}

// edited judges a change of a sale and raises the version of its terms.
// Fields that only the store moves must be as they were.
func edited(before, after *sluice.Sale) error {
	switch {
	case after.ID != before.ID:
		return errors.New("the id of a sale cannot be changed")
	case after.Epoch != before.Epoch || after.LoadedEpoch != before.LoadedEpoch || after.Fence != before.Fence ||
		after.Taken != before.Taken || after.Cap != before.Cap || after.Ledger != before.Ledger:
		return errors.New("epoch, fence, ledger, taken and cap of a sale are the store's own")
	case !after.ArchivedAt.Equal(before.ArchivedAt) || !after.CreatedAt.Equal(before.CreatedAt) ||
		!after.UpdatedAt.Equal(before.UpdatedAt):
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
	return s.change(ctx, func(tx *conn) error {
		now := tx.now()
		if tx.changed(sqlFenceSale, reason, now, id, epoch) {
			return tx.addSaleEventOf(sluice.EventSaleUnavailable, id, now)
		}
		if strings.HasPrefix(reason, port.FenceOlder) && tx.changed(sqlFenceOlder, reason, now, id, epoch) {
			return tx.err
		}
		tx.lockSale(id) // is there one?
		return nil
	})
}

// Archive marks a sale as over for good. The lock of the sale's row keeps out
// what would store orders; what ends one either has written its release, and is
// seen here, or finds the sale archived and writes none (see addReleases).
func (s *Store) Archive(ctx context.Context, id sluice.SaleID) (archived bool, err error) {
	defer s.wrap(&err, "archive sale=%s", id)
	err = s.changeSale(ctx, id, func(tx *conn, sale *sluice.Sale) error {
		if archived = !sale.ArchivedAt.IsZero(); archived {
			return nil
		}
		now := tx.now()
		if sale.ClosesAt.IsZero() || now.Before(sale.ClosesAt) {
			return nil
		}
		if unsettled, err := only[bool](tx.row(sqlUnsettled, id, id, id)); err != nil || unsettled {
			return err
		}
		if archived = tx.changed(sqlArchiveSale, now, now, id); archived {
			tx.exec(sqlDeleteStretches, id)
			tx.addSaleEventOf(sluice.EventSaleArchived, id, now)
		}
		return nil
	})
	return archived && err == nil, err
}

// cleanText makes a text storable in any database. It is for texts that may
// quote damaged data.
func cleanText(text string) string {
	if utf8.ValidString(text) && !strings.Contains(text, "\x00") {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
