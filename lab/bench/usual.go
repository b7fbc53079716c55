package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/sluicehq/sluice/lab/internal/method"
)

// The usual way: source S2's script, one EVALSHA per request.

const (
	usualConnections = 50
	usualDepth       = 64 // of the pipelined side: requests under way on a connection
	usualStock       = 1_000_000_000

	voucher   = "10086"
	stockKey  = "seckill:stock:" + voucher
	buyersKey = "seckill:order:" + voucher
	streamKey = "stream.order"
)

func eachName(fsync string, repeats int) string {
	return "S2 script per request" + suffix(fsync, repeats)
}

func pipelinedName(fsync string, repeats int) string {
	return "S2 script pipelined" + suffix(fsync, repeats)
}

// someRepeats is the percentage of claims that repeat the one before, as a client does
// that has lost the answer. On both sides the repeat is answered as such.
const someRepeats = 5

// repeats says whether a worker's n-th claim repeats the one before.
func repeats(percent, n int) bool { return percent > 0 && n%(100/percent) == 100/percent-1 }

func suffix(fsync string, repeats int) (text string) {
	if repeats > 0 {
		text = fmt.Sprintf(", %d%% repeats", repeats)
	}
	if fsync == "no" {
		return text + ", no fsync"
	}
	return text + ", fsync " + fsync
}

func usualSides(fsync string, repeats int) []side {
	return []side{
		{
			name: eachName(fsync, repeats),
			does: fmt.Sprintf("S2's script, one EVALSHA per request, %d connections, each waits for its answer",
				usualConnections),
			run: func(ctx context.Context, r *round) (figure, error) { return r.usual(ctx, fsync, 1, repeats) },
		},
		{
			name: pipelinedName(fsync, repeats),
			does: fmt.Sprintf("the same, %d connections with %d requests under way on each", usualConnections, usualDepth),
			run:  func(ctx context.Context, r *round) (figure, error) { return r.usual(ctx, fsync, usualDepth, repeats) },
		},
	}
}

// usual measures the script on a Redis of its own.
func (r *round) usual(ctx context.Context, fsync string, depth, repeats int) (figure, error) {
	server, err := startRedis(r.dir, fsync)
	if err != nil {
		return figure{}, err
	}
	defer server.Close()
	control, err := dialRedis(server.Addr())
	if err != nil {
		return figure{}, err
	}
	defer control.close()
	sha, err := loadUsual(control, usualStock)
	if err != nil {
		return figure{}, err
	}
	workers := make([]work, usualConnections)
	var repeated atomic.Int64
	for i := range workers {
		conn, err := dialRedis(server.Addr())
		if err != nil {
			return figure{}, err
		}
		defer conn.close()
		workers[i] = usualWorker(conn, sha, r.crowd, i, depth, repeats, &repeated)
	}
	f, total, err := r.drive(ctx, workers, map[string]int{"client": os.Getpid(), "redis": server.Pid()})
	if err != nil {
		return f, err
	}
	return f, checkUsual(control, total-repeated.Load())
}

// loadUsual sets the stock and loads the script.
func loadUsual(c *redisConn, stock int64) (sha string, err error) {
	if _, err := c.call("SET", stockKey, strconv.FormatInt(stock, 10)); err != nil {
		return "", err
	}
	return c.call("SCRIPT", "LOAD", method.StreamScript)
}

// usualWorker sends depth requests at once and reads their answers. The i-th
// connection has every usualConnections-th buyer.
func usualWorker(
	c *redisConn, sha string, buyers crowd, i, depth, percent int, repeated *atomic.Int64,
) work {
	n, sent := int64(i), 0
	id := make([]byte, 0, 64)
	return func() (int, error) {
		for at := range depth {
			if repeats(percent, sent+at) {
				n -= usualConnections
			}
			c.open(9)
			for _, arg := range [...]string{"EVALSHA", sha, "3", stockKey, buyersKey, streamKey, voucher} {
				c.out = appendBulk(c.out, arg)
			}
			id = buyers.appendBuyer(id[:0], n)
			c.out = appendBulk(c.out, id)
			id = usualOrderID(id[:0], n)
			c.out = appendBulk(c.out, id)
			n += usualConnections
		}
		if err := c.send(); err != nil {
			return 0, err
		}
		for range depth {
			code, err := c.number()
			if err != nil {
				return 0, err
			}
			want := int64(0)
			if repeats(percent, sent) {
				want = 2
				repeated.Add(1)
			}
			if sent++; code != want {
				return 0, fmt.Errorf("the script answered %d, want %d (0: accepted, 2: a repeat)", code, want)
			}
		}
		return depth, nil
	}
}

// checkUsual compares what was accepted with what Redis has.
func checkUsual(c *redisConn, accepted int64) error {
	stock, err := c.count("GET", stockKey)
	if err != nil {
		return err
	}
	buyers, err := c.count("SCARD", buyersKey)
	if err != nil {
		return err
	}
	orders, err := c.count("XLEN", streamKey)
	if err != nil {
		return err
	}
	if usualStock-stock != accepted || buyers != accepted || orders != accepted {
		return fmt.Errorf("accepted %d, but %d units are gone, with %d buyers and %d orders", accepted, usualStock-stock,
			buyers, orders)
	}
	return nil
}
