package port

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// Ledger decides claims and remembers the accepted ones. It is the only place
// where units are taken. Implementations are safe for concurrent use.
type Ledger interface {
	Decider
	Reader
	Keeper
	Journal
	Releaser
	RateLimiter

	// Close ends the use of the ledger. It is idempotent.
	Close() error
}

// Decider is the hot half of a ledger.
type Decider interface {
	// Claim decides the claims and returns as many decisions, as if one came after the
	// other: each buyer's in their order, and all in theirs where units are scarce, as far
	// as one step goes. Sequences show the order. Up to 250 claims of different buyers are
	// mostly one atomic step; more may be several. Claims are valid
	// (Claim.Validate). The accepted ones are durable, with their journal entry, before it
	// returns.
	//
	// A refusal is a Decision. An error means that the outcome is unknown:
	// call again with the same claims; never undo by hand.
	//
	// A claim is looked up before any other check: a repeat of an accepted
	// claim outranks every refusal (I4), also of a sale that is over. The
	// exception is a sale that is not loaded or fenced: then nothing is known,
	// and the answer is Unavailable.
	//
	// The ledger stores, per server and sale, the last sequence it returned to
	// that server, and every call carries the last one this server received.
	// If the ledger's is smaller, or its epoch is, it has lost accepted
	// claims: the whole batch is Unavailable and the sale is fenced as lost.
	Claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error)
}

// Reader is what the layers before the ledger and the audit read.
type Reader interface {
	// Read returns a reading of each sale, in order, each taken in one step.
	// A sale that the ledger does not hold has Loaded false; that is not an
	// error, and never a full sale.
	//
	// One sale that cannot be read (its shard hangs, its data is damaged or of
	// a newer format) does not hide the others: its Reading.Err says why, Read
	// returns an error as well, and the other readings are valid. Without any
	// readings the error is about all sales.
	Read(ctx context.Context, sales []sluice.SaleID) ([]Reading, error)

	// Records calls yield with every accepted claim of the sale, ended ones
	// too, in no particular order, until yield returns false. What was accepted
	// before the call is included; what is accepted during it may be.
	// ErrNotLoaded if the ledger does not hold the sale; *DamageError, after all
	// others, if records of some buyers are damaged.
	Records(ctx context.Context, sale sluice.SaleID, yield func(Record) bool) error

	// Holders calls yield with every buyer who has an accepted claim of the
	// sale, under the same rules, perhaps more than once.
	Holders(ctx context.Context, sale sluice.SaleID, yield func(sluice.BuyerID) bool) error

	// Find returns the accepted claim with this order id. A buyer, if given,
	// makes the search cheap and must be the claim's own. ErrOrderNotFound if
	// there is none, ErrNotLoaded if the ledger does not hold the sale.
	Find(ctx context.Context, order sluice.OrderID, buyer sluice.BuyerID) (Record, error)

	// Recall returns the accepted claim with this id, ended or not, and takes
	// nothing: layers that refuse buyers for reasons of their own ask it first, so
	// that the repeat of an accepted claim still gets its order (I4).
	// ErrOrderNotFound if there is none, ErrNotLoaded if the ledger does not hold
	// the sale. A claim that is being decided at the same time may be found or not.
	Recall(ctx context.Context, claim sluice.ClaimID) (Record, error)
}

// Reading is a sale as the ledger has it at one moment.
type Reading struct {
	Sale          sluice.SaleID
	Err           error // why the sale could not be read; then the rest means nothing
	Loaded        bool  // false: the ledger does not hold the sale; the rest means nothing but Now
	Epoch         int64
	Seq           int64 // of the last accepted claim of this epoch; 0 before the first
	Taken         int64 // units of live orders: queued, pending or paid
	Terms         sluice.Terms
	Fence         string    // why claims are Unavailable; empty when they are not
	CooldownUntil time.Time // the end of the cooldown after a reopening (see RefusalLease); zero when there is none
	Now           time.Time // the ledger's clock
	// Backlog is the number of journal entries not acknowledged yet, and Oldest
	// the sequence of the first claim in the oldest of them, 0 if there is none
	// (or it is damaged): what was accepted before it has left the journal.
	Backlog int64
	Oldest  int64
}

// State returns the state that readers see at now, by the ledger's clock.
func (r *Reading) State(now time.Time) sluice.State {
	if !r.Loaded || r.Fence != "" {
		return sluice.StateUnavailable
	}
	switch r.Terms.Refusal(now) {
	case sluice.NotOpen:
		return sluice.StateUpcoming
	case sluice.Closed:
		return sluice.StateClosed
	case sluice.Paused:
		return sluice.StatePaused
	}
	if r.Terms.Available(r.Taken) == 0 {
		return sluice.StateSoldOut
	}
	return sluice.StateOpen
}

// FenceLoading is the fence under which Load leaves a sale, until Unfence.
const FenceLoading = "loading"

// FenceLost starts the fence of a sale whose ledger has lost accepted claims.
const FenceLost = "lost"

// FenceLate begins the reason of a fence for a dead letter that came when its sale was closed, paused or not
// open yet. Nothing is lost; the rebuild brings its claims in.
const FenceLate = "late"

// FenceOlder starts the fence of a sale whose store is older than its ledger: a backup was
// restored. It stays until a person recovers the sale. FenceRecovered starts the fence of
// one that was, until its rebuild has ended.
const (
	FenceOlder     = "older"
	FenceRecovered = "recovered"
)

