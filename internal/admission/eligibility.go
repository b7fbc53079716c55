package admission

import (
	"errors"
	"net/netip"
	"time"

	"github.com/sluicehq/sluice"
)

// Caller is what a buyer brings along with a claim.
type Caller struct {
	// Ticket is the purchase ticket, empty if none came.
	Ticket string
	// Sales are those that the buyer's token admits the buyer to, signed by the
	// shop (EligibleToken).
	Sales []string
	// Address is where the claim comes from, as far as it can be trusted.
	Address netip.Addr
}

// Reason says, for programs, why a buyer is not let in.
type Reason string

// The reasons of a RefusedError.
const (
	// Denied: the buyer is on the sale's deny list.
	Denied Reason = "denied"
	// NotEligible: the sale is for others.
	NotEligible Reason = "not_eligible"
	// TicketMissing, TicketInvalid and TicketExpired: a new ticket helps.
	TicketMissing Reason = "ticket_missing"
	TicketInvalid Reason = "ticket_invalid"
	TicketExpired Reason = "ticket_expired"
)

// RefusedError: the buyer is not let in, whatever is left to buy. If it is
// about a claim, the claim has not been accepted before.
type RefusedError struct {
	Reason Reason
	Detail string // what to do, for people
}

func (e *RefusedError) Error() string { return e.Detail }

// ErrUnready: this server cannot say yet who may buy; a moment later it can.
var ErrUnready = errors.New("admission: the lists of the sale are not loaded yet")

// Eligibility says who may buy at a sale at all: the deny list, then the sale's own
// rules about eligibility and tickets. It costs no network.
type Eligibility struct {
	// Lists holds the lists of all sales. With nil there are none.
	Lists *Lists
	// Ticket returns nil for a good ticket, or the reason why it is not.
	Ticket func(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) Reason
	// Now is this server's clock; default time.Now. What counts is the ledger's,
	// which the view knows.
	Now func() time.Time
}

// Eligible returns nil if the buyer may have a ticket of the sale, or buy
// where none is asked for; a *RefusedError or ErrUnready otherwise.
func (e *Eligibility) Eligible(view *View, buyer sluice.BuyerID, caller *Caller) error {
	sale, lists := &view.Sale, e.Lists
	if view.remembered { // the store does not answer: no deny list, and no server is sure of an allow list
		lists = nil
	}
	denied, err := lists.has(sale.ID, sluice.DenyList, buyer)
	if err != nil {
		return err
	}
	if denied {
		return refuse(Denied, "the shop does not let this buyer buy here")
	}
	switch sale.Rules.Eligibility {
	case "":
		return nil
	case sluice.EligibleToken:
		for _, id := range caller.Sales {
			if id == string(sale.ID) {
				return nil
			}
		}
		return refuse(NotEligible, `this sale is for invited buyers: the token's "sluice_sales" does not name it`)
	case sluice.EligibleList:
		allowed, err := lists.has(sale.ID, sluice.AllowList, buyer)
		if err != nil || allowed {
			return err
		}
		return refuse(NotEligible, "this sale is for invited buyers, and this buyer is not on its list")
	}
	return refuse(NotEligible, "this server does not know the sale's eligibility") // fails closed
}

func refuse(reason Reason, detail string) error { return &RefusedError{Reason: reason, Detail: detail} }

// Check returns nil if the claim may go to the ledger; a *RefusedError or
// ErrUnready otherwise.
func (e *Eligibility) Check(view *View, claim *sluice.Claim, caller *Caller) error {
	if err := e.Eligible(view, claim.Buyer, caller); err != nil {
		return err
	}
	if view.Sale.Rules.Ticket == (sluice.Ticket{}) {
		return nil
	}
	const get = "; POST /v1/sales/{sale}/ticket gives one, to be sent in the header Sluice-Ticket"
	if caller.Ticket == "" {
		return refuse(TicketMissing, "this sale wants a purchase ticket"+get)
	}
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	switch reason := e.Ticket(caller.Ticket, view.Sale.ID, claim.Buyer, view.LedgerTime(now())); reason {
	case "":
		return nil
	case TicketExpired:
		return refuse(reason, "the purchase ticket has expired"+get)
	default:
		return refuse(TicketInvalid, "the purchase ticket is not one of ours, or another buyer's or another sale's"+get)
	}
}
