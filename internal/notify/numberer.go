// Package notify reports orders and sales to the merchant: a feed of numbered
// events to pull, and webhooks to which they are sent.
//
// The store knows what was committed; the Numberer gives it numbers, a moment
// later and in one order. The Sender posts what is numbered to the merchant's
// endpoints, through a Client. Both run on every server, and a lease leaves the work to one.
package notify

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/lock"
)

// numbererStore is what a Numberer needs of the store.
type numbererStore interface {
	NumberEvents(ctx context.Context, limit int) (int, error)
	lock.Backend
}

// NumbererOptions of a Numberer. All but Node may be absent.
type NumbererOptions struct {
	Node string // this server
	// Every is how often the store is asked for what is new; default 250 ms, and up to
	// three times as long while nothing is. Wake is faster.
	Every time.Duration
	// Numbered receives how many events got their numbers.
	Numbered func(n int)
	Log      *slog.Logger
}

// Numberer gives events their numbers.
type Numberer struct {
	store numbererStore
	bell  loop.Bell
	NumbererOptions
}

// NewNumberer returns a Numberer. Run it.
func NewNumberer(store numbererStore, o NumbererOptions) *Numberer {
	o.Every = cmp.Or(max(o.Every, 0), 250*time.Millisecond)
	if o.Numbered == nil {
		o.Numbered = func(int) {}
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Numberer{store, loop.NewBell(), o}
}

// Wake says that something is new on this server. It does not block.
func (n *Numberer) Wake() { n.bell.Ring() }

const (
	numberLease = "events"
	// numberTTL is how long the others wait for a server that has died.
	numberTTL = 3 * time.Second
	// numberBatch bounds one transaction: in an embedded store no other
	// transaction writes while it runs. It is what a rush stores in a turn, and more.
	numberBatch = 2000
	// numberTimeout bounds one step: a slow database may take longer than the
	// lease, which does no harm.
	numberTimeout = 10 * time.Second
	// goodbye bounds giving a lease back when the server stops.
	goodbye = 2 * time.Second
)

// Run gives numbers until the context ends. The lease only saves the others
// from asking: the store numbers one after the other by itself.
func (n *Numberer) Run(ctx context.Context) {
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
		defer cancel()
		_ = n.store.Unlease(ctx, numberLease, n.Node) // it ends by itself as well
	}()
	var renew time.Time
	mine, trouble := false, loop.Trouble{
		Log: n.Log, Begins: "events get no numbers for now", Ceases: "events get numbers again",
	}
	for ctx.Err() == nil {
		var err error
		found := false
		if now := time.Now(); now.After(renew) {
			mine, err = n.lease(ctx)
			renew = now.Add(numberTTL / 3)
		}
		if mine && err == nil {
			found, err = n.number(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		trouble.Note(err)
		switch {
		case err != nil:
			mine, renew = false, time.Time{}
			loop.Wait(ctx, max(n.Every, time.Second), nil)
		case found || !mine: // in a rush not after each transaction
			loop.Wait(ctx, n.Every, nil)
		default:
			loop.Wait(ctx, 3*n.Every, n.bell) // this server rings; orders of others may wait so long
		}
	}
}

// number works until no step is full, or the lease wants to be renewed. Found: something was
// new. Orders that came since then wait for the next turn: in a rush there are some each
// time, and a transaction for a few orders costs about as much as one for all of them.
func (n *Numberer) number(ctx context.Context) (found bool, err error) {
	for until := time.Now().Add(numberTTL / 3); time.Now().Before(until); {
		count, err := n.once(ctx)
		if err != nil || count == 0 {
			return found, err
		}
		n.Numbered(count)
		if found = true; count < numberBatch {
			break
		}
	}
	return found, nil
}

// Each step ends in time: a row that another session holds must not keep this
// server from noticing that it has lost the lease.
func (n *Numberer) lease(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, numberTimeout)
	defer cancel()
	fence, err := n.store.Lease(ctx, numberLease, n.Node, 0, numberTTL)
	return fence > 0, err
}

func (n *Numberer) once(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, numberTimeout)
	defer cancel()
	return n.store.NumberEvents(ctx, numberBatch)
}
