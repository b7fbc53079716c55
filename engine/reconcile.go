package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// reconcileShare bounds the part of the time that a sale is being reconciled:
// after a run, the sale rests for this many times as long as it took.
const reconcileShare = 20

// idleShare bounds the part of the time that goes into sales in which nothing
// has happened since their last run: of each interval one part in so many, the
// longest ago first. So a few idle sales are reconciled every time, and a
// hundred thousand cost no more than a few.
const idleShare = 400

// reconcileTimeout bounds one run.
const reconcileTimeout = 5 * time.Minute

// turnPatience bounds how long a request waits for the server's turn.
// The HTTP server ends a request after half a minute.
const turnPatience = 15 * time.Second

// turn lets one audit or reconciliation of a server run at a time: each reads a
// whole sale, and holds a connection of the store and memory for each of its
// orders while it does.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, which done ends. sluice.ErrAuditBusy after patience.
func (t turn) take(ctx context.Context, patience time.Duration) (done func(), err error) {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-wait.C:
		return nil, sluice.ErrAuditBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// reconcileJob reconciles every sale on an interval, with repairs. Leases in the store
// leave each busy sale to one server at a time, and all that are idle to one, so that they
// cost a fleet no more than a server. A sale may be busy here and idle elsewhere: two runs
// at once do no harm.
type reconcileJob struct {
	node       string
	every      time.Duration
	store      port.ClusterStore
	board      *admission.Board
	reconciler *settle.Reconciler
	settled    func(*sluice.ReconcileReport) // receives every run that compared something
	log        *slog.Logger

	turn   turn
	rests  map[sluice.SaleID]time.Time    // until when
	last   map[sluice.SaleID]reconcileRun // of this server
	passed time.Time                      // until when idle sales are left to others

	mu    sync.Mutex
	found map[sluice.SaleID]sluice.ReconcileReport // of the last run of this server
}

// reconcileRun is the last run of a sale.
type reconcileRun struct {
	at      time.Time    // zero: it has had none since this server started
	reading port.Reading // before it, or when the sale was first seen
	clean   bool         // nothing differed
}

// idle reports whether nothing has happened in a sale since its last run, as far
// as the ledger's reading shows. Nothing is known of a sale that has had none: it
// is idle until something happens, so that after a start those that sell need not
// wait for those that do not.
func (j *reconcileJob) idle(id sluice.SaleID, now *port.Reading) bool {
	r, known := j.last[id]
	if !known {
		r.reading = *now
		j.last[id] = r
	}
	was := &r.reading
	return (r.clean || r.at.IsZero()) && now.Backlog == 0 && was.Backlog == 0 &&
		now.Epoch == was.Epoch && now.Seq == was.Seq && now.Taken == was.Taken && now.Terms == was.Terms
}

func newReconcileJob(j *reconcileJob) *reconcileJob {
	j.turn = newTurn()
	j.rests, j.last = map[sluice.SaleID]time.Time{}, map[sluice.SaleID]reconcileRun{}
	j.found = map[sluice.SaleID]sluice.ReconcileReport{}
	return j
}

func (j *reconcileJob) run(ctx context.Context) {
	if j.every < 0 {
		return
	}
	defer j.unlead(ctx)
	for loop.Wait(ctx, j.every, nil) {
		j.round(ctx)
	}
}

// round reconciles the sales in which something has happened, and idle ones for
// a bounded time, at least one.
func (j *reconcileJob) round(ctx context.Context) {
	views := j.board.Views()
	j.forget(views)
	var busy, idle []*admission.View
	unread := false
	for id, view := range views {
		unread = unread || view.Down
		if view.Down || !view.InStep() || time.Now().Before(j.rests[id]) {
			continue
		}
		if j.idle(id, &view.Reading) {
			idle = append(idle, view)
		} else {
			busy = append(busy, view)
		}
	}
	slices.SortFunc(busy, func(a, b *admission.View) int { return cmp.Compare(a.Sale.ID, b.Sale.ID) })
	for _, view := range busy {
		if j.leads(ctx, "reconcile:"+string(view.Sale.ID), view) {
			j.once(ctx, view)
		}
	}
	if len(idle) == 0 || time.Now().Before(j.passed) || !j.leads(ctx, idleLease, idle...) {
		return
	}
	// Those that have had no run come in any order, so that none is always the last.
	slices.SortFunc(idle, func(a, b *admission.View) int { return j.last[a.Sale.ID].at.Compare(j.last[b.Sale.ID].at) })
	begun := time.Now()
	for _, view := range idle {
		if j.once(ctx, view); ctx.Err() != nil || time.Since(begun) > j.every/idleShare {
			break
		}
	}
	if unread { // another server may reach the ledger of these sales
		j.passed = time.Now().Add(2 * j.every)
		j.unlead(ctx)
	}
}

// idleLease is the lease of all idle sales.
const idleLease = "reconcile"

// unlead gives it back. Else the others wait until it ends.
func (j *reconcileJob) unlead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = j.store.Unlease(ctx, idleLease, j.node)
}

