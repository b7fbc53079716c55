package settle

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
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
	missed   func() time.Time
	log      *slog.Logger

	mu       sync.Mutex // guards the map, and refused; else each sale's progress belongs to the goroutine that works on it
	sales    map[sluice.SaleID]*progress
	rebuilds atomic.Int64
}

// progress is how far this server has come with the loss of an epoch of a sale.
type progress struct {
	epoch    int64
	doubted  bool      // that the store is older than its ledger was looked for
	gathered time.Time // when it had stored what it remembers; zero before
	waits    string    // servers that the log says are waited for

	refused map[sluice.OrderID]time.Time // when the database first refused a claim for what it is
}

// of returns the progress with the present epoch of a sale, and whether it begins now.
func (r *Rebuilder) of(sale *sluice.Sale) (p *progress, begins bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p = r.sales[sale.ID]; p == nil || p.epoch != sale.Epoch { // also one that a copy of the store has again
		p, begins = &progress{epoch: sale.Epoch, refused: map[sluice.OrderID]time.Time{}}, true
		r.sales[sale.ID] = p
	}
	return p, begins
}

// Rebuilds counts the sales that this server has rebuilt since it started.
func (r *Rebuilder) Rebuilds() int64 { return r.rebuilds.Load() }

// RebuildStore is what a rebuild needs of port.Store.
type RebuildStore interface {
	loadStore
	port.ClusterStore
	port.DeadLetterStore
	port.AuditStore
	Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error)
	EndAgain(ctx context.Context, ended *port.Record, by, reason string) error
	InsertEnded(ctx context.Context, sale sluice.SaleID, ended []port.Record, by, reason string) ([]sluice.OrderID,
		error)
	Recovered(ctx context.Context, sale sluice.SaleID, epoch int64, reason string, keep time.Duration) (time.Time, error)
}

// RebuildLedger is what a rebuild needs of port.Ledger.
type RebuildLedger interface {
	Ledger
	port.Decider
	port.Journal
}

// The rhythm of servers that know of each other.
const (
	// HeartbeatEvery is how often a server says that it lives, and
	// SilentAfter how long a rebuild waits for one that does not.
	HeartbeatEvery = time.Second
	SilentAfter    = 5 * time.Second
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
		replayer: NewReplayer(store, ledger, loader,
			func(sale sluice.SaleID, claims []sluice.Claim, decisions []sluice.Decision) {
				memory.Decided(sale, node, claims, decisions)
			}),
		sales:  map[sluice.SaleID]*progress{},
		missed: func() time.Time { return time.Time{} },
	}
}

// Missed says until when the store took no heartbeat of this server; zero: it always did, which is the default. The
// others may have had no luck either, and are not to be taken for dead (allGathered).
func (r *Rebuilder) Missed(until func() time.Time) { r.missed = until }

// Step does what this server can do now for a fenced sale, and reports whether
// the sale is rebuilt. Call it again while the sale stays fenced, from one
// goroutine per sale.
func (r *Rebuilder) Step(ctx context.Context, sale *sluice.Sale) (rebuilt bool, err error) {
	ready, err := r.Gather(ctx, sale)
	if err != nil || !ready {
		return false, err
	}
	return r.underLease(ctx, sale.ID, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, sale.ID)
		if err != nil || now.Epoch != sale.Epoch || now.Fence == "" || Outdated(&now) || r.loader.Foreign(&now) {
			return err // another server was faster, and what this one saw is old
		}
		return r.rebuild(ctx, sale)
	})
}

// announce logs a loss. A rebuild that a person has asked for is none.
func (r *Rebuilder) announce(sale *sluice.Sale) {
	if why, lost := strings.CutPrefix(sale.Fence, port.FenceLost+": "); lost {
		r.log.Warn("data of a sale has been lost; the sale is fenced and rebuilt", "sale", sale.ID, "epoch", sale.Epoch,
			"why", why)
	}
}

// Adopt repeats a load that was begun and not finished, and that no server is
// at: one that is holds the lease. It reports whether this server did so, or
// found that another has.
func (r *Rebuilder) Adopt(ctx context.Context, sale *sluice.Sale) (bool, error) {
	return r.underLease(ctx, sale.ID, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, sale.ID)
		if err != nil || now.Epoch != sale.Epoch || now.LoadedEpoch != sale.LoadedEpoch {
			return err // another server was faster
		}
		if outdated, err := r.outdated(ctx, &now); outdated || err != nil {
			return err
		}
		err = r.loader.Load(ctx, sale.ID)
		if errors.Is(err, port.ErrSaleLive) || errors.Is(err, port.ErrStaleEpoch) {
			err = nil
		}
		return err
	})
}

// rebuild stores what the journal and the records still have, and loads.
func (r *Rebuilder) rebuild(ctx context.Context, sale *sluice.Sale) error {
	reading, err := r.hold(ctx, sale)
	if err != nil {
		return err
	}
	saved, restored, storeOlder, err := r.salvage(ctx, sale, &reading)
	if err != nil {
		return err
	}
	if storeOlder != "" {
		return r.loader.fenceOlder(ctx, sale, &reading, storeOlder)
	}
	if err := r.loader.load(ctx, sale.ID, r.passed(sale)); err != nil {
		return err
	}
	if !strings.HasPrefix(sale.Fence, port.FenceLate) { // which is no loss
		r.rebuilds.Add(1)
	}
	r.log.Info("a sale is rebuilt", "sale", sale.ID, "why", sale.Fence, "from_journal", saved, "from_records", restored)
	return nil
}

// passed returns the last epoch that must not be given to a sale again: servers may know claims
// of epochs that an older copy of the store has not heard of. No sale is loaded every second.
func (r *Rebuilder) passed(sale *sluice.Sale) int64 {
	if !r.copied(sale) {
		return 0
	}
	return max(int64(time.Since(sale.CreatedAt)/time.Second), r.memory.last(sale.ID))
}

// salvage stores what this server's ledger knows of a sale, and its store does not: so many
// claims of its journal, and of its records. If the store must be older than the ledger, it
// stores nothing, and says why.
func (r *Rebuilder) salvage(ctx context.Context, sale *sluice.Sale, reading *port.Reading) (saved, restored int,
	storeOlder string, err error,
) {
	if !reading.Loaded {
		return 0, 0, "", nil
	}
	b, err := r.book(ctx, sale.ID)
	if err != nil {
		return 0, 0, "", err
	}
	missing := b.Missing()
	if storeOlder = proof(b, &missing); storeOlder != "" && !recovered(sale) && !r.loader.inStore {
		return 0, 0, storeOlder, nil
	}
	survivors, err := r.journal(ctx, sale.ID)
	if err != nil {
		return 0, 0, "", err
	}
	undecided := make([]sluice.OrderID, len(missing.Undecided))
	for i := range missing.Undecided {
		undecided[i] = b.OrderID(&missing.Undecided[i])
	}
	if !r.loader.inStore { // there a record is the order, which servers may just have brought back
		r.tell("the ledger has records of claims that were never decided", sale.ID, undecided)
	}
	if saved, _, err = r.save(ctx, sale.ID, survivors); err == nil {
		restored, err = r.restore(ctx, sale.ID, b, missing.Live)
	}
	return saved, restored, "", err
}
