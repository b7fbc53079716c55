package admission

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
)

// Replica is a copy of the ledger that lags behind it by an unknown time. What
// it tells is shown to readers and decides nothing: refusals, losses and the
// clock are read in the ledger itself (ADR 9).
type Replica interface {
	// Read is sluice.Reader's, but for the moment of the readings.
	Read(ctx context.Context, sales []sluice.SaleID) ([]sluice.Reading, error)
}

// idlePace is how often the ledger is read, beside a replica that answers, for
// a sale that nobody claims here.
const idlePace = time.Second

// readReplica reads all sales in the replica and publishes what is news.
func (b *Board) readReplica(ctx context.Context) error {
	ids := b.running()
	reading, cancel := context.WithTimeout(ctx, b.opts.Timeout)
	defer cancel()
	readings, err := b.opts.Replica.Read(reading, ids)
	told := time.Now()

	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicaUp.Store(err == nil)
	if err != nil {
		return err
	}
	before := b.Views()
	views := make(map[sluice.SaleID]*View, len(before))
	for id, view := range before {
		views[id] = view
	}
	for i := range readings {
		if old := views[ids[i]]; old != nil && !old.Down && !old.Archived() {
			views[ids[i]] = b.beside(old, &readings[i], told)
		}
	}
	b.views.Store(&views)
	return nil
}

// ReplicaUp reports whether the replica has answered the last time.
func (b *Board) ReplicaUp() bool { return b.replicaUp.Load() }

// running lists the sales that are not archived.
func (b *Board) running() []sluice.SaleID {
	b.mu.Lock()
	defer b.mu.Unlock()
	ids := make([]sluice.SaleID, 0, len(b.sales))
	for id, sale := range b.sales {
		if sale.ArchivedAt.IsZero() {
			ids = append(ids, id)
		}
	}
	return ids
}

// beside is a view with what a replica told besides. A reading of the ledger
// that is as fresh as the pace brings them stands, and so it does if the
// replica is behind it; then only the clock goes on. The caller holds mu.
func (b *Board) beside(old *View, r *sluice.Reading, told time.Time) *View {
	if told.Sub(old.Asked) < b.opts.Refresh {
		return old
	}
	shown := *old.Shown()
	if follows(r, &old.Reading) {
		shown = *r
		if r.Terms.Version > old.Reading.Terms.Version {
			old.want() // an operator has changed something
		}
	}
	shown.Now = old.earliest(told)
	v := *old
	v.replica = &shown
	v.Body = b.opts.Encode(&v, old)
	return &v
}

// follows reports whether a replica's reading is of the same load as the
// ledger's and not known to be older. Of two with as many claims accepted the
// older one may have units that have been returned since: it is shown for a
// moment, and misleads nobody who claims.
func follows(replica, ledger *sluice.Reading) bool {
	return replica.Loaded && ledger.Loaded && replica.Epoch == ledger.Epoch && replica.Fence == ledger.Fence &&
		replica.Seq >= ledger.Seq && replica.Terms.Version >= ledger.Terms.Version
}
