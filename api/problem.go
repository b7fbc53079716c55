package api

import "github.com/sluicehq/sluice"

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
	CodePaymentAmount   = "payment_amount"

	CodeDeadLetterNotFound = "dead_letter_not_found"
	CodeStaleCursor        = "stale_cursor" // the feed does not know the event
	CodeGone               = "gone"         // deleted by order_retention
	CodeWebhookNotFound    = "webhook_not_found"
	CodeEventNotFound      = "event_not_found"
	CodeNotFound           = "not_found"          // no such path
	CodeMethodNotAllowed   = "method_not_allowed" // another method is for this path
)

// Problem is an error on the wire: RFC 9457, application/problem+json.
type Problem struct {
	// Type is a link to the code in the reference of the server that answers, like
	// /docs#sold_out. Programs go by Code.
	Type   string `json:"type"`
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
	Limit       string           `json:"limit,omitempty"`     // buyer_limit: which of the sale's limits, if it is one
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
	// StoreRisks are settings of the database that can lose orders and payments, in a
	// failover for instance: docs/operating.md.
	StoreRisks []string `json:"store_risks,omitempty"`
	// LedgerState is "ok", or says that too few replicas are there for wait_replicas.
	LedgerState string `json:"ledger_state"`
	// Recover are sales whose store is older than their ledger: "sluice recover".
	Recover []sluice.SaleID `json:"recover,omitempty"`
	// Differ are other servers that have another secret, key or login than this one: they refuse what it accepts.
	Differ []string `json:"differ,omitempty"`
}
