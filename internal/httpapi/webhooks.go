package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// createWebhook adds an endpoint. The answer is the only one with its secret.
func (s *Server) createWebhook(r *http.Request, message *api.CreateWebhook) (any, error) {
	hook := sluice.Webhook{
		ID: "wh_" + sluice.WebhookID(hex.EncodeToString(randomBytes(12))), URL: message.URL, Description: message.Description,
		Types: message.Types, Secret: message.Secret,
	}
	if hook.Secret == "" {
		hook.SetKey(randomBytes(32))
	}
	if err := hook.Validate(); err != nil {
		return nil, badRequest("%v", err)
	}
	hook, err := s.Store.CreateWebhook(r.Context(), hook)
	answer := webhookMessage(&hook)
	answer.Secret = hook.Secret
	return done{http.StatusCreated, answer}, err
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

func (s *Server) listWebhooks(r *http.Request) (any, error) {
	var after string
	var limit int
	if err := readQuery(r, cursor(&after), pageSize(&limit)); err != nil {
		return nil, err
	}
	hooks, err := s.Store.Webhooks(r.Context())
	if after != "" && err == nil {
		last := slices.IndexFunc(hooks, func(w sluice.Webhook) bool { return string(w.ID) == after })
		if last < 0 {
			return nil, sluice.ErrBadCursor
		}
		hooks = hooks[last+1:]
	}
	var list api.WebhookList
	if len(hooks) > limit {
		hooks, list.NextCursor = hooks[:limit], string(hooks[limit-1].ID)
	}
	list.Webhooks = make([]api.Webhook, len(hooks))
	for i := range hooks {
		list.Webhooks[i], err = s.webhookView(r, hooks[i], err)
	}
	return list, err
}

func (s *Server) showWebhook(r *http.Request) (any, error) {
	hook, err := s.Store.Webhook(r.Context(), webhookID(r))
	return s.webhookView(r, hook, err)
}

// webhookView is a webhook and what waits for it, unless there is an error.
func (s *Server) webhookView(r *http.Request, hook sluice.Webhook, err error) (v api.Webhook, _ error) {
	var last int64
	if err == nil {
		last, err = s.Store.LastEvent(r.Context())
	}
	if err == nil {
		v = webhookMessage(&hook)
		v.Behind = max(last-hook.Cursor, 0)
		v.Pending, v.Failed, err = s.Store.CountDeliveries(r.Context(), hook.ID)
	}
	return v, err
}

func (s *Server) deleteWebhook(r *http.Request) (any, error) {
	return api.WebhookDeleted{Deleted: webhookID(r)}, s.Store.DeleteWebhook(r.Context(), webhookID(r))
}

func (s *Server) enableWebhook(r *http.Request) (any, error) {
	hook, err := s.Store.EnableWebhook(r.Context(), webhookID(r))
	return s.webhookView(r, hook, err)
}

// DisabledByHand is why a webhook is disabled that a person has disabled.
const DisabledByHand = "by a person"

func (s *Server) disableWebhook(r *http.Request) (any, error) {
	hook, err := s.Store.DisableWebhook(r.Context(), webhookID(r), DisabledByHand)
	return s.webhookView(r, hook, err)
}

// listDeliveries lists what has not reached a webhook.
func (s *Server) listDeliveries(r *http.Request) (any, error) {
	var state sluice.DeliveryState
	var after int64
	var limit int
	ofState := parameter{"state", func(value string) error {
		if state = sluice.DeliveryState(value); state != sluice.DeliveryPending && state != sluice.DeliveryFailed {
			return fmt.Errorf("want %s or %s", sluice.DeliveryPending, sluice.DeliveryFailed)
		}
		return nil
	}}
	if err := readQuery(r, ofState, numberCursor(&after), pageSize(&limit)); err != nil {
		return nil, err
	}
	hook, err := s.Store.Webhook(r.Context(), webhookID(r))
	if err != nil {
		return nil, err
	}
	kept, err := s.Store.Deliveries(r.Context(), hook.ID, state, after, limit)
	if err != nil {
		return nil, err
	}
	page := api.DeliveryPage{Deliveries: make([]api.Delivery, 0, len(kept))}
	for i := range kept {
		event, err := s.event(r.Context(), kept[i].Event)
		if _, gone := errors.AsType[*sluice.EventsGoneError](err); gone {
			continue // deleted since, and what was kept of it, too
		}
		if err != nil {
			return nil, err
		}
		page.Deliveries = append(page.Deliveries, deliveryMessage(&kept[i], event.ID()))
	}
	if len(kept) == limit {
		page.NextCursor = strconv.FormatInt(kept[limit-1].Event, 10)
	}
	return page, nil
}

// event reads one event. sluice.ErrEventNotFound, *sluice.EventsGoneError.
func (s *Server) event(ctx context.Context, seq int64) (sluice.Event, error) {
	page, err := s.Store.Events(ctx, seq-1, 1)
	if errors.Is(err, sluice.ErrBadCursor) || err == nil && len(page) == 0 {
		err = sluice.ErrEventNotFound
	}
	if err != nil {
		return sluice.Event{}, err
	}
	return page[0], nil
}

// replayWebhook sends events again.
func (s *Server) replayWebhook(r *http.Request, message *api.ReplayWebhook) (any, error) {
	if err := message.Validate(); err != nil {
		return nil, badRequest("%v", err)
	}
	n, err := s.replay(r.Context(), webhookID(r), message)
	return api.WebhookReplayed{Replayed: n}, err
}

func (s *Server) replay(ctx context.Context, id sluice.WebhookID, m *api.ReplayWebhook) (int64, error) {
	if m.Failed {
		return s.Store.ReplayFailed(ctx, id)
	}
	seq, _ := sluice.ParseEventID(m.Event + m.From) // one of them is empty
	hook, err := s.Store.Webhook(ctx, id)
	if err != nil {
		return 0, err
	}
	event, err := s.event(ctx, seq)
	switch {
	case err != nil:
		return 0, err
	case event.ID() != m.Event+m.From, seq > hook.Cursor:
		return 0, sluice.ErrEventNotFound
	case m.From != "":
		return hook.Cursor - seq + 1, s.Store.ReplayFrom(ctx, id, seq)
	}
	return 1, s.Store.ReplayEvent(ctx, id, seq, event.Subject())
}

// testWebhook posts a message to a webhook, also to a disabled one: once, and whatever
// comes of it, its events go on as before.
func (s *Server) testWebhook(r *http.Request) (any, error) {
	hook, err := s.Store.Webhook(r.Context(), webhookID(r))
	if err != nil {
		return nil, err
	}
	event := api.Event{
		ID: "test_" + hex.EncodeToString(randomBytes(12)), Type: api.WebhookTestType, CreatedAt: api.At(s.Now()),
	}
	body, err := json.Marshal(event)
	if err != nil {
		return nil, err
	}
	tested := api.WebhookTested{EventID: event.ID}
	return &tested, inTurn(r.Context(), []chan struct{}{s.limits.tests}, func() error {
		begun := time.Now()
		tested.Status, err = s.TryWebhook(r.Context(), &hook, event.ID, body)
		tested.TookMS, tested.Delivered = time.Since(begun).Milliseconds(), err == nil
		if err != nil {
			tested.Error = err.Error()
		}
		return nil
	})
}

func webhookID(r *http.Request) sluice.WebhookID { return sluice.WebhookID(r.PathValue("webhook")) }

// webhookMessage is a webhook on the wire, without its secret. Behind, pending and
// failed are the caller's.
func webhookMessage(w *sluice.Webhook) api.Webhook {
	v := api.Webhook{
		ID: w.ID, URL: w.URL, Description: w.Description, Types: append([]sluice.EventType{}, w.Types...),
		Status: api.WebhookActive, DisabledAt: api.AtOrNull(w.DisabledAt), DisabledWhy: w.DisabledWhy, Delivered: w.Delivered,
		Failures: w.Failures, RetryAt: api.AtOrNull(w.RetryAt), LastSuccessAt: api.AtOrNull(w.LastSuccess),
		LastFailureAt: api.AtOrNull(w.LastFailure),
		LastError:     w.LastError, CreatedAt: api.At(w.CreatedAt), UpdatedAt: api.At(w.UpdatedAt),
	}
	switch {
	case !w.DisabledAt.IsZero():
		v.Status = api.WebhookDisabled
	case w.Failures > 0:
		v.Status = api.WebhookFailing
	}
	return v
}

// deliveryMessage is a delivery on the wire.
func deliveryMessage(d *sluice.Delivery, eventID string) api.Delivery {
	v := api.Delivery{
		EventID: eventID, Seq: d.Event, Subject: d.Subject, State: d.State, Attempts: d.Attempts,
		LastStatus: d.LastStatus, LastError: d.LastError, UpdatedAt: api.At(d.UpdatedAt),
	}
	if d.State == sluice.DeliveryPending {
		v.NextAt = api.AtOrNull(d.NextAt)
	}
	return v
}
