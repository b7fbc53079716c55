package main

import (
	"context"
	"fmt"
	"time"
)

// Orders that are accepted over HTTP and stored. They are answered when the ledger has
// them on the disk; meanwhile the pipeline stores them. A round is long, so that what a
// store puts off is paid for, and an order that is not stored when it ends does not
// count.

func acceptedName(b backend) string { return "accepted and stored over HTTP, " + b.name }

func bareAcceptedName(b backend) string { return "bare handler that stores, in a rush, " + b.name }

// durableRate is beyond what is reached: requests are prepared for it.
const durableRate = 55_000

type durableGroup struct {
	*httpGroup
	database *database
}

func openDurableGroup(ctx context.Context, o *options) ([]side, func(), error) {
	d, err := openDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	h, _, order, done, err := newHTTPGroup(ctx, o, max(o.pool, int(durableRate*(o.durable+o.warm+time.Second).Seconds())))
	if err != nil {
		d.close()
		return nil, nil, err
	}
	g := &durableGroup{httpGroup: h, database: d}
	client := fmt.Sprintf("; wrk, %d connections", wrkConnections)
	var sides []side
	for _, b := range backends { // each beside its floor
		sides = append(sides, side{
			name: acceptedName(b), own: true,
			run: func(ctx context.Context, r *round) (figure, error) { return g.accepted(ctx, r, b) },
			does: fmt.Sprintf("every request a new buyer who gets a unit; answered when it is on the disk. The figure is "+
				"orders stored after %s, divided by that time%s", o.durable, client),
		})
		if !b.postgres {
			continue
		}
		sides = append(sides, side{
			name: bareAcceptedName(b),
			run:  func(ctx context.Context, r *round) (figure, error) { return g.stored(ctx, r, b, order) },
			does: fmt.Sprintf("a constant, when the request is on the disk; a row of an order is stored for each, and "+
				"nothing decided. The figure is rows stored after %s, divided by that time%s", o.durable, client),
		})
	}
	return sides, func() {
		done()
		d.close()
	}, nil
}

func (g *durableGroup) accepted(ctx context.Context, r *round, b backend) (figure, error) {
	k, err := b.open(ctx, r, g.pool.secret, g.database)
	if err != nil {
		return figure{}, err
	}
	defer k.close()
	p, err := k.start(ctx, manyUnits)
	if err != nil {
		return figure{}, err
	}
	defer p.stop()
	warm := int(durableRate * (r.warm + time.Second).Seconds())
	first, _, err := g.rush(ctx, p, 0, warm, r.warm)
	if err == nil {
		err = p.awaitStored(ctx)
	}
	if err != nil {
		return figure{}, err
	}
	before, err := p.sale(ctx)
	if err != nil {
		return figure{}, err
	}
	meter := startMeter(p.pids())
	got, c, err := g.rush(ctx, p, warm, g.pool.size-warm, r.durable)
	if err != nil {
		return figure{}, err
	}
	if got.Not2xx3xx != 0 || c.accepted < got.Requests {
		return figure{}, fmt.Errorf("of %d answers, %d were refusals; the server accepted %d", got.Requests, got.Not2xx3xx,
			c.accepted)
	}
	if got.Requests > int64(g.pool.size-warm) {
		return figure{}, fmt.Errorf("%d orders, but only %d are prepared: raise --pool", got.Requests, g.pool.size-warm)
	}
	f := got.figure()
	start := time.Now()
	if err := p.awaitStored(ctx); err != nil {
		return figure{}, err
	}
	meter.stop(f.also, c.accepted)
	stored := min(got.atEnd.StoredTaken-before.StoredTaken, got.Requests)
	f.perSecond = float64(stored) / (float64(got.DurationUS) / 1e6)
	f.also["answered_per_s"] = got.perSecond()
	f.also["rest_stored_after_s"] = time.Since(start).Seconds()
	f.also["claims_per_call"] = float64(c.decided) / float64(max(c.calls, 1))
	all := first.Requests + got.Requests
	if err := p.audit(ctx, all, all+2*underWay); err != nil {
		return f, err
	}
	p.stop() // it leaves nothing in its logs
	bytes, err := k.bytes(ctx)
	f.also["disk_B_per_order"] = float64(bytes) / float64(all)
	return f, err
}

// stored is accepted for a bare handler that stores.
func (g *durableGroup) stored(ctx context.Context, r *round, b backend, answer *constant) (figure, error) {
	k, err := b.open(ctx, r, g.pool.secret, g.database)
	if err != nil {
		return figure{}, err
	}
	defer k.close()
	p, err := k.startBareStore(ctx, answer)
	if err != nil {
		return figure{}, err
	}
	defer p.stop()
	first, err := g.pool.run(ctx, p.URL+ordersPath, 0, g.warmShare(), r.warm)
	if err == nil {
		err = k.awaitRows(ctx, first.Requests)
	}
	if err != nil {
		return figure{}, err
	}
	meter := startMeter(p.pids())
	got, err := g.pool.run(ctx, p.URL+ordersPath, g.warmShare(), g.pool.size-g.warmShare(), r.durable)
	if err != nil {
		return figure{}, err
	}
	rows, err := k.rows(ctx)
	if err == nil {
		err = k.awaitRows(ctx, first.Requests+got.Requests)
	}
	if err != nil {
		return figure{}, err
	}
	f := got.figure()
	meter.stop(f.also, got.Requests)
	f.also["answered_per_s"] = got.perSecond()
	f.perSecond = float64(min(rows-first.Requests, got.Requests)) / (float64(got.DurationUS) / 1e6)
	return f, nil
}
