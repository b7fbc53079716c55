package redisledger_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// startPrimary starts a Redis that sends its data to a replica without delay.
func startPrimary(t *testing.T) *servertest.RedisServer {
	t.Helper()
	return servertest.StartRedis(t, "--repl-diskless-sync-delay", "0")
}

// startReplica starts a replica of a Redis that may be its successor.
func startReplica(t *testing.T, primary *servertest.RedisServer) *servertest.RedisServer {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr())
	return servertest.StartRedis(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
}

func newReplica(t *testing.T, url string) port.LedgerReplica {
	t.Helper()
	r := must.Get(port.LedgerDriverOf(url).OpenReplica(url))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// awaitReading reads until the reading is as wanted: a replica is behind.
func awaitReading(t *testing.T, r port.LedgerReplica, sale sluice.SaleID,
	want func(*port.Reading) bool,
) port.Reading {
	t.Helper()
	var last port.Reading
	var err error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var readings []port.Reading
		if readings, err = r.Read(t.Context(), []sluice.SaleID{sale, "nobody"}); err == nil {
			if last = readings[0]; want(&last) {
				if readings[1].Loaded || readings[1].Sale != "nobody" {
					t.Errorf("a sale that the ledger does not hold: %+v", readings[1])
				}
				return last
			}
		}
	}
	t.Fatalf("the last reading was %+v, %v", last, err)
	return last
}

func sequence(seq int64) func(*port.Reading) bool {
	return func(r *port.Reading) bool { return r.Loaded && r.Seq == seq && r.Fence == "" }
}

// A replica returns what the ledger returns, a little later, even if it is down
// at first, is killed or restarts.
func TestReplicaReads(t *testing.T) {
	primary := startPrimary(t)
	l := open(t, primary.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(5))
	second := startReplica(t, primary)
	second.Kill()

	replica := newReplica(t, second.URL())
	if _, err := replica.Read(t.Context(), []sluice.SaleID{"s"}); err == nil ||
		!strings.Contains(err.Error(), second.Addr()) {
		t.Fatalf("a replica that is down: %v, want an error that names it", err)
	}
	second.Start()
	awaitReading(t, replica, "s", sequence(0))

	claims := makeClaims("s", 0, 7)
	wantAll(t, claim(t, l, "s", claims...)[:5], sluice.Accepted)
	ours := awaitReading(t, replica, "s", sequence(5))
	theirs := must.Get(l.Read(t.Context(), []sluice.SaleID{"s"}))(t)
	if ours.Now.IsZero() {
		t.Error("a reading without the replica's clock")
	}
	ours.Now = theirs[0].Now
	if ours != theirs[0] {
		t.Errorf("the replica says %+v, the ledger %+v", ours, theirs[0])
	}
	must.Get(l.Release(t.Context(), "s", releasesOf("s", 1, claims[:2]...)))(t)
	awaitReading(t, replica, "s", func(r *port.Reading) bool { return r.Taken == 3 })

	second.Kill()
	if _, err := replica.Read(t.Context(), []sluice.SaleID{"s"}); err == nil {
		t.Error("a replica that was killed answers")
	}
	second.Start()
	awaitReading(t, replica, "s", sequence(5))

	// One that has forgotten everything is no loss of the ledger's.
	must.Succeed(t, replica.Close())
	other := newReplica(t, servertest.StartRedis(t).URL())
	readings, err := other.Read(t.Context(), []sluice.SaleID{"s"})
	if err != nil || readings[0].Loaded {
		t.Errorf("a Redis without the sale: %+v, %v", readings, err)
	}
	wantAll(t, claim(t, l, "s", claims[4]), sluice.Accepted) // again: the ledger is not fenced
}

// By sentinels the ledger is the primary and the replica one of the others.
func TestReplicaBySentinel(t *testing.T) {
	servertest.Nightly(t)
	primary := startPrimary(t)
	startReplica(t, primary)
	startReplica(t, primary)
	sentinel := servertest.StartSentinel(t, "shop", primary)
	watcher := newClient(t, sentinel.URL())
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited a minute for %s", what)
			}
		}
	}
	await("the sentinel to find both replicas", func() bool {
		list, err := watcher.Do(t.Context(), watcher.B().Arbitrary("SENTINEL", "REPLICAS", "shop").Build()).ToArray()
		return err == nil && len(list) == 2
	})

	url := "redis+sentinel://" + sentinel.Addr() + "/shop"
	l := open(t, url, redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(100))
	wantAll(t, claim(t, l, "s", makeClaims("s", 0, 3)...), sluice.Accepted)
	replica := newReplica(t, url)
	before := calls(t, primary)
	awaitReading(t, replica, "s", sequence(3))
	if n := calls(t, primary) - before; n != 0 {
		t.Errorf("reading the replica ran %d scripts on the primary", n)
	}
}

// calls counts the scripts that a Redis has run for its clients.
func calls(t *testing.T, server *servertest.RedisServer) (n int) {
	t.Helper()
	info := command(t, newClient(t, server.URL()), "INFO", "commandstats")
	text := must.Get(info.ToString())(t)
	for line := range strings.Lines(text) {
		var calls int
		if at := strings.Index(line, ":calls="); at > 0 && strings.HasPrefix(line, "cmdstat_eval") {
			must.Get(fmt.Sscanf(line[at:], ":calls=%d", &calls))(t)
			n += calls
		}
	}
	return n
}
