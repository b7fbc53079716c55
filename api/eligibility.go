package api

import "github.com/sluicehq/sluice"

// Challenge asks for a proof of work: a nonce such that the SHA-256 of
// challenge, a dot and nonce begins with difficulty zero bits.
type Challenge struct {
	Challenge  string `json:"challenge"`
	Difficulty int64  `json:"difficulty"`
	ExpiresAt  Time   `json:"expires_at"`
}

// AskTicket asks for a purchase ticket. Challenge and Nonce are needed if the
// sale asks for a proof of work; Token goes to the merchant's own service, if
// the sale has one.
type AskTicket struct {
	Challenge string `json:"challenge,omitempty"`
	Nonce     string `json:"nonce,omitempty"`
	Token     string `json:"token,omitempty"`
}

// Ticket is a purchase ticket, for the header Sluice-Ticket of a claim.
type Ticket struct {
	Ticket    string `json:"ticket"`
	ExpiresAt Time   `json:"expires_at"`
}

// BuyerList is a sale's allow or deny list as a whole; BuyerPage is it with
// some of its buyers, in the order of their bytes.
type (
	BuyerList struct {
		SaleID    sluice.SaleID   `json:"sale_id"`
		List      sluice.ListKind `json:"list"`
		Size      int64           `json:"size"`
		UpdatedAt *Time           `json:"updated_at"` // null: never uploaded
		// First answers an upload: the first id of its body, as the server has understood it.
		First sluice.BuyerID `json:"first,omitempty"`
	}
	BuyerPage struct {
		BuyerList
		Buyers     []sluice.BuyerID `json:"buyers"`
		NextCursor string           `json:"next_cursor"` // empty after the last page
	}
)

// SaleCheck is what one server finds when it looks at a sale that is to be sold.
type SaleCheck struct {
	SaleID sluice.SaleID `json:"sale_id"`
	Node   string        `json:"node"`
	Status CheckStatus   `json:"status"` // the worst of the checks
	Checks []Check       `json:"checks"` // what fails first
}

// Check is one thing that was looked at: what was found, and unless it is ok, where
// that is to be changed and what would be right.
type Check struct {
	Name   string      `json:"name"`
	Status CheckStatus `json:"status"`
	Detail string      `json:"detail"`
	Where  string      `json:"where,omitempty"`
	Right  string      `json:"right,omitempty"`
}

// CheckStatus says how a check ended.
type CheckStatus string

// A warning is worth a look; a failure means that the sale will not be sold as
// it should.
const (
	CheckOK   CheckStatus = "ok"
	CheckWarn CheckStatus = "warn"
	CheckFail CheckStatus = "fail"
)
