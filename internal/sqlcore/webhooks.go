package sqlcore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

const (
	webhookColumns = `id, url, description, secret, types, created_at, updated_at, disabled_at, disabled_why,
		last_event, delivered, failures, retry_at, last_success, last_failure, last_error`
	deliveryColumns = `webhook_id, event, subject, state, attempts, next_at, last_status, last_error, updated_at`
)

var (
	sqlInsertWebhook = newStatement("Webhooks.Insert", insertInto("webhooks", webhookColumns))
	sqlSelectWebhook = newStatement("Webhooks.Select", `SELECT `+webhookColumns+` FROM webhooks WHERE id = ?`)
	// Lock holds the row until the transaction ends.
	sqlLockWebhook   = newStatement("Webhooks.Lock", `SELECT `+webhookColumns+` FROM webhooks WHERE id = ? FOR UPDATE`)
	sqlWebhooks      = newStatement("Webhooks.All", `SELECT `+webhookColumns+` FROM webhooks ORDER BY position`)
	sqlDeleteWebhook = newStatement("Webhooks.Delete", `DELETE FROM webhooks WHERE id = ?`)
	sqlSetEnabled    = newStatement("Webhooks.SetEnabled",
		update("webhooks", "disabled_at, disabled_why, failures, retry_at, updated_at")+` WHERE id = ?`)
	sqlSetProgress = newStatement("Webhooks.SetProgress", update("webhooks",
		"last_event, delivered, failures, retry_at, last_success, last_failure, last_error")+` WHERE id = ?`)
	sqlSetCursor = newStatement("Webhooks.SetCursor", update("webhooks", "last_event")+` WHERE id = ?`)
	sqlSetSecret = newStatement("Webhooks.SetSecret", update("webhooks", "secret")+` WHERE id = ?`)

	// Keep inserts a delivery, or writes it over that of the same event.
	sqlKeep = newStatement("Webhooks.Keep", insertInto("webhook_deliveries", deliveryColumns)+`
		ON CONFLICT (webhook_id, event) DO UPDATE SET state = excluded.state, attempts = excluded.attempts,
			next_at = excluded.next_at, last_status = excluded.last_status, last_error = excluded.last_error,
			updated_at = excluded.updated_at`)
	sqlChangeDelivery = newStatement("Webhooks.Change", update("webhook_deliveries",
		"state, attempts, next_at, last_status, last_error, updated_at")+` WHERE webhook_id = ? AND event = ?`)
	sqlForget     = newStatement("Webhooks.Forget", `DELETE FROM webhook_deliveries WHERE webhook_id = ? AND event = ?`)
	sqlForgetFrom = newStatement("Webhooks.ForgetFrom",
		`DELETE FROM webhook_deliveries WHERE webhook_id = ? AND event >= ?`)
	sqlDeleteAllOf = newStatement("Webhooks.DeleteAllOf", `DELETE FROM webhook_deliveries WHERE webhook_id = ?`)
	sqlAllDue      = newStatement("Webhooks.AllDue",
		update("webhook_deliveries", "next_at")+` WHERE webhook_id = ? AND state = 'pending'`)
	// Due selects pending ones whose time has come, without an earlier pending one
	// of the same subject, by event.
	sqlDue = newStatement("Webhooks.Due", `SELECT `+deliveryColumns+` FROM webhook_deliveries d
		WHERE webhook_id = ? AND state = 'pending' AND next_at <= ?
			AND NOT EXISTS (SELECT 1 FROM webhook_deliveries e WHERE e.webhook_id = d.webhook_id AND e.subject = d.subject
				AND e.state = 'pending' AND e.event < d.event)
		ORDER BY event LIMIT ?`)
	// Held selects those of a list of subjects that have a pending delivery.
	sqlHeld = newStatement("Webhooks.Held", `SELECT DISTINCT subject FROM webhook_deliveries
		WHERE webhook_id = ? AND state = 'pending' AND subject = ANY (?::text[])`)
	// List selects those after an event. It takes the state twice; an empty one is
	// any.
	sqlListDeliveries = newStatement("Webhooks.List", `SELECT `+deliveryColumns+` FROM webhook_deliveries
		WHERE webhook_id = ? AND event > ? AND (state = ? OR ? = '') ORDER BY event LIMIT ?`)
	sqlCountDeliveries = newStatement("Webhooks.Count",
		`SELECT count(*) FROM webhook_deliveries WHERE webhook_id = ? AND state = ?`)
	sqlUnfail = newStatement("Webhooks.Unfail", `UPDATE webhook_deliveries
		SET state = 'pending', attempts = 0, next_at = ?, updated_at = ? WHERE webhook_id = ? AND state = 'failed'`)
	sqlAttempts = newStatement("Webhooks.HasEvent",
		`SELECT attempts FROM webhook_deliveries WHERE webhook_id = ? AND event = ?`)
)

