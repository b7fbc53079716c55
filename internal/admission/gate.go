package admission

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Gate answers claims that this server can answer by itself and hands the
// others to the batcher.
//
// A refusal that is already known costs no network, but only if it cannot
// break I4: the view must be sure of it (View.refusal), and the set of holders
// must cover the view's sequence and lack the buyer. A buyer in the set may be
// repeating an accepted claim, so the ledger is asked, at repeatRate. Every
// other claim goes to the ledger, unless too many do: RateLimited and Overloaded
// say nothing about earlier attempts with the key, so they break no promise.
//
// Limits fail closed: what cannot be counted does not pass.
type Gate struct {
	board   *Board
	batcher *Batcher
	archive archive
	now     func() time.Time
	rates   *rates
	tally   tally

	// Of Guard; nil when every buyer is eligible.
	eligibility *Eligibility
	ledger      port.Reader
	recalling   chan struct{} // holds one value per recall in flight
}

// archive answers for the accepted claims of sales that the ledger has
// forgotten: sluice.ErrOrderNotFound if there is no such claim.
type archive interface {
	Claim(ctx context.Context, claim sluice.ClaimID) (sluice.Order, error)
}

// recalls bounds how many refused claims are looked up at a time.
const recalls = 256

// NewGate returns the gate in front of a batcher.
func NewGate(board *Board, batcher *Batcher, archive archive) *Gate {
	return &Gate{board: board, batcher: batcher, archive: archive, now: time.Now, rates: newRates(0, time.Now())}
}

// Guard makes the gate pass only the claims of eligible buyers. Call it once,
// before the first claim.
//
// The claim of a buyer who is not eligible may still repeat one that was
// accepted: before it is refused the ledger is asked for that, and if it was,
// the buyer gets that order (I4).
func (g *Gate) Guard(eligibility *Eligibility, ledger port.Reader) {
	g.eligibility, g.ledger, g.recalling = eligibility, ledger, make(chan struct{}, recalls)
}

// check is a step of the gate that refuses claims.
type check uint8

// The checks, in the order of Claim (find, screen, ask): cheapest first, and what is known for sure
// first of all. docs/gate.md lists what each costs.
const (
	checkNone check = iota
	// checkSale: no such sale.
	checkSale
	// checkState: fenced, or by window, pause, or sold out.
	checkState
	// checkRepeat: the claim would be refused unless it repeats an accepted one,
	// and the buyer has had that looked up too often on this server.
	checkRepeat
	// checkSlots: the server has as many claims in flight as it may.
	checkSlots
	// checkBuyerRate and checkAddressRate: too many tries on this server.
	checkBuyerRate
	checkAddressRate
	// checkEligibility: the buyer may not buy here.
	checkEligibility
	// checkRatio: the sale has as many claims in flight as this server's share of its units
	// allows.
	checkRatio
	// checkQueue: as many claims wait for the ledger as may.
	checkQueue
	// checkSharedRate: too many tries of the buyer or the address, over all servers.
	checkSharedRate

	numChecks
)

var checkNames = [numChecks]string{
	checkSale: "sale", checkState: "state", checkRepeat: "repeat", checkSlots: "slots", checkBuyerRate: "buyer_rate",
	checkAddressRate: "address_rate", checkEligibility: "eligibility", checkRatio: "ratio", checkQueue: "queue",
	checkSharedRate: "shared_rate",
}

// String returns the check's name in metrics, for instance "buyer_rate".
func (c check) String() string { return checkNames[c] }

// tally counts refusals by check.
type tally [numChecks]struct {
	n atomic.Int64
	_ [56]byte // a cache line each
}

// refused counts a refusal, and returns it.
func (t *tally) refused(by check, decision sluice.Decision) sluice.Decision {
	t[by].n.Add(1)
	return decision
}

// Refused returns how many claims each check has refused on this server, by
// its name. Refusals of the ledger are not counted.
func (g *Gate) Refused() map[string]int64 {
	all := make(map[string]int64, numChecks-1)
	for c := checkNone + 1; c < numChecks; c++ {
		all[c.String()] = g.tally[c].n.Load()
	}
	return all
}

