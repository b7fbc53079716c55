package api

import (
	"errors"

	"github.com/sluicehq/sluice"
)

// Webhook is an endpoint to which events are posted.
type Webhook struct {
	ID          sluice.WebhookID   `json:"id"`
	URL         string             `json:"url"`
	Description string             `json:"description"`
	Types       []sluice.EventType `json:"types"`            // empty: all
	Secret      string             `json:"secret,omitempty"` // only in the answer that creates it
	Status      string             `json:"status"`           // active, failing, disabled
	DisabledAt  *Time              `json:"disabled_at"`
	DisabledWhy string             `json:"disabled_why,omitempty"`

	Behind    int64 `json:"behind"`    // events that have not been looked at
	Pending   int64 `json:"pending"`   // events that wait for an attempt
	Failed    int64 `json:"failed"`    // events that were given up
	Delivered int64 `json:"delivered"` // events that reached the receiver, repeats too

	Failures      int    `json:"failures"` // attempts since the last that did not fail
	RetryAt       *Time  `json:"retry_at"` // while it is down
	LastSuccessAt *Time  `json:"last_success_at"`
	LastFailureAt *Time  `json:"last_failure_at"`
	LastError     string `json:"last_error,omitempty"`
	CreatedAt     Time   `json:"created_at"`
	UpdatedAt     Time   `json:"updated_at"`
}

// The statuses of a webhook.
const (
	WebhookActive   = "active"
	WebhookFailing  = "failing" // its last attempt failed
	WebhookDisabled = "disabled"
)

// WebhookList is a page of the webhooks, in the order of their creation.
type WebhookList struct {
	Webhooks   []Webhook `json:"webhooks"`
	NextCursor string    `json:"next_cursor"` // empty after the last page
}

// CreateWebhook asks for a new webhook.
type CreateWebhook struct {
	URL         string             `json:"url"`
	Description string             `json:"description,omitempty"`
	Types       []sluice.EventType `json:"types,omitempty"`  // absent: all
	Secret      string             `json:"secret,omitempty"` // absent: the server makes one
}

// Delivery is an event that has not reached a webhook.
type Delivery struct {
	EventID    string               `json:"event_id,omitempty"`
	Seq        int64                `json:"seq"`     // of the event
	Subject    string               `json:"subject"` // an order, or a sale
	State      sluice.DeliveryState `json:"state"`
	Attempts   int                  `json:"attempts"`
	NextAt     *Time                `json:"next_at"`     // null if it was given up
	LastStatus int                  `json:"last_status"` // of HTTP; 0: no answer
	LastError  string               `json:"last_error,omitempty"`
	UpdatedAt  Time                 `json:"updated_at"`
}

// DeliveryPage is a part of what has not reached a webhook, by event.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	NextCursor string     `json:"next_cursor"` // empty after the last page
}

// ReplayWebhook asks to send events again: exactly one of the fields.
type ReplayWebhook struct {
	Event  string `json:"event,omitempty"`  // the id of one
	From   string `json:"from,omitempty"`   // this one and all that came after it
	Failed bool   `json:"failed,omitempty"` // those that were given up
}

// Validate says what is wrong with it.
func (r *ReplayWebhook) Validate() error {
	n := 0
	for _, given := range []bool{r.Event != "", r.From != "", r.Failed} {
		if given {
			n++
		}
	}
	if n != 1 {
		return errors.New(`want one of "event", "from" and "failed": true`)
	}
	for _, field := range []struct{ name, id string }{{"event", r.Event}, {"from", r.From}} {
		if _, ok := sluice.ParseEventID(field.id); !ok && field.id != "" {
			return errors.New(field.name + ": want the id of an event, like evt_17_0123abcd")
		}
	}
	return nil
}

// WebhookDeleted names a webhook that is no more.
type WebhookDeleted struct {
	Deleted sluice.WebhookID `json:"deleted"`
}

// WebhookReplayed says how many events will be sent again.
type WebhookReplayed struct {
	Replayed int64 `json:"replayed"`
}

// WebhookTestType is the type of the message of a test. It is no event: it has no number,
// the feed does not have it, and no webhook can ask for it.
const WebhookTestType sluice.EventType = "webhook.test"

// WebhookTested says what came of one attempt to reach a webhook.
type WebhookTested struct {
	EventID   string `json:"event_id"` // of the message: webhook-id
	Delivered bool   `json:"delivered"`
	Status    int    `json:"status"` // of HTTP; 0: no answer
	TookMS    int64  `json:"took_ms"`
	Error     string `json:"error,omitempty"` // why it was not delivered
}
