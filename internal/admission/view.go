package admission

import (
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// View is what this server knows of a sale: the store's row and a reading of
// the ledger, with the moments between which the reading was taken. It never
// changes once it is on the board.
type View struct {
	Sale    sluice.Sale
	Reading port.Reading

	// Asked and Received are this server's clock just before the ledger was asked
	// and just after it answered.
	Asked, Received time.Time

	// Down says that the ledger has not answered lately, and Cause why.
	Down  bool
	Cause error

	holders *holders
	replica *port.Reading // what a replica has reported since, by the ledger's clock; nil if nothing
	onBoard *boardSale    // of the board; nil in views that are on none

	// rulesOnly: the sale is not on the board and the store does not answer;
	// of the view only the id and the rules are known (Board.rulesOnly).
	rulesOnly bool

	// Body is the public answer about this sale, encoded once per change by
	// the board's Encode; readers get it without any work.
	Body any
}

// State returns the state that readers see at now, by this server's clock.
func (v *View) State(now time.Time) sluice.State {
	if v.Archived() {
		return sluice.StateClosed
	}
	if v.Down || !v.InStep() {
		return sluice.StateUnavailable
	}
	return v.Shown().State(v.earliest(now))
}

// Shown is the reading that readers see: the ledger's, or a newer one
// of its replica. Nothing is decided by it.
func (v *View) Shown() *port.Reading {
	if v.replica != nil {
		return v.replica
	}
	return &v.Reading
}

// Available returns the units that can be taken, as readers see them, or
// sluice.Unlimited.
func (v *View) Available() int64 { return v.Shown().Terms.Available(v.Shown().Taken) }

// wake asks for readings of the sale at the pace of one that is claimed.
func (v *View) wake() {
	if v.onBoard != nil {
		v.onBoard.wake(wokenClaimed)
	}
}

// Watch asks for readings of the sale at the pace of one that is looked at. It
// is cheap, and is to be called for every look.
func (v *View) Watch() {
	if v.onBoard != nil {
		v.onBoard.wake(wokenWatched)
	}
}

// Hidden reports whether the sale does not exist for buyers, Listed whether it is in
// the lists for them.
func (v *View) Hidden() bool { return v.Sale.Rules.Visibility == sluice.Hidden }
func (v *View) Listed() bool { return v.Sale.Rules.Visibility == sluice.Listed }

// Archived reports whether the ledger has forgotten the sale: the store answers
// for its claims.
func (v *View) Archived() bool { return !v.Sale.ArchivedAt.IsZero() }

// InStep reports whether ledger and store agree that the sale is loaded and
// not fenced. If they do not, nothing can be decided.
func (v *View) InStep() bool {
	return v.Reading.Loaded && v.Reading.Fence == "" && v.Sale.Fence == "" &&
		v.Reading.Epoch == v.Sale.Epoch && v.Sale.LoadedEpoch == v.Sale.Epoch
}

// earliest and latest bound the ledger's clock at now by this server's clock.
// The reading's own time lies somewhere between Asked and Received, and has been cut
// to whole milliseconds.
func (v *View) earliest(now time.Time) time.Time { return v.Reading.Now.Add(now.Sub(v.Received)) }

func (v *View) latest(now time.Time) time.Time {
	return v.Reading.Now.Add(now.Sub(v.Asked) + time.Millisecond)
}

// LedgerTime is the ledger's clock at now by this server's clock, as well as
// the last reading shows: never ahead of it, and behind by no more than the
// reading took. So servers whose own clocks differ agree. Before the first
// reading it is this server's clock.
func (v *View) LedgerTime(now time.Time) time.Time {
	if v.Reading.Now.IsZero() || v.Received.IsZero() {
		return now
	}
	return v.earliest(now)
}

// leaseMargin is for clocks that do not run alike, and times cut to
// milliseconds.
const leaseMargin = 20 * time.Millisecond

// refusal returns the refusal that this view is sure of at now, or 0. Being
// sure means: the ledger would have said so at the moment of the reading, it
// still would unless an operator has changed something, and what an operator or
// returned units have reopened since has a cooldown of sluice.RefusalLease before
// anything is accepted. A change that comes with time alone (opening, closing) is left
// to the ledger until a later reading shows it, since it may have been moved
// (I4, I8).
func (v *View) refusal(now time.Time) sluice.Code {
	if now.Sub(v.Asked) >= sluice.RefusalLease-leaseMargin || !v.InStep() || !v.Reading.CooldownUntil.IsZero() {
		return 0
	}
	terms := &v.Reading.Terms
	code := terms.Refusal(v.Reading.Now)
	if code == 0 && terms.Available(v.Reading.Taken) == 0 {
		code = sluice.SoldOut
	}
	switch latest := terms.Refusal(v.latest(now)); {
	case code == sluice.NotOpen && latest != sluice.NotOpen:
		return 0 // perhaps open
	case code != sluice.Closed && latest == sluice.Closed:
		return 0 // perhaps closed
	}
	return code
}

// standing is what a view alone says of a claim.
type standing uint8

const (
	undecided standing = iota // only the ledger can decide it
	refused                   // no ledger is needed
	repeating                 // a refusal, unless the claim repeats an accepted one; only the ledger knows
)

// standing returns what the view alone says of a claim, and the refusal if that
// is enough. For an archived sale the store answers.
func (v *View) standing(claim *sluice.Claim, now time.Time) (sluice.Decision, standing) {
	if v.Archived() {
		return sluice.Decision{}, undecided
	}
	if v.Sale.Fence != "" || v.Reading.Loaded && v.Reading.Epoch < v.Sale.Epoch {
		// Fenced, or a ledger that came back from the past. 503 says nothing
		// about earlier attempts with the key.
		return sluice.Decision{Code: sluice.Unavailable}, refused
	}
	code := v.refusal(now)
	switch {
	case code == 0 || !v.holders.covers(&v.Reading):
		return sluice.Decision{}, undecided
	case v.holders.has(claim.Buyer):
		return sluice.Decision{}, repeating
	}
	decision := sluice.Decision{Code: code}
	switch limit := v.Reading.Terms.MaxPerBuyer; {
	case code == sluice.NotOpen:
		decision.OpensAt = v.Reading.Terms.OpensAt
	case code == sluice.SoldOut && limit != sluice.Unlimited && claim.Quantity > limit:
		decision.Code = sluice.BuyerLimit // it outranks sold_out
	case code == sluice.SoldOut && v.Sale.Rules.Limits.Exceeded(claim.Quantity):
		return sluice.Decision{}, undecided // the ledger says which, if the token has what it is by
	}
	return decision, refused
}

// admissible returns how many claims of the sale this server may have in flight, for this
// buyer: its share, one of the live servers', of the sale's ratio times the units available
// by the last reading, so returned units let more in with the next one;
// sluice.Unlimited without a ratio or a total. While servers is 0, not known yet: one.
//
// It is never less than one: what this server knows may be out of date, and
// only a claim finds out. Known holders are not held up: they may be
// repeating, and there are no more of them than units (I4).
func (v *View) admissible(buyer sluice.BuyerID, servers int64) int64 {
	ratio, available := v.Sale.Rules.AdmissionRatio, v.Available()
	if ratio == 0 || available == sluice.Unlimited || v.holders.has(buyer) {
		return sluice.Unlimited
	}
	if servers == 0 {
		return 1
	}
	return max(int64(min(ratio*float64(available)/float64(servers), mostInFlight)), 1)
}

// mostInFlight keeps a share within an int64; no server has as many claims in flight.
const mostInFlight = 1e9

// ledgerClock is the ledger's clock as this server knows it: that of the readings of
// all sales, carried on by this server's own monotonic clock, which is never set.
//
// Each reading bounds it: the ledger read its clock after this server sent the
// request and before the reply came. What is known already stays as long as it
// lies within those bounds, so that the clock does not jump with each slow answer;
// otherwise it begins again at the lower bound. So it is exact to the quickest
// answers, and follows a ledger whose clock was set, or another one after a
// failover, with the next reading. The nodes of a cluster are one ledger: where
// their clocks differ, the one that is behind counts, of those received last.
type ledgerClock struct {
	known atomic.Pointer[moment]
}

// moment is one instant by two clocks.
type moment struct {
	ledger, server time.Time
}

func (m *moment) at(now time.Time) time.Time { return m.ledger.Add(now.Sub(m.server)) }

// take learns from readings that were asked for and received at these moments of
// this server's clock. One does it at a time.
func (c *ledgerClock) take(asked, received time.Time, readings []port.Reading) {
	var least time.Time // at received it is no earlier
	for i := range readings {
		if now := readings[i].Now; !now.IsZero() && (least.IsZero() || now.Before(least)) {
			least = now
		}
	}
	if least.IsZero() {
		return
	}
	most := least.Add(received.Sub(asked) + time.Millisecond) // a reading's is cut to milliseconds
	if known := c.known.Load(); known != nil {
		if at := known.at(received); !at.Before(least) && !at.After(most) {
			return
		}
	}
	c.known.Store(&moment{ledger: least, server: received})
}
