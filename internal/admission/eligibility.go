package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/sluicehq/sluice"
)

// Caller is what a buyer brings along with a claim.
type Caller struct {
	// Ticket is the purchase ticket, empty if none came.
	Ticket string
	// Sales are those that the buyer's token says he may buy at, signed by the
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
	sale := &view.Sale
	denied, err := e.Lists.has(sale.ID, sluice.DenyList, buyer)
	if err != nil {
		return err
	}
	if denied {
		return &RefusedError{Denied, "the shop does not let this buyer buy here"}
	}
	switch sale.Rules.Eligibility {
	case sluice.EligibleAll:
		return nil
	case sluice.EligibleToken:
		for _, id := range caller.Sales {
			if id == string(sale.ID) {
				return nil
			}
		}
		return &RefusedError{NotEligible, `this sale is for invited buyers: the token's "sluice_sales" does not name it`}
	case sluice.EligibleList:
		allowed, err := e.Lists.has(sale.ID, sluice.AllowList, buyer)
		if err != nil || allowed {
			return err
		}
		return &RefusedError{NotEligible, "this sale is for invited buyers, and this buyer is not on its list"}
	}
	return &RefusedError{NotEligible, "this server does not know the sale's eligibility"} // fails closed
}

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
		return &RefusedError{TicketMissing, "this sale wants a purchase ticket" + get}
	}
	now := time.Now
	if e.Now != nil {
		now = e.Now
	}
	switch reason := e.Ticket(caller.Ticket, view.Sale.ID, claim.Buyer, view.LedgerTime(now())); reason {
	case "":
		return nil
	case TicketExpired:
		return &RefusedError{reason, "the purchase ticket has expired" + get}
	default:
		return &RefusedError{TicketInvalid, "the purchase ticket is not one of ours, or another buyer's or another sale's" + get}
	}
}

// LedgerTime is the ledger's clock at now by this server's clock, as well as
// the last reading tells: never ahead of it, and behind by no more than the
// reading took. So servers whose own clocks differ agree. Before the first
// reading it is this server's clock.
func (v *View) LedgerTime(now time.Time) time.Time {
	if v.Reading.Now.IsZero() || v.Told.IsZero() {
		return now
	}
	return v.earliest(now)
}

// recalls bounds how many refused claims are looked up at a time.
const recalls = 256

// Guard makes the gate let only those through who are eligible. It is
// called once, before the first claim.
//
// A claim that is refused so may still be the repeat of one that was
// accepted: before it is refused the ledger is asked for that, and if it was,
// the buyer gets that order (I4).
func (g *Gate) Guard(eligibility *Eligibility, ledger sluice.Recaller) {
	g.eligibility, g.ledger, g.recalling = eligibility, ledger, make(chan struct{}, recalls)
}

// admit returns nil if the claim may go to the ledger.
func (g *Gate) admit(view *View, claim *sluice.Claim, caller *Caller) error {
	if g.eligibility == nil {
		return nil
	}
	return g.eligibility.Check(view, claim, caller)
}

// recall answers a claim that is not let in, for the reason given: that reason,
// unless the claim was accepted before. Then it goes the way of every claim and
// is accepted again there, so that this answer is protected as the first one
// was: by what the ledger notes as told, by this server's memory, and by WAIT
// (I4).
func (g *Gate) recall(ctx context.Context, sale sluice.SaleID, claim *sluice.Claim, rules *sluice.Rules, address netip.Addr, why error) (sluice.Decision, error) {
	if errors.Is(why, ErrUnready) {
		return sluice.Decision{Code: sluice.Unavailable}, nil // says nothing about earlier attempts
	}
	if wait := g.rates.repeat(sale, claim.Buyer, g.now()); wait > 0 {
		return g.tally.refused(CheckRepeat, sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait})
	}
	select {
	case g.recalling <- struct{}{}:
	default:
		return sluice.Decision{Code: sluice.Overloaded}, nil // says nothing about them either
	}
	record, err := g.ledger.Recall(ctx, sluice.ClaimID{Sale: sale, Buyer: claim.Buyer, Key: claim.Key})
	<-g.recalling
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		return sluice.Decision{}, why
	case errors.Is(err, sluice.ErrNotLoaded):
		return sluice.Decision{Code: sluice.Unavailable}, nil
	case err != nil:
		return sluice.Decision{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	case !record.SameContent(claim):
		return sluice.Decision{Code: sluice.KeyReused}, nil
	}
	return g.ask(ctx, sale, *claim, sluice.Unlimited, rules, address)
}
