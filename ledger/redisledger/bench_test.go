package redisledger_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// The benchmarks compare accepted claims a second, in one run on one machine,
// on a Redis of their own with and without fsync:
//
//	Claim       this ledger: batches of distinct buyers, 2 calls in flight
//	Known       the same, where some claims repeat others, or are further ones of
//	            buyers who have some
//	PerRequest  the usual script (stock, set of buyers, stream), one EVALSHA a
//	            request, 50 connections
//	Pipelined   the same, 64 requests deep on each connection
//	Release     this ledger: accepted claims that end, 2 calls in flight
//
// Redis's append-only file is not rewritten meanwhile, on neither side. Goals,
// with batches of 250 and more: Claim is at least 4 times PerRequest and 1.4
// times Pipelined, and Release not slower than Claim.

var fsyncs = []struct{ name, setting string }{{"fsync=no", "no"}, {"fsync=always", "always"}}

func BenchmarkClaim(b *testing.B) {
	for _, fsync := range fsyncs {
		for _, size := range []int{1, 64, 250, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", fsync.name, size), func(b *testing.B) {
				server := servertest.StartRedis(b, "--appendfsync", fsync.setting, "--auto-aof-rewrite-percentage", "0")
				l := open(b, server.URL(), redisledger.Options{Node: "bench"})
				loadOpen(b, l, "bench", sluice.Terms{Version: 1, Total: 1 << 40, MaxPerBuyer: 1, MaxOrders: 10})
				benchClaims(b, l, size)
			})
		}
	}
}

