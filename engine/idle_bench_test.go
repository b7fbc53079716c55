package engine_test

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// BenchmarkIdle measures what sales cost of which none sells: the share of a
// processor core that the server takes (of an embedded one the database is part of
// it), and that Redis and PostgreSQL take. It needs about a quarter of an hour:
//
//	go test ./engine -run '^$' -bench Idle -benchtime 1x -timeout 1h
func BenchmarkIdle(b *testing.B) {
	if runtime.GOOS != "linux" {
		b.Skip("reads processor time from /proc, which Linux alone has")
	}
	// The first readings of a sale follow each other closely, and some jobs run once
	// a minute.
	const settle, measured = 15 * time.Second, time.Minute
	for _, backend := range []string{"embedded", "servers"} {
		for _, c := range []struct {
			state string
			sales int
		}{{"archived", 10}, {"archived", 1000}, {"archived", 100_000}, {"open", 10}, {"open", 1000}, {"open", 2000}} {
			b.Run(fmt.Sprint(backend, "/", c.state, "/", c.sales), func(b *testing.B) {
				cfg := engine.Config{DataDir: b.TempDir()}
				driver, url, random := "sqlite", filepath.Join(cfg.DataDir, "store.db"), "lower(hex(randomblob(16)))"
				if backend == "servers" {
					cfg.Ledger, cfg.Store = servertest.StartRedis(b).URL(), servertest.Postgres(b)
					driver, url, random = "pgx", cfg.Store, "gen_random_uuid()::text"
				}
				create := c.sales
				if c.state == "archived" {
					create = 1 // and copy it
				}
				e := openIdle(b, cfg)
				var creating errgroup.Group
				creating.SetLimit(16)
				for i := range create {
					creating.Go(func() error {
						_, err := e.Control().Create(context.Background(), prepared(fmt.Sprint("sale-", i), time.Now(), sluice.Rules{}))
						return err
					})
				}
				must.Succeed(b, cmp.Or(creating.Wait(), e.Close(context.Background())))
				if c.state == "archived" {
					archived(b, driver, url, random, c.sales)
				}
				openIdle(b, cfg)
				for range b.N {
					time.Sleep(settle)
					servers, begun, own := serverTime(b), time.Now(), timeOf(b, "/proc/self/stat").spent
					time.Sleep(measured)
					own = timeOf(b, "/proc/self/stat").spent - own
					percent := func(spent time.Duration) float64 { return 100 * float64(spent) / float64(time.Since(begun)) }
					b.ReportMetric(percent(own), "%-of-a-core-sluice")
					for name, spent := range serverTime(b) {
						b.ReportMetric(percent(spent-servers[name]), "%-of-a-core-"+name)
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func openIdle(b *testing.B, cfg engine.Config) *engine.Engine {
	b.Helper()
	e := must.Get(engine.Open(context.Background(), cfg))(b)
	b.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// archived makes n archived sales of the one in the store.
func archived(b *testing.B, driver, url, random string, n int) {
	b.Helper()
	db := must.Get(sql.Open(driver, url))(b)
	defer db.Close()
	db.SetMaxOpenConns(1) // a temporary table is of its connection
	for _, statement := range []string{
		fmt.Sprintf(
			`CREATE TEMPORARY TABLE copies AS WITH RECURSIVE many(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM many WHERE n < %d)
			SELECT sales.* FROM sales, many`, n),
		`UPDATE copies SET id = ` + random + `, archived_at = updated_at`,
		`INSERT INTO sales SELECT * FROM copies`,
		`UPDATE sales SET archived_at = updated_at`,
		`DROP TABLE copies`,
		`VACUUM`,
		`ANALYZE`,
	} {
		if _, err := db.Exec(statement); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
}

// process is what proc(5) says of a process.
type process struct {
	name   string
	parent int
	spent  time.Duration // of a postgres with that of its children that have ended
}

func timeOf(b *testing.B, path string) (p process) {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		return p // it has just ended
	}
	before, after, _ := strings.Cut(string(text), ") ") // "1 (name) S parent ..."
	_, p.name, _ = strings.Cut(before, " (")
	var numbers []int
	for _, field := range strings.Fields(after)[1:15] { // from the 4th field to the 17th
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatalf("%s: %v", path, err)
		}
		numbers = append(numbers, n)
	}
	p.parent = numbers[0]
	times := numbers[10:12]
	if p.name == "postgres" {
		times = numbers[10:14]
	}
	for _, ticks := range times {
		p.spent += time.Duration(ticks) * time.Second / 100 // USER_HZ
	}
	return p
}

// serverTime is the processor time of the servers that this process has started.
func serverTime(b *testing.B) map[string]time.Duration {
	b.Helper()
	paths := must.Get(filepath.Glob("/proc/[0-9]*/stat"))(b)
	all := map[int]process{}
	for _, path := range paths {
		id, _ := strconv.Atoi(strings.Split(path, "/")[2])
		all[id] = timeOf(b, path)
	}
	spent := map[string]time.Duration{}
	for _, p := range all {
		for parent := p.parent; parent > 1; parent = all[parent].parent {
			if parent == os.Getpid() && slices.Contains([]string{"postgres", "redis-server", "valkey-server"}, p.name) {
				spent[p.name] += p.spent
			}
		}
	}
	return spent
}
