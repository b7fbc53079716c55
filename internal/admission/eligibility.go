package admission

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// ErrUnready: this server cannot say yet who may buy; a moment later it can.
var ErrUnready = errors.New("admission: the lists of the sale are not loaded yet")

// Eligibility says who may buy at a sale at all: the deny list, then the sale's own
// rules about eligibility and tickets. It costs no network.
type Eligibility struct {
	// Lists holds the lists of all sales. With nil there are none.
	Lists *Lists
	// Ticket returns nil for a good ticket, or the reason why it is not.
	Ticket func(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) sluice.Reason
	// Now is this server's clock; default time.Now. The ledger's clock
	// decides, which the view knows.
	Now func() time.Time
}

// Eligible returns nil if the buyer may have a ticket of the sale, or buy
// where none is asked for; a *sluice.RefusedError or ErrUnready otherwise.
func (e *Eligibility) Eligible(view *View, buyer sluice.BuyerID, caller *sluice.Caller) error {
	if err := e.invited(view, buyer, caller); err != nil {
		return err
	}
	if _, missing := view.Sale.Rules.Counters(caller.Signed); missing != "" {
		return refuse(sluice.LimitMissing, fmt.Sprintf(
			"this sale has a limit by %s: want a token with a claim %q, a text of at most %d bytes or a whole number",
			missing, missing, sluice.MaxSigned))
	}
	return nil
}

func (e *Eligibility) invited(view *View, buyer sluice.BuyerID, caller *sluice.Caller) error {
	sale, lists := &view.Sale, e.Lists
	if view.rulesOnly { // the store does not answer: no deny list, and no server is sure of an allow list
		lists = nil
	}
	denied, err := lists.has(sale.ID, sluice.DenyList, buyer)
	if err != nil {
		return err
	}
	if denied {
		return refuse(sluice.Denied, "the shop does not let this buyer buy here")
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
		return refuse(sluice.NotEligible, `this sale is for invited buyers: the token's "sluice_sales" does not name it`)
	case sluice.EligibleList:
		allowed, err := lists.has(sale.ID, sluice.AllowList, buyer)
		if err != nil || allowed {
			return err
		}
		return refuse(sluice.NotEligible, "this sale is for invited buyers, and this buyer is not on its list")
	}
	return refuse(sluice.NotEligible, "this server does not know the sale's eligibility") // fails closed
}

func refuse(reason sluice.Reason, detail string) error {
	return &sluice.RefusedError{Reason: reason, Detail: detail}
}

// Check returns nil if the claim may go to the ledger; a *sluice.RefusedError or
// ErrUnready otherwise.
func (e *Eligibility) Check(view *View, claim *sluice.Claim, caller *sluice.Caller) error {
	if err := e.Eligible(view, claim.Buyer, caller); err != nil {
		return err
	}
	if view.Sale.Rules.Ticket == (sluice.Ticket{}) {
		return nil
	}
	const get = "; POST /v1/sales/{sale}/ticket gives one, to be sent in the header Sluice-Ticket"
	if caller.Ticket == "" {
		return refuse(sluice.TicketMissing, "this sale wants a purchase ticket"+get)
	}
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	switch reason := e.Ticket(caller.Ticket, view.Sale.ID, claim.Buyer, view.LedgerTime(now())); reason {
	case "":
		return nil
	case sluice.TicketExpired:
		return refuse(reason, "the purchase ticket has expired"+get)
	default:
		return refuse(sluice.TicketInvalid,
			"the purchase ticket is not one of ours, or another buyer's or another sale's"+get)
	}
}
