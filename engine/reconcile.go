package engine

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/admission"
	"github.com/sluicehq/sluice/settle"
)

// reconcileShare bounds the part of the time that a sale is being reconciled:
// after a run, the sale rests for this many times as long as it took.
const reconcileShare = 20

// reconcileTimeout bounds one run.
const reconcileTimeout = 5 * time.Minute

// reconcileJob reconciles every sale on an interval, with repairs. A lease in
// the store leaves each sale to one server at a time.
type reconcileJob struct {
	node       string
	every      time.Duration
	store      sluice.ClusterStore
	board      *admission.Board
	reconciler *settle.Reconciler
	settled    func(*settle.ReconcileReport) // told of every run that compared something
	log        *slog.Logger

	rests map[sluice.SaleID]time.Time // until when

	mu    sync.Mutex
	found map[sluice.SaleID]settle.ReconcileReport // of the last run of this server
}

func newReconcileJob(j *reconcileJob) *reconcileJob {
	j.rests = map[sluice.SaleID]time.Time{}
	j.found = map[sluice.SaleID]settle.ReconcileReport{}
	return j
}

func (j *reconcileJob) run(ctx context.Context) {
	if j.every < 0 {
		return
	}
	tick := time.NewTicker(j.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		views := j.board.Views()
		j.forget(views)
		for _, id := range slices.Sorted(maps.Keys(views)) {
			if view := views[id]; view.Down || !view.InStep() || time.Now().Before(j.rests[id]) {
				continue
			}
			if err := j.once(ctx, id); err != nil && ctx.Err() == nil {
				j.log.Warn("a sale cannot be reconciled", "sale", id, "error", err)
			}
		}
	}
}

// forget drops what is known of sales that are not on the board any more.
func (j *reconcileJob) forget(views map[sluice.SaleID]*admission.View) {
	maps.DeleteFunc(j.rests, func(id sluice.SaleID, _ time.Time) bool { return views[id] == nil })
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.found, func(id sluice.SaleID, _ settle.ReconcileReport) bool {
		return views[id] == nil || views[id].Archived()
	})
}

func (j *reconcileJob) once(ctx context.Context, sale sluice.SaleID) error {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	mine, err := j.store.Lease(ctx, "reconcile:"+string(sale), j.node, max(2*j.every, time.Second))
	if err != nil {
		return err
	}
	if !mine { // then another server reports it
		j.mu.Lock()
		delete(j.found, sale)
		j.mu.Unlock()
		return nil
	}
	start := time.Now()
	report, err := j.reconciler.Reconcile(ctx, sale, true)
	j.rests[sale] = time.Now().Add(reconcileShare * time.Since(start))
	if errors.Is(err, sluice.ErrSaleNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if report.Skipped == "" {
		j.settled(&report)
	}
	j.note(&report)
	return nil
}

// note keeps a report for the metrics, and logs what was wrong.
func (j *reconcileJob) note(r *settle.ReconcileReport) {
	j.mu.Lock()
	j.found[r.Sale] = *r
	j.mu.Unlock()
	for _, d := range r.Differences {
		if d.Class != settle.InFlight && d.Count > 0 {
			j.log.Error("ledger and store differ", "sale", r.Sale, "class", d.Class, "count", d.Count, "repaired", d.Repaired,
				"orders", d.Orders, "details", d.Details)
		}
	}
}

// differences counts what the last runs found, by class. What a run repaired is
// in it until the next one.
func (j *reconcileJob) differences() map[string]int64 {
	counts := map[string]int64{}
	for _, class := range settle.DifferenceClasses() {
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
// what is safe.
func (e *Engine) Reconcile(ctx context.Context, sale sluice.SaleID, apply bool) (settle.ReconcileReport, error) {
	return e.reconcile.reconciler.Reconcile(ctx, sale, apply)
}
