package sqlcore

import (
	"context"
	"database/sql"
	"time"
)

// Clock returns the store's time.
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	defer s.wrap(&err, "read the clock")
	err = s.view(ctx, func(tx *sql.Tx) error {
		now, err = s.d.Now(ctx, tx)
		return err
	})
	return now, err
}
