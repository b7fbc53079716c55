package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/sluicehq/sluice"
)

// A list is uploaded under a generation of its own, in small transactions that
// keep nobody waiting, and then becomes the list by one row that names the
// generation. What older generations have left, also those of uploads that
// were cut off, is deleted after the next one.

// ListStatements is the SQL of lists, as Statements are.
type ListStatements struct {
	AddBuyerList      string // sale, kind, updated_at; of no generation; nothing if it is there
	LockBuyerList     string // sale, kind; generation, last_generation, and holds the row until the transaction ends
	SetLastGeneration string // last_generation, sale, kind
	PublishBuyerList  string // generation, size, updated_at, sale, kind
	SelectBuyerLists  string // no arguments; sale, kind, generation, size, updated_at of those with a generation, by sale and kind
	AddListed         string // sale, kind, generation, list; those that are not there
	SelectListed      string // sale, kind, generation, buyer after whom, limit; buyers by their bytes
	DeleteListed      string // sale, kind, generation, buyer; those up to this one, by their bytes
	OldestGeneration  string // sale, kind, generation; the lowest below it that has buyers, or NULL
}

// Sizes of one transaction that stores or deletes buyers: of ids, and of their
// bytes, so that the statement fits the smallest packet a server may take.
const (
	listRows  = 2000
	listBytes = 80 << 10
)

// tidyTime bounds what is deleted after an upload; the next one goes on.
const tidyTime = time.Minute

// ReplaceList stores a list and puts it in the place of the old one.
func (s *Store) ReplaceList(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind, buyers iter.Seq2[sluice.BuyerID, error]) (list sluice.BuyerList, err error) {
	defer s.wrap(&err, "replace the %s list of sale=%s", kind, sale)
	if !kind.Valid() {
		return list, fmt.Errorf("list %q: want allow or deny", kind)
	}
	list = sluice.BuyerList{Sale: sale, Kind: kind}
	if list.Generation, err = s.nextGeneration(ctx, sale, kind); err != nil {
		return sluice.BuyerList{}, err
	}
	if list.Size, err = s.fillList(ctx, &list, buyers); err == nil {
		err = s.publishList(ctx, &list)
	}
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
	defer cancel()
	if err != nil {
		_ = s.dropGeneration(tidy, sale, kind, list.Generation) // or the next upload does
		return sluice.BuyerList{}, err
	}
	_ = s.dropBefore(tidy, &list)
	return list, nil
}

// nextGeneration takes a number that no other upload of the list has.
func (s *Store) nextGeneration(ctx context.Context, sale sluice.SaleID, kind sluice.ListKind) (generation int64, err error) {
	err = s.change(ctx, func(tx *sql.Tx) error {
		if _, err := s.lockSale(ctx, tx, sale); err != nil {
			return err
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := exec(ctx, tx, s.sql.Lists.AddBuyerList, sale, kind, s.d.Time(now)); err != nil {
			return err
		}
		var published int64
		if err := tx.QueryRowContext(ctx, s.sql.Lists.LockBuyerList, sale, kind).Scan(&published, &generation); err != nil {
			return err
		}
		generation++
		_, err = exec(ctx, tx, s.sql.Lists.SetLastGeneration, generation, sale, kind)
		return err
	})
	return generation, err
}

// fillList stores the buyers of a generation, and counts them.
func (s *Store) fillList(ctx context.Context, list *sluice.BuyerList, buyers iter.Seq2[sluice.BuyerID, error]) (size int64, err error) {
	chunk, bytes := make([]string, 0, listRows), 0
	flush := func() error {
		added := int64(0)
		err := s.change(ctx, func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, s.sql.Lists.AddListed, list.Sale, list.Kind, list.Generation, s.d.List(chunk))
			if err != nil {
				return err
			}
			added, err = result.RowsAffected()
			return err
		})
		chunk, bytes = chunk[:0], 0
		if size += added; err == nil && size > sluice.MaxListed {
			err = fmt.Errorf("%w: want at most %d buyers", sluice.ErrListTooLong, sluice.MaxListed)
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

func (s *Store) publishList(ctx context.Context, list *sluice.BuyerList) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		var published, last int64
		if err := tx.QueryRowContext(ctx, s.sql.Lists.LockBuyerList, list.Sale, list.Kind).Scan(&published, &last); err != nil {
			return err
		}
		if published > list.Generation {
			return sluice.ErrListSuperseded
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		list.UpdatedAt = now
		_, err = exec(ctx, tx, s.sql.Lists.PublishBuyerList, list.Generation, list.Size, s.d.Time(now), list.Sale, list.Kind)
		return err
	})
}

// dropBefore deletes the buyers of all generations before the list's.
func (s *Store) dropBefore(ctx context.Context, list *sluice.BuyerList) error {
	for {
		var oldest sql.NullInt64
		err := s.read.QueryRowContext(ctx, s.sql.Lists.OldestGeneration, list.Sale, list.Kind, list.Generation).Scan(&oldest)
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
		ids, err := texts(ctx, s.read, s.sql.Lists.SelectListed, sale, kind, generation, "", listRows)
		if err != nil || len(ids) == 0 {
			return err
		}
		err = s.change(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, s.sql.Lists.DeleteListed, sale, kind, generation, ids[len(ids)-1])
			return err
		})
		if err != nil {
			return err
		}
	}
}

// Lists returns all lists.
func (s *Store) Lists(ctx context.Context) (all []sluice.BuyerList, err error) {
	defer s.wrap(&err, "read the lists of buyers")
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	err = each(ctx, s.read, s.sql.Lists.SelectBuyerLists, nil, func(r *sql.Rows) error {
		var l sluice.BuyerList
		err := r.Scan(&l.Sale, &l.Kind, &l.Generation, &l.Size, moment{&l.UpdatedAt})
		all = append(all, l)
		return err
	})
	return all, err
}

// Listed returns some buyers of a list.
func (s *Store) Listed(ctx context.Context, list sluice.BuyerList, after sluice.BuyerID, limit int) (page []sluice.BuyerID, err error) {
	defer s.wrap(&err, "read the %s list of sale=%s", list.Kind, list.Sale)
	if limit < 1 {
		return nil, errors.New("limit: want 1 or more")
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	err = each(ctx, s.read, s.sql.Lists.SelectListed, []any{list.Sale, list.Kind, list.Generation, after, limit}, func(r *sql.Rows) error {
		var id sluice.BuyerID
		err := r.Scan(&id)
		page = append(page, id)
		return err
	})
	return page, err
}
