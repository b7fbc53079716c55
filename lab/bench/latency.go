package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// How long an accepted claim takes, at fixed rates that a server keeps up with; and at
// which rate it no longer does.

const (
	// patience is what a server may take to answer the slowest hundredth of claims, up to
	// the rate that is its limit.
	patience = 50 // milliseconds

	openConnections = 256
)

// openRates are claims a second.
var openRates = []float64{1000, 2000, 5000}

func latencyName(server string) string { return "claims at fixed rates, " + server }

func bareStoreName(server string) string { return "bare handler that stores, " + server }

func p99At(rate float64) string { return "p99_ms_at_" + everySecond(rate) }

// cpuAt is the processor time of a claim, without the buyers'.
func cpuAt(rate float64) string { return "cpu_us_at_" + everySecond(rate) }

type latencyGroup struct {
	database *database
	order    *constant
}

func openLatencyGroup(ctx context.Context, o *options) ([]side, func(), error) {
	_, order, err := sampleOrders(ctx, o.dir, crowd.New(o.seed))
	if err != nil {
		return nil, nil, err
	}
	d, err := openDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	g := &latencyGroup{database: d, order: order}
	does := fmt.Sprintf("; %d connections, times from the intended start. The rate is the highest at which the slowest "+
		"hundredth of a second's claims takes at most %d ms", openConnections, patience)
	var sides []side
	for _, b := range backends {
		if b.postgres {
			sides = append(sides, side{
				name: bareStoreName(b.name),
				does: "a constant, when the request is on the disk with those that came meanwhile; a row of an order is " +
					"stored for each, and nothing decided. Only at the fixed rates",
				run: func(ctx context.Context, r *round) (figure, error) { return g.stored(ctx, r, b) },
			})
		}
		sides = append(sides, side{
			name: latencyName(b.name), own: true, does: "every claim a new buyer who gets a unit" + does,
			run: func(ctx context.Context, r *round) (figure, error) { return g.own(ctx, r, b) },
		})
	}
	return sides, d.close, nil
}

func (g *latencyGroup) stored(ctx context.Context, r *round, b backend) (figure, error) {
	k, err := b.open(ctx, r, poolSecret, g.database)
	if err != nil {
		return figure{}, err
	}
	defer k.close()
	p, err := k.startBareStore(ctx, g.order)
	if err != nil {
		return figure{}, err
	}
	defer p.stop()
	return r.atRates(ctx, p, func(sent int) error { return k.awaitRows(ctx, int64(sent)) }, false)
}

func (g *latencyGroup) own(ctx context.Context, r *round, b backend) (figure, error) {
	k, err := b.open(ctx, r, poolSecret, g.database)
	if err != nil {
		return figure{}, err
	}
	defer k.close()
	p, err := k.start(ctx, manyUnits)
	if err != nil {
		return figure{}, err
	}
	defer p.stop()
	f, err := r.atRates(ctx, p, func(int) error { return p.awaitStored(ctx) }, true)
	if err != nil {
		return f, err
	}
	return f, p.audit(ctx, 1, manyUnits)
}

// atRates sends claims at each rate, and then searches the highest, if it is to. Settled
// returns when the server has done what it puts off of all that were sent.
func (r *round) atRates(ctx context.Context, p *process, settled func(sent int) error, search bool) (figure, error) {
	f := figure{also: map[string]float64{}}
	from := 0
	probe := func(rate float64, long time.Duration) (*rushed, bool, error) {
		c := rushers{
			URL: p.URL, Seed: r.crowd.Seed, From: from, Buyers: int(rate * long.Seconds()), Connections: openConnections,
			Rate: rate, Start: time.Now(),
		}
		from += c.Buyers
		got, err := c.rush(ctx)
		if err == nil {
			err = settled(from)
		}
		return got, err == nil && got.Accepted == c.Buyers && got.Latency.P99 <= patience, err
	}
	if _, _, err := probe(slices.Max(openRates), r.settling()); err != nil {
		return f, err
	}
	for _, rate := range openRates {
		meter := startMeter(p.pids())
		// Collections of garbage take less than a hundredth of all time, but more of a shorter window.
		got, _, err := probe(rate, r.long*4)
		if err != nil {
			return f, err
		}
		if us, ok := meter.total(int64(got.Accepted)); ok {
			f.also[cpuAt(rate)] = us
		}
		if len(got.Errors) > 0 {
			return f, fmt.Errorf("at %.0f claims a second: %v", rate, got.Errors)
		}
		f.also[p99At(rate)] = got.Latency.P99
		if f.also[p99At(rate)] <= patience {
			f.perSecond = rate
		}
	}
	for high := 0.0; search && f.perSecond > 0 && f.perSecond < 1e6 && (high == 0 || high/f.perSecond > 1.1); {
		rate := f.perSecond * 2
		if high > 0 {
			rate = math.Sqrt(f.perSecond * high)
		}
		_, keeps, err := probe(rate, r.long/2)
		if err != nil {
			return f, err
		}
		if !keeps {
			high = rate
			continue
		}
		f.perSecond = rate
	}
	return f, nil
}
