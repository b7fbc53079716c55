package sluice

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// EventType says what happened to an order or a sale.
type EventType string

// The types of events. The clock makes none: that a sale opens or closes by
// its window changes nothing in the store.
const (
	EventOrderCreated EventType = "order.created" // stored, and pending
	// also an order of a free sale that was stored: then it is its first event
	EventOrderPaid      EventType = "order.paid"
	EventOrderCancelled EventType = "order.cancelled"
	EventOrderExpired   EventType = "order.expired"
	// also an order that was stored as rejected: then it is its first event
	EventOrderRejected  EventType = "order.rejected"
	EventOrderRefundDue EventType = "order.refund_due"
	EventOrderRefunded  EventType = "order.refunded"
	// EventPaymentRefused: a payment that was not recorded: the order has another one,
	// another order has it, or it is of another amount. Money may have moved; the
	// order stays as it is.
	EventPaymentRefused EventType = "order.payment_refused"
	// EventOrderExtended: a pending order has a later deadline.
	EventOrderExtended EventType = "order.extended"

	EventSaleCreated     EventType = "sale.created"
	EventSaleUpdated     EventType = "sale.updated"     // its description or terms: window, pause, total, limits
	EventSaleUnavailable EventType = "sale.unavailable" // fenced: claims are refused until it is rebuilt
	EventSaleAvailable   EventType = "sale.available"   // loaded into the ledger, for the first time or again
	EventSaleArchived    EventType = "sale.archived"
	EventSaleDeleted     EventType = "sale.deleted" // before a buyer bought; the sale as it was
)

// eventTypes lists every type.
func eventTypes() []EventType {
	return []EventType{
		EventOrderCreated, EventOrderPaid, EventOrderCancelled, EventOrderExpired, EventOrderRejected, EventOrderRefundDue,
		EventOrderRefunded, EventPaymentRefused, EventOrderExtended,
		EventSaleCreated, EventSaleUpdated, EventSaleUnavailable, EventSaleAvailable, EventSaleArchived,
		EventSaleDeleted,
	}
}

// orderEvent is the type of the event that an order got a status.
func orderEvent(s Status) EventType {
	if s == Pending {
		return EventOrderCreated
	}
	return EventType("order." + string(s))
}

// Event is something that was committed to the store: an order that was stored
// or changed, a sale that was created or changed. Each has one number, for ever.
type Event struct {
	// Seq is the event's number: dense, from 1, in the order in which the store
	// numbered them. Those of one order follow each other as they were
	// committed, and so do those of one sale.
	Seq  int64
	Type EventType
	At   time.Time // by the store's clock; for the order of events there is Seq

	// Order is the order as it was then, of events of orders; else zero.
	Order Order
	// Sale is the store's row of the sale as it was then, of events of sales;
	// else zero.
	Sale Sale
	// RefusedPayment is the payment that was not recorded, and RefusedReason why, of
	// EventPaymentRefused.
	RefusedPayment, RefusedReason string
}

// NewOrderEvent makes the event of a change of an order, given the order as it
// is now.
func NewOrderEvent(seq int64, now Order, change HistoryEntry) Event {
	e := Event{Seq: seq, Type: orderEvent(change.To), At: change.At, Order: now.when(change.To, change.At)}
	switch {
	case change.Action == Extend:
		e.Type = EventOrderExtended
		e.Order.KeepUntil = change.ExpiresAt.Add(now.KeepUntil.Sub(now.ExpiresAt))
		e.Order.ExpiresAt = change.ExpiresAt
	case change.From == change.To:
		e.Type, e.RefusedPayment, e.RefusedReason = EventPaymentRefused, change.PaymentID, change.Reason
	}
	return e
}

// when returns the order as it was when it had a status, which it has once at
// most. All else of an order never changes, or once; but its deadline is the present one.
func (o Order) when(status Status, at time.Time) Order {
	o.Status, o.UpdatedAt = status, at
	switch status {
	case Pending:
		o.Reason, o.PaymentID = "", ""
	case Expired:
		o.Reason, o.PaymentID = "", ""
	case Cancelled, Rejected:
		o.PaymentID = ""
	case Queued, Paid, Refunded, RefundDue:
	}
	return o
}

// Subject is what the event is about: an order's id or a sale's. Events of one
// subject are delivered in their order.
func (e *Event) Subject() string {
	if e.Order.ID != "" {
		return string(e.Order.ID)
	}
	return string(e.Sale.ID)
}

// ID names the event: its number, and a digest of what it is. So a receiver
// that has seen an event of a store which was then replaced by an older copy
// does not mistake another event of the same number for it. Erasing a buyer
// changes nothing that is in the digest.
func (e *Event) ID() string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", e.Type, e.Subject(), e.At.UnixMilli()))
	return eventPrefix + strconv.FormatInt(e.Seq, 10) + "_" + hex.EncodeToString(digest[:4])
}

