package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/lab/internal/machine"
	"github.com/sluicehq/sluice/lab/internal/method"
)

// stage has the servers that methods sell on: one PostgreSQL for all, and for each
// turn its own Redis and a new schema.
type stage struct {
	dir      string
	postgres *servertest.PostgresServer
	master   int // the process of which all connections' are children
	turns    int
}

func newStage(ctx context.Context, dir string) (*stage, error) {
	s := &stage{dir: dir}
	var err error
	if s.postgres, err = servertest.NewPostgres(dir); err != nil {
		return nil, err
	}
	err = s.query(ctx, func(conn *pgx.Conn) error {
		var pid int
		err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		s.master = machine.Parent(pid)
		return err
	})
	return s, err
}

func (s *stage) close() { _ = s.postgres.Close() }

func (s *stage) query(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.postgres.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

// turn is one method with its servers.
type turn struct {
	*stage
	on     method.Servers
	redis  []*servertest.RedisServer
	seller method.Seller
	drop   func()
}

// open starts what the method needs, and a seller: no Redis waits for the disk, unless
// the method wants that.
func (s *stage) open(ctx context.Context, m method.Method) (*turn, error) {
	fsync := "no"
	if m.Fsync {
		fsync = "always"
	}
	t, err := s.servers(ctx, m, fsync)
	if err != nil {
		return nil, err
	}
	if t.seller, err = m.Open(ctx, t.on); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// servers starts the servers that the method needs, each Redis with this appendfsync.
func (s *stage) servers(ctx context.Context, m method.Method, fsync string) (t *turn, err error) {
	s.turns++
	schema := "turn" + strconv.Itoa(s.turns)
	dir, err := os.MkdirTemp(s.dir, "turn-")
	if err != nil {
		return nil, err
	}
	t = &turn{stage: s}
	t.drop = func() {
		_ = s.query(context.WithoutCancel(ctx), func(conn *pgx.Conn) error {
			_, err := conn.Exec(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
			return err
		})
		_ = os.RemoveAll(dir)
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	err = s.query(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE SCHEMA "+schema)
		return err
	})
	if err != nil {
		return t, err
	}
	u, err := url.Parse(s.postgres.URL())
	if err != nil {
		return t, err
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	t.on = method.Servers{Dir: filepath.Join(dir, "data"), Database: u.String()}
	for i, does := range m.Redis {
		args := []string{"--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0", "--repl-diskless-sync-delay", "0"}
		if strings.HasPrefix(does, "replica") {
			args = append(args, "--replicaof", strings.Replace(t.on.Redis[i-1], ":", " ", 1))
		}
		r, err := servertest.NewRedis(dir, args...)
		if err != nil {
			return t, err
		}
		t.redis, t.on.Redis = append(t.redis, r), append(t.on.Redis, r.Addr())
	}
	return t, nil
}

func (t *turn) close() {
	if t.seller != nil {
		t.seller.Close()
	}
	for _, r := range t.redis {
		_ = r.Close()
	}
	t.drop()
}

// names are buyers' ids as shops number their users, in an order of the seed's.
func names(n int, seed uint64) []string {
	all := make([]string, n)
	for i, p := range rand.New(rand.NewPCG(seed, 0)).Perm(n) {
		all[i] = fmt.Sprintf("user-%010d", p)
	}
	return all
}

// measure has one method sell to a crowd: from the first question until the last
// order is in the database.
func (s *stage) measure(
	ctx context.Context, m method.Method, crowd rush, buyers []string, callers int,
) (figure, error) {
	t, err := s.open(ctx, m)
	if err != nil {
		return figure{}, err
	}
	defer t.close()
	if err := t.seller.WarmUp(ctx, crowd.Units); err != nil {
		return figure{}, err
	}
	for _, buyer := range buyers {
		if err := t.seller.Expect(buyer); err != nil {
			return figure{}, err
		}
	}
	working, stop := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() { _ = t.seller.Work(working) })
	defer worker.Wait()
	defer stop()

	runtime.GC() // what earlier turns left is not this one's
	before, err := t.use()
	if err != nil {
		return figure{}, err
	}
	start := time.Now()
	answers, times, err := ask(ctx, t.seller, buyers, callers)
	if err != nil {
		return figure{}, err
	}
	took := time.Since(start)
	accepted := answers[method.Accepted]
	stored, err := await(ctx, t.seller, accepted)
	if err != nil {
		return figure{}, err
	}
	drained := time.Since(start) - took
	after, err := t.use()
	if err != nil {
		return figure{}, err
	}
	f := newFigure(len(buyers), took, times, after.minus(before))
	f["accepted"], f["busy"] = float64(accepted), float64(answers[method.Busy])
	f["drained_ms"] = float64(drained.Microseconds()) / 1000
	if accepted > crowd.Units || stored != accepted {
		return f, fmt.Errorf("%d units, %d accepted, %d orders stored", crowd.Units, accepted, stored)
	}
	if accepted < crowd.Units && answers[method.Busy] == 0 {
		return f, fmt.Errorf("%d units, and only %d accepted", crowd.Units, accepted)
	}
	return f, nil
}

// ask has all buyers ask once, so many at a time.
func ask(ctx context.Context, s method.Seller, buyers []string, callers int) (
	answers map[method.Answer]int64, times []time.Duration, err error,
) {
	times = make([]time.Duration, len(buyers))
	answers = map[method.Answer]int64{}
	var next atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			own := map[method.Answer]int64{}
			var failed error
			for i := next.Add(1) - 1; i < int64(len(buyers)) && failed == nil; i = next.Add(1) - 1 {
				start := time.Now()
				var answer method.Answer
				answer, failed = s.Buy(ctx, buyers[i], "attempt-"+buyers[i])
				times[i] = time.Since(start)
				own[answer]++
			}
			mu.Lock()
			defer mu.Unlock()
			for answer, n := range own {
				answers[answer] += n
			}
			if err == nil {
				err = failed
			}
		})
	}
	group.Wait()
	slices.Sort(times)
	return answers, times, err
}

// await waits until the database has all orders.
func await(ctx context.Context, s method.Seller, want int64) (stored int64, err error) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if stored, err = s.Stored(ctx); err != nil || stored >= want || time.Now().After(end) {
			return stored, err
		}
	}
}

// use is what was used up to now: processor time of Redis, of the database and of
// this process, and what Redis has done.
type use struct {
	redis, database, own time.Duration
	commands, reads      float64
	bytes                float64
}

func (t *turn) use() (u use, err error) {
	for _, r := range t.redis {
		u.redis += machine.CPUTime(r.Pid())
		lines, err := r.Ask("INFO everything")
		if err != nil {
			return u, err
		}
		for _, line := range lines {
			name, value, _ := strings.Cut(line, ":")
			n, _ := strconv.ParseFloat(value, 64)
			switch {
			case strings.HasPrefix(name, "cmdstat_"):
				calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
				n, _ := strconv.ParseFloat(calls, 64)
				u.commands += n
			case name == "total_reads_processed":
				u.reads += n
			case name == "total_net_input_bytes" || name == "total_net_output_bytes":
				u.bytes += n
			}
		}
	}
	u.database = machine.FamilyCPUTime(t.master)
	u.own = machine.CPUTime(os.Getpid())
	return u, nil
}

func (u use) minus(before use) use {
	return use{
		u.redis - before.redis, u.database - before.database, u.own - before.own,
		u.commands - before.commands, u.reads - before.reads, u.bytes - before.bytes,
	}
}
