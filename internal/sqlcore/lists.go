package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A list is uploaded under a generation of its own, in small transactions that
// keep no other waiting, and then becomes the list by one row that names the
// generation. Rows of older generations, and of uploads that were cut off,
// are deleted after the next upload.

var (
	// AddBuyerList adds a list of no generation, and nothing if it is there.
	sqlAddBuyerList = newStatement("Lists.AddBuyerList",
		insertInto("sale_lists", "sale_id, kind, updated_at")+` ON CONFLICT (sale_id, kind) DO NOTHING`)
	// LockBuyerList holds the row until the transaction ends.
	sqlLockBuyerList = newStatement("Lists.LockBuyerList",
		`SELECT generation, last_generation FROM sale_lists WHERE sale_id = ? AND kind = ? FOR UPDATE`)
	sqlSetLastGeneration = newStatement("Lists.SetLastGeneration",
		update("sale_lists", "last_generation")+` WHERE sale_id = ? AND kind = ?`)
	sqlPublishBuyerList = newStatement("Lists.PublishBuyerList",
		update("sale_lists", "generation, size, updated_at")+` WHERE sale_id = ? AND kind = ?`)
	sqlSelectBuyerLists = newStatement("Lists.SelectBuyerLists",
		`SELECT sale_id, kind, generation, size, updated_at FROM sale_lists WHERE generation > 0 ORDER BY sale_id, kind`)
	// AddListed adds those buyers of a list that are not there. SQLite needs the
	// WHERE to know that ON begins no join.
	sqlAddListed = newStatement("Lists.AddListed", `INSERT INTO sale_buyers (sale_id, kind, generation, buyer_id)
		SELECT ?, ?, ?, list.id FROM unnest(?::text[]) AS list (id) WHERE true
		ON CONFLICT (sale_id, kind, generation, buyer_id) DO NOTHING`)
	// Buyers are ordered by their bytes.
	sqlSelectListed = newStatement("Lists.SelectListed", `SELECT buyer_id FROM sale_buyers
		WHERE sale_id = ? AND kind = ? AND generation = ? AND buyer_id > ? ORDER BY buyer_id LIMIT ?`)
	sqlDeleteListed = newStatement("Lists.DeleteListed",
		`DELETE FROM sale_buyers WHERE sale_id = ? AND kind = ? AND generation = ? AND buyer_id <= ?`)
	// OldestGeneration is NULL if none below has buyers.
	sqlOldestGeneration = newStatement("Lists.OldestGeneration",
		`SELECT min(generation) FROM sale_buyers WHERE sale_id = ? AND kind = ? AND generation < ?`)

	// ArchivedList is one of those whose sale is archived.
	sqlArchivedList = newStatement("Tidy.ArchivedList", `SELECT l.sale_id, l.kind FROM sale_lists l
		JOIN sales ON sales.id = l.sale_id WHERE sales.archived_at IS NOT NULL LIMIT 1`)
	sqlDeleteList = newStatement("Tidy.DeleteList", `DELETE FROM sale_lists WHERE sale_id = ? AND kind = ?`)
	// DeleteGathered deletes what is that old and of epochs that are over.
	sqlDeleteGathered = newStatement("Tidy.DeleteGathered", `DELETE FROM gathered WHERE gathered_at < ?
		AND EXISTS (SELECT 1 FROM sales WHERE sales.id = gathered.sale_id AND sales.epoch > gathered.epoch)`)
	sqlDeleteLeases = newStatement("Tidy.DeleteLeases", `DELETE FROM leases WHERE expires_at < ?`)
)

// Sizes of one transaction that stores or deletes buyers: of ids, and of their
// bytes, so that the statement fits the smallest packet a server may take.
const (
	listRows  = 2000
	listBytes = 80 << 10
)

// tidyTime bounds what is deleted after an upload; the next one goes on.
const tidyTime = time.Minute

// ReplaceList stores a list and puts it in the place of the old one.
func (s *Store) ReplaceList(
	ctx context.Context, sale sluice.SaleID, kind sluice.ListKind, buyers iter.Seq2[sluice.BuyerID, error],
) (list port.BuyerList, err error) {
	defer s.wrap(&err, "replace the %s list of sale=%s", kind, sale)
	if !kind.Valid() {
		return list, fmt.Errorf("list %q: want allow or deny", kind)
	}
	list = port.BuyerList{Sale: sale, Kind: kind}
	if list.Generation, err = s.nextGeneration(ctx, sale, kind); err != nil {
		return port.BuyerList{}, err
	}
	if list.Size, err = s.fillList(ctx, &list, buyers); err == nil {
		err = s.publishList(ctx, &list)
	}
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	if err != nil {
		_ = s.dropGeneration(tidy, sale, kind, list.Generation) // or the next upload does
		return port.BuyerList{}, err
	}
	_ = s.dropBefore(tidy, &list)
	return list, nil
}

// nextGeneration takes a number that no other upload of the list has, nor has had under
// the id of a sale that was deleted: servers may have that list still.
func (s *Store) nextGeneration(
	ctx context.Context, sale sluice.SaleID, kind sluice.ListKind,
) (generation int64, err error) {
	err = s.changeSale(ctx, sale, func(tx *conn, _ *sluice.Sale) error {
		tx.set(sqlAddBuyerList, sale, kind, storeNow)
		var published int64
		if err := tx.row(sqlLockBuyerList, sale, kind).Scan(&published, &generation); err != nil {
			return err
		}
		generation = max(generation+1, tx.now().UnixMilli())
		return tx.set(sqlSetLastGeneration, generation, sale, kind)
	})
	return generation, err
}