// scanWebhook scans the secret as it is kept.
func scanWebhook(r row) (sluice.Webhook, error) {
	var w sluice.Webhook
	var types string
	err := r.Scan(&w.ID, &w.URL, &w.Description, &w.Secret, &types, moment{&w.CreatedAt}, moment{&w.UpdatedAt},
		moment{&w.DisabledAt}, &w.DisabledWhy, &w.Cursor, &w.Delivered, &w.Failures, moment{&w.RetryAt},
		moment{&w.LastSuccess}, moment{&w.LastFailure}, &w.LastError)
	for _, t := range strings.Fields(types) {
		w.Types = append(w.Types, sluice.EventType(t))
	}
	return w, err
}

// openWebhook is scanWebhook with the secret as it is used.
func (s *Store) openWebhook(r row) (sluice.Webhook, error) {
	w, err := scanWebhook(r)
	s.unseal(&w)
	return w, err
}

func scanDelivery(r row) (sluice.Delivery, error) {
	var d sluice.Delivery
	err := r.Scan(&d.Webhook, &d.Event, &d.Subject, &d.State, &d.Attempts, moment{&d.NextAt}, &d.LastStatus, &d.LastError,
		moment{&d.UpdatedAt})
	return d, err
}

// CreateWebhook adds a webhook. The row of the feed is locked, so it begins
// exactly where the events that are numbered from now on do.
func (s *Store) CreateWebhook(ctx context.Context, w sluice.Webhook) (_ sluice.Webhook, err error) {
	defer s.wrap(&err, "create webhook %s", w.ID)
	if err := w.Validate(); err != nil {
		return sluice.Webhook{}, err
	}
	if !shortText(string(w.ID)) || len(w.ID) > 64 {
		return sluice.Webhook{}, errors.New("id: want 1 to 64 bytes")
	}
	err = s.change(ctx, func(tx *conn) error {
		last, err := only[int64](tx.row(sqlLockFeed))
		if err != nil {
			return err
		}
		now := tx.now()
		w = sluice.Webhook{
			ID: w.ID, URL: w.URL, Description: w.Description, Secret: w.Secret, Types: slices.Clone(w.Types),
			CreatedAt: now, UpdatedAt: now, Cursor: last,
		}
		kept, err := s.seal(w.ID, w.Secret)
		if err != nil {
			return err
		}
		return tx.set(sqlInsertWebhook, w.ID, w.URL, w.Description, kept, strings.Join(asTexts(w.Types), " "),
			now, now, nil, "", last, 0, 0, nil, nil, nil, "")
	})
	return unless(w, err)
}

// Webhooks returns all webhooks.
func (s *Store) Webhooks(ctx context.Context) (list []sluice.Webhook, err error) {
	defer s.wrap(&err, "list webhooks")
	return all(s.reads(ctx), sqlWebhooks, s.openWebhook)
}

// Webhook returns one webhook.
func (s *Store) Webhook(ctx context.Context, id sluice.WebhookID) (w sluice.Webhook, err error) {
	defer s.wrap(&err, "read webhook")
	return s.reads(ctx).webhook(sqlSelectWebhook, id)
}

func (q *conn) webhook(st statement, id sluice.WebhookID) (sluice.Webhook, error) {
	return one(q, sluice.ErrWebhookNotFound, st, q.s.openWebhook, webhookArg(id))
}

// webhookArg keeps bytes from the database that it might refuse: no webhook has
// such an id.
func webhookArg(id sluice.WebhookID) string { return cleanText(string(id)) }

// changeWebhook calls do with a webhook whose row is held.
func (s *Store) changeWebhook(
	ctx context.Context, id sluice.WebhookID, do func(tx *conn, w *sluice.Webhook, now time.Time) error,
) error {
	return s.change(ctx, func(tx *conn) error {
		w, err := tx.webhook(sqlLockWebhook, id)
		if err != nil {
			return err
		}
		return do(tx, &w, tx.now())
	})
}

