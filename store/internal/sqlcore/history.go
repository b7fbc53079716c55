package sqlcore

import (
	"context"
	"database/sql"
	"time"

	"github.com/sluicehq/sluice"
)

// History returns the changes of an order. The first one, its being stored,
// has no row of its own, to keep storing fast: it follows from the order.
func (s *Store) History(ctx context.Context, id sluice.OrderID) (entries []sluice.HistoryEntry, err error) {
	defer s.wrap(&err, "history order=%s", id)
	if _, ok := id.Sale(); !ok {
		return nil, sluice.ErrOrderNotFound
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	err = each(ctx, s.read, s.sql.History, []any{id}, func(r *sql.Rows) error {
		first, change, err := scanHistory(r, id)
		if len(entries) == 0 {
			entries = append(entries, first)
		}
		if change != nil {
			entries = append(entries, *change)
		}
		return err
	})
	if err == nil && len(entries) == 0 {
		err = sluice.ErrOrderNotFound
	}
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// scanHistory reads a row of HistoryColumns: what the order was stored as, if
// this is the first row, and a change, nil if there was none.
func scanHistory(r row, id sluice.OrderID) (first sluice.HistoryEntry, change *sluice.HistoryEntry, err error) {
	var storedAt, changedAt time.Time
	var node, reason string
	var status sluice.Status
	var from, to, action, by, why, payment, refused sql.NullString
	err = r.Scan(&node, moment{&storedAt}, &status, &reason,
		moment{&changedAt}, &from, &to, &action, &by, &why, &payment, &refused)
	if from.Valid {
		change = &sluice.HistoryEntry{
			Order: id, At: changedAt, From: sluice.Status(from.String), To: sluice.Status(to.String), Action: sluice.Action(action.String),
			By: by.String, Reason: why.String, PaymentID: payment.String + refused.String, // one of them is empty
		}
		status = change.From
	}
	first = sluice.HistoryEntry{Order: id, At: storedAt, From: sluice.Queued, To: status, By: node}
	if status == sluice.Rejected {
		first.Reason = reason
	}
	return first, change, err
}
