package api

import (
	"encoding/json"

	"github.com/sluicehq/sluice"
)

// Codes of errors that are not decisions. With the codes of the domain they
// are all that a client will meet; each belongs to one HTTP status.
const (
	CodeOutcomeUnknown  = "outcome_unknown" // try again with the same key
	CodeBadRequest      = "bad_request"
	CodeUnauthenticated = "unauthenticated"
	CodeForbidden       = "forbidden"
	CodeOrderNotFound   = "order_not_found"
	CodeTooLarge        = "too_large"
	CodeOrderEnded      = "order_ended"
	CodeOrderQueued     = "order_queued"
	CodeSaleState       = "sale_state"
	CodeBelowTaken      = "below_taken"
	CodePaymentConflict = "payment_conflict"

	CodeDeadLetterNotFound = "dead_letter_not_found"
	CodeStaleCursor        = "stale_cursor" // the feed does not know the event
	CodeWebhookNotFound    = "webhook_not_found"
	CodeEventNotFound      = "event_not_found"
	CodeNotFound           = "not_found"          // no such path
	CodeMethodNotAllowed   = "method_not_allowed" // another method is for this path
)

// Problem is an error on the wire: RFC 9457, application/problem+json.
type Problem struct {
	Type   string `json:"type,omitempty"` // absent: about:blank
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitempty"`

	Reason  string `json:"reason,omitempty"`   // forbidden: why a buyer is not let in (docs/codes.md)
	OpensAt *Time  `json:"opens_at,omitempty"` // not_open
	// TicketsFrom, of not_open when a ticket was asked for: from when on they
	// are handed out.
	TicketsFrom *Time            `json:"tickets_from,omitempty"`
	OrderIDs    []sluice.OrderID `json:"order_ids,omitempty"` // buyer_limit: the buyer's live orders of the sale
}

var titles = map[string]string{
	sluice.KeyReused.String():    "This key was used for other content",
	sluice.SaleNotFound.String(): "No such sale",
	sluice.Unavailable.String():  "The sale is not available now",
	sluice.NotOpen.String():      "The sale is not open yet",
	sluice.Closed.String():       "The sale is over",
	sluice.Paused.String():       "The sale is paused",
	sluice.BuyerLimit.String():   "The limit per buyer is reached",
	sluice.SoldOut.String():      "Sold out",
	sluice.Insufficient.String(): "Fewer units are available than asked for",
	sluice.RateLimited.String():  "Too many requests",
	sluice.Overloaded.String():   "Too busy",
	CodeOutcomeUnknown:           "The outcome is unknown; try again with the same key",
	CodeBadRequest:               "The request is not right",
	CodeUnauthenticated:          "Who is asking?",
	CodeForbidden:                "Not allowed",
	CodeOrderNotFound:            "No such order",
	CodeTooLarge:                 "The request is too large",
	CodeOrderEnded:               "The order has ended",
	CodeOrderQueued:              "The order is still queued",
	CodeSaleState:                "The sale is not in a state that allows this",
	CodePaymentConflict:          "The order was paid with another payment",
	CodeBelowTaken:               "Fewer than the units already taken",
	CodeDeadLetterNotFound:       "No such dead letter",
	CodeStaleCursor:              "The feed does not know this event",
	CodeWebhookNotFound:          "No such webhook",
	CodeEventNotFound:            "No such event",
	CodeNotFound:                 "No such path",
	CodeMethodNotAllowed:         "Another method is for this path",
}

// Title is the short sentence that goes with a code, always the same one.
func Title(code string) string {
	if t, ok := titles[code]; ok {
		return t
	}
	return code
}

// ServerTime is the clock that opens and closes sales, as the server knows it.
type ServerTime struct {
	ServerTime Time `json:"server_time"`
}

// Ready is the answer of a server that can decide claims.
type Ready struct {
	Status     string `json:"status"`
	Node       string `json:"node"`
	Ledger     string `json:"ledger"` // kind: sqlite or redis
	Store      string `json:"store"`  // kind: sqlite, postgres or mysql
	StoreState string `json:"store_state"`
}

// AuditReport is the audit's outcome, of one sale or, with sale_id empty, of
// several together.
type AuditReport struct {
	OK       bool                `json:"ok"`
	Checks   []sluice.AuditCheck `json:"checks"`
	InFlight int64               `json:"in_flight"` // orders accepted and not stored yet
	SaleID   sluice.SaleID       `json:"sale_id,omitempty"`

	// Figures are what was compared; see sluice.AuditFigures.
	Figures json.RawMessage `json:"figures,omitempty"`
}