// Claim decides a claim that is valid but for its order id, which is made when
// the ledger is asked. A sale that this server does not know is looked up before
// the answer is SaleNotFound.
//
// Errors are those of Batcher.Claim, and *sluice.RefusedError for a buyer who is not
// eligible and has no accepted claim with this key.
func (g *Gate) Claim(
	ctx context.Context, sale sluice.SaleID, claim sluice.Claim, caller sluice.Caller,
) (sluice.Decision, error) {
	// Tens of thousands of claims wait for the ledger at once, each on the stack of its own
	// goroutine, so the checks are functions that have returned by then.
	view, decision, err := g.find(ctx, sale, &claim, caller.Address)
	if view == nil {
		return decision, err
	}
	now := g.now()
	passed, decision, err := g.screen(ctx, view, &claim, &caller, now)
	if !passed {
		return decision, err
	}
	return g.ask(ctx, view, &claim, caller.Address, view.admissible(claim.Buyer, g.board.Servers()), now)
}

// find returns the view of a claim's sale, or nil and the answer. It may wait for the store
// and a reading.
func (g *Gate) find(
	ctx context.Context, sale sluice.SaleID, claim *sluice.Claim, address netip.Addr,
) (view *View, decision sluice.Decision, err error) {
	// sale
	view, looked, err := g.board.public(ctx, sale)
	switch {
	case errors.Is(err, sluice.ErrSaleNotFound):
		decision, err = g.notFound(ctx, sale, looked, claim, address)
		return nil, decision, err
	case err != nil:
		if view = g.board.rulesOnly(sale); view == nil || view.Hidden() {
			return nil, g.tally.refused(checkState, sluice.Decision{Code: sluice.Unavailable}), nil
		}
	}
	return view, sluice.Decision{}, nil
}

// screen makes the checks between finding the sale and taking a slot. A claim that does not
// pass has its answer; one that was accepted before may have it from the ledger (recall), for
// which it waits with this frame.
func (g *Gate) screen(
	ctx context.Context, view *View, claim *sluice.Claim, caller *sluice.Caller, now time.Time,
) (passed bool, decision sluice.Decision, err error) {
	sale := view.Sale.ID
	// state
	view.wake()
	decision, known := view.standing(claim, now)
	if known == refused {
		return false, g.tally.refused(checkState, decision), nil
	}
	// repeat
	if known == repeating {
		if wait := g.rates.repeat(sale, claim, now); wait > 0 {
			return false, g.tally.refused(checkRepeat, rateLimited(wait)), nil
		}
	}
	// slots
	if g.batcher.Full() {
		decision, err = g.full(checkSlots, view)
		return false, decision, err
	}
	// buyer_rate, address_rate
	if check, wait := g.rates.check(&view.Sale.Rules, sale, claim.Buyer, caller.Address, now); wait > 0 {
		return false, g.tally.refused(check, rateLimited(wait)), nil
	}
	if view.Archived() {
		decision, err = g.archived(ctx, sale, claim)
		return false, decision, err
	}
	// eligibility
	if g.eligibility != nil {
		if why := g.eligibility.Check(view, claim, caller); why != nil {
			g.tally[checkEligibility].n.Add(1)
			decision, err = g.recall(ctx, view, claim, caller.Address, why)
			return false, decision, err
		}
		claim.Counters, _ = view.Sale.Rules.Counters(caller.Signed)
		if claim.Counters.Validate() != nil { // damage of the sale's row: no journal would take the claim
			return false, g.tally.refused(checkState, sluice.Decision{Code: sluice.Unavailable}), nil
		}
	}
	return true, sluice.Decision{}, nil
}

// rateLimited refuses a claim that has to wait.
func rateLimited(wait time.Duration) sluice.Decision {
	return sluice.Decision{Code: sluice.RateLimited, RetryAfter: wait}
}

// errHidden is why a claim on a hidden sale is refused.
var errHidden = errors.New("admission: the sale is hidden")

