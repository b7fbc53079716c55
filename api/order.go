package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/sluicehq/sluice"
)

// PlaceOrder is a buyer's claim.
type PlaceOrder struct {
	Quantity int64           `json:"quantity"`
	Meta     json.RawMessage `json:"meta,omitempty"` // a JSON object, or nothing
}

// plainOrder is the message that nearly every buyer sends.
var plainOrder = []byte(`{"quantity":1}`)

// ParsePlaceOrder reads a claim's body; Meta comes back as compact JSON, empty
// when there is none. It says what is wrong with quantity and meta.
func ParsePlaceOrder(body []byte) (PlaceOrder, error) {
	if bytes.Equal(body, plainOrder) {
		return PlaceOrder{Quantity: 1}, nil
	}
	var m struct {
		Quantity json.RawMessage `json:"quantity"`
		Meta     json.RawMessage `json:"meta"`
	}
	if err := Decode(body, &m); err != nil {
		return PlaceOrder{}, err
	}
	quantity, err := parseQuantity(m.Quantity)
	if err != nil {
		return PlaceOrder{}, err
	}
	meta, err := compactMeta(m.Meta)
	if err != nil {
		return PlaceOrder{}, err
	}
	return PlaceOrder{Quantity: quantity, Meta: meta}, nil
}

func parseQuantity(raw []byte) (int64, error) {
	if raw == nil {
		return 0, fmt.Errorf("quantity: is missing; want a whole number, 1 to %d", sluice.MaxQuantity)
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 1 || n > sluice.MaxQuantity {
		have := string(raw)
		if len(have) > 40 {
			have = have[:40] + "…"
		}
		return 0, fmt.Errorf("quantity: want a whole number, 1 to %d, have %s", sluice.MaxQuantity, have)
	}
	return n, nil
}

func compactMeta(raw []byte) (json.RawMessage, error) {
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, errors.New("meta: want a JSON object")
	}
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, fmt.Errorf("meta: %w", err)
	}
	if b.Len() > sluice.MaxMeta {
		return nil, fmt.Errorf("meta: %d bytes of compact JSON: want at most %d", b.Len(), sluice.MaxMeta)
	}
	if !utf8.Valid(b.Bytes()) {
		return nil, errors.New("meta: want valid UTF-8")
	}
	return b.Bytes(), nil
}

// Placed is the answer to an accepted claim. A repeat gets the same bytes (I4).
type Placed struct {
	OrderID  sluice.OrderID `json:"order_id"`
	SaleID   sluice.SaleID  `json:"sale_id"`
	Quantity int64          `json:"quantity"`
	Status   sluice.Status  `json:"status"` // always queued
}

// AppendPlaced appends the answer to an accepted claim, as Placed encodes, with
// a line feed. Ids of a sale and an order need no escaping.
func AppendPlaced(dst []byte, sale sluice.SaleID, order sluice.OrderID, quantity int64) []byte {
	dst = append(dst, `{"order_id":"`...)
	dst = append(dst, order...)
	dst = append(dst, `","sale_id":"`...)
	dst = append(dst, sale...)
	dst = append(dst, `","quantity":`...)
	dst = strconv.AppendInt(dst, quantity, 10)
	return append(dst, `,"status":"queued"}`+"\n"...)
}

// Order is an order; the fields of the merchant's view are left out of the buyer's.
type Order struct {
	OrderID    sluice.OrderID  `json:"order_id"`
	SaleID     sluice.SaleID   `json:"sale_id"`
	BuyerID    sluice.BuyerID  `json:"buyer_id,omitempty"` // merchant
	Quantity   int64           `json:"quantity"`
	Status     sluice.Status   `json:"status"`
	Reason     string          `json:"reason,omitempty"` // why it was rejected
	Price      Money           `json:"price"`            // of one unit
	Meta       json.RawMessage `json:"meta"`
	AcceptedAt Time            `json:"accepted_at"`
	StoredAt   *Time           `json:"stored_at"`                 // null while queued
	ExpiresAt  *Time           `json:"expires_at"`                // null while queued
	Key        sluice.Key      `json:"idempotency_key,omitempty"` // merchant
	Epoch      int64           `json:"epoch,omitempty"`           // merchant
	Seq        int64           `json:"seq,omitempty"`             // merchant
	PaymentID  string          `json:"payment_id,omitempty"`      // merchant
	KeepUntil  *Time           `json:"keep_until,omitempty"`      // merchant: a payment before it is in time
	UpdatedAt  *Time           `json:"updated_at,omitempty"`      // merchant: of the last change of status
}

// NewOrder is a buyer's own order.
func NewOrder(o *sluice.Order) Order {
	v := Order{
		OrderID: o.ID, SaleID: o.Sale, Quantity: o.Quantity, Status: o.Status, Reason: o.Reason, Price: Money(o.Price),
		AcceptedAt: At(o.AcceptedAt), StoredAt: AtOrNull(o.StoredAt), ExpiresAt: AtOrNull(o.ExpiresAt),
	}
	if o.Meta != "" {
		v.Meta = json.RawMessage(o.Meta)
	}
	return v
}

// NewAdminOrder is an order as the merchant sees it.
func NewAdminOrder(o *sluice.Order) Order {
	v := NewOrder(o)
	v.BuyerID, v.Key, v.Epoch, v.Seq = o.Buyer, o.Key, o.Epoch, o.Seq
	v.PaymentID, v.KeepUntil, v.UpdatedAt = o.PaymentID, AtOrNull(o.KeepUntil), AtOrNull(o.UpdatedAt)
	return v
}

// PayOrder records a payment, RejectOrder says why an order failed.
type (
	PayOrder struct {
		PaymentID string `json:"payment_id"`
	}
	RejectOrder struct {
		Reason string `json:"reason"`
	}
)

// OrderChange is one change of an order. From and to are the same when a
// second payment was refused.
type OrderChange struct {
	At        Time          `json:"at"`
	From      sluice.Status `json:"from"`
	To        sluice.Status `json:"to"`
	Action    sluice.Action `json:"action"`
	By        string        `json:"by"`
	Reason    string        `json:"reason,omitempty"`
	PaymentID string        `json:"payment_id,omitempty"`
}

// OrderHistory is the life of an order, from its being stored on.
type OrderHistory struct {
	OrderID sluice.OrderID `json:"order_id"`
	Changes []OrderChange  `json:"changes"`
}

// NewOrderHistory is a history as the merchant sees it.
func NewOrderHistory(order sluice.OrderID, entries []sluice.HistoryEntry) OrderHistory {
	h := OrderHistory{OrderID: order, Changes: make([]OrderChange, len(entries))}
	for i, e := range entries {
		h.Changes[i] = OrderChange{
			At: At(e.At), From: e.From, To: e.To, Action: e.Action, By: e.By, Reason: e.Reason,
			PaymentID: e.PaymentID,
		}
	}
	return h
}

// OrderPage is a page of orders, oldest first.
type OrderPage struct {
	Orders     []Order `json:"orders"`
	NextCursor string  `json:"next_cursor"` // empty after the last page
}
