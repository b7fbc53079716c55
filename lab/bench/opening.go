package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
)

// The opening second: many connections that are open before, and a claim on each of them
// within the second after the sale opens.

const (
	openingName = "the opening second"
	openingBin  = 50_000 // microseconds
)

func openOpeningGroup(ctx context.Context, o *options) ([]side, func(), error) {
	d, err := openDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	// As many servers as the limit of open files asks for, none of which is short of
	// connections; and as many processes of buyers.
	most, _ := httpapi.MostConnections()
	count := (o.opening + most*4/5 - 1) / (most * 4 / 5)
	does := fmt.Sprintf("%d connections to %d servers on one %s, each with a claim within the second after the sale of "+
		"%d units opens; times from the intended start", o.opening, count, servers.name, o.opening/5)
	run := func(ctx context.Context, r *round) (figure, error) { return d.openingSecond(ctx, r, count) }
	return []side{{name: openingName, own: true, does: does, run: run}}, d.close, nil
}

func (d *database) openingSecond(ctx context.Context, r *round, count int) (f figure, err error) {
	k, err := servers.open(ctx, r, poolSecret, d)
	if err != nil {
		return f, err
	}
	defer k.close()
	var all []*process
	for n := range count {
		c := k.config
		c.DataDir = filepath.Join(r.dir, "data"+strconv.Itoa(n))
		p, err := startServer(ctx, c)
		if err != nil {
			return f, err
		}
		defer p.stop()
		all = append(all, p)
	}
	each, units := r.opening/count, int64(r.opening/5)
	opens := time.Now().Add(time.Second + time.Duration(r.opening)*250*time.Microsecond).Truncate(time.Millisecond)
	if err := all[0].createSale(ctx, units, opens); err != nil {
		return f, err
	}
	results := make([]*rushed, count)
	var group errgroup.Group
	for n, p := range all {
		group.Go(func() (err error) {
			c := rushers{
				URL: p.URL, Seed: r.crowd.seed, From: n * each, Buyers: each, Connections: each, Rate: float64(each),
				Start: opens, Tries: true,
			}
			results[n], err = c.rush(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return f, err
	}
	if err := all[0].awaitStored(ctx); err != nil {
		return f, err
	}
	f = openingFigure(results)
	return f, all[0].audit(ctx, units, units)
}

// openingFigure sums up what the processes of buyers report.
func openingFigure(results []*rushed) (f figure) {
	f = figure{also: map[string]float64{}, series: map[string][][2]float64{}}
	var last, lastAccepted int64
	var took []int64
	answers := map[string]map[int64]float64{"accepted": {}, "sold out": {}, "other": {}}
	waits := map[int64][]int64{} // by when they should have begun
	for _, r := range results {
		for _, t := range r.Tries {
			end := t.Begin + t.Took
			name := map[sluice.Code]string{sluice.Accepted: "accepted", sluice.SoldOut: "sold out"}[t.Code]
			if name == "" {
				name = "other"
				f.also["other_answers"]++
			}
			if t.Code == sluice.Accepted {
				f.also["accepted"]++
				lastAccepted = max(lastAccepted, end)
			}
			last = max(last, end)
			answers[name][end/openingBin]++
			waits[t.Begin/openingBin] = append(waits[t.Begin/openingBin], t.Took)
			took = append(took, t.Took)
		}
	}
	for name, bins := range answers {
		for bin := range last/openingBin + 1 {
			f.series[name] = append(f.series[name], [2]float64{float64(bin) * openingBin / 1000, bins[bin] * 1e6 / openingBin})
		}
	}
	quantile := func(list []int64, percent int) float64 {
		slices.Sort(list)
		return float64(list[len(list)*percent/100]) / 1000
	}
	for bin := range last/openingBin + 1 {
		if list := waits[bin]; len(list) > 0 {
			at := float64(bin) * openingBin / 1000
			f.series["p50"] = append(f.series["p50"], [2]float64{at, quantile(list, 50)})
			f.series["p99"] = append(f.series["p99"], [2]float64{at, quantile(list, 99)})
		}
	}
	f.perSecond = float64(len(took)) / (float64(last) / 1e6)
	f.also["p50_ms"], f.also["p99_ms"] = quantile(took, 50), quantile(took, 99)
	f.also["sold_after_ms"], f.also["all_answered_after_ms"] = float64(lastAccepted)/1000, float64(last)/1000
	return f
}