// notFound answers a claim on a sale that does not exist, or is hidden from buyers. That is
// the same answer, unless the claim repeats one that was accepted while the sale was
// shown (I4). A reading begun after the claim came, the same for all claims of a lookup,
// says that its buyer has none; only of those who may have one is the ledger asked. An id that
// does not exist is read as well, so that the time does not tell them apart.
func (g *Gate) notFound(
	ctx context.Context, sale sluice.SaleID, looked *lookup, claim *sluice.Claim, address netip.Addr,
) (decision sluice.Decision, err error) {
	if looked != nil {
		if wait := g.rates.repeat("", claim, g.now()); wait > 0 { // of all such ids together: each is a call of its own
			return g.tally.refused(checkRepeat, rateLimited(wait)), nil
		}
		g.board.readOnce(ctx, looked, sale)
	}
	if looked == nil || looked.hidden == nil {
		return g.tally.refused(checkSale, sluice.Decision{Code: sluice.SaleNotFound}), nil
	}
	switch view := g.board.View(sale); {
	case view == nil:
		return g.tally.refused(checkState, sluice.Decision{Code: sluice.Unavailable}), nil
	case view.Archived():
		if decision, err = g.archived(ctx, sale, claim); decision.Code == sluice.Closed {
			err = errHidden
		}
	case g.ledger == nil, !view.Asked.Before(looked.begun) && !view.Down && view.InStep() &&
		view.holders.covers(&view.Reading) && !view.holders.has(claim.Buyer):
		err = errHidden
	default:
		decision, err = g.recall(ctx, view, claim, address, errHidden)
	}
	if errors.Is(err, errHidden) {
		return g.tally.refused(checkSale, sluice.Decision{Code: sluice.SaleNotFound}), nil
	}
	return decision, err
}

// busy refuses a claim without saying anything about earlier attempts with the
// key.
var busy = sluice.Decision{Code: sluice.Overloaded, RetryAfter: time.Second}

// full refuses a claim for which there is no room. While the ledger does not answer for the
// sale, that is the reason: the claims in flight wait for it.
func (g *Gate) full(by check, view *View) (sluice.Decision, error) {
	if view.Down {
		g.tally[by].n.Add(1)
		return sluice.Decision{}, ErrUnanswered
	}
	return g.tally.refused(by, busy), nil
}

// ask makes the last checks, and hands a claim to the batcher if the sale has fewer than
// most claims in flight.
func (g *Gate) ask(
	ctx context.Context, view *View, claim *sluice.Claim, address netip.Addr, most int64, began time.Time,
) (sluice.Decision, error) {
	// ratio
	slot, err := g.batcher.Acquire(view.Sale.ID, most)
	if err != nil {
		return g.failed(view, err)
	}
	// queue, shared_rate, and then the ledger
	slot.began = began
	decision, wait, err := slot.Claim(ctx, claim, address, sharedRates(&view.Sale.Rules))
	if err != nil {
		return g.failed(view, err)
	}
	if decision.Code == sluice.RateLimited {
		g.tally[checkSharedRate].n.Add(1)
	}
	g.learn(view, claim, address, decision.Code, wait)
	return decision, nil
}

// failed answers a claim that the batcher has an error for, and counts the refusal under the
// check that it is of.
func (g *Gate) failed(view *View, err error) (sluice.Decision, error) {
	switch {
	case errors.Is(err, errSaleFull):
		return g.full(checkRatio, view)
	case errors.Is(err, errNoSlot):
		return g.full(checkSlots, view)
	case errors.Is(err, ErrOverloaded):
		return g.full(checkQueue, view)
	case errors.Is(err, errNotCounted):
		g.tally[checkSharedRate].n.Add(1)
	}
	return sluice.Decision{}, err
}

// learn keeps what a decision says of later claims of the buyer and the address.
func (g *Gate) learn(view *View, claim *sluice.Claim, address netip.Addr, code sluice.Code, wait port.Wait) {
	sale, rules := view.Sale.ID, &view.Sale.Rules
	switch {
	case code == sluice.RateLimited:
		g.rates.denied(rules, sale, claim.Buyer, address, wait, g.now())
	case code == sluice.Accepted:
		g.rates.remember(sale, claim)
	}
}

