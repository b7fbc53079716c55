package admission

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Replica is a copy of the ledger that lags behind it by an unknown time. What
// it returns is shown to readers and decides nothing: refusals, losses and the
// clock are read in the ledger itself (ADR 9).
type Replica interface {
	// Read is port.Reader's, but for the moment of the readings.
	Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error)
}

// readReplica reads in the replica the sales that are hot here, and publishes
// what is news. The others are read in the ledger, rarely.
func (b *Board) readReplica(ctx context.Context) error {
	sales, ids := b.watched()
	reading, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	readings, err := b.opts.Replica.Read(reading, ids)
	received := time.Now()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicaUp.Store(err == nil)
	if err != nil {
		now := time.Now()
		for _, e := range sales { // the ledger's turn
			b.plan(e, now)
		}
	}
	for i := range readings {
		e := sales[i]
		if old := e.view.Load(); readings[i].Err == nil && old != nil && !old.Down && !e.retired {
			b.beside(e, old, &readings[i], received)
		}
	}
	return err
}

// ReplicaUp reports whether the replica has answered the last time.
func (b *Board) ReplicaUp() bool { return b.replicaUp.Load() }

// watched lists the sales that the replica is read for.
func (b *Board) watched() (sales []*boardSale, ids []sluice.SaleID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for e := range b.hot {
		if now.After(e.hotUntil) {
			delete(b.hot, e)
			continue
		}
		sales, ids = append(sales, e), append(ids, e.id)
	}
	return sales, ids
}

// beside publishes a view with what a replica reports besides. A reading of the
// ledger that is as fresh as the pace brings them stands, and so it does if the
// replica is behind it; then only the clock goes on. The caller holds mu.
func (b *Board) beside(e *boardSale, old *View, r *port.Reading, received time.Time) {
	if received.Sub(old.Asked) < b.opts.Refresh {
		return
	}
	shown := *old.Shown()
	if follows(r, &old.Reading) {
		if differ(r, &shown) {
			b.heat(e, received)
		}
		shown = *r
		if r.Terms.Version > old.Reading.Terms.Version {
			old.wake() // an operator has changed something
		}
	}
	shown.Now = old.earliest(received)
	v := *old
	v.replica = &shown
	b.show(e, &v, old)
}

// follows reports whether a replica's reading has the same load as the
// ledger's and is not known to be older. Of two with as many claims accepted the
// older one may have units that have been returned since: it is shown for a
// moment, and does not affect claims.
func follows(replica, ledger *port.Reading) bool {
	return replica.Loaded && ledger.Loaded && replica.Epoch == ledger.Epoch && replica.Fence == ledger.Fence &&
		replica.Seq >= ledger.Seq && replica.Terms.Version >= ledger.Terms.Version
}
