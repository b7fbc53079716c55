package engine

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/metrics"
)

// settling reports to the metrics what happens after the claim, and how much of
// it waits. The store is read periodically, not at each scrape: a database that
// hangs must not hang the monitoring too.
type settling struct {
	*metrics.Settling
	store sluice.AuditStore
	every time.Duration
}

// backlogEvery is how often each server counts what waits in the store.
const backlogEvery = 5 * time.Second

func newSettling(counts *metrics.Metrics, store sluice.AuditStore, rebuilds func() int64) *settling {
	classes := sluice.DifferenceClasses()
	names := make([]string, 0, len(classes))
	for _, class := range classes {
		if class != sluice.InFlight {
			names = append(names, string(class))
		}
	}
	return &settling{Settling: counts.Settling(names, rebuilds), store: store, every: backlogEvery}
}

func (s *settling) run(ctx context.Context) {
	for range loop.Every(ctx, s.every) {
		s.count(ctx)
	}
}

func (s *settling) count(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.every)
	defer cancel()
	backlog, err := s.store.Backlog(ctx)
	if err != nil { // it is logged by those who need the store
		s.Backlog(nil)
		return
	}
	s.Backlog(&backlog)
}

// reconciled counts what a reconciliation found, those in flight apart.
func (s *settling) reconciled(r *sluice.ReconcileReport) {
	s.Reconciled()
	for i := range r.Differences {
		if d := &r.Differences[i]; d.Class != sluice.InFlight {
			s.Found(string(d.Class), d.Count, d.Repaired)
		}
	}
}