// archived answers a claim on an archived sale from the store: a repeat of an
// accepted claim gets its order, for ever (I4); any other is too late.
func (g *Gate) archived(ctx context.Context, sale sluice.SaleID, claim *sluice.Claim) (sluice.Decision, error) {
	if wait := g.rates.repeat(sale, claim, g.now()); wait > 0 {
		return g.tally.refused(checkRepeat, rateLimited(wait)), nil
	}
	order, err := g.archive.Claim(ctx, sluice.ClaimID{Sale: sale, Buyer: claim.Buyer, Key: claim.Key})
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		return sluice.Decision{Code: sluice.Closed}, nil
	case err != nil:
		return sluice.Decision{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	g.rates.remember(sale, claim)
	record := port.RecordOf(&order)
	return record.Repeat(claim), nil
}

// recall answers a claim that is refused for the reason given: with that reason,
// unless the claim was accepted before. Then it goes the way of every claim and
// is accepted again there, so that this answer is protected as the first one
// was: by the sequence that the ledger notes as reported, by this server's memory, and by WAIT
// (I4).
func (g *Gate) recall(
	ctx context.Context, view *View, claim *sluice.Claim, address netip.Addr, why error,
) (sluice.Decision, error) {
	sale := view.Sale.ID
	if errors.Is(why, ErrUnready) {
		return sluice.Decision{Code: sluice.Unavailable}, nil // says nothing about earlier attempts
	}
	if wait := g.rates.repeat(sale, claim, g.now()); wait > 0 {
		return g.tally.refused(checkRepeat, rateLimited(wait)), nil
	}
	select {
	case g.recalling <- struct{}{}:
	default:
		return g.full(checkNone, view) // says nothing about them either
	}
	record, err := g.ledger.Recall(ctx, sluice.ClaimID{Sale: sale, Buyer: claim.Buyer, Key: claim.Key})
	<-g.recalling
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		return sluice.Decision{}, why
	case errors.Is(err, port.ErrNotLoaded):
		return sluice.Decision{Code: sluice.Unavailable}, nil
	case err != nil:
		return sluice.Decision{}, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	if again := record.Repeat(claim); again.Code != sluice.Accepted {
		return again, nil
	}
	claim.Counters = record.Counters // should the ledger have lost the record since
	return g.ask(ctx, view, claim, address, sluice.Unlimited, time.Time{})
}

// Try counts a try at something that comes before a claim ("ticket", say) by
// the sale's rates, and returns how long to wait if it is not within them. Each
// kind of try has the rates' allowance to itself, so that preparing a claim uses
// up nothing of the claim's. Rates over all servers are counted where those of
// claims are, under a name of their own; a buyer or an address denied there is
// denied here without asking again, until the wait is over.
//
// Limits fail closed: with an error (ErrOverloaded, ErrUnanswered, or the
// context's) the try must not pass.
func (g *Gate) Try(
	ctx context.Context, kind string, view *View, buyer sluice.BuyerID, address netip.Addr,
) (wait time.Duration, err error) {
	name := view.Sale.ID + sluice.SaleID("/"+kind) // no sale has this name
	rules := &view.Sale.Rules
	if _, wait = g.rates.check(rules, name, buyer, address, g.now()); wait > 0 {
		return wait, nil
	}
	try := attempt{buyer: buyer, address: address, rates: sharedRates(rules)}
	if try.rates == (port.Rates{}) {
		return 0, nil
	}
	denied, err := g.batcher.tries.count(ctx, name, try)
	if wait = denied.Longest(); wait > 0 {
		g.rates.denied(rules, name, buyer, address, denied, g.now())
	}
	return wait, err
}

func init() { uuid.EnableRandPool() } // a thousand ids for one read of the system's randomness

// NewOrderID makes a new order id of a sale. It is a UUIDv7 (RFC 9562), so ids
// of one sale sort by the time they were made, without any server having to
// lease a number.
func NewOrderID(sale sluice.SaleID) sluice.OrderID {
	id := uuid.Must(uuid.NewV7())
	var digits [32]byte
	hex.Encode(digits[:], id[:])
	return sale.Order(string(digits[:]))
}

// NewSaleID makes an id for a sale whose merchant gave none.
func NewSaleID() sluice.SaleID {
	id := uuid.New()
	return sluice.SaleID("sale-" + hex.EncodeToString(id[:6]))
}
