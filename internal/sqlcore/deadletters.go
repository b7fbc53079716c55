package sqlcore

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

var (
	// InsertDeadLetter inserts nothing if the entry is there.
	sqlInsertDeadLetter = newStatement("InsertDeadLetter",
		insertInto("dead_letters", newLetterColumns)+` ON CONFLICT (sale_id, epoch, entry_id) DO NOTHING`)
	sqlPageOfDeadLetters = newStatement("PageOfDeadLetters",
		`SELECT `+deadLetterColumns+` FROM dead_letters WHERE id > ? AND resolved_at IS NULL ORDER BY id LIMIT ?`)
	sqlDeadLettersOfSale = newStatement("DeadLettersOfSale",
		`SELECT `+deadLetterColumns+` FROM dead_letters WHERE sale_id = ? AND resolved_at IS NULL ORDER BY id`)
	sqlPageOfDeadLettersOfSale = newStatement("PageOfDeadLettersOfSale", `SELECT `+deadLetterColumns+` FROM dead_letters
		WHERE sale_id = ? AND id > ? AND resolved_at IS NULL ORDER BY id LIMIT ?`)
	sqlSelectDeadLetter  = newStatement("SelectDeadLetter", `SELECT `+deadLetterColumns+` FROM dead_letters WHERE id = ?`)
	sqlResolveDeadLetter = newStatement("ResolveDeadLetter",
		update("dead_letters", "resolved_at, resolution")+` WHERE id = ? AND resolved_at IS NULL`)
)

// SetAside keeps an entry that could not be stored. It may be damaged, so its
// claims are kept as bytes, and nothing else of it can be a reason to fail.
func (s *Store) SetAside(ctx context.Context, l port.DeadLetter) (err error) {
	defer s.wrap(&err, "set aside sale=%s entry=%s", l.Sale, l.EntryID)
	return s.change(ctx, func(tx *conn) error {
		return tx.set(sqlInsertDeadLetter, cleanText(string(l.Sale)), l.Epoch, cleanText(l.EntryID), cleanText(l.Reason),
			[]byte(l.Claims), l.FirstSeq, l.Terms, cleanText(l.Node), l.At, storeNow)
	})
}

// DeadLetters returns the entries of a sale that were set aside.
func (s *Store) DeadLetters(ctx context.Context, sale sluice.SaleID) (letters []port.DeadLetter, err error) {
	defer s.wrap(&err, "list dead letters sale=%s", sale)
	return all(s.reads(ctx), sqlDeadLettersOfSale, scanDeadLetter, sale)
}

// DeadLettersAfter returns a page of entries that were set aside.
func (s *Store) DeadLettersAfter(
	ctx context.Context, sale sluice.SaleID, after int64, limit int,
) (letters []port.DeadLetter, err error) {
	defer s.wrap(&err, "list dead letters")
	if sale == "" {
		return all(s.reads(ctx), sqlPageOfDeadLetters, scanDeadLetter, after, limit)
	}
	return all(s.reads(ctx), sqlPageOfDeadLettersOfSale, scanDeadLetter, sale, after, limit)
}

// DeadLetter returns an entry that was set aside.
func (s *Store) DeadLetter(ctx context.Context, id int64) (letter port.DeadLetter, err error) {
	defer s.wrap(&err, "read dead letter %d", id)
	return s.reads(ctx).deadLetter(id)
}

func (q *conn) deadLetter(id int64) (port.DeadLetter, error) {
	return one(q, sluice.ErrDeadLetterNotFound, sqlSelectDeadLetter, scanDeadLetter, id)
}

// maxResolution bounds the note of how a dead letter was dealt with, in bytes.
const maxResolution = 1024

// ResolveDeadLetter notes how an entry was dealt with.
func (s *Store) ResolveDeadLetter(ctx context.Context, id int64, how string) (err error) {
	defer s.wrap(&err, "resolve dead letter %d", id)
	if how = cleanText(how); len(how) > maxResolution {
		return fmt.Errorf("a note of %d bytes: want at most %d", len(how), maxResolution)
	}
	return s.change(ctx, func(tx *conn) error {
		if tx.changed(sqlResolveDeadLetter, storeNow, how, id) {
			return nil
		}
		_, err := tx.deadLetter(id)
		return err
	})
}

var (
	sqlLettersAfter = newStatement("Erase.LettersAfter",
		`SELECT `+deadLetterColumns+` FROM dead_letters WHERE id > ? ORDER BY id LIMIT ?`)
	// LockLetter holds its row until the transaction ends.
	sqlLockLetter = newStatement("Erase.LockLetter",
		`SELECT `+deadLetterColumns+` FROM dead_letters WHERE id = ? FOR NO KEY UPDATE`)
	sqlEraseLetter = newStatement("Erase.Letter", update("dead_letters", "claims, reason")+` WHERE id = ?`)
)

// letters erases the claims of a buyer in dead letters of archived sales; without a
// buyer all claims of one sale.
func (e *eraser) letters(ctx context.Context, sale sluice.SaleID, buyer sluice.BuyerID) error {
	for after := int64(0); ; {
		page, err := all(e.s.reads(ctx), sqlLettersAfter, scanDeadLetter, after, eraseLetters)
		if err != nil {
			return err
		}
		for i := range page {
			l := &page[i]
			after = l.ID
			if _, changed := e.s.masks.letter(l, buyer); sale != "" && sale != l.Sale || !changed {
				continue
			}
			archived, err := e.isArchived(ctx, l.Sale)
			if err != nil {
				return err
			}
			if !archived {
				e.wait(l.Sale, sluice.NotArchived)
				continue
			}
			erased := false
			if err := e.s.change(ctx, func(tx *conn) (err error) {
				erased, err = tx.eraseLetter(l.ID, buyer)
				return err
			}); err != nil {
				return err
			}
			if erased {
				e.done.DeadLetters++
			}
		}
		if len(page) < eraseLetters {
			return nil
		}
	}
}

// eraseLetter erases the claims of a buyer in a dead letter, or all, as they are
// once its row is locked: another buyer of it may have been erased since it was read.
func (q *conn) eraseLetter(id int64, buyer sluice.BuyerID) (changed bool, err error) {
	l, err := one(q, sluice.ErrDeadLetterNotFound, sqlLockLetter, scanDeadLetter, id)
	if err != nil {
		return false, err
	}
	claims, changed := q.s.masks.letter(&l, buyer)
	if !changed {
		return false, nil
	}
	// The reason quotes what could not be stored.
	return true, q.set(sqlEraseLetter, []byte(claims), "erased", id)
}
