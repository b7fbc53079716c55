package engine

import (
	"context"

	"github.com/sluicehq/sluice/events"
	"github.com/sluicehq/sluice/internal/metrics"
)

// eventJobs tell the merchant what happens to orders and sales.
type eventJobs struct {
	numberer *events.Numberer
}

func (j *eventJobs) compose(e *Engine, counts *metrics.Metrics) {
	counters := counts.Events()
	j.numberer = events.NewNumberer(e.store, events.NumbererOptions{Node: e.node, Numbered: counters.Numbered, Log: e.cfg.Log})
}

func (j *eventJobs) start(ctx context.Context, e *Engine) {
	e.loops.Go(func() { j.numberer.Run(ctx) })
}