// fillList stores the buyers of a generation, and counts them.
func (s *Store) fillList(
	ctx context.Context, list *port.BuyerList, buyers iter.Seq2[sluice.BuyerID, error],
) (size int64, err error) {
	chunk, bytes := make([]string, 0, listRows), 0
	flush := func() error {
		added := int64(0)
		err := s.change(ctx, func(tx *conn) error {
			added = tx.count(sqlAddListed, list.Sale, list.Kind, list.Generation, chunk)
			return nil
		})
		chunk, bytes = chunk[:0], 0
		if size += added; err == nil && size > port.MaxListed {
			err = fmt.Errorf("%w: want at most %d buyers", sluice.ErrListTooLong, port.MaxListed)
		}
		return err
	}
	for buyer, err := range buyers {
		if err == nil {
			err = buyer.Validate()
		}
		if err != nil {
			return 0, err
		}
		if len(chunk) == listRows || bytes > listBytes {
			if err := flush(); err != nil {
				return 0, err
			}
		}
		chunk, bytes = append(chunk, string(buyer)), bytes+len(buyer)
	}
	if len(chunk) > 0 {
		err = flush()
	}
	return size, err
}

func (s *Store) publishList(ctx context.Context, list *port.BuyerList) error {
	return s.change(ctx, func(tx *conn) error {
		var published, last int64
		if err := tx.row(sqlLockBuyerList, list.Sale, list.Kind).Scan(&published, &last); err != nil {
			return err
		}
		if published > list.Generation {
			return sluice.ErrListSuperseded
		}
		list.UpdatedAt = tx.now()
		return tx.set(sqlPublishBuyerList, list.Generation, list.Size, list.UpdatedAt, list.Sale, list.Kind)
	})
}

// dropBefore deletes the buyers of all generations before the list's.
func (s *Store) dropBefore(ctx context.Context, list *port.BuyerList) error {
	for {
		oldest, err := only[sql.NullInt64](s.reads(ctx).row(sqlOldestGeneration, list.Sale, list.Kind, list.Generation))
		if err != nil || !oldest.Valid {
			return err
		}
		if err := s.dropGeneration(ctx, list.Sale, list.Kind, oldest.Int64); err != nil {
			return err
		}
	}
}

func (s *Store) dropGeneration(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind, generation int64) error {
	for {
		ids, err := all(s.reads(ctx), sqlSelectListed, only[string], sale, kind, generation, "", listRows)
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := s.change(ctx, func(tx *conn) error {
			return tx.exec(sqlDeleteListed, sale, kind, generation, ids[len(ids)-1])
		}); err != nil {
			return err
		}
	}
}

// Lists returns all lists.
func (s *Store) Lists(ctx context.Context) (lists []port.BuyerList, err error) {
	defer s.wrap(&err, "read the lists of buyers")
	return all(s.reads(ctx), sqlSelectBuyerLists, func(r row) (l port.BuyerList, err error) {
		err = r.Scan(&l.Sale, &l.Kind, &l.Generation, &l.Size, moment{&l.UpdatedAt})
		return l, err
	})
}

// Listed returns some buyers of a list.
func (s *Store) Listed(
	ctx context.Context, list port.BuyerList, after sluice.BuyerID, limit int,
) (page []sluice.BuyerID, err error) {
	defer s.wrap(&err, "read the %s list of sale=%s", list.Kind, list.Sale)
	if limit < 1 {
		return nil, errors.New("limit: want 1 or more")
	}
	return all(s.reads(ctx), sqlSelectListed, only[sluice.BuyerID], list.Sale, list.Kind, list.Generation, after, limit)
}

// tidyAfter is how long something stays that has done its work: longer than any
// step of a server that still might look at it.
const tidyAfter = 24 * time.Hour

// tidyLists bounds the lists that one call deletes.
const tidyLists = 1000

// Tidy deletes what has done its work, and would grow with every sale: the lists
// of buyers of archived sales, leases that ended a day ago, and what servers
// said of rebuilds that are over. It does so in small transactions, and is
// harmless at any time and on several servers at once: a lease that is deleted
// is taken as if it were new.
func (s *Store) Tidy(ctx context.Context) (err error) {
	defer s.wrap(&err, "tidy")
	err = s.change(ctx, func(tx *conn) error {
		old := tx.now().Add(-tidyAfter)
		tx.exec(sqlDeleteGathered, old)
		return tx.exec(sqlDeleteLeases, old)
	})
	if err != nil {
		return err
	}
	return s.dropArchivedLists(ctx)
}

// dropArchivedLists deletes the lists of buyers of archived sales.
func (s *Store) dropArchivedLists(ctx context.Context) error {
	for range tidyLists {
		list := port.BuyerList{Generation: math.MaxInt64}
		err := s.reads(ctx).row(sqlArchivedList).Scan(&list.Sale, &list.Kind)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = s.dropBefore(ctx, &list) // its buyers first: without the row they would not be found again
		}
		if err == nil {
			err = s.change(ctx, func(tx *conn) error { return tx.exec(sqlDeleteList, list.Sale, list.Kind) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}
