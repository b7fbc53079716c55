package api

import "github.com/sluicehq/sluice"

// Event is something that happened to an order or a sale: what the feed lists,
// and the body of a webhook.
type Event struct {
	ID        string           `json:"id"`
	Seq       int64            `json:"seq"` // its number: dense, from 1
	Type      sluice.EventType `json:"type"`
	CreatedAt Time             `json:"created_at"`
	Data      EventData        `json:"data"`
}

// EventData holds the order or the sale, as it was then.
type EventData struct {
	Order *Order     `json:"order,omitempty"`
	Sale  *EventSale `json:"sale,omitempty"`
	// RefusedPaymentID is the payment that was not recorded, and RefusedReason why, of
	// order.payment_refused.
	RefusedPaymentID string `json:"refused_payment_id,omitempty"`
	RefusedReason    string `json:"refused_reason,omitempty"`
}

// EventSale is a sale as the store has it. What only the ledger knows, how much
// is available, is not in it.
type EventSale struct {
	ID                sluice.SaleID `json:"id"`
	SKU               string        `json:"sku"`
	Title             string        `json:"title"`
	Price             sluice.Money  `json:"price"`
	ListPrice         *sluice.Money `json:"list_price"`
	Free              bool          `json:"free,omitempty"`
	Total             *int64        `json:"total"`
	MaxPerBuyer       *int64        `json:"max_per_buyer"`
	MaxOrdersPerBuyer *int64        `json:"max_orders_per_buyer"`
	MaxUnpaidPerBuyer *int64        `json:"max_unpaid_per_buyer"`
	OpensAt           Time          `json:"opens_at"`
	ClosesAt          *Time         `json:"closes_at"`
	Paused            bool          `json:"paused"`
	PaymentWindowS    int64         `json:"payment_window_s"`
	PaymentGraceS     int64         `json:"payment_grace_s"`
	TermsVersion      int64         `json:"terms_version"`
	Epoch             int64         `json:"epoch"`
	Fence             string        `json:"fence"` // why claims are unavailable; empty when they are not
	CreatedAt         Time          `json:"created_at"`
	UpdatedAt         Time          `json:"updated_at"`
	ArchivedAt        *Time         `json:"archived_at"`
}

// EventPage is a part of the feed, in order.
type EventPage struct {
	Events []Event `json:"events"`
	// Next is what to ask after the next time: the id of the last event, or
	// what was asked for if there is none; empty if there never was one.
	Next string `json:"next"`
}