// leads reports whether this server has the lease of some sales. Else another one reconciles
// and reports them.
func (j *reconcileJob) leads(ctx context.Context, lease string, sales ...*admission.View) bool {
	if ctx.Err() != nil {
		return false
	}
	fence, err := j.store.Lease(ctx, lease, j.node, 0, max(2*j.every, time.Second))
	if err != nil {
		if ctx.Err() == nil {
			j.log.Warn("sales cannot be reconciled: the store gives no lease", "lease", lease, "error", err)
		}
		return false
	}
	if fence > 0 {
		return true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, view := range sales {
		id := view.Sale.ID
		delete(j.found, id)
		j.last[id] = reconcileRun{at: j.last[id].at, reading: view.Reading, clean: true}
	}
	return false
}

// forget drops what is known of sales that are not on the board any more.
func (j *reconcileJob) forget(views map[sluice.SaleID]*admission.View) {
	maps.DeleteFunc(j.rests, func(id sluice.SaleID, until time.Time) bool {
		return views[id] == nil || time.Now().After(until)
	})
	maps.DeleteFunc(j.last, func(id sluice.SaleID, _ reconcileRun) bool { return views[id] == nil })
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.found, func(id sluice.SaleID, _ sluice.ReconcileReport) bool {
		return views[id] == nil
	})
}

// once reconciles a sale.
func (j *reconcileJob) once(ctx context.Context, view *admission.View) {
	begun := time.Now()
	clean, err := j.compare(ctx, view.Sale.ID)
	if err != nil && ctx.Err() == nil {
		j.log.Warn("a sale cannot be reconciled", "sale", view.Sale.ID, "error", err)
	}
	j.last[view.Sale.ID] = reconcileRun{at: begun, reading: view.Reading, clean: clean && err == nil}
}

