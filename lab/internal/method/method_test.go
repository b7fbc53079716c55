package method

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// open starts the servers that a method wants, and a seller on them.
func open[S Seller](t *testing.T, m Method) (S, []*servertest.RedisServer) {
	t.Helper()
	on := Servers{Dir: t.TempDir(), Database: servertest.Postgres(t)}
	var all []*servertest.RedisServer
	for i, does := range m.Redis {
		args := []string{"--appendonly", "no", "--repl-diskless-sync-delay", "0"}
		if strings.HasPrefix(does, "replica") {
			args = append(args, "--replicaof", strings.Replace(all[i-1].Addr(), ":", " ", 1))
		}
		if m.Fsync {
			args = nil
		}
		all = append(all, servertest.StartRedis(t, args...))
		on.Redis = append(on.Redis, all[i].Addr())
	}
	s := must.Get(m.Open(t.Context(), on))(t)
	t.Cleanup(s.Close)
	return s.(S), all
}

// work runs the method's worker until the test ends, or stop is called.
func work(t *testing.T, s Seller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = s.Work(ctx) })
	stop = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// within waits until a state is reached.
func within(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !reached(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// text returns the answer of a Redis as the bytes after each length, one a line.
func text(t *testing.T, redis *servertest.RedisServer, command string) string {
	t.Helper()
	lines, err := redis.Ask(command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "$") || strings.HasPrefix(line, "*")
	})
	return strings.Join(lines, " ")
}

func is(t *testing.T, redis *servertest.RedisServer, command, want string) {
	t.Helper()
	if got := text(t, redis, command); got != want {
		t.Errorf("%s: %q, want %q", command, got, want)
	}
}

// buys has a buyer ask, and compares the answer.
func buys(t *testing.T, s Seller, buyer string, want Answer) {
	t.Helper()
	must.Succeed(t, s.Expect(buyer))
	got, err := s.Buy(t.Context(), buyer, "key-of-"+buyer)
	if err != nil || got != want {
		t.Errorf("%s: %q, %v; want %q", buyer, got, err, want)
	}
}

func warm(t *testing.T, s Seller, units int64) {
	t.Helper()
	must.Succeed(t, s.WarmUp(t.Context(), units))
}

// expect is for the results of a script.
func expect[N comparable](t *testing.T, what string, want N) func(got N, err error) {
	return func(got N, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
}

func stored(t *testing.T, s Seller) int64 {
	t.Helper()
	n := must.Get(s.Stored(t.Context()))(t)
	return n
}

func buyersOf(t *testing.T, s Seller) (all []string) {
	t.Helper()
	orders := must.Get(s.Orders(t.Context()))(t)
	for _, o := range orders {
		all = append(all, o.Buyer)
	}
	return all
}

func exec(t *testing.T, b *base, statement string) {
	t.Helper()
	must.Get(b.db.Exec(t.Context(), statement))(t)
}

// breakDatabase lets no order be stored until mend is called.
func breakDatabase(t *testing.T, b *base) (mend func()) {
	t.Helper()
	exec(t, b, "ALTER TABLE orders RENAME TO gone")
	return func() { exec(t, b, "ALTER TABLE gone RENAME TO orders") }
}

// TestEveryMethodSellsItsUnits: while nothing breaks, each of them sells what there
// is to a crowd of buyers who come once, and has an order for each yes.
func TestEveryMethodSellsItsUnits(t *testing.T) {
	for _, m := range append(Methods, limitMethod) {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			const units, crowd = 20, 300
			s, _ := open[Seller](t, m)
			warm(t, s, units)
			work(t, s)
			answers := map[Answer]int64{}
			var mu sync.Mutex
			var group sync.WaitGroup
			for i := range crowd {
				group.Go(func() {
					buyer := fmt.Sprint("user-", i)
					err := s.Expect(buyer)
					answer := Answer("")
					if err == nil {
						answer, err = s.Buy(t.Context(), buyer, "key-of-"+buyer)
					}
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					answers[answer]++
				})
			}
			group.Wait()
			// Buyers without the lock have left units. An instance that answered too late keeps
			// its lock until the lock's end, and until then everybody is sent away.
			late := 0
			within(t, "sold out", func() bool {
				if answers[SoldOut] > 0 {
					return true
				}
				late++
				buyer := fmt.Sprint("late-", late)
				answer := must.Get(s.Buy(t.Context(), buyer, "key-of-"+buyer))(t)
				answers[answer]++
				return false
			})
			if answers[Accepted] != units || answers[SoldOut] == 0 {
				t.Fatalf("answers: %v, want %d accepted", answers, units)
			}
			if busy := strings.HasPrefix(m.Name, "s1-"); !busy && len(answers) != 2 {
				t.Errorf("answers: %v", slices.Collect(maps.Keys(answers)))
			}
			within(t, "orders are stored", func() bool { return stored(t, s) == units })
		})
	}
}