// Keeper is the cold half of a ledger: what brings sales in, changes them, and
// forgets them.
type Keeper interface {
	// Load is the one way to bring a sale into a ledger: warm-up, first load
	// and rebuild are this. It replaces what the ledger held of the sale and
	// leaves it fenced as FenceLoading; the journal is empty afterwards, so
	// the caller must have stored its entries before. It accepts only a higher
	// epoch than the one it holds (ErrStaleEpoch), so it never refills a live
	// sale, and none before one that it has seen (*EpochError). After an error,
	// call it again only with a higher epoch.
	Load(ctx context.Context, image LoadImage) error

	// Apply makes terms of a higher version than the ledger's the ones that
	// decide; an equal or lower version changes nothing. ErrBelowTaken, and
	// nothing changes, if the total would be below taken (I1); ErrStaleEpoch if
	// the ledger holds another epoch, or would lower the total while the sale is
	// fenced: its taken may be less than what was accepted; ErrNotLoaded if it
	// does not hold the sale.
	// When the change reopens the sale, it has a cooldown of RefusalLease; a new
	// one takes the place of one that has not ended.
	Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error

	// Fence makes every claim Unavailable, with a reason; the first reason
	// stands. Unfence lifts any fence. Both are idempotent; ErrStaleEpoch if
	// the ledger holds another epoch, ErrNotLoaded if it does not hold the sale.
	// After Fence, all that was accepted before is as durable as Claim makes it,
	// whether its caller had the answer or not.
	Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error
	Unfence(ctx context.Context, sale sluice.SaleID, epoch int64) error

	// Drop removes everything that the ledger holds of a sale under this
	// epoch; the store answers for it from then on. It is idempotent: a sale
	// that is not loaded is no error. ErrStaleEpoch if the ledger holds
	// another epoch; an error, and nothing removed, if entries of the sale
	// wait in the journal.
	Drop(ctx context.Context, sale sluice.SaleID, epoch int64) error
}

// MaxEpoch is the highest epoch of a sale, which no server ever counts up to. A
// ledger that says a higher one is damaged: it does not hold the sale.
const MaxEpoch = 1 << 50

// LoadImage is what the store knows of a sale when it is loaded.
type LoadImage struct {
	Sale  sluice.SaleID
	Epoch int64 // the new epoch
	Terms sluice.Terms
	Taken int64 // units of the live records
	// Records are every stored order's claim, ended ones too (I4), with the epoch of
	// its acceptance, and claims of dead letters, live, as the first ones of the new
	// epoch: from 1 on, in no journal. The ledger's sequence goes on after them.
	Records []Record
}

// Seq returns the last sequence of the new epoch that is among the records.
func (i *LoadImage) Seq() (last int64) {
	for j := range i.Records {
		if r := &i.Records[j]; r.Epoch == i.Epoch {
			last = max(last, r.Seq)
		}
	}
	return last
}

// Source says which entries a journal read is about.
type Source int

const (
	// Own: handed to this server before and not acknowledged, oldest first.
	// This is what a server reads first after a restart.
	Own Source = iota
	// New: handed to no server yet. Reading makes them this server's own.
	New
	// Abandoned: another server's own, which it has not acknowledged for
	// JournalRead.Idle. Reading makes them this server's own.
	Abandoned
)

// JournalRead asks for entries of one sale.
type JournalRead struct {
	Sale   sluice.SaleID
	Source Source
	After  string        // of Own: entries after this id; empty from the first
	Idle   time.Duration // of Abandoned: longer than the longest transaction
	Max    int           // entries at most
}

// Journal is the ledger's record of accepted claims on their way to the store:
// at least once, with acknowledgement, from the very first entry.
type Journal interface {
	// ReadJournal returns the entries asked for, oldest first; none is not an
	// error. They are as durable as Claim makes them, also those of which no caller
	// had the answer; after an error, read Own again. It does not wait for entries.
	// ErrNotLoaded if the ledger does not hold the sale.
	ReadJournal(ctx context.Context, read JournalRead) ([]Entry, error)

	// Ack takes entries out of the journal, after they are committed to the
	// store or set aside there. Unknown ids are ignored.
	Ack(ctx context.Context, sale sluice.SaleID, ids []string) error

	// PeekJournal calls yield with every entry not acknowledged yet, oldest
	// first, without handing it out (the audit's way).
	PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(Entry) bool) error
}

// Release is the way of an ended order's units back to the ledger. It is
// written with the ending, in the same transaction, and stamped with the epoch
// of that moment: a ledger of a later epoch has counted the ending when it was
// loaded (I6).
type Release struct {
	Order    sluice.OrderID
	Sale     sluice.SaleID
	Buyer    sluice.BuyerID
	Key      sluice.Key
	Quantity int64
	Epoch    int64
	Unpaid   bool // the order ended unpaid: it counts against Terms.MaxUnpaid
}

// Released says what a ledger did with releases.
type Released struct {
	Applied int // their units are for sale again
	Before  int // applied before, or of an older epoch: nothing changed
	// Unknown are orders that the ledger has no accepted claim for, although
	// it holds the sale under the same epoch: it has lost them.
	Unknown []sluice.OrderID
}

// Releaser is the part of a ledger that takes units back.
type Releaser interface {
	// Release ends the accepted claims of these orders: their units are for
	// sale again, and count no longer for their buyers (but for MaxOrders,
	// which counts ended claims too). Each is applied once, however often it
	// comes and in whatever order (I6). The claims stay on record (I4).
	//
	// Releases of an epoch older than the ledger's change nothing. A release
	// of a newer epoch, or of a fenced sale: ErrStaleEpoch; a sale that is not
	// loaded: ErrNotLoaded. Then, and after any other error, give them again
	// later.
	//
	// If the sale was sold out, a cooldown of RefusalLease begins.
	Release(ctx context.Context, sale sluice.SaleID, releases []Release) (Released, error)
}
