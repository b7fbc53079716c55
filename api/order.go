package api

import (
	"encoding/json"

	"github.com/sluicehq/sluice"
)

// PlaceOrder is a buyer's claim.
type PlaceOrder struct {
	Quantity int64           `json:"quantity"`
	Meta     json.RawMessage `json:"meta,omitempty"` // a JSON object, or nothing
}

// Placed is the answer to an accepted claim. A repeat gets the same bytes (I4).
type Placed struct {
	OrderID  sluice.OrderID `json:"order_id"`
	SaleID   sluice.SaleID  `json:"sale_id"`
	Quantity int64          `json:"quantity"`
	Status   sluice.Status  `json:"status"` // always queued
}

// Buyer is who asks, as the shop's setting buyer_id spells it.
type Buyer struct {
	BuyerID sluice.BuyerID `json:"buyer_id"`
}

// Order is an order; the fields of the merchant's view are left out of the buyer's.
type Order struct {
	OrderID    sluice.OrderID  `json:"order_id"`
	SaleID     sluice.SaleID   `json:"sale_id"`
	BuyerID    sluice.BuyerID  `json:"buyer_id,omitempty"` // merchant
	Quantity   int64           `json:"quantity"`
	Status     sluice.Status   `json:"status"`
	Reason     string          `json:"reason,omitempty"` // why it was rejected
	Price      sluice.Money    `json:"price"`            // of one unit
	Amount     int64           `json:"amount"`           // to charge: price times quantity, in minor units
	Currency   string          `json:"currency"`         // of the amount
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

// PayOrder records a payment, RejectOrder says why an order failed.
type (
	PayOrder struct {
		PaymentID string `json:"payment_id"`
		// Amount in minor units and Currency, both or neither: what was paid.
		Amount   *int64 `json:"amount,omitempty"`
		Currency string `json:"currency,omitempty"`
	}
	RejectOrder struct {
		Reason string `json:"reason"`
	}
	// ExtendOrder gives an order a later deadline.
	ExtendOrder struct {
		ExpiresAt Time `json:"expires_at" wire:"required"`
	}
)

// OrderChange is one change of an order. From and to are the same when a
// payment was refused, then the reason says why; and when the order was extended.
type OrderChange struct {
	At        Time          `json:"at"`
	From      sluice.Status `json:"from"`
	To        sluice.Status `json:"to"`
	Action    sluice.Action `json:"action"`
	By        string        `json:"by"`
	Reason    string        `json:"reason,omitempty"`
	PaymentID string        `json:"payment_id,omitempty"`
	ExpiresAt *Time         `json:"expires_at,omitempty"` // of extend: the deadline from then on
}

// OrderHistory is the life of an order, from its being stored on.
type OrderHistory struct {
	OrderID sluice.OrderID `json:"order_id"`
	Changes []OrderChange  `json:"changes"`
}

// OrderPage is a page of orders, oldest first.
type OrderPage struct {
	Orders     []Order `json:"orders"`
	NextCursor string  `json:"next_cursor"` // empty after the last page
}
