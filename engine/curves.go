package engine

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/curve"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/loop"
)

// totals are what this server has counted of claims since its start.
func (e *Engine) totals() *curve.Totals {
	t := &curve.Totals{Answers: map[sluice.SaleID][curve.Kinds]int64{}, InFlight: e.batcher.InFlight()}
	e.claims.Each(func(sale sluice.SaleID, code string, n int64) {
		counts := t.Answers[sale]
		counts[curve.KindOf(code)] += n
		t.Answers[sale] = counts
	})
	e.requests.Took(httpapi.ClaimPattern, curve.Finest, t.Took[:])
	return t
}

// recordCurves counts what happens to sales, second by second: in the middle of each, so that no tick that comes a
// moment early or late is in another second.
func (e *Engine) recordCurves(ctx context.Context, recorder *curve.Recorder) {
	now := time.Now()
	if !loop.Wait(ctx, now.Truncate(time.Second).Add(3*time.Second/2).Sub(now)%time.Second, nil) {
		return
	}
	for range loop.Every(ctx, time.Second) {
		recorder.Tick(time.Now(), e.totals())
	}
}

// keepCurves stores it.
func (e *Engine) keepCurves(ctx context.Context, recorder *curve.Recorder) {
	trouble := loop.Trouble{Log: e.cfg.Log, Begins: "what was counted of sales cannot be kept for now"}
	for range loop.Every(ctx, curve.FlushEvery) {
		asking, cancel := context.WithTimeout(ctx, stepTimeout)
		err := recorder.Flush(asking)
		cancel()
		if ctx.Err() == nil {
			trouble.Note(err)
		}
	}
	recorder.Tick(time.Now().Add(time.Second/2), e.totals()) // of the second after the last tick's
	recorder.End()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = recorder.Flush(last) // else it looks as if this server had been killed
}