const eventPrefix = "evt_"

// ParseEventID returns the number in an event's id, or false when it is none.
func ParseEventID(id string) (seq int64, ok bool) {
	rest, found := strings.CutPrefix(id, eventPrefix)
	number, digest, split := strings.Cut(rest, "_")
	seq, err := strconv.ParseInt(number, 10, 64)
	if !found || !split || len(digest) != 8 || err != nil || seq < 1 || strconv.FormatInt(seq, 10) != number {
		return 0, false
	}
	return seq, true
}

// WebhookID names a webhook: "wh_" and 24 hex digits.
type WebhookID string

// Webhook is an endpoint of the merchant's to which events are posted, by the
// Standard Webhooks specification.
type Webhook struct {
	ID          WebhookID
	URL         string // http or https
	Description string
	Secret      string      // signs: "whsec_" and base64 of 24 to 64 bytes
	Types       []EventType // only these; empty: all

	CreatedAt   time.Time
	UpdatedAt   time.Time // of the last change by a person, or of being disabled
	DisabledAt  time.Time // zero while it is in use
	DisabledWhy string

	// Cursor: the events up to this number have been delivered, or are kept as
	// deliveries. Those after it wait, also while the webhook is disabled.
	Cursor int64

	Delivered   int64     // how many have been
	Failures    int       // attempts that failed since the last one that did not
	RetryAt     time.Time // while it fails: no attempt before; else zero
	LastSuccess time.Time
	LastFailure time.Time
	LastError   string // of LastFailure
}

// Wants reports whether events of a type are for this webhook.
func (w *Webhook) Wants(t EventType) bool { return len(w.Types) == 0 || slices.Contains(w.Types, t) }

// SealedSecret is what the secret of a webhook begins with that a store has
// sealed and could not open, for want of the right key.
const SealedSecret = "s1:"

const (
	secretPrefix   = "whsec_"
	maxWebhookURL  = 2048
	minSecretBytes = 24
	maxSecretBytes = 64
)

// Validate says what is wrong with a webhook before it is created, and what
// would be right.
func (w *Webhook) Validate() error {
	if err := checkWebhookURL(w.URL); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if len(w.Description) > 256 || !utf8.ValidString(w.Description) ||
		strings.ContainsFunc(w.Description, unicode.IsControl) {
		return errors.New("description: want at most 256 bytes of UTF-8, without control characters")
	}
	if _, err := w.Key(); err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	for i, t := range w.Types {
		if !slices.Contains(eventTypes(), t) {
			return fmt.Errorf("types: %q is none; want some of %v", shorten(string(t)), eventTypes())
		}
		if slices.Contains(w.Types[:i], t) {
			return fmt.Errorf("types: %s is duplicated", t)
		}
	}
	return nil
}

func checkWebhookURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > maxWebhookURL:
		return fmt.Errorf("%d bytes: want at most %d", len(text), maxWebhookURL)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("want http://host/path or https://host/path")
	case u.User != nil:
		return errors.New("want no user or password in it; the signature says who sends")
	case strings.Contains(text, "#"):
		return errors.New("want no fragment in it")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("want printable ASCII characters without spaces; others percent-encoded")
	}
	return nil
}

// Key returns the bytes of the secret. Errors never repeat it.
func (w *Webhook) Key() ([]byte, error) {
	if strings.HasPrefix(w.Secret, SealedSecret) {
		return nil, errors.New("it is sealed with another key: give every server the webhook_key that it was sealed with")
	}
	text, found := strings.CutPrefix(w.Secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil || len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return nil, fmt.Errorf("want %s followed by base64 of %d to %d bytes", secretPrefix, minSecretBytes, maxSecretBytes)
	}
	return key, nil
}

// SetKey makes the secret of its bytes, which are random.
func (w *Webhook) SetKey(key []byte) {
	w.Secret = secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// DeliveryState says whether a delivery will be tried.
type DeliveryState string

// The states of a delivery that is kept. One that succeeds is kept no longer.
const (
	// to be tried, when NextAt has come and no earlier one of its subject is pending
	DeliveryPending DeliveryState = "pending"
	DeliveryFailed  DeliveryState = "failed" // given up, until an operator replays it
)

// Delivery is one event that has not reached one webhook.
type Delivery struct {
	Webhook  WebhookID
	Event    int64
	Subject  string // of the event
	State    DeliveryState
	Attempts int
	NextAt   time.Time
	// LastStatus is the HTTP status of the last attempt, 0 if there was none,
	// and LastError what was wrong.
	LastStatus int
	LastError  string
	UpdatedAt  time.Time
}

// LatestEvent, in place of an event's id, is the last event there is.
const LatestEvent = "latest"
