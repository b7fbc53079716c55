package sluice

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// EventType says what happened to an order or a sale.
type EventType string

// The types of events. The clock makes none: that a sale opens or closes by
// its window changes nothing in the store.
const (
	EventOrderCreated   EventType = "order.created" // stored, and pending
	EventOrderPaid      EventType = "order.paid"
	EventOrderCancelled EventType = "order.cancelled"
	EventOrderExpired   EventType = "order.expired"
	EventOrderRejected  EventType = "order.rejected" // also an order that was stored as rejected: then it is its first event
	EventOrderRefundDue EventType = "order.refund_due"
	EventOrderRefunded  EventType = "order.refunded"
	// EventPaymentRefused: a second payment, of another id, for an order that
	// has one. Money may have moved; the order stays as it is.
	EventPaymentRefused EventType = "order.payment_refused"

	EventSaleCreated     EventType = "sale.created"
	EventSaleUpdated     EventType = "sale.updated"     // its description or terms: window, pause, total, limits
	EventSaleUnavailable EventType = "sale.unavailable" // fenced: claims are refused until it is rebuilt
	EventSaleAvailable   EventType = "sale.available"   // loaded into the ledger, for the first time or again
	EventSaleArchived    EventType = "sale.archived"
)

// EventTypes lists every type.
func EventTypes() []EventType {
	return []EventType{
		EventOrderCreated, EventOrderPaid, EventOrderCancelled, EventOrderExpired, EventOrderRejected, EventOrderRefundDue,
		EventOrderRefunded, EventPaymentRefused,
		EventSaleCreated, EventSaleUpdated, EventSaleUnavailable, EventSaleAvailable, EventSaleArchived,
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
	// RefusedPayment is the payment that was not recorded, of
	// EventPaymentRefused.
	RefusedPayment string
}

// NewOrderEvent makes the event of a change of an order, given the order as it
// is now.
func NewOrderEvent(seq int64, now Order, change HistoryEntry) Event {
	e := Event{Seq: seq, Type: orderEvent(change.To), At: change.At, Order: now.when(change.To, change.At)}
	if change.From == change.To {
		e.Type, e.RefusedPayment = EventPaymentRefused, change.PaymentID
	}
	return e
}

// when returns the order as it was when it had a status, which it has once at
// most. All else of an order never changes, or once.
func (o Order) when(status Status, at time.Time) Order {
	o.Status, o.UpdatedAt = status, at
	switch status {
	case Pending:
		o.Reason, o.PaymentID = "", ""
	case Cancelled, Expired, Rejected:
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
// does not mistake another event of the same number for it.
func (e *Event) ID() string {
	digest := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d", e.Type, e.Subject(), e.RefusedPayment, e.At.UnixMilli()))
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

// EventStore is the feed of events. Whatever is committed gets its number a
// little later, by NumberEvents, so that storing orders costs nothing for it;
// nothing is skipped, and nothing is numbered twice.
type EventStore interface {
	// NumberEvents gives the next numbers to what was committed and has none,
	// about limit of each kind, and returns how many. Several servers may call
	// it at the same time: they follow each other.
	NumberEvents(ctx context.Context, limit int) (int, error)

	// Events returns up to limit events (1 to MaxPage) numbered after this one,
	// in order; fewer only at the end of the feed. ErrBadCursor if after is
	// negative, or beyond the last number: then the store is an older copy.
	Events(ctx context.Context, after int64, limit int) ([]Event, error)

	// LastEvent returns the last number given, 0 if there is none.
	LastEvent(ctx context.Context) (int64, error)
}
