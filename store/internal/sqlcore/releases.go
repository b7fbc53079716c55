package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Holder is a dialect that cannot hold rows without keeping all others from
// writing. It knows by itself what is in hand: Hold reports false while another
// has the sale's releases, else what to call when they are free again.
type Holder interface {
	Hold(sale sluice.SaleID) (free func(), ok bool)
}

// GiveReleases hands up to limit releases of each sale that has any to give,
// one sale after the other. A sale whose releases cannot be given does not stop
// those of others: the errors are joined, and come with the count of what was
// given. A sale for which that took long rests for a while. The next call begins
// with the next sale, so that one that takes all the time of ctx does not either.
func (s *Store) GiveReleases(ctx context.Context, limit int, give func(sluice.SaleID, []sluice.Release) error) (given int, err error) {
	defer s.wrapAsIs(&err, "give releases")
	if limit < 1 {
		return 0, fmt.Errorf("limit %d: want 1 or more", limit)
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	if s.ReadOnly {
		return 0, errReadOnly
	}
	var failures []error
	start := s.releasing.Load()
	for sale, wrapped := *start, false; ; {
		next, err := s.nextReleasing(ctx, sale)
		switch {
		case err != nil:
			return given, errors.Join(append(failures, err)...)
		case next == "" && !wrapped && *start != "":
			sale, wrapped = "", true
			continue
		case next == "" || wrapped && next > *start: // all have had their turn
			s.releasing.Store(new(sluice.SaleID))
			return given, errors.Join(failures...)
		}
		sale = next
		s.releasing.Store(&next)
		if s.slow.releases.resting(sale) {
			continue
		}
		begun := time.Now()
		n, err := s.giveSale(ctx, sale, limit, give)
		given += n
		if n > 0 || err != nil { // else another server may have them in hand
			s.slow.releases.note(sale, time.Since(begun), err != nil)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("sale=%s: %w", sale, err))
		}
	}
}

// nextReleasing returns the next sale that has releases; empty after the last.
func (s *Store) nextReleasing(ctx context.Context, after sluice.SaleID) (next sluice.SaleID, err error) {
	err = s.read.QueryRowContext(ctx, s.sql.NextReleasing, after).Scan(&next)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return next, err
}

// giveSale hands out releases of one sale and deletes them. If that breaks off
// anywhere, also because this server dies, they are there again (I6: the
// ledger applies each once, whether or not it has seen it).
func (s *Store) giveSale(ctx context.Context, sale sluice.SaleID, limit int, give func(sluice.SaleID, []sluice.Release) error) (int, error) {
	holder, ok := s.d.(Holder)
	if !ok {
		n := 0
		ctx, cancel := context.WithTimeout(ctx, changeTimeout)
		defer cancel()
		err := s.within(ctx, s.write, nil, false, func(tx *sql.Tx) error {
			releases, err := s.selectReleases(ctx, tx, sale, limit)
			if err != nil || len(releases) == 0 {
				return err
			}
			if err := give(sale, releases); err != nil {
				return err
			}
			n = len(releases)
			return s.deleteReleases(ctx, tx, releases)
		})
		if err != nil {
			return 0, err
		}
		return n, nil
	}
	free, ok := holder.Hold(sale)
	if !ok {
		return 0, nil
	}
	defer free()
	releases, err := s.selectReleases(ctx, s.read, sale, limit)
	if err != nil || len(releases) == 0 {
		return 0, err
	}
	if err := give(sale, releases); err != nil {
		return 0, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error { return s.deleteReleases(ctx, tx, releases) })
	if err != nil {
		return 0, err
	}
	return len(releases), nil
}

func (s *Store) selectReleases(ctx context.Context, q querier, sale sluice.SaleID, limit int) (all []sluice.Release, err error) {
	err = each(ctx, q, s.sql.SelectReleases, []any{sale, limit}, func(rows *sql.Rows) error {
		var r sluice.Release
		err := rows.Scan(&r.Order, &r.Sale, &r.Buyer, &r.Key, &r.Quantity, &r.Epoch, &r.Unpaid)
		all = append(all, r)
		return err
	})
	return all, err
}

func (s *Store) deleteReleases(ctx context.Context, tx *sql.Tx, releases []sluice.Release) error {
	ids := make([]string, len(releases))
	for i := range releases {
		ids[i] = string(releases[i].Order)
	}
	return execAll(ctx, tx, len(ids), s.sql.DeleteReleases, s.d.List(ids))
}

// PendingReleases counts the releases of a sale that wait.
func (s *Store) PendingReleases(ctx context.Context, sale sluice.SaleID) (n int64, err error) {
	defer s.wrap(&err, "count releases sale=%s", sale)
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	err = s.read.QueryRowContext(ctx, s.sql.PendingReleases, sale).Scan(&n)
	return n, err
}
