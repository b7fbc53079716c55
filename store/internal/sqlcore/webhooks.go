package sqlcore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// WebhookStatements is the SQL of webhooks; as with Statements.
type WebhookStatements struct {
	Insert      string // WebhookColumns
	Select      string // id; WebhookColumns
	Lock        string // id; as Select, and holds the row until the transaction ends
	All         string // no arguments; by position
	Delete      string // id
	DeleteAllOf string // id; its deliveries
	SetEnabled  string // disabled_at, disabled_why, failures, retry_at, updated_at, id
	SetProgress string // last_event, delivered, failures, retry_at, last_success, last_failure, last_error, id
	SetCursor   string // last_event, id
	SetSecret   string // secret, id

	// Keep inserts DeliveryColumns, or writes them over those of the same event.
	Keep       string
	Change     string // state, attempts, next_at, last_status, last_error, updated_at, webhook_id, event
	Forget     string // webhook_id, event
	ForgetFrom string // webhook_id, event; it and all after it
	AllDue     string // next_at, webhook_id; all that are pending
	// Due selects pending ones with next_at <= now, without an earlier pending
	// one of the same subject, by event.
	Due      string // webhook_id, now, limit; DeliveryColumns
	Held     string // webhook_id, list of subjects; those with a pending one
	List     string // webhook_id, event after which, state, the same, limit; DeliveryColumns; an empty state is any
	Count    string // webhook_id, state
	Unfail   string // next_at, updated_at, webhook_id; all that have failed
	HasEvent string // webhook_id, event; its attempts
}

// Columns of webhooks and deliveries.
const (
	WebhookColumns = `id, url, description, secret, types, created_at, updated_at, disabled_at, disabled_why,
		last_event, delivered, failures, retry_at, last_success, last_failure, last_error`
	DeliveryColumns = `webhook_id, event, subject, state, attempts, next_at, last_status, last_error, updated_at`
)

func scanWebhook(r row) (sluice.Webhook, error) {
	var w sluice.Webhook
	var types string
	err := r.Scan(&w.ID, &w.URL, &w.Description, &w.Secret, &types, moment{&w.CreatedAt}, moment{&w.UpdatedAt}, moment{&w.DisabledAt}, &w.DisabledWhy,
		&w.Cursor, &w.Delivered, &w.Failures, moment{&w.RetryAt}, moment{&w.LastSuccess}, moment{&w.LastFailure}, &w.LastError)
	for _, t := range strings.Fields(types) {
		w.Types = append(w.Types, sluice.EventType(t))
	}
	return w, err
}

func scanDelivery(r row) (sluice.Delivery, error) {
	var d sluice.Delivery
	err := r.Scan(&d.Webhook, &d.Event, &d.Subject, &d.State, &d.Attempts, moment{&d.NextAt}, &d.LastStatus, &d.LastError, moment{&d.UpdatedAt})
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
	types := make([]string, len(w.Types))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		var last int64
		if err := tx.QueryRowContext(ctx, s.events.LockFeed).Scan(&last); err != nil {
			return err
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		w = sluice.Webhook{
			ID: w.ID, URL: w.URL, Description: w.Description, Secret: w.Secret, Types: slices.Clone(w.Types),
			CreatedAt: now, UpdatedAt: now, Cursor: last,
		}
		kept, err := s.seal(w.ID, w.Secret)
		if err != nil {
			return err
		}
		_, err = exec(ctx, tx, s.webhooks.Insert, w.ID, w.URL, w.Description, kept, strings.Join(types, " "), s.d.Time(now), s.d.Time(now), nil, "",
			last, 0, 0, nil, nil, nil, "")
		return err
	})
	if err != nil {
		return sluice.Webhook{}, err
	}
	return w, nil
}

// Webhooks returns all webhooks.
func (s *Store) Webhooks(ctx context.Context) (all []sluice.Webhook, err error) {
	defer s.wrap(&err, "list webhooks")
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	err = each(ctx, s.read, s.webhooks.All, nil, func(r *sql.Rows) error {
		w, err := scanWebhook(r)
		s.unseal(&w)
		all = append(all, w)
		return err
	})
	return all, err
}

// Webhook returns one webhook.
func (s *Store) Webhook(ctx context.Context, id sluice.WebhookID) (w sluice.Webhook, err error) {
	defer s.wrap(&err, "read webhook")
	if err := s.enter(ctx); err != nil {
		return w, err
	}
	return s.oneWebhook(s.read.QueryRowContext(ctx, s.webhooks.Select, webhookArg(id)))
}

func (s *Store) oneWebhook(r row) (sluice.Webhook, error) {
	w, err := scanWebhook(r)
	if errors.Is(err, sql.ErrNoRows) {
		err = sluice.ErrWebhookNotFound
	}
	if err != nil {
		return sluice.Webhook{}, err
	}
	s.unseal(&w)
	return w, nil
}

