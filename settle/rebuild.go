package settle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// Rebuilder brings a fenced sale back. Every server gathers: it stores what it
// remembers of accepted claims. One of them, under a lease, waits until all
// who live have done so, stores what survives in the journal and in the
// ledger's records, and loads the sale under the next epoch. A promise is either
// saved, or listed: as an order rejected as not_covered, or as a dead letter.
//
// Sold units are not sold again: the store has the orders, its cap refuses
// more, and the load counts them (I1). A person's pause stays, since it is part
// of the terms.
type Rebuilder struct {
	node     string
	store    RebuildStore
	ledger   RebuildLedger
	loader   *Loader
	memory   *Memory
	replayer *Replayer
	idle     func(sluice.SaleID) bool
	log      *slog.Logger

	said     map[sluice.SaleID]int64 // epoch of which this server has announced the loss
	gathered map[sluice.SaleID]int64 // epoch of which this server has gathered
	rebuilds atomic.Int64
}

// Rebuilds counts the sales that this server has rebuilt since it started.
func (r *Rebuilder) Rebuilds() int64 { return r.rebuilds.Load() }

// RebuildStore is what a rebuild needs of sluice.Store.
type RebuildStore interface {
	Store
	sluice.ClusterStore
	sluice.DeadLetterStore
	sluice.ReplayStore
	sluice.AuditStore
	Insert(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (sluice.Stored, error)
}

// RebuildLedger is what a rebuild needs of sluice.Ledger.
type RebuildLedger interface {
	Ledger
	sluice.Decider
	sluice.Journal
	Records(ctx context.Context, sale sluice.SaleID, yield func(sluice.Record) bool) error
}

// The rhythm of servers that know of each other.
const (
	// HeartbeatEvery is how often a server says that it lives, and
	// SilentAfter how long a rebuild waits for one that does not.
	HeartbeatEvery = time.Second
	SilentAfter    = 5 * time.Second
	// leaseFor is how long a rebuild may take before another server tries.
	leaseFor = time.Minute
	// gatherBatch bounds the claims of one transaction.
	gatherBatch = 2000
)

// NewRebuilder returns a Rebuilder for a server. Idle says that no claim of a
// sale is on its way from this server to the ledger.
func NewRebuilder(node string, store RebuildStore, ledger RebuildLedger, loader *Loader, memory *Memory,
	idle func(sluice.SaleID) bool, log *slog.Logger,
) *Rebuilder {
	return &Rebuilder{
		node: node, store: store, ledger: ledger, loader: loader, memory: memory, idle: idle, log: log,
		replayer: NewReplayer(store, ledger),
		said:     map[sluice.SaleID]int64{},
		gathered: map[sluice.SaleID]int64{},
	}
}

// Step does what this server can do now for a fenced sale, and reports whether
// the sale is rebuilt. Call it again while the sale stays fenced; it is for one
// goroutine.
func (r *Rebuilder) Step(ctx context.Context, sale *sluice.Sale) (rebuilt bool, err error) {
	r.announce(sale)
	if r.gathered[sale.ID] < sale.Epoch {
		done, err := r.gather(ctx, sale)
		if err != nil || !done {
			return false, err
		}
		r.gathered[sale.ID] = sale.Epoch
	}
	ready, err := r.allGathered(ctx, sale)
	if err != nil || !ready {
		return false, err
	}
	return underLease(ctx, r.store, rebuildLease(sale.ID), r.node, leaseFor, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, sale.ID)
		if err != nil || now.Epoch != sale.Epoch || now.Fence == "" {
			return err // another server was faster, and what this one saw is old
		}
		return r.rebuild(ctx, sale)
	})
}

// announce logs a loss, once. A rebuild that a person has asked for is none.
func (r *Rebuilder) announce(sale *sluice.Sale) {
	if r.said[sale.ID] >= sale.Epoch {
		return
	}
	r.said[sale.ID] = sale.Epoch
	if why, lost := strings.CutPrefix(sale.Fence, sluice.FenceLost+": "); lost {
		r.log.Warn("data of a sale has been lost; the sale is fenced and rebuilt", "sale", sale.ID, "epoch", sale.Epoch, "why", why)
	}
}

// Adopt makes good a load that another server has begun and not finished. It
// reports whether this server was the one to do so.
func (r *Rebuilder) Adopt(ctx context.Context, sale *sluice.Sale) (bool, error) {
	return underLease(ctx, r.store, rebuildLease(sale.ID), r.node, leaseFor, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, sale.ID)
		if err != nil || now.Epoch != sale.Epoch || now.LoadedEpoch != sale.LoadedEpoch {
			return err // somebody was faster
		}
		err = r.loader.Load(ctx, sale.ID)
		if errors.Is(err, sluice.ErrSaleLive) || errors.Is(err, sluice.ErrStaleEpoch) {
			err = nil
		}
		return err
	})
}