func TestS0Script(t *testing.T) {
	s, redis := open[*s0](t, s0Method)
	expect(t, "no hash", "0")(s.take(t.Context(), 1))
	warm(t, s, 10)
	is(t, redis[0], "HMGET seckill:goodsStock:10086 totalCount initStatus seckillCount", "10 1 0")
	expect(t, "3 of 10", "3")(s.take(t.Context(), 3))
	expect(t, "8 of 7", "0")(s.take(t.Context(), 8))
	expect(t, "7 of 7", "10")(s.take(t.Context(), 7))
	expect(t, "1 of 0", "0")(s.take(t.Context(), 1))
	is(t, redis[0], "HMGET seckill:goodsStock:10086 totalCount initStatus seckillCount", "10 1 10")
	is(t, redis[0], "KEYS *", "seckill:goodsStock:10086")
}

func TestS0WaitsForItsFlagAndReturnsUnits(t *testing.T) {
	s, redis := open[*s0](t, s0Method)
	buys(t, s, "a", NotOpen)
	warm(t, s, 2)
	buys(t, s, "a", Accepted)
	mend := breakDatabase(t, &s.base)
	if answer, err := s.Buy(t.Context(), "b", ""); err == nil {
		t.Errorf("no database: %s", answer)
	}
	is(t, redis[0], "HGET seckill:goodsStock:10086 seckillCount", "1")
	mend()
	buys(t, s, "b", Accepted)
	buys(t, s, "c", SoldOut)
	if diff := cmp.Diff([]string{"a", "b"}, buyersOf(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestS1Script(t *testing.T) {
	s, redis := open[*s1](t, s1Method)
	if _, err := s.take(t.Context(), 1); err == nil {
		t.Error("no total: want an error")
	}
	mustAsk(t, redis[0], "SCRIPT FLUSH")
	warm(t, s, 10) // orderedNum is missing
	is(t, redis[0], "HGETALL item10086", "total 10")
	mustAsk(t, redis[0], "CONFIG RESETSTAT")
	expect[int64](t, "3 of 10", 3)(s.take(t.Context(), 3))
	expect[int64](t, "8 of 7", 0)(s.take(t.Context(), 8))
	expect[int64](t, "7 of 7", 10)(s.take(t.Context(), 7))
	expect[int64](t, "1 of 0", 0)(s.take(t.Context(), 1))
	is(t, redis[0], "HGETALL item10086", "total 10 orderedNum 10")
	stats := text(t, redis[0], "INFO commandstats")
	if !strings.Contains(stats, "cmdstat_evalsha:calls=4,") || strings.Contains(stats, "cmdstat_eval:") {
		t.Errorf("want 4 times EVALSHA, and never EVAL: %s", stats)
	}
}

func mustAsk(t *testing.T, redis *servertest.RedisServer, command string) {
	t.Helper()
	text(t, redis, command)
}

// TestLosersOfTheLockSendTheStockNothing: lock and stock are on different servers,
// and who does not get the lock does not touch the other.
func TestLosersOfTheLockSendTheStockNothing(t *testing.T) {
	s, redis := open[*locked](t, lockMethod)
	warm(t, s, 10)
	buys(t, s, "winner", Accepted)
	is(t, redis[0], "KEYS *", "item10086")
	is(t, redis[1], "EXISTS product:10086", ":0")
	mustAsk(t, redis[1], "SET product:10086 another")
	mustAsk(t, redis[0], "CONFIG RESETSTAT")
	for i := range 100 {
		buys(t, s, fmt.Sprint("loser", i), Busy)
	}
	for command := range strings.FieldsSeq(text(t, redis[0], "INFO commandstats")) {
		name, isCommand := strings.CutPrefix(command, "cmdstat_")
		if name, _, _ = strings.Cut(name, ":"); isCommand && name != "config|resetstat" && name != "ping" {
			t.Errorf("losers reached the stock: %s", command)
		}
	}
	is(t, redis[0], "HGET item10086 orderedNum", "1")
	if got := text(t, redis[1], "GET product:10086"); got != "another" {
		t.Errorf("a loser took another's lock back: %q", got)
	}
}

func TestLockIsReleasedByItsOwnerAlone(t *testing.T) {
	for _, m := range []Method{lockMethod, redlockMethod} {
		s, redis := open[*locked](t, m)
		until, err := s.lock(t.Context(), "first")
		if err != nil || until.IsZero() {
			t.Fatal(until, err)
		}
		for _, r := range redis[1:] {
			is(t, r, "GET product:10086", "first")
			if ttl := text(t, r, "PTTL product:10086"); ttl <= ":0" || len(ttl) > len(":1500") {
				t.Errorf("the lock ends in %s ms", ttl)
			}
			mustAsk(t, r, "SET product:10086 second") // as if the first one had ended
		}
		if err := s.unlock(t.Context(), "first"); err != nil {
			t.Error(err)
		}
		for _, r := range redis[1:] {
			is(t, r, "GET product:10086", "second")
		}
		if err := s.unlock(t.Context(), "second"); err != nil {
			t.Error(err)
		}
		for _, r := range redis[1:] {
			is(t, r, "EXISTS product:10086", ":0")
		}
	}
}

// TestHolderWhoseLockHasEndedGivesUp: it takes no unit any more.
func TestHolderWhoseLockHasEndedGivesUp(t *testing.T) {
	s, redis := open[*locked](t, lockMethod)
	warm(t, s, 10)
	if answer, err := s.check(t.Context(), time.Now()); err == nil {
		t.Errorf("after its end: %s", answer)
	}
	is(t, redis[0], "HEXISTS item10086 orderedNum", ":0")
}

func TestRedlockNeedsMoreThanHalf(t *testing.T) {
	s, redis := open[*locked](t, redlockMethod)
	warm(t, s, 10)
	mustAsk(t, redis[1], "SET product:10086 another")
	buys(t, s, "a", Accepted) // two of three
	mustAsk(t, redis[2], "SET product:10086 another")
	buys(t, s, "b", Busy)
	is(t, redis[3], "EXISTS product:10086", ":0") // released everywhere
	mustAsk(t, redis[2], "DEL product:10086")
	redis[1].Kill()
	buys(t, s, "c", Accepted) // one of three is down
	is(t, redis[0], "HGET item10086 orderedNum", "2")
}

// TestRedlockReleasesBeyondAHungInstance: the others are free at once.
func TestRedlockReleasesBeyondAHungInstance(t *testing.T) {
	s, redis := open[*locked](t, redlockMethod)
	for _, r := range redis[1:] {
		mustAsk(t, r, "SET product:10086 first")
	}
	redis[1].Freeze()
	defer redis[1].Thaw()
	if err := s.unlock(t.Context(), "first"); err != nil {
		t.Error(err)
	}
	for _, r := range redis[2:] {
		is(t, r, "EXISTS product:10086", ":0")
	}
}

func TestS2Script(t *testing.T) {
	s, redis := open[*s2](t, s2Method)
	if _, err := s.take(t.Context(), "a", "1"); err == nil {
		t.Error("no stock: want an error of the script")
	}
	warm(t, s, 2)
	expect[int64](t, "a", 0)(s.take(t.Context(), "a", "2024110500000001"))
	expect[int64](t, "a again", 2)(s.take(t.Context(), "a", "2024110500000002"))
	expect[int64](t, "b", 0)(s.take(t.Context(), "b", "2024110500000003"))
	expect[int64](t, "c, sold out", 1)(s.take(t.Context(), "c", "2024110500000004"))
	expect[int64](t, "a, sold out comes first", 1)(s.take(t.Context(), "a", "2024110500000005"))
	is(t, redis[0], "GET seckill:stock:10086", "0")
	is(t, redis[0], "SORT seckill:order:10086 ALPHA", "a b")
	messages, err := s.redis[0].Do(t.Context(), s.redis[0].B().Xrange().Key("stream.order").Start("-").End("+").Build()).
		AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	var fields []map[string]string
	for _, m := range messages {
		fields = append(fields, m.FieldValues)
	}
	if diff := cmp.Diff([]map[string]string{
		{"voucherId": "10086", "userId": "a", "id": "2024110500000001"},
		{"voucherId": "10086", "userId": "b", "id": "2024110500000003"},
	}, fields); diff != "" {
		t.Error(diff)
	}
}

// TestS2LimitsAUser: who tries too often is sent away before all else, and only they.
func TestS2LimitsAUser(t *testing.T) {
	s, redis := open[*s2](t, limitMethod)
	s.tries = 2
	warm(t, s, 1)
	buys(t, s, "a", Accepted)
	mustAsk(t, redis[0], "PERSIST user:limit:a") // this second lasts
	buys(t, s, "a", SoldOut)
	buys(t, s, "a", Busy)
	is(t, redis[0], "GET user:limit:a", "3")
	buys(t, s, "b", SoldOut)
	if ttl := text(t, redis[0], "PTTL user:limit:b"); ttl == ":-1" || len(ttl) > len(":1000") {
		t.Errorf("the tries of b are forgotten in %s ms", ttl)
	}
	mustAsk(t, redis[0], "DEL user:limit:a") // the second is over
	buys(t, s, "a", SoldOut)
}

// TestS2WorkerReadsWhatIsPending: while the database is down nothing is lost, and
// what was read and not stored is read again when it is back.
func TestS2WorkerReadsWhatIsPending(t *testing.T) {
	s, redis := open[*s2](t, s2Method)
	warm(t, s, 5)
	mend := breakDatabase(t, &s.base)
	work(t, s)
	for _, buyer := range []string{"a", "b", "c"} {
		buys(t, s, buyer, Accepted)
	}
	pending := func(want string) func() bool {
		return func() bool { return strings.HasPrefix(text(t, redis[0], "XPENDING stream.order g1"), want) }
	}
	within(t, "a message is pending", pending(":1"))
	if consumers := text(t, redis[0], "XINFO CONSUMERS stream.order g1"); !strings.Contains(consumers, "name c1 ") {
		t.Errorf("consumers: %s", consumers)
	}
	mend()
	within(t, "orders are stored", func() bool { return stored(t, s) == 3 })
	within(t, "nothing is pending", pending(":0"))
	if diff := cmp.Diff([]string{"a", "b", "c"}, buyersOf(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestS3Script(t *testing.T) {
	s, redis := open[*s3](t, s3Method)
	expect[int64](t, "no hash", 0)(s.take(t.Context(), 1))
	mustAsk(t, redis[0], "HSET 10086 Total 10")
	expect[int64](t, "no Booked", 0)(s.take(t.Context(), 1))
	mustAsk(t, redis[0], "DEL 10086")
	mustAsk(t, redis[0], "HSET 10086 Booked 0")
	expect[int64](t, "no Total", 0)(s.take(t.Context(), 1))
	warm(t, s, 10)
	expect[int64](t, "none asked for", 0)(s.take(t.Context(), 0))
	script := s3Script.Exec(t.Context(), s.stock(), []string{"10086"}, nil)
	expect[int64](t, "no n", 0)(script.AsInt64())
	expect[int64](t, "3 of 10", 3)(s.take(t.Context(), 3))
	expect[int64](t, "8 of 7", 0)(s.take(t.Context(), 8))
	expect[int64](t, "7 of 7", 7)(s.take(t.Context(), 7))
	expect[int64](t, "1 of 0", 0)(s.take(t.Context(), 1))
	is(t, redis[0], "HMGET 10086 Total Booked", "10 10")
}

// TestS3Layers: the flag, then a ratio of requests to units, then the stock.
func TestS3Layers(t *testing.T) {
	s, redis := open[*s3](t, s3Method)
	within(t, "the replica follows", func() bool {
		return strings.Contains(text(t, redis[2], "INFO replication"), "master_link_status:up")
	})
	buys(t, s, "early", NotOpen)
	warm(t, s, 10)
	is(t, redis[1], "MGET 10086_count 10086_start 10086_access", "10 1 0")
	for i := range 30 {
		want := Accepted
		if i >= 10 {
			want = SoldOut
		}
		buys(t, s, fmt.Sprintf("u%02d", i), want)
		mustAsk(t, redis[1], "WAIT 1 10000")
	}
	// 12 were let through; the replica refused the others.
	is(t, redis[1], "GET 10086_access", "12")
	is(t, redis[0], "HGET 10086 Booked", "10")
	is(t, redis[0], "LLEN orderList", ":10")
	if first := text(t, redis[0], "LINDEX orderList -1"); !strings.HasSuffix(first, " u00") {
		t.Errorf("the first order to be popped is %q", first)
	}
}

// TestS3LetsTrafficInAgain: data control returns the units of cancelled orders to
// the stock, and then to admission.
func TestS3LetsTrafficInAgain(t *testing.T) {
	s, redis := open[*s3](t, s3Method)
	s.interval = 20 * time.Millisecond
	warm(t, s, 4)
	stop := work(t, s)
	for i, want := range []Answer{Accepted, Accepted, Accepted, Accepted, SoldOut} {
		buys(t, s, fmt.Sprint("u", i), want)
	}
	within(t, "orders are stored", func() bool { return stored(t, s) == 4 })
	exec(t, &s.base, "UPDATE orders SET live = false WHERE buyer IN ('u1', 'u2')")
	within(t, "stock and admission know", func() bool {
		return text(t, redis[0], "HGET 10086 Booked") == "2" && text(t, redis[2], "GET 10086_access") == "2"
	})
	// An order on its way to the database counts for nothing: data control that runs
	// now could give its unit away again.
	stop()
	buys(t, s, "late1", Accepted)
	buys(t, s, "late2", Accepted)
	buys(t, s, "late3", SoldOut)
	is(t, redis[0], "HGET 10086 Booked", "4")
}

func TestS4Script(t *testing.T) {
	s, redis := open[*s4](t, s4Method)
	expect[int64](t, "no stock", -1)(s.take(t.Context(), "a"))
	warm(t, s, 2)
	expect[int64](t, "a", 1)(s.take(t.Context(), "a"))
	expect[int64](t, "a again", 0)(s.take(t.Context(), "a"))
	expect[int64](t, "b", 1)(s.take(t.Context(), "b"))
	expect[int64](t, "c, sold out", -1)(s.take(t.Context(), "c"))
	expect[int64](t, "a, a repeat comes first", 0)(s.take(t.Context(), "a"))
	is(t, redis[0], "GET 10086:1111:stock", "0")
	is(t, redis[0], "SORT 10086:1111:uids ALPHA", "a b")
}

func TestS4ReturnsUnitsOfFailedOrders(t *testing.T) {
	s, redis := open[*s4](t, s4Method)
	warm(t, s, 1)
	mend := breakDatabase(t, &s.base)
	if answer, err := s.Buy(t.Context(), "a", ""); err == nil {
		t.Errorf("no database: %s", answer)
	}
	is(t, redis[0], "GET 10086:1111:stock", "1")
	mend()
	buys(t, s, "a", Accepted)
	buys(t, s, "b", SoldOut)
}

// TestSluiceAnswersARepeat: where the articles say "already bought", or sell again,
// the same attempt has the same order.
func TestSluiceAnswersARepeat(t *testing.T) {
	s, _ := open[*own](t, embeddedMethod)
	warm(t, s, 1)
	buys(t, s, "a", Accepted)
	buys(t, s, "a", Accepted)
	buys(t, s, "b", SoldOut)
	within(t, "one order", func() bool { return stored(t, s) == 1 })
	if diff := cmp.Diff([]string{"a"}, buyersOf(t, s)); diff != "" {
		t.Error(diff)
	}
}

// TestRowIsLockedWhileItIsChecked: who waits for the row sees what the one before left.
func TestRowIsLockedWhileItIsChecked(t *testing.T) {
	s, _ := open[*row](t, rowMethod)
	warm(t, s, 1)
	tx := must.Get(s.db.Begin(t.Context()))(t)
	defer tx.Rollback(context.Background())
	must.Get(tx.Exec(t.Context(), "UPDATE goods SET stock = 0"))(t)
	answer := make(chan Answer, 1)
	go func() {
		a, err := s.Buy(t.Context(), "a", "")
		answer <- Answer(fmt.Sprint(a, err))
	}()
	within(t, "a buyer waits for the row", func() bool {
		var waits bool
		err := s.db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%goods%')`).Scan(&waits)
		return err == nil && waits
	})
	must.Succeed(t, tx.Commit(t.Context()))
	if got := <-answer; got != SoldOut+"<nil>" && got != SoldOut+" <nil>" {
		t.Errorf("%s, want %s", got, SoldOut)
	}
}