// webhookArg keeps bytes from the database that might offend it: such an id is
// nobody's.
func webhookArg(id sluice.WebhookID) string { return cleanText(string(id)) }

// changeWebhook calls do with a webhook whose row is held.
func (s *Store) changeWebhook(ctx context.Context, id sluice.WebhookID, do func(*sql.Tx, *sluice.Webhook, time.Time) error) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		w, err := s.oneWebhook(tx.QueryRowContext(ctx, s.webhooks.Lock, webhookArg(id)))
		if err != nil {
			return err
		}
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		return do(tx, &w, now)
	})
}

// DeleteWebhook deletes a webhook and what is kept for it.
func (s *Store) DeleteWebhook(ctx context.Context, id sluice.WebhookID) (err error) {
	defer s.wrap(&err, "delete webhook")
	return s.changeWebhook(ctx, id, func(tx *sql.Tx, w *sluice.Webhook, _ time.Time) error {
		if _, err := tx.ExecContext(ctx, s.webhooks.DeleteAllOf, w.ID); err != nil {
			return err
		}
		_, err := exec(ctx, tx, s.webhooks.Delete, w.ID)
		return err
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

func (s *Store) setEnabled(ctx context.Context, id sluice.WebhookID, edit func(*sluice.Webhook, time.Time) bool) (after sluice.Webhook, err error) {
	err = s.changeWebhook(ctx, id, func(tx *sql.Tx, w *sluice.Webhook, now time.Time) error {
		changed := edit(w, now)
		after = *w
		if !changed {
			return nil
		}
		_, err := tx.ExecContext(ctx, s.webhooks.SetEnabled, s.d.Time(w.DisabledAt), w.DisabledWhy, w.Failures, s.d.Time(w.RetryAt), s.d.Time(w.UpdatedAt), w.ID)
		return err
	})
	if err != nil {
		return sluice.Webhook{}, err
	}
	return after, nil
}

// Advance records what a sender has done. The cursor tells whether another one
// has been there: whoever comes second writes nothing, and what he has sent was
// sent twice.
func (s *Store) Advance(ctx context.Context, id sluice.WebhookID, p sluice.Progress) (done bool, err error) {
	defer s.wrap(&err, "advance webhook %s from %d to %d", id, p.From, p.To)
	if p.From < 0 || p.To < p.From {
		return false, errors.New("a cursor only goes forward")
	}
	err = s.changeWebhook(ctx, id, func(tx *sql.Tx, w *sluice.Webhook, now time.Time) error {
		if done = w.Cursor == p.From; !done {
			return nil
		}
		for i := range p.Kept {
			d := &p.Kept[i]
			if d.Event <= p.From || d.Event > p.To {
				return fmt.Errorf("event %d is not among them", d.Event)
			}
			if err := s.keep(ctx, tx, w.ID, d, now); err != nil {
				return err
			}
		}
		for i := range p.Tried {
			if err := s.settleTried(ctx, tx, w.ID, &p.Tried[i], now); err != nil {
				return err
			}
		}
		if p.Recovered {
			if _, err := tx.ExecContext(ctx, s.webhooks.AllDue, s.d.Time(now), w.ID); err != nil {
				return err
			}
		}
		if !p.LastSuccess.IsZero() {
			w.LastSuccess = p.LastSuccess
		}
		if !p.LastFailure.IsZero() {
			w.LastFailure, w.LastError = p.LastFailure, cleanText(p.LastError)
		}
		_, err := tx.ExecContext(ctx, s.webhooks.SetProgress, p.To, w.Delivered+p.Delivered, p.Failures, s.d.Time(WholeMillis(p.RetryAt)),
			s.d.Time(WholeMillis(w.LastSuccess)), s.d.Time(WholeMillis(w.LastFailure)), w.LastError, w.ID)
		return err
	})
	if errors.Is(err, sluice.ErrWebhookNotFound) {
		return false, nil
	}
	return done && err == nil, err
}

func (s *Store) keep(ctx context.Context, tx *sql.Tx, id sluice.WebhookID, d *sluice.Delivery, now time.Time) error {
	_, err := tx.ExecContext(ctx, s.webhooks.Keep, id, d.Event, d.Subject, string(d.State), d.Attempts, s.d.Time(orNow(d.NextAt, now)),
		d.LastStatus, cleanText(d.LastError), s.d.Time(now))
	return err
}

// orNow is a time that may be left to the store.
func orNow(at, now time.Time) time.Time {
	if at.IsZero() {
		return now
	}
	return WholeMillis(at)
}

// settleTried writes what came of an attempt, unless an operator has replayed
// the delivery meanwhile: then it stays as he wants it.
func (s *Store) settleTried(ctx context.Context, tx *sql.Tx, id sluice.WebhookID, t *sluice.Tried, now time.Time) error {
	var attempts int
	err := tx.QueryRowContext(ctx, s.webhooks.HasEvent, id, t.Event).Scan(&attempts)
	if errors.Is(err, sql.ErrNoRows) || err == nil && attempts != t.Attempts {
		return nil
	}
	if err != nil {
		return err
	}
	if t.Done {
		_, err := tx.ExecContext(ctx, s.webhooks.Forget, id, t.Event)
		return err
	}
	a := &t.After
	_, err = tx.ExecContext(ctx, s.webhooks.Change, string(a.State), a.Attempts, s.d.Time(orNow(a.NextAt, now)), a.LastStatus, cleanText(a.LastError), s.d.Time(now), id, t.Event)
	return err
}

// DueDeliveries returns deliveries that can be tried now.
func (s *Store) DueDeliveries(ctx context.Context, id sluice.WebhookID, limit int) (due []sluice.Delivery, err error) {
	defer s.wrap(&err, "list due deliveries")
	err = s.view(ctx, func(tx *sql.Tx) error {
		now, err := s.d.Now(ctx, tx)
		if err != nil {
			return err
		}
		due, err = deliveries(ctx, tx, s.webhooks.Due, webhookArg(id), s.d.Time(now), limit)
		return err
	})
	return due, err
}

func deliveries(ctx context.Context, q querier, query string, args ...any) (all []sluice.Delivery, err error) {
	err = each(ctx, q, query, args, func(r *sql.Rows) error {
		d, err := scanDelivery(r)
		all = append(all, d)
		return err
	})
	return all, err
}

// HeldSubjects returns the subjects that have a pending delivery.
func (s *Store) HeldSubjects(ctx context.Context, id sluice.WebhookID, subjects []string) (held []string, err error) {
	defer s.wrap(&err, "list held subjects")
	if err := s.enter(ctx); err != nil || len(subjects) == 0 {
		return nil, err
	}
	return texts(ctx, s.read, s.webhooks.Held, webhookArg(id), s.d.List(subjects))
}

// Deliveries returns a page of what is kept.
func (s *Store) Deliveries(ctx context.Context, id sluice.WebhookID, state sluice.DeliveryState, after int64, limit int) (page []sluice.Delivery, err error) {
	defer s.wrap(&err, "list deliveries")
	if limit < 1 || limit > sluice.MaxPage {
		return nil, fmt.Errorf("limit %d: want 1 to %d", limit, sluice.MaxPage)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	return deliveries(ctx, s.read, s.webhooks.List, webhookArg(id), after, string(state), string(state), limit)
}

// CountDeliveries counts what is kept.
func (s *Store) CountDeliveries(ctx context.Context, id sluice.WebhookID) (pending, failed int64, err error) {
	defer s.wrap(&err, "count deliveries")
	if err := s.enter(ctx); err != nil {
		return 0, 0, err
	}
	for _, count := range []struct {
		of sluice.DeliveryState
		to *int64
	}{{sluice.DeliveryPending, &pending}, {sluice.DeliveryFailed, &failed}} {
		if err := s.read.QueryRowContext(ctx, s.webhooks.Count, webhookArg(id), string(count.of)).Scan(count.to); err != nil {
			return 0, 0, err
		}
	}
	return pending, failed, nil
}

// ReplayFailed makes failed deliveries due.
func (s *Store) ReplayFailed(ctx context.Context, id sluice.WebhookID) (replayed int64, err error) {
	defer s.wrap(&err, "replay failed deliveries")
	err = s.changeWebhook(ctx, id, func(tx *sql.Tx, w *sluice.Webhook, now time.Time) error {
		result, err := tx.ExecContext(ctx, s.webhooks.Unfail, s.d.Time(now), s.d.Time(now), w.ID)
		if err != nil {
			return err
		}
		replayed, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return replayed, nil
}

// ReplayEvent makes one event due.
func (s *Store) ReplayEvent(ctx context.Context, id sluice.WebhookID, event int64, subject string) (err error) {
	defer s.wrap(&err, "replay event %d", event)
	return s.changeWebhook(ctx, id, func(tx *sql.Tx, w *sluice.Webhook, now time.Time) error {
		if event < 1 || event > w.Cursor {
			return sluice.ErrEventNotFound
		}
		return s.keep(ctx, tx, w.ID, &sluice.Delivery{Event: event, Subject: subject, State: sluice.DeliveryPending}, now)
	})
}

// ReplayFrom sets the cursor back.
func (s *Store) ReplayFrom(ctx context.Context, id sluice.WebhookID, event int64) (err error) {
	defer s.wrap(&err, "replay from event %d", event)
	return s.changeWebhook(ctx, id, func(tx *sql.Tx, w *sluice.Webhook, _ time.Time) error {
		if event < 1 || event > w.Cursor {
			return sluice.ErrEventNotFound
		}
		if _, err := tx.ExecContext(ctx, s.webhooks.ForgetFrom, w.ID, event); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, s.webhooks.SetCursor, event-1, w.ID)
		return err
	})
}
