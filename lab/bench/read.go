package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// Reading: wrk asks for a sale, over and over. The bare servers answer each
// request with a constant, the very bytes that Sluice gave before.

const (
	readName      = "a sale, read"
	unchangedName = "a sale, read again with its ETag"
	limitedName   = "handler with timeouts, constant 200"
	limitedSame   = "handler with timeouts, constant 304"

	salePath = "/v1/sales/" + shopSale
)

//go:embed get.lua
var getScript []byte

// readGroup is what the rounds of readers share.
type readGroup struct {
	script string // file
}

func openReadGroup(ctx context.Context, o *options) ([]side, func(), error) {
	dir, err := os.MkdirTemp(o.dir, "read-")
	if err != nil {
		return nil, nil, err
	}
	done := func() { os.RemoveAll(dir) }
	g := &readGroup{script: filepath.Join(dir, "get.lua")}
	if err := os.WriteFile(g.script, getScript, 0o600); err != nil {
		return nil, done, err
	}
	p, err := (&round{dir: dir}).start(ctx, poolSecret, soldOutUnits)
	if err != nil {
		return nil, done, err
	}
	defer p.stop()
	full, err := sampleGet(ctx, p.URL+salePath, "")
	if err != nil {
		return nil, done, err
	}
	same, err := sampleGet(ctx, p.URL+salePath, full.Header.Get("ETag"))
	if err != nil {
		return nil, done, err
	}
	if full.Status != http.StatusOK || same.Status != http.StatusNotModified || full.Header.Get("ETag") == "" {
		return nil, done, fmt.Errorf("a sale was answered %d, and again with its ETag %d", full.Status, same.Status)
	}
	client := fmt.Sprintf("; wrk, %d connections", wrkConnections)
	return []side{
		{
			name: limitedName, begin: g.bare(full),
			does: "net/http with Sluice's timeouts, the answer of GET /v1/sales/{sale} as a constant" + client,
		},
		{
			name: readName, own: true, begin: g.read(false),
			does: "GET /v1/sales/{sale}, an open sale without buyers" + client,
		},
		{
			name: limitedSame, begin: g.bare(same),
			does: "net/http with Sluice's timeouts, the 304 to the same with If-None-Match as a constant" + client,
		},
		{name: unchangedName, own: true, does: "GET /v1/sales/{sale} with If-None-Match: 304" + client, begin: g.read(true)},
	}, done, nil
}

// sampleGet returns an answer as a constant.
func sampleGet(ctx context.Context, url, etag string) (*constant, error) {
	header := http.Header{}
	if etag != "" {
		header.Set("If-None-Match", etag)
	}
	return ask(ctx, http.MethodGet, url, header, "")
}

// begin warms a server up. Its readers must get want in the end.
func (g *readGroup) begin(ctx context.Context, r *round, p *process, etag string, want int) (*running, error) {
	if _, err := runWrk(ctx, g.script, p.URL+salePath, r.settling(), etag); err != nil {
		p.stop()
		return nil, err
	}
	measure := func(ctx context.Context, _ int) (figure, error) {
		meter := startMeter(p.pids())
		got, err := runWrk(ctx, g.script, p.URL+salePath, r.long, etag)
		if err != nil {
			return figure{}, err
		}
		f := got.figure()
		meter.stop(f.also, got.Requests)
		if got.Not2xx3xx != 0 {
			return figure{}, fmt.Errorf("%d of %d answers were refusals", got.Not2xx3xx, got.Requests)
		}
		return f, nil
	}
	check := func(ctx context.Context) error {
		after, err := sampleGet(ctx, p.URL+salePath, etag)
		if err == nil && after.Status != want {
			err = fmt.Errorf("the answer was %d in the end, want %d", after.Status, want)
		}
		return err
	}
	return &running{measure, check, p.stop}, nil
}

func (g *readGroup) bare(c *constant) func(context.Context, *round) (*running, error) {
	return func(ctx context.Context, r *round) (*running, error) {
		p, err := startServer(ctx, serveConfig{Constant: c})
		if err != nil {
			return nil, err
		}
		return g.begin(ctx, r, p, c.Header.Get("ETag"), c.Status)
	}
}

// read measures Sluice; again: with the ETag of the sale, for a 304.
func (g *readGroup) read(again bool) func(context.Context, *round) (*running, error) {
	return func(ctx context.Context, r *round) (*running, error) {
		p, err := r.start(ctx, poolSecret, soldOutUnits)
		if err != nil {
			return nil, err
		}
		now, err := sampleGet(ctx, p.URL+salePath, "")
		if err != nil {
			p.stop()
			return nil, err
		}
		if again {
			return g.begin(ctx, r, p, now.Header.Get("ETag"), http.StatusNotModified)
		}
		return g.begin(ctx, r, p, `"of another sale"`, http.StatusOK)
	}
}
