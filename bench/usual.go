package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/sluicehq/sluice/internal/method"
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

func eachName(fsync string) string      { return "S2 script per request" + fsyncSuffix(fsync) }
func pipelinedName(fsync string) string { return "S2 script pipelined" + fsyncSuffix(fsync) }

func fsyncSuffix(fsync string) string {
	if fsync == "no" {
		return ", no fsync"
	}
	return ", fsync " + fsync
}

func usualSides(fsync string) []side {
	return []side{
		{
			name: eachName(fsync),
			does: fmt.Sprintf("S2's script, one EVALSHA per request, %d connections, each waits for its answer",
				usualConnections),
			run: func(ctx context.Context, r *round) (figure, error) { return r.usual(ctx, fsync, 1) },
		},
		{
			name: pipelinedName(fsync),
			does: fmt.Sprintf("the same, %d connections with %d requests under way on each", usualConnections, usualDepth),
			run:  func(ctx context.Context, r *round) (figure, error) { return r.usual(ctx, fsync, usualDepth) },
		},
	}
}

// usual measures the script on a Redis of its own.
func (r *round) usual(ctx context.Context, fsync string, depth int) (figure, error) {
	server, err := startRedis(ctx, r.dir, fsync)
	if err != nil {
		return figure{}, err
	}
	defer server.stop()
	control, err := dialRedis(server.addr)
	if err != nil {
		return figure{}, err
	}
	defer control.close()
	sha, err := loadUsual(control, usualStock)
	if err != nil {
		return figure{}, err
	}
	workers := make([]work, usualConnections)
	for i := range workers {
		conn, err := dialRedis(server.addr)
		if err != nil {
			return figure{}, err
		}
		defer conn.close()
		workers[i] = usualWorker(conn, sha, r.crowd, i, depth)
	}
	f, total, err := r.drive(ctx, workers, map[string]int{"client": os.Getpid(), "redis": server.pid})
	if err != nil {
		return f, err
	}
	return f, checkUsual(control, total)
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
func usualWorker(c *redisConn, sha string, buyers crowd, i, depth int) work {
	n := int64(i)
	id := make([]byte, 0, 64)
	return func() (int, error) {
		for range depth {
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
			if code != 0 {
				return 0, fmt.Errorf("the script answered %d, want 0, accepted", code)
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