// DeleteWebhook deletes a webhook and what is kept for it.
func (s *Store) DeleteWebhook(ctx context.Context, id sluice.WebhookID) (err error) {
	defer s.wrap(&err, "delete webhook")
	return s.changeWebhook(ctx, id, func(tx *conn, w *sluice.Webhook, _ time.Time) error {
		tx.exec(sqlDeleteAllOf, w.ID)
		return tx.set(sqlDeleteWebhook, w.ID)
	})
}

// EnableWebhook lets a webhook go on.
func (s *Store) EnableWebhook(ctx context.Context, id sluice.WebhookID) (_ sluice.Webhook, err error) {
	defer s.wrap(&err, "enable webhook")
	return s.setEnabled(ctx, id, func(w *sluice.Webhook, now time.Time) bool {
		changed := !w.DisabledAt.IsZero() || w.Failures > 0
		if !w.DisabledAt.IsZero() {
			w.UpdatedAt = now
		}
		w.DisabledAt, w.DisabledWhy, w.Failures, w.RetryAt = time.Time{}, "", 0, time.Time{}
		return changed
	})
}

// DisableWebhook stops a webhook.
func (s *Store) DisableWebhook(ctx context.Context, id sluice.WebhookID, why string) (_ sluice.Webhook, err error) {
	defer s.wrap(&err, "disable webhook")
	return s.setEnabled(ctx, id, func(w *sluice.Webhook, now time.Time) bool {
		if !w.DisabledAt.IsZero() {
			return false
		}
		w.DisabledAt, w.UpdatedAt, w.DisabledWhy = now, now, cleanText(why)
		return true
	})
}

func (s *Store) setEnabled(
	ctx context.Context, id sluice.WebhookID, edit func(*sluice.Webhook, time.Time) bool,
) (after sluice.Webhook, err error) {
	err = s.changeWebhook(ctx, id, func(tx *conn, w *sluice.Webhook, now time.Time) error {
		changed := edit(w, now)
		after = *w
		if !changed {
			return nil
		}
		return tx.set(sqlSetEnabled, w.DisabledAt, w.DisabledWhy, w.Failures, w.RetryAt, w.UpdatedAt, w.ID)
	})
	return unless(after, err)
}

// Advance records what a sender has done. The cursor shows whether another one
// has been there: the second sender writes nothing, and what it has sent was sent
// twice.
func (s *Store) Advance(ctx context.Context, id sluice.WebhookID, p port.Progress) (done bool, err error) {
	defer s.wrap(&err, "advance webhook %s from %d to %d", id, p.From, p.To)
	if p.From < 0 || p.To < p.From {
		return false, errors.New("a cursor only goes forward")
	}
	err = s.changeWebhook(ctx, id, func(tx *conn, w *sluice.Webhook, now time.Time) error {
		if done = w.Cursor == p.From; !done {
			return nil
		}
		for i := range p.Kept {
			d := &p.Kept[i]
			if d.Event <= p.From || d.Event > p.To {
				return fmt.Errorf("event %d is not among them", d.Event)
			}
			tx.keep(w.ID, d, now)
		}
		for i := range p.Tried {
			tx.settleTried(w.ID, &p.Tried[i], now)
		}
		if p.Recovered {
			tx.exec(sqlAllDue, now, w.ID)
		}
		if !p.LastSuccess.IsZero() {
			w.LastSuccess = p.LastSuccess
		}
		if !p.LastFailure.IsZero() {
			w.LastFailure, w.LastError = p.LastFailure, cleanText(p.LastError)
		}
		return tx.set(sqlSetProgress, p.To, w.Delivered+p.Delivered, p.Failures, p.RetryAt,
			w.LastSuccess, w.LastFailure, w.LastError, w.ID)
	})
	if errors.Is(err, sluice.ErrWebhookNotFound) {
		return false, nil
	}
	return done && err == nil, err
}

func (q *conn) keep(id sluice.WebhookID, d *sluice.Delivery, now time.Time) error {
	return q.exec(sqlKeep, id, d.Event, d.Subject, string(d.State), d.Attempts, orNow(d.NextAt, now),
		d.LastStatus, cleanText(d.LastError), now)
}

// orNow is a time that may be left to the store.
func orNow(at, now time.Time) time.Time {
	if at.IsZero() {
		return now
	}
	return at
}

