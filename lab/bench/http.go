package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/sluicehq/sluice/lab/internal/crowd"
)

// Over HTTP: wrk sends orders to a server in a process of its own. The bare
// servers answer each with a constant, the very one that Sluice gave before, after they did
// what any server must.

const (
	rememberingName = "handler with timeouts that decodes the body and knows the token, constant 409"
	verifyingName   = "the same that verifies each token, constant 409"
	soldOutName     = "sold out over HTTP, buyers come again"
	firstVisitName  = "sold out over HTTP, every buyer new"

	soldOutUnits = 1000
	// crowdAgain is how many buyers of a sold-out sale press the button over
	// and over.
	crowdAgain = 20_000
	manyUnits  = 1_000_000_000
)

// httpGroup is what the rounds of the HTTP sides share.
type httpGroup struct {
	pool    *pool
	crowd   crowd.Crowd
	fastest float64 // the last figure of a bare handler
}

// newHTTPGroup prepares requests, and the answers to an order refused and an order
// accepted.
func newHTTPGroup(ctx context.Context, o *options, requests int) (
	g *httpGroup, refusal, order *constant, done func(), err error,
) {
	dir, err := os.MkdirTemp(o.dir, "wrk-")
	if err != nil {
		return nil, nil, nil, nil, err
	}
	done = func() { os.RemoveAll(dir) }
	g = &httpGroup{crowd: crowd.New(o.seed)}
	if g.pool, err = newPool(ctx, dir, g.crowd, requests); err == nil {
		refusal, order, err = sampleOrders(ctx, dir, g.crowd)
	}
	if err != nil {
		done()
		return nil, nil, nil, nil, err
	}
	return g, refusal, order, done, nil
}

func openHTTPGroup(ctx context.Context, o *options) ([]side, func(), error) {
	g, refusal, _, done, err := newHTTPGroup(ctx, o, o.pool)
	if err != nil {
		return nil, nil, err
	}
	client := fmt.Sprintf("; wrk, %d connections", wrkConnections)
	verifying := serveConfig{Constant: refusal, Verifies: true, BuyerSecret: g.pool.secret}
	remembering := verifying
	remembering.Remembers = true
	return []side{
		{
			name: rememberingName, begin: g.bare(remembering),
			does: "net/http, what any server does before it refuses a buyer whose token it has verified before" + client,
		},
		{
			name: verifyingName, begin: g.bare(verifying),
			does: "with the HMAC of the token, as for a new buyer" + client,
		},
		{
			name: soldOutName, own: true, begin: g.soldOut(crowdAgain, nil),
			does: fmt.Sprintf("a sale sold out, %d buyers press the button over and over%s", crowdAgain, client),
		},
		{
			name: firstVisitName, own: true, begin: g.soldOut(0, nil),
			does: "a sale sold out, every request from a buyer whose token the server has not seen" + client,
		},
	}, done, nil
}

// start starts an embedded server with the sale of the benchmark.
func (r *round) start(ctx context.Context, secret string, total int64) (*process, error) {
	k, err := embedded.open(ctx, r, secret, nil)
	if err != nil {
		return nil, err
	}
	return k.start(ctx, total)
}

// sampleOrders returns Sluice's answers to an order refused and an order accepted.
func sampleOrders(ctx context.Context, dir string, buyers crowd.Crowd) (refusal, order *constant, err error) {
	r := &round{dir: dir}
	p, err := r.start(ctx, poolSecret, 1)
	if err != nil {
		return nil, nil, err
	}
	defer p.stop()
	if order, err = p.order(ctx, poolSecret, buyers, 0); err != nil {
		return nil, nil, err
	}
	if refusal, err = p.order(ctx, poolSecret, buyers, 1); err != nil {
		return nil, nil, err
	}
	if order.Status != http.StatusAccepted || refusal.Status != http.StatusConflict {
		return nil, nil, fmt.Errorf("two buyers of one unit were answered %d and %d", order.Status, refusal.Status)
	}
	return refusal, order, nil
}

// warmShare is one part of the pool: the first is for warming up, each other one for a turn.
func (g *httpGroup) warmShare() int { return g.pool.size / (turnsOfRound + 1) }

