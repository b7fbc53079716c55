package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Archive marks a sale as over for good. The lock of the sale's row keeps out
// what would store orders; what ends one either has written its release, and is
// seen here, or finds the sale archived and writes none (see addReleases).
func (s *Store) Archive(ctx context.Context, id sluice.SaleID) (archived bool, err error) {
	defer s.wrap(&err, "archive sale=%s", id)
	err = s.change(ctx, func(tx *sql.Tx) error {
		sale, err := s.lockSale(ctx, tx, id)
		if archived = err == nil && !sale.ArchivedAt.IsZero(); err != nil || archived {
			return err
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil || sale.ClosesAt.IsZero() || now.Before(sale.ClosesAt) {
			return err
		}
		var unsettled bool
		if err := tx.QueryRowContext(ctx, s.sql.Unsettled, id, id, id).Scan(&unsettled); err != nil || unsettled {
			return err
		}
		archived, err = exec(ctx, tx, s.sql.ArchiveSale, s.d.Time(now), s.d.Time(now), id)
		if err != nil || !archived {
			return err
		}
		return s.addSaleEventOf(ctx, tx, sluice.EventSaleArchived, id, now)
	})
	return archived && err == nil, err
}

// addReleases writes the releases of orders that the transaction has ended. The
// sales' rows are locked by it. Those of an archived sale have none: the ledger
// has forgotten the sale, or is about to, and nobody could take the units.
func (s *Store) addReleases(ctx context.Context, tx *sql.Tx, ids []string) error {
	list := s.d.List(ids)
	result, err := tx.ExecContext(ctx, s.sql.AddReleases, list)
	if err != nil {
		return err
	}
	added, err := result.RowsAffected()
	if err != nil || added == int64(len(ids)) {
		return err
	}
	var without int64
	if err := tx.QueryRowContext(ctx, s.sql.ArchivedOf, list).Scan(&without); err != nil {
		return err
	}
	if added+without != int64(len(ids)) {
		return fmt.Errorf("%d releases of %d orders, %d of archived sales", added, len(ids), without)
	}
	return nil
}

// Claim returns the order that an accepted claim became.
func (s *Store) Claim(ctx context.Context, claim sluice.ClaimID) (order sluice.Order, err error) {
	defer s.wrap(&err, "read claim sale=%s", claim.Sale)
	if claim.Sale.Validate() != nil || claim.Buyer.Validate() != nil || claim.Key.Validate() != nil {
		return sluice.Order{}, sluice.ErrOrderNotFound // it is nobody's; the database need not see it
	}
	if err := s.enter(ctx); err != nil {
		return sluice.Order{}, err
	}
	order, _, err = ScanOrder(s.read.QueryRowContext(ctx, s.sql.SelectClaim, claim.Buyer, claim.Sale, claim.Key))
	if errors.Is(err, sql.ErrNoRows) {
		err = sluice.ErrOrderNotFound
	}
	if err != nil {
		return sluice.Order{}, err
	}
	return order, nil
}
