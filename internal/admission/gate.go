package admission

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/sluicehq/sluice"
)

// Gate answers claims that this server can answer by itself and hands the
// others to the batcher. Its checks (Check) come cheapest first: known sale;
// window, paused, sold out; slots; rates; who is let in; ratio.
//
// A refusal that is already known costs no network, but only if it cannot
// break I4: the view must be sure of it (View.refusal), and the set of holders
// must cover the view's sequence and lack the buyer. A buyer in the set may be
// repeating an accepted claim and asks the ledger, at repeatRate. Everybody
// else asks the ledger, unless too many do: RateLimited and Overloaded say
// nothing about earlier attempts with the key, so they break no promise.
//
// Limits fail closed: what cannot be counted does not pass.
type Gate struct {
	board   *Board
	batcher *Batcher
	archive Archive
	newID   func(sluice.SaleID) sluice.OrderID
	now     func() time.Time
	rates   *rates
	tally   tally

	// Of Guard; nil when everybody is let in.
	eligibility *Eligibility
	ledger      sluice.Recaller
	recalling   chan struct{} // holds one value per recall under way
}

// Archive answers for the accepted claims of sales that the ledger has
// forgotten: sluice.ErrOrderNotFound if there is no such claim.
type Archive interface {
	Claim(ctx context.Context, claim sluice.ClaimID) (sluice.Order, error)
}

// NewGate returns the gate in front of a batcher. Claims that pass it get their
// order ids from newID.
func NewGate(board *Board, batcher *Batcher, archive Archive, newID func(sluice.SaleID) sluice.OrderID) *Gate {
	return &Gate{board: board, batcher: batcher, archive: archive, newID: newID, now: time.Now, rates: newRates(0, time.Now())}
}

// Claim decides a claim that is valid but for its order id, which is made when
// the ledger is asked. A sale that this server has not heard of is
// looked up before the answer is SaleNotFound.
//
// Errors are those of Batcher.Claim, and *RefusedError for a buyer who is not
// let in and has no accepted claim with this key.
func (g *Gate) Claim(ctx context.Context, sale sluice.SaleID, claim sluice.Claim, caller Caller) (sluice.Decision, error) {
	view := g.board.View(sale)
	if view == nil {
		var err error
		view, err = g.board.Lookup(ctx, sale)
		if errors.Is(err, sluice.ErrSaleNotFound) {
			return g.tally.refused(CheckSale, sluice.Decision{Code: sluice.SaleNotFound})
		}
		if err != nil {
			// The store is down, and this server has not seen the sale yet.
			return g.unseen(ctx, sale, claim, &caller)
		}
	}
	now := g.now()
	view.wake()
	if !view.Archived() {
		switch decision, standing := refuse(view, &claim, now); standing {
		case refused:
			return g.tally.refused(CheckState, decision)
		case repeating:
			if wait := g.rates.repeat(sale, claim.Buyer, now); wait > 0 {
				return g.tally.refused(CheckRepeat, sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait})
			}
		}
	}
	if g.batcher.Full() {
		return g.tally.refused(CheckSlots, sluice.Decision{Code: sluice.Overloaded, RetryAfter: time.Second})
	}
	rules := &view.Sale.Rules
	if check, wait := g.rates.check(rules, sale, claim.Buyer, caller.Address, now); wait > 0 {
		return g.tally.refused(check, sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait})
	}
	if view.Archived() {
		return g.archived(ctx, sale, &claim)
	}
	if why := g.admit(view, &claim, &caller); why != nil {
		g.tally[CheckEligibility].n.Add(1)
		return g.recall(ctx, sale, &claim, rules, caller.Address, why)
	}
	return g.ask(ctx, sale, claim, admissible(view, claim.Buyer), rules, caller.Address)
}

// ask hands a claim to the batcher, if there are fewer than most of the sale on
// their way.
func (g *Gate) ask(ctx context.Context, sale sluice.SaleID, claim sluice.Claim, most int64, rules *sluice.Rules, address netip.Addr) (sluice.Decision, error) {
	busy := sluice.Decision{Code: sluice.Overloaded, RetryAfter: time.Second}
	slot, err := g.batcher.Acquire(sale, most)
	switch {
	case errors.Is(err, errSaleFull):
		return g.tally.refused(CheckRatio, busy)
	case err != nil:
		return g.tally.refused(CheckSlots, busy)
	}
	claim.Order = g.newID(sale)
	decision, err := slot.Claim(ctx, claim, sharedRate(rules))
	switch {
	case errors.Is(err, errNotCounted):
		return g.tally.refused(CheckSharedRate, busy)
	case errors.Is(err, ErrOverloaded):
		return g.tally.refused(CheckQueue, busy)
	case decision.Code == sluice.RateLimited:
		g.rates.denied(rules, sale, claim.Buyer, address, decision.RetryAfter, g.now())
		return g.tally.refused(CheckSharedRate, decision)
	}
	return decision, err
}

// archived answers a claim on an archived sale from the store: a repeat of an
// accepted claim gets its order, for ever (I4); everybody else is too late.
func (g *Gate) archived(ctx context.Context, sale sluice.SaleID, claim *sluice.Claim) (sluice.Decision, error) {
	if wait := g.rates.repeat(sale, claim.Buyer, g.now()); wait > 0 {
		return g.tally.refused(CheckRepeat, sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait})
	}
	order, err := g.archive.Claim(ctx, sluice.ClaimID{Sale: sale, Buyer: claim.Buyer, Key: claim.Key})
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		return sluice.Decision{Code: sluice.Closed}, nil
	case err != nil:
		return sluice.Decision{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	if record := order.Record(); !record.SameContent(claim) {
		return sluice.Decision{Code: sluice.KeyReused}, nil
	}
	return sluice.Decision{
		Code: sluice.Accepted, Replayed: true, Order: order.ID, Quantity: order.Quantity,
		Seq: order.Seq, Epoch: order.Epoch, Terms: order.Terms, At: order.AcceptedAt,
	}, nil
}

// standing is what a view alone says of a claim.
type standing uint8

const (
	undecided standing = iota // only the ledger can decide it
	refused                   // no ledger is needed
	repeating                 // a refusal, unless the claim repeats an accepted one; only the ledger knows
)

// refuse returns what the view alone says of a claim, and the refusal if that is
// enough.
func refuse(view *View, claim *sluice.Claim, now time.Time) (sluice.Decision, standing) {
	if view.Sale.Fence != "" || view.Reading.Loaded && view.Reading.Epoch < view.Sale.Epoch {
		// Fenced, or a ledger that came back from the past. 503 says nothing
		// about earlier attempts with the key.
		return sluice.Decision{Code: sluice.Unavailable}, refused
	}
	code := view.refusal(now)
	switch {
	case code == 0 || !view.holders.covers(&view.Reading):
		return sluice.Decision{}, undecided
	case view.holders.has(claim.Buyer):
		return sluice.Decision{}, repeating
	}
	decision := sluice.Decision{Code: code}
	switch limit := view.Reading.Terms.MaxPerBuyer; {
	case code == sluice.NotOpen:
		decision.OpensAt = view.Reading.Terms.OpensAt
	case code == sluice.SoldOut && limit != sluice.Unlimited && claim.Quantity > limit:
		decision.Code = sluice.BuyerLimit // it outranks sold_out
	}
	return decision, refused
}