// gather stores what this server remembers. First no claim of its own may be
// able to be accepted any more: the ledger is fenced, whatever it holds, and
// what was on its way has landed.
func (r *Rebuilder) gather(ctx context.Context, sale *sluice.Sale) (done bool, err error) {
	err = r.ledger.Fence(ctx, sale.ID, sale.Epoch, sale.Fence)
	if err != nil && !errors.Is(err, sluice.ErrNotLoaded) && !errors.Is(err, sluice.ErrStaleEpoch) {
		// Whoever reaches the ledger fences it; a server that does not must not
		// hold up the others.
		r.log.Warn("the ledger cannot be fenced from here", "sale", sale.ID, "error", err)
	}
	if !r.idle(sale.ID) {
		return false, nil
	}
	entries := r.memory.Until(sale.ID, sale.Epoch)
	saved, err := r.save(ctx, sale.ID, entries)
	if err != nil {
		return false, err
	}
	r.log.Info("gathered for a rebuild", "sale", sale.ID, "epoch", sale.Epoch, "remembered", len(entries), "saved", saved)
	return true, r.store.MarkGathered(ctx, sale.ID, sale.Epoch, r.node)
}

// Late stores, or sets aside to be claimed anew, what this server remembers of
// epochs before the sale's: it may have been silent while the sale was
// rebuilt. It reports whether it remembered anything.
func (r *Rebuilder) Late(ctx context.Context, sale *sluice.Sale) (bool, error) {
	entries := r.memory.Until(sale.ID, sale.Epoch-1)
	if len(entries) == 0 {
		return false, nil
	}
	if _, err := r.save(ctx, sale.ID, entries); err != nil {
		return false, err
	}
	r.memory.Forget(sale.ID, sale.Epoch)
	return true, nil
}

// allGathered reports whether every server that lives has gathered.
func (r *Rebuilder) allGathered(ctx context.Context, sale *sluice.Sale) (bool, error) {
	live, err := r.store.LiveNodes(ctx, SilentAfter)
	if err != nil {
		return false, err
	}
	gathered, err := r.store.Gathered(ctx, sale.ID, sale.Epoch)
	if err != nil {
		return false, err
	}
	for _, node := range live {
		if !slices.Contains(gathered, node) {
			return false, nil
		}
	}
	return true, nil
}

// rebuild stores what the journal and the records still have, and loads.
func (r *Rebuilder) rebuild(ctx context.Context, sale *sluice.Sale) error {
	reading, err := r.hold(ctx, sale)
	if err != nil {
		return err
	}
	if err := r.adoptTerms(ctx, sale, &reading); err != nil {
		return err
	}
	var survivors []sluice.Entry
	err = r.ledger.PeekJournal(ctx, sale.ID, func(e sluice.Entry) bool {
		survivors = append(survivors, e)
		return true
	})
	if err != nil && !errors.Is(err, sluice.ErrNotLoaded) {
		return err
	}
	saved, err := r.save(ctx, sale.ID, survivors)
	if err != nil {
		return err
	}
	restored, err := r.restore(ctx, sale, &reading)
	if err != nil {
		return err
	}
	// What was set aside under this epoch gets a last chance to be stored: after
	// the load its units would be for sale again.
	if err := r.replayer.current(ctx, sale); err != nil {
		return err
	}
	if err := r.loader.Load(ctx, sale.ID); err != nil {
		return err
	}
	r.rebuilds.Add(1)
	r.log.Info("a sale is rebuilt", "sale", sale.ID, "why", sale.Fence, "from_journal", saved, "from_records", restored)
	return nil
}

// save stores entries, each claim once. A claim that conflicts with a stored
// one (the ledger gave its place twice) is set aside, to be claimed anew.
func (r *Rebuilder) save(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (saved int, err error) {
	for len(entries) > 0 {
		batch, claims := entries[:1], len(entries[0].Claims)
		for len(batch) < len(entries) && entries[len(batch)].Damage == nil && batch[0].Damage == nil &&
			claims+len(entries[len(batch)].Claims) <= gatherBatch {
			claims += len(entries[len(batch)].Claims)
			batch = entries[:len(batch)+1]
		}
		entries = entries[len(batch):]
		stored, err := r.insert(ctx, sale, batch)
		if err != nil {
			return saved, err
		}
		saved += stored
	}
	return saved, nil
}

// insert stores a batch, or, if a part of it conflicts, its entries and then
// its claims one by one.
func (r *Rebuilder) insert(ctx context.Context, sale sluice.SaleID, batch []sluice.Entry) (int, error) {
	if batch[0].Damage != nil {
		return 0, r.store.SetAside(ctx, batch[0].DeadLetter(batch[0].Damage))
	}
	stored, err := r.store.Insert(ctx, sale, batch)
	var conflict *sluice.ConflictError
	if err == nil {
		return stored.Inserted - len(stored.Rejected), nil
	}
	if !errors.As(err, &conflict) && !errors.Is(err, sluice.ErrStaleEpoch) {
		return 0, err
	}
	parts := split(batch)
	if parts == nil {
		return 0, r.store.SetAside(ctx, batch[0].DeadLetter(err))
	}
	n := 0
	for i := range parts {
		one, err := r.insert(ctx, sale, parts[i:i+1])
		if err != nil {
			return n, err
		}
		n += one
	}
	return n, nil
}

// split cuts a batch into entries, and an entry into claims; a single claim
// cannot be cut.
func split(batch []sluice.Entry) []sluice.Entry {
	if len(batch) > 1 {
		return batch
	}
	e := batch[0]
	if len(e.Claims) < 2 {
		return nil
	}
	parts := make([]sluice.Entry, len(e.Claims))
	for i := range parts {
		parts[i] = e
		parts[i].ID = "" // a part is named by its server and sequence
		parts[i].FirstSeq += int64(i)
		parts[i].Claims = e.Claims[i : i+1]
	}
	return parts
}
