package port

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// Progress is what a sender has done for a webhook.
type Progress struct {
	// The events after From, up to To, are dealt with; both are the cursor if
	// there was none.
	From, To int64
	// Kept lists the events that were not delivered.
	Kept []sluice.Delivery
	// Tried are kept deliveries that have been tried, as they were.
	Tried []Tried

	Delivered int64 // how many reached the receiver
	// The webhook's health from now on.
	Failures    int
	RetryAt     time.Time // zero: at any time
	LastSuccess time.Time // zero: no change; so of the next two
	LastFailure time.Time
	LastError   string
	// Recovered makes all that is pending due at once.
	Recovered bool
}

// Tried is a kept delivery that has been tried: Delivery as it was, and After
// as it is now, unless it is Done and goes.
type Tried struct {
	sluice.Delivery
	Done  bool
	After sluice.Delivery
}

// WebhookStore keeps webhooks, and what has not been delivered to them.
type WebhookStore interface {
	// CreateWebhook adds a valid webhook, and returns it with its times and
	// cursor: it gets the events that are numbered from now on.
	CreateWebhook(ctx context.Context, w sluice.Webhook) (sluice.Webhook, error)
	// SealSecrets keeps the secrets of webhooks encrypted from now on, and those
	// that are there in clear as well. It returns how many stay in clear: all
	// that are, if key is empty. An error names those that are sealed with
	// another key; it leaves them as they are. Pseudonyms (ErasureStore) are made
	// with the same key. It is called before other methods.
	SealSecrets(ctx context.Context, key string) (clear int, err error)
	// Webhooks returns all of them, by creation.
	Webhooks(ctx context.Context) ([]sluice.Webhook, error)
	// Webhook returns one. ErrWebhookNotFound.
	Webhook(ctx context.Context, id sluice.WebhookID) (sluice.Webhook, error)
	// DeleteWebhook deletes one, with what is kept for it. ErrWebhookNotFound.
	DeleteWebhook(ctx context.Context, id sluice.WebhookID) error
	// EnableWebhook lets a disabled webhook go on where it was; it also forgets
	// its failures, so that the next attempt is at once. DisableWebhook stops
	// it; the first reason stands. ErrWebhookNotFound.
	EnableWebhook(ctx context.Context, id sluice.WebhookID) (sluice.Webhook, error)
	DisableWebhook(ctx context.Context, id sluice.WebhookID, why string) (sluice.Webhook, error)

	// Advance records progress, in one transaction. It reports false, and
	// nothing is written, if the webhook is gone or its cursor is not From:
	// then another has sent as well.
	Advance(ctx context.Context, id sluice.WebhookID, p Progress) (bool, error)
	// DueDeliveries returns up to limit pending deliveries whose time has come,
	// by the store's clock, and that are the earliest pending ones of their
	// subjects; by event.
	DueDeliveries(ctx context.Context, id sluice.WebhookID, limit int) ([]sluice.Delivery, error)
	// HeldSubjects returns those of the subjects that have a pending delivery.
	HeldSubjects(ctx context.Context, id sluice.WebhookID, subjects []string) ([]string, error)

	// Deliveries returns up to limit kept deliveries of events after a number,
	// in this state or in any if it is empty; by event.
	Deliveries(
		ctx context.Context, id sluice.WebhookID, state sluice.DeliveryState, after int64, limit int,
	) ([]sluice.Delivery, error)
	// CountDeliveries counts what is kept for a webhook.
	CountDeliveries(ctx context.Context, id sluice.WebhookID) (pending, failed int64, err error)
	// ReplayFailed makes all failed deliveries pending and due, as if they had
	// never been tried, and returns how many. ErrWebhookNotFound.
	ReplayFailed(ctx context.Context, id sluice.WebhookID) (int64, error)
	// ReplayEvent does so with one event, delivered before or not.
	// ErrWebhookNotFound; ErrEventNotFound if the cursor is before it: then it
	// is yet to be sent; *EventsGoneError if it is deleted.
	ReplayEvent(ctx context.Context, id sluice.WebhookID, event int64, subject string) error
	// ReplayFrom sets the cursor back, so that this event and all after it are
	// sent (again), and forgets what is kept of them. ErrWebhookNotFound;
	// ErrEventNotFound if the cursor is before it; *EventsGoneError.
	ReplayFrom(ctx context.Context, id sluice.WebhookID, event int64) error
}
