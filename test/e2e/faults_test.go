package e2e

import (
	"bufio"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// Redis forgets its scripts while the rush uses them: a batch is sent again,
// and is decided once.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	redis := servertest.StartRedis(t)
	s := startServer(t, backends{redis.URL(), servertest.Postgres(t)})
	const buyers, perBuyer = 3000, 1
	const total = int64(buyers / 2)
	sale := createSale(t, s, total, perBuyer)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: buyers, Again: 0.2}, []string{s.url}, 11)

	scriptCalls := func() string { return redisInfo(t, redis.Addr(), "commandstats", "cmdstat_evalsha:calls") }
	flushes := 0
	for !rush.isOver() {
		before := scriptCalls()
		redisCommand(t, redis.Addr(), "SCRIPT FLUSH")
		flushes++
		await(t, "a script used again", func() bool { return scriptCalls() != before || rush.isOver() })
	}
	t.Logf("%d times flushed", flushes)
	if flushes < 10 {
		t.Errorf("the scripts were flushed %d times only", flushes)
	}
	verify(t, s, rush, total, perBuyer)
}

// Redis is killed with SIGKILL and comes back with its append-only file, again
// and again. What it acknowledged is there (appendfsync always).
func TestRedisKilled(t *testing.T) {
	t.Parallel()
	redis := servertest.StartRedis(t)
	s := startServer(t, backends{redis.URL(), servertest.Postgres(t)})
	r := seeded(t, 3)
	const buyers, perBuyer = 3000, 2
	const total = int64(buyers)
	sale := createSale(t, s, total, perBuyer)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: buyers, Again: 0.5}, []string{s.url}, 12)

	const kills = int64(3)
	for n := range kills {
		if !rush.awaitDecided(rush.planned() * (n + 1) / (kills + 2)) {
			t.Fatal("the rush was over too soon")
		}
		time.Sleep(rand.N(5 * time.Millisecond))
		redis.Kill()
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond) // claims meet a ledger that is not there
		redis.Start()
	}
	verify(t, s, rush, total, perBuyer)
}

// PostgreSQL is down for three seconds of a rush. Claims are taken all the same and become
// orders when it is back.
func TestPostgresKilled(t *testing.T) {
	t.Parallel()
	postgres := servertest.StartPostgres(t)
	s := startServer(t, backends{servertest.Redis(t), postgres.URL()})
	const perBuyer = 20
	const down = 3 * time.Second
	const total = int64(1_000_000) // never sold out
	sale := createSale(t, s, total, perBuyer)
	rush := startRush(t, loadgen.Options{
		Sale: sale, Buyers: 2000, Again: 0.2, Rate: 500, Duration: down + 3*time.Second,
	}, []string{s.url}, 13)

	rush.awaitDecided(300)
	postgres.Kill(t) // at once: a stop may take as long as the rush
	killed, before := time.Now(), rush.accepted()
	await(t, "the time without a database to pass", func() bool { return time.Since(killed) >= down })
	taken := rush.accepted() - before
	postgres.Start(t)
	if taken < int64(down/time.Second)*100 { // of 500 a second
		t.Errorf("%d claims were accepted while the database was down", taken)
	}
	t.Logf("%d claims were accepted while the database was down", taken)
	verify(t, s, rush, total, perBuyer)
}

// redisCommand sends one inline command and returns the first line of the answer.
func redisCommand(t testing.TB, addr, command string) string {
	t.Helper()
	return redisLines(t, addr, command, func(string) bool { return true })
}

// redisInfo returns the line of INFO that starts with the prefix, or nothing.
func redisInfo(t testing.TB, addr, section, prefix string) string {
	t.Helper()
	// PING marks the end of an answer of many lines.
	line := redisLines(t, addr, "INFO "+section+"\r\nPING", func(line string) bool {
		return strings.HasPrefix(line, prefix) || line == "+PONG"
	})
	call, _, _ := strings.Cut(strings.TrimPrefix(line, "+PONG"), ",")
	return call
}

func redisLines(t testing.TB, addr, command string, found func(string) bool) string {
	t.Helper()
	conn := must.Get(net.DialTimeout("tcp", addr, 5*time.Second))(t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	must.Get(conn.Write([]byte(command + "\r\n")))(t)
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "-") {
			t.Fatalf("redis: %s: %s", command, lines.Text())
		}
		if found(lines.Text()) {
			return lines.Text()
		}
	}
	t.Fatalf("redis: %s: no answer: %v", command, lines.Err())
	return ""
}
