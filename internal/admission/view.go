package admission

import (
	"time"

	"github.com/sluicehq/sluice"
)

// View is what this server knows of a sale: the store's row and a reading of
// the ledger, with the moments between which the reading was taken. It never
// changes once it is on the board.
type View struct {
	Sale    sluice.Sale
	Reading sluice.Reading

	// Asked and Told are this server's clock just before the ledger was asked
	// and just after it answered.
	Asked, Told time.Time

	// Down says that the ledger has not answered lately.
	Down bool

	holders *holders
	replica *sluice.Reading // what a replica has told since, by the ledger's clock; nil if nothing
	onBoard *boardSale      // of the board; nil in views that are on none

	// Body is the public answer about this sale, encoded once per change by
	// the board's Encode; readers get it without any work.
	Body any
}

// State returns what readers are told at now, by this server's clock.
func (v *View) State(now time.Time) sluice.State {
	if v.Archived() {
		return sluice.StateClosed
	}
	if v.Down || !v.InStep() {
		return sluice.StateUnavailable
	}
	return v.Shown().State(v.earliest(now))
}

// Shown is the reading that readers are told of: the ledger's, or a newer one
// of its replica. Nothing is decided by it.
func (v *View) Shown() *sluice.Reading {
	if v.replica != nil {
		return v.replica
	}
	return &v.Reading
}

// Available returns the units that can be taken, as readers are told, or
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
// The reading's own time lies somewhere between Asked and Told, and has been cut
// to whole milliseconds.
func (v *View) earliest(now time.Time) time.Time { return v.Reading.Now.Add(now.Sub(v.Told)) }

func (v *View) latest(now time.Time) time.Time {
	return v.Reading.Now.Add(now.Sub(v.Asked) + time.Millisecond)
}

// leaseMargin is for clocks that do not run alike, and times cut to
// milliseconds.
const leaseMargin = 20 * time.Millisecond

// refusal returns the refusal that this view is sure of at now, or 0. Being
// sure means: the ledger would have said so at the moment of the reading, it
// still would unless somebody has changed something, and what a person or
// returned units have reopened since rests for sluice.RefusalLease before
// anything is accepted. What comes with time alone (opening, closing) is left
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
