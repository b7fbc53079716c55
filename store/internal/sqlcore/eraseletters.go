package sqlcore

import (
	"context"

	"github.com/sluicehq/sluice"
)

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
