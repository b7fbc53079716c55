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

// clockMargin is how far a lease may end beyond its ttl from now: the database's
// clock may step back that far before a lease counts as one of another time.
const clockMargin = time.Second

// Lease takes or renews a lease. The clock is read once the lease's row is
// locked, so of two that want it the second one sees what the first one got.
// The row of a name stays until a day after its end (see Tidy): one that vanished
// could not be locked.
//
// A lease that ends later than a lease taken now would, was taken before the
// database's clock stepped back. It has expired: its holder, if it lives, renews
// it by the new time, and if it is dead the others must not wait for the step.
func (s *Store) Lease(ctx context.Context, name, holder string, ttl time.Duration) (got bool, err error) {
	defer s.wrap(&err, "lease %s to %s", name, holder)
	switch {
	case !shortText(name):
		return false, errNotShort("name of a lease", name)
	case !shortText(holder):
		return false, errNotShort("holder of a lease", holder)
	case ttl < time.Millisecond:
		return false, fmt.Errorf("for %v: want a millisecond or more", ttl)
	}
	err = s.change(ctx, func(tx *sql.Tx) (err error) {
		got, err = s.lease(ctx, tx, name, holder, ttl)
		return err
	})
	return got && err == nil, err
}

func (s *Store) lease(ctx context.Context, tx *sql.Tx, name, holder string, ttl time.Duration) (bool, error) {
	var by string
	var until time.Time
	lock := func() error {
		return tx.QueryRowContext(ctx, s.sql.LockLease, name).Scan(&by, moment{&until})
	}
	err := lock()
	if errors.Is(err, sql.ErrNoRows) { // nobody has ever asked for it
		now, nowErr := s.d.Now(ctx, tx)
		if nowErr != nil {
			return false, nowErr
		}
		if _, err := exec(ctx, tx, s.sql.AddLease, name, s.d.Time(now)); err != nil {
			return false, err
		}
		err = lock()
	}
	if err != nil {
		return false, err
	}
	now, err := s.d.Now(ctx, tx)
	held := now.Before(until) && !until.After(now.Add(ttl+clockMargin))
	if err != nil || by != "" && by != holder && held {
		return false, err
	}
	_, err = exec(ctx, tx, s.sql.SetLease, holder, s.d.Time(now.Add(ttl)), name)
	return err == nil, err
}

// Unlease gives a lease back.
func (s *Store) Unlease(ctx context.Context, name, holder string) (err error) {
	defer s.wrap(&err, "give back the lease %s of %s", name, holder)
	if !shortText(name) || !shortText(holder) {
		return nil // nobody has it
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := exec(ctx, tx, s.sql.EndLease, name, holder)
		return err
	})
}

// forgetAfter is when a server that is silent is forgotten, so that names which
// are made up anew with each start do not stay for ever.
const forgetAfter = 30 * 24 * time.Hour

// Heartbeat says that a server lives.
func (s *Store) Heartbeat(ctx context.Context, node string) (err error) {
	defer s.wrap(&err, "heartbeat of %s", node)
	if !shortText(node) {
		return errNotShort("name of a server", node)
	}
	known := false
	err = s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		known, err = exec(ctx, tx, s.sql.Beat, s.d.Time(now), node)
		if err != nil || known {
			return err
		}
		// It is new, or MySQL, which does not count a row that stays as it is,
		// was asked twice in a millisecond.
		_, err = exec(ctx, tx, s.sql.AddNode, node, s.d.Time(now))
		return err
	})
	if err != nil || known {
		return err
	}
	// In a transaction of its own: it may wait for the rows of others, who must
	// not wait for ours then.
	return s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.sql.ForgetNodes, s.d.Time(now.Add(-forgetAfter)))
		return err
	})
}

// LiveNodes returns the servers whose last heartbeat is near, by name. One that
// lies farther ahead was sent before the database's clock stepped back, by a
// server that has sent none since.
func (s *Store) LiveNodes(ctx context.Context, within time.Duration) (nodes []string, err error) {
	defer s.wrap(&err, "list live servers")
	err = s.view(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		nodes, err = texts(ctx, tx, s.sql.LiveNodes, s.d.Time(now.Add(-within)), s.d.Time(now.Add(within)))
		return err
	})
	return nodes, err
}

// MarkGathered says that a server has stored what it remembers.
func (s *Store) MarkGathered(ctx context.Context, sale sluice.SaleID, epoch int64, node string) (err error) {
	defer s.wrap(&err, "mark gathered sale=%s epoch=%d node=%s", sale, epoch, node)
	if !shortText(node) {
		return errNotShort("name of a server", node)
	}
	if err := sale.Validate(); err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.sql.AddGathered, sale, epoch, node, s.d.Time(now))
		return err
	})
}

// Gathered returns the servers that have said so, by name.
func (s *Store) Gathered(ctx context.Context, sale sluice.SaleID, epoch int64) (nodes []string, err error) {
	defer s.wrap(&err, "list gathered sale=%s epoch=%d", sale, epoch)
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	return texts(ctx, s.read, s.sql.Gathered, sale, epoch)
}

func texts(ctx context.Context, q querier, query string, args ...any) (all []string, err error) {
	err = each(ctx, q, query, args, func(r *sql.Rows) error {
		var text string
		err := r.Scan(&text)
		all = append(all, text)
		return err
	})
	return all, err
}

// maxShort is the longest name of something, in bytes.
const maxShort = 255

func shortText(text string) bool {
	return text != "" && len(text) <= maxShort && utf8.ValidString(text) && !strings.Contains(text, "\x00")
}

func errNotShort(what, text string) error {
	return fmt.Errorf("%s of %d bytes: want 1 to %d bytes of UTF-8", what, len(text), maxShort)
}
