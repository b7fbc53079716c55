package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
)

// DeadLetter returns an entry that was set aside.
func (s *Store) DeadLetter(ctx context.Context, id int64) (letter sluice.DeadLetter, err error) {
	defer s.wrap(&err, "read dead letter %d", id)
	if err := s.enter(ctx); err != nil {
		return sluice.DeadLetter{}, err
	}
	return s.oneLetter(s.read.QueryRowContext(ctx, s.sql.SelectDeadLetter, id))
}

func (s *Store) oneLetter(r row) (sluice.DeadLetter, error) {
	letter, err := scanDeadLetter(r)
	if errors.Is(err, sql.ErrNoRows) {
		err = sluice.ErrDeadLetterNotFound
	}
	if err != nil {
		return sluice.DeadLetter{}, err
	}
	return letter, nil
}

// maxResolution bounds the note of how a dead letter was dealt with, in bytes.
const maxResolution = 1024

// ResolveDeadLetter notes how an entry was dealt with.
func (s *Store) ResolveDeadLetter(ctx context.Context, id int64, how string) (err error) {
	defer s.wrap(&err, "resolve dead letter %d", id)
	if how = cleanText(how); len(how) > maxResolution {
		return fmt.Errorf("a note of %d bytes: want at most %d", len(how), maxResolution)
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		resolved, err := exec(ctx, tx, s.sql.ResolveDeadLetter, s.d.Time(now), how, id)
		if err != nil || resolved {
			return err
		}
		_, err = s.oneLetter(tx.QueryRowContext(ctx, s.sql.SelectDeadLetter, id))
		return err
	})
}