// settleTried writes what came of an attempt, unless an operator has replayed
// the delivery meanwhile: then it stays as the operator wants it.
func (q *conn) settleTried(id sluice.WebhookID, t *port.Tried, now time.Time) {
	attempts, err := only[int](q.row(sqlAttempts, id, t.Event))
	switch a := &t.After; {
	case err != nil || attempts != t.Attempts: // or there is none
	case t.Done:
		q.set(sqlForget, id, t.Event)
	default:
		q.set(sqlChangeDelivery, string(a.State), a.Attempts, orNow(a.NextAt, now), a.LastStatus,
			cleanText(a.LastError), now, id, t.Event)
	}
}

// DueDeliveries returns deliveries that can be tried now.
func (s *Store) DueDeliveries(ctx context.Context, id sluice.WebhookID, limit int) (due []sluice.Delivery, err error) {
	defer s.wrap(&err, "list due deliveries")
	err = s.view(ctx, func(tx *conn) error {
		due, err = all(tx, sqlDue, scanDelivery, webhookArg(id), storeNow, limit)
		return err
	})
	return due, err
}

// HeldSubjects returns the subjects that have a pending delivery.
func (s *Store) HeldSubjects(ctx context.Context, id sluice.WebhookID, subjects []string) (held []string, err error) {
	defer s.wrap(&err, "list held subjects")
	if len(subjects) == 0 {
		return nil, s.enter(ctx)
	}
	return all(s.reads(ctx), sqlHeld, only[string], webhookArg(id), subjects)
}

// Deliveries returns a page of what is kept.
func (s *Store) Deliveries(
	ctx context.Context, id sluice.WebhookID, state sluice.DeliveryState, after int64, limit int,
) (page []sluice.Delivery, err error) {
	defer s.wrap(&err, "list deliveries")
	if limit < 1 || limit > sluice.MaxPage {
		return nil, fmt.Errorf("limit %d: want 1 to %d", limit, sluice.MaxPage)
	}
	return all(s.reads(ctx), sqlListDeliveries, scanDelivery, webhookArg(id), after, string(state), string(state), limit)
}

// CountDeliveries counts what is kept.
func (s *Store) CountDeliveries(ctx context.Context, id sluice.WebhookID) (pending, failed int64, err error) {
	defer s.wrap(&err, "count deliveries")
	q := s.reads(ctx)
	pending, _ = only[int64](q.row(sqlCountDeliveries, webhookArg(id), string(sluice.DeliveryPending)))
	failed, err = only[int64](q.row(sqlCountDeliveries, webhookArg(id), string(sluice.DeliveryFailed)))
	return pending, failed, err
}

// ReplayFailed makes failed deliveries due.
func (s *Store) ReplayFailed(ctx context.Context, id sluice.WebhookID) (replayed int64, err error) {
	defer s.wrap(&err, "replay failed deliveries")
	err = s.changeWebhook(ctx, id, func(tx *conn, w *sluice.Webhook, now time.Time) error {
		_, err := only[int64](tx.row(sqlLockCut)) // what is due again is seen before the feed is cut
		replayed = tx.count(sqlUnfail, now, now, w.ID)
		return err
	})
	return unless(replayed, err)
}

// ReplayEvent makes one event due.
func (s *Store) ReplayEvent(ctx context.Context, id sluice.WebhookID, event int64, subject string) (err error) {
	defer s.wrap(&err, "replay event %d", event)
	return s.changeWebhook(ctx, id, func(tx *conn, w *sluice.Webhook, now time.Time) error {
		if err := tx.canReplay(w, event); err != nil {
			return err
		}
		return tx.keep(w.ID, &sluice.Delivery{Event: event, Subject: subject, State: sluice.DeliveryPending}, now)
	})
}

// ReplayFrom sets the cursor back.
func (s *Store) ReplayFrom(ctx context.Context, id sluice.WebhookID, event int64) (err error) {
	defer s.wrap(&err, "replay from event %d", event)
	return s.changeWebhook(ctx, id, func(tx *conn, w *sluice.Webhook, _ time.Time) error {
		if err := tx.canReplay(w, event); err != nil {
			return err
		}
		tx.exec(sqlForgetFrom, w.ID, event)
		return tx.set(sqlSetCursor, event-1, w.ID)
	})
}

// canReplay says whether a webhook has come as far as an event that the feed still
// has. It holds the row of the feed, so that the event stays until the webhook is seen
// to wait for it.
func (q *conn) canReplay(w *sluice.Webhook, event int64) error {
	first, err := only[int64](q.row(sqlLockCut))
	switch {
	case err != nil:
		return err
	case event < 1 || event > w.Cursor:
		return sluice.ErrEventNotFound
	case event < first:
		return &sluice.EventsGoneError{First: first}
	}
	return nil
}