func BenchmarkKnown(b *testing.B) {
	for name, of := range map[string]func(n int64) sluice.Claim{
		"fresh": benchClaim,
		"repeats of 20": func(n int64) sluice.Claim { // every twentieth repeats one of 10,000 before
			if n%20 == 0 && n > 20_000 {
				n -= 10_001
			}
			return benchClaim(n)
		},
		"known of 4": func(n int64) sluice.Claim { // every fourth is a further claim of a buyer of 10,000 before
			c := benchClaim(n)
			if n%4 == 0 && n > 20_000 {
				c.Buyer = benchClaim(n - 10_001).Buyer
			}
			return c
		},
	} {
		b.Run(name, func(b *testing.B) {
			server := servertest.StartRedis(b, "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
			l := open(b, server.URL(), redisledger.Options{Node: "bench"})
			loadOpen(b, l, "bench", sluice.Terms{Version: 1, Total: 1 << 40, MaxPerBuyer: 100, MaxOrders: 100})
			benchClaimsOf(b, l, 250, of)
		})
	}
}

// benchClaims keeps two batches in flight, as the batcher does.
func benchClaims(b *testing.B, l *redisledger.Ledger, size int) {
	benchClaimsOf(b, l, size, benchClaim)
}

func benchClaimsOf(b *testing.B, l *redisledger.Ledger, size int, of func(n int64) sluice.Claim) {
	var next atomic.Int64
	spend(b, "accepted/s", 2, size, func(n int) error {
		claims := make([]sluice.Claim, n)
		for i := range claims {
			claims[i] = of(next.Add(1))
		}
		decisions, err := l.Claim(b.Context(), "bench", claims)
		if err != nil {
			return err
		}
		for i := range decisions {
			if decisions[i].Code != sluice.Accepted {
				return fmt.Errorf("claim %d: %s", i, decisions[i].Code)
			}
		}
		return nil
	})
}

func BenchmarkRelease(b *testing.B) {
	for _, fsync := range fsyncs {
		for limits, limit := range map[string]int64{"limits": 10, "no-limits": sluice.Unlimited} {
			for _, size := range []int{1, 250, 500} {
				b.Run(fmt.Sprintf("%s/%s/batch=%d", fsync.name, limits, size), func(b *testing.B) {
					server := servertest.StartRedis(b, "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
					l := open(b, server.URL(), redisledger.Options{Node: "bench"})
					loadOpen(b, l, "bench", sluice.Terms{Version: 1, Total: 1 << 40, MaxPerBuyer: limit, MaxOrders: limit})
					claims := make([]sluice.Claim, b.N)
					for i := range claims {
						claims[i] = benchClaim(int64(i))
					}
					for part := range slices.Chunk(claims, 1000) {
						claim(b, l, "bench", part...)
					}
					command(b, newClient(b, server.URL()), "CONFIG", "SET", "appendfsync", fsync.setting)
					benchReleases(b, l, releasesOf("bench", 1, claims...), size)
				})
			}
		}
	}
}

func benchReleases(b *testing.B, l *redisledger.Ledger, releases []port.Release, size int) {
	var next atomic.Int64
	spend(b, "released/s", 2, size, func(n int) error {
		to := next.Add(int64(n))
		got, err := l.Release(b.Context(), "bench", releases[to-int64(n):to])
		if err == nil && got.Applied != n {
			err = fmt.Errorf("%+v for %d releases", got, n)
		}
		return err
	})
}

func benchClaim(n int64) sluice.Claim {
	id := fmt.Sprintf("%032x", n)
	return sluice.Claim{
		Buyer: sluice.BuyerID("user-" + strconv.FormatInt(n, 10)), Key: sluice.Key(id), Quantity: 1,
		Order: sluice.SaleID("bench").Order(id),
	}
}

// usualScript is the script of the source documents: stock, set of buyers and
// stream, one request a call.
const usualScript = `
if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 1 end
if redis.call('SISMEMBER', KEYS[2], ARGV[2]) == 1 then return 2 end
redis.call('DECR', KEYS[1])
redis.call('SADD', KEYS[2], ARGV[2])
redis.call('XADD', KEYS[3], '*', 'voucherId', ARGV[1], 'userId', ARGV[2], 'id', ARGV[3])
return 0`

func BenchmarkPerRequest(b *testing.B) { benchUsual(b, 50, 1) }

func BenchmarkPipelined(b *testing.B) { benchUsual(b, 50, 64) }

func benchUsual(b *testing.B, connections, depth int) {
	for _, fsync := range fsyncs {
		b.Run(fsync.name, func(b *testing.B) {
			server := servertest.StartRedis(b, "--appendfsync", fsync.setting, "--auto-aof-rewrite-percentage", "0")
			client := newClient(b, server.URL())
			ctx := context.Background()
			must.Succeed(b, client.Do(ctx, client.B().Set().Key("stock").Value(strconv.Itoa(1<<40)).Build()).Error())
			sha := must.Get(client.Do(ctx, client.B().ScriptLoad().Script(usualScript).Build()).ToString())(b)
			wires := make(chan rueidis.DedicatedClient, connections)
			for range connections {
				wire, cancel := client.Dedicate()
				b.Cleanup(cancel)
				must.Succeed(b, wire.Do(ctx, wire.B().Ping().Build()).Error())
				wires <- wire
			}
			var next atomic.Int64
			spend(b, "accepted/s", connections, depth, func(n int) error {
				wire := <-wires
				defer func() { wires <- wire }()
				commands := make([]rueidis.Completed, n)
				for i := range commands {
					user := next.Add(1)
					commands[i] = wire.B().Evalsha().Sha1(sha).Numkeys(3).Key("stock", "users", "orders").
						Arg("1", "user-"+strconv.FormatInt(user, 10), strconv.FormatInt(2024110500000000+user, 10)).Build()
				}
				for _, result := range wire.DoMulti(ctx, commands...) {
					if code, err := result.AsInt64(); err != nil || code != 0 {
						return fmt.Errorf("code %d: %w", code, err)
					}
				}
				return nil
			})
		})
	}
}

// spend calls work from several goroutines, in portions of size, until b.N
// units are done, and reports units a second under this name.
func spend(b *testing.B, name string, goroutines, size int, work func(n int) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	start := time.Now()
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for {
				n := int64(size)
				if after := left.Add(-n); after < 0 {
					n += after
				}
				if n <= 0 {
					return
				}
				if err := work(int(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), name)
}
