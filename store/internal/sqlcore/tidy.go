package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/sluicehq/sluice"
)

// TidyStatements are the SQL that deletes what has done its work, as Statements
// are.
type TidyStatements struct {
	// ArchivedList selects sale and kind of a list of buyers whose sale is
	// archived, if there is one.
	ArchivedList   string // no arguments
	DeleteList     string // sale, kind
	DeleteGathered string // gathered_at; those before it, of epochs that are over
	DeleteLeases   string // expires_at; those before it
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
	err = s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		for _, statement := range []string{s.sql.Tidy.DeleteGathered, s.sql.Tidy.DeleteLeases} {
			if _, err := tx.ExecContext(ctx, statement, s.d.Time(now.Add(-tidyAfter))); err != nil {
				return err
			}
		}
		return nil
	})
	for range tidyLists {
		if err != nil {
			return err
		}
		list := sluice.BuyerList{Generation: math.MaxInt64}
		err = s.read.QueryRowContext(ctx, s.sql.Tidy.ArchivedList).Scan(&list.Sale, &list.Kind)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			err = s.dropBefore(ctx, &list) // its buyers first: without the row they would not be found again
		}
		if err == nil {
			err = s.change(ctx, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, s.sql.Tidy.DeleteList, list.Sale, list.Kind)
				return err
			})
		}
	}
	return err
}