// compare reports whether nothing differed.
func (j *reconcileJob) compare(ctx context.Context, sale sluice.SaleID) (clean bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	done, err := j.turn.take(ctx, reconcileTimeout)
	if err != nil {
		return false, err
	}
	defer done()
	start := time.Now()
	report, err := j.reconciler.Reconcile(ctx, sale, true)
	j.rests[sale] = time.Now().Add(reconcileShare * time.Since(start))
	if errors.Is(err, sluice.ErrSaleNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if report.Skipped == "" {
		j.settled(&report)
	}
	j.note(&report)
	clean = report.Skipped == ""
	for _, d := range report.Differences {
		clean = clean && (d.Class == sluice.InFlight || d.Count == 0)
	}
	return clean, nil
}

// note keeps a report for the metrics, and logs what was wrong.
func (j *reconcileJob) note(r *sluice.ReconcileReport) {
	j.mu.Lock()
	j.found[r.Sale] = *r
	j.mu.Unlock()
	for _, d := range r.Differences {
		if d.Class != sluice.InFlight && d.Count > 0 {
			j.log.Error("ledger and store differ", "sale", r.Sale, "class", d.Class, "count", d.Count, "repaired", d.Repaired,
				"orders", d.Orders, "details", d.Details)
		}
	}
}

// differences counts what the last runs found, by class. It includes
// what a run repaired, until the next run.
func (j *reconcileJob) differences() map[string]int64 {
	counts := map[string]int64{}
	for _, class := range sluice.DifferenceClasses() {
		counts[string(class)] = 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.found {
		for _, d := range r.Differences {
			counts[string(d.Class)] += d.Count
		}
	}
	return counts
}

// Reconcile compares ledger and store of one sale now, and with apply repairs
// what is safe. One audit or reconciliation runs at a time; sluice.ErrAuditBusy if
// others take longer than 15 seconds.
func (e *Engine) Reconcile(ctx context.Context, sale sluice.SaleID, apply bool) (sluice.ReconcileReport, error) {
	done, err := e.reconcile.turn.take(ctx, turnPatience)
	if err != nil {
		return sluice.ReconcileReport{}, err
	}
	defer done()
	return e.reconcile.reconciler.Reconcile(ctx, sale, apply)
}

// Recover says what the ledger of a sale has and its store, which was restored from an older
// copy, lacks; with apply it stores that, and the sale goes on. It also has this engine's ledger
// decide about a sale from now on, if no server that lives has the one before. A
// *sluice.StateError says why it cannot.
func (e *Engine) Recover(ctx context.Context, sale sluice.SaleID, apply bool) (sluice.Recovery, error) {
	done, err := e.reconcile.turn.take(ctx, turnPatience)
	if err != nil {
		return sluice.Recovery{}, err
	}
	defer done()
	return e.follower.rebuilder.Recover(ctx, sale, apply)
}

// Auditor reads a ledger and a store, and changes neither. It needs no lock, so
// it works beside running servers, or after all of them have died.
type Auditor struct {
	ledger port.ReadOnlyLedger
	store  port.ReadOnlyStore
}

// OpenAudit opens the ledger and the store that the configuration names, for
// reading only.
func OpenAudit(ctx context.Context, cfg Config) (*Auditor, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	stores := port.StoreDriverOf(cfg.Store)
	if stores.OpenReadOnly == nil {
		return nil, fmt.Errorf("the driver of store %s has no OpenReadOnly", stores.Kind)
	}
	if cfg.Ledger == inStore {
		store, err := stores.OpenReadOnly(ctx, cfg.Store)
		if err != nil {
			return nil, err
		}
		ledger, err := stores.Ledger(store, "audit")
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		return &Auditor{ledger, store}, nil
	}
	ledgers := port.LedgerDriverOf(cfg.Ledger)
	if ledgers.OpenReadOnly == nil {
		return nil, fmt.Errorf("the driver of ledger %s has no OpenReadOnly", ledgers.Kind)
	}
	ledger, err := ledgers.OpenReadOnly(ctx, cfg.Ledger)
	if err != nil {
		return nil, err
	}
	store, err := stores.OpenReadOnly(ctx, cfg.Store)
	if err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	return &Auditor{ledger, store}, nil
}

// Audit proves one sale.
func (a *Auditor) Audit(ctx context.Context, sale sluice.SaleID) (sluice.AuditReport, error) {
	return audit.Run(ctx, a.ledger, a.store, sale)
}

// AuditAll proves every sale, one report each.
func (a *Auditor) AuditAll(ctx context.Context) ([]sluice.AuditReport, error) {
	return audit.RunAll(ctx, a.ledger, a.store)
}

// Close ends the reading.
func (a *Auditor) Close() error { return errors.Join(a.ledger.Close(), a.store.Close()) }