// bare measures a handler that returns a constant refusal.
func (g *httpGroup) bare(c serveConfig) func(context.Context, *round) (*running, error) {
	return func(ctx context.Context, r *round) (*running, error) {
		p, err := startServer(ctx, c)
		if err != nil {
			return nil, err
		}
		send := func(turn int, long time.Duration) (*rush, error) {
			from, count := (turn+1)*g.warmShare(), g.warmShare()
			if c.Remembers { // as soldOut does
				from, count = 0, min(crowdAgain, count)
			}
			return g.pool.run(ctx, p.URL+ordersPath, from, count, long)
		}
		if _, err := send(-1, r.settling()); err != nil {
			p.stop()
			return nil, err
		}
		measure := func(_ context.Context, turn int) (figure, error) {
			meter := startMeter(p.pids())
			got, err := send(turn, r.long)
			if err != nil {
				return figure{}, err
			}
			g.fastest = got.perSecond()
			if got.Not2xx3xx != got.Requests {
				return figure{}, fmt.Errorf("%d of %d answers were refusals, want all", got.Not2xx3xx, got.Requests)
			}
			f := got.figure()
			meter.stop(f.also, got.Requests)
			return f, nil
		}
		return &running{measure, func(context.Context) error { return nil }, p.stop}, nil
	}
}

func (r *rush) figure() figure {
	return figure{perSecond: r.perSecond(), also: map[string]float64{
		"p50_ms": float64(r.P50US) / 1000, "p99_ms": float64(r.P99US) / 1000,
	}}
}

// underWay bounds the requests that a server decides after wrk has gone, of a
// run and of the one before it.
const underWay = 2 * wrkConnections

// rush sends requests to Sluice and returns what wrk and the server counted.
func (g *httpGroup) rush(ctx context.Context, p *process, from, count int, long time.Duration) (*rush, counts, error) {
	before, err := p.counts(ctx)
	if err != nil {
		return nil, counts{}, err
	}
	got, err := g.pool.run(ctx, p.URL+ordersPath, from, count, long)
	if err != nil {
		return nil, counts{}, err
	}
	if got.atEnd, err = p.sale(ctx); err != nil {
		return nil, counts{}, err
	}
	c, err := p.counts(ctx)
	if err != nil {
		return nil, counts{}, err
	}
	c.accepted -= before.accepted
	c.soldOut -= before.soldOut
	c.claims -= before.claims
	c.decided -= before.decided
	c.calls -= before.calls
	if c.claims < got.Requests || c.claims > got.Requests+underWay {
		return got, c, fmt.Errorf("wrk had %d answers, the server gave %d", got.Requests, c.claims)
	}
	return got, c, nil
}

// soldOut measures refusals. Again is how many buyers come over and over; 0:
// no buyer comes twice. Beside, if it is not nil, begins what goes on meanwhile.
func (g *httpGroup) soldOut(again int, beside func(context.Context, *process) (end func() error, err error)) func(
	context.Context, *round) (*running, error,
) {
	return func(ctx context.Context, r *round) (_ *running, err error) {
		p, err := r.start(ctx, g.pool.secret, soldOutUnits)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				p.stop()
			}
		}()
		others := int64(g.pool.size) // buyers who are not in the pool
		if err := p.sell(ctx, g.pool.secret, g.crowd, others, soldOutUnits); err != nil {
			return nil, err
		}
		if err := p.awaitRefusals(ctx, g.pool.secret, g.crowd, others+soldOutUnits); err != nil {
			return nil, err
		}
		count := g.warmShare()
		if again > 0 {
			count = min(again, count)
		}
		if _, _, err := g.rush(ctx, p, 0, count, r.settling()); err != nil {
			return nil, err
		}
		measure := func(ctx context.Context, turn int) (figure, error) {
			from, long := 0, r.long
			if again == 0 { // no request of the measured part is sent twice
				from = (turn + 1) * count
				enough := time.Duration(float64(count) / g.fastest * float64(time.Second)).Truncate(time.Second)
				long = max(min(long, enough), time.Second)
			}
			end := func() error { return nil }
			if beside != nil {
				if end, err = beside(ctx, p); err != nil {
					return figure{}, err
				}
			}
			f, sent, err := g.refused(ctx, p, from, count, long)
			err = errors.Join(err, end())
			if err == nil && again == 0 && sent > int64(count) {
				err = fmt.Errorf("%d requests in a turn, but only %d are prepared: raise --pool", sent, count)
			}
			return f, err
		}
		check := func(ctx context.Context) error { return p.audit(ctx, soldOutUnits, soldOutUnits) }
		return &running{measure, check, p.stop}, nil
	}
}

// refused measures one turn of refusals, and returns how many there were.
func (g *httpGroup) refused(ctx context.Context, p *process, from, count int, long time.Duration,
) (f figure, sent int64, err error) {
	meter := startMeter(p.pids())
	got, c, err := g.rush(ctx, p, from, count, long)
	if err != nil {
		return f, 0, err
	}
	f = got.figure()
	meter.stop(f.also, got.Requests)
	if got.Not2xx3xx != got.Requests || c.soldOut != c.claims {
		return f, 0, fmt.Errorf("of %d answers, %d were refusals and %d were sold_out", got.Requests, got.Not2xx3xx,
			c.soldOut)
	}
	f.also["asked_the_ledger_%"] = 100 * float64(c.decided) / float64(c.claims)
	return f, got.Requests, nil
}
