package sqlcore

import (
	"context"
	"database/sql"

	"github.com/sluicehq/sluice"
)

// BacklogStatements count what waits, by sale: its id, how many, and since when
// the first one waits.
type BacklogStatements struct {
	DeadLetters string // no arguments; without the time
	Releases    string // no arguments
	Overdue     string // now
}

// Backlog counts what waits.
func (s *Store) Backlog(ctx context.Context) (backlog sluice.Backlog, err error) {
	defer s.wrap(&err, "count the backlog")
	backlog.Sales = map[sluice.SaleID]sluice.SaleBacklog{}
	err = s.view(ctx, func(tx *sql.Tx) (err error) {
		if backlog.At, err = s.d.Now(ctx, tx); err != nil {
			return err
		}
		count := func(query string, args []any, scan func(*sluice.SaleBacklog) []any) error {
			return each(ctx, tx, query, args, func(r *sql.Rows) error {
				var id sluice.SaleID
				var add sluice.SaleBacklog
				into := scan(&add)
				if err := r.Scan(append([]any{&id}, into...)...); err != nil {
					return err
				}
				b := backlog.Sales[id]
				b.DeadLetters += add.DeadLetters
				if add.Releases > 0 {
					b.Releases, b.OldestRelease = add.Releases, add.OldestRelease
				}
				if add.Overdue > 0 {
					b.Overdue, b.OldestDue = add.Overdue, add.OldestDue
				}
				backlog.Sales[id] = b
				return nil
			})
		}
		err = count(s.sql.Backlog.DeadLetters, nil, func(b *sluice.SaleBacklog) []any { return []any{&b.DeadLetters} })
		if err != nil {
			return err
		}
		err = count(s.sql.Backlog.Releases, nil, func(b *sluice.SaleBacklog) []any { return []any{&b.Releases, Moment(&b.OldestRelease)} })
		if err != nil {
			return err
		}
		return count(s.sql.Backlog.Overdue, []any{s.d.Time(backlog.At)}, func(b *sluice.SaleBacklog) []any {
			return []any{&b.Overdue, Moment(&b.OldestDue)}
		})
	})
	return backlog, err
}
