package redisledger_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// Redis is killed while it writes a batch, so no client gets an answer to it,
// and other claims take its places. One more restart, and Redis completes the
// torn transaction with a later one (torn.go). No answer may come from what it
// left, and nothing of it may be stored.
func TestTornTransaction(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  int // which HSET of the transaction is torn, from 0
	}{
		{"the journal entry alone is left", 0},
		{"the buyers' records are left too", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := servertest.StartRedis(t)
			// A server that never heard of the torn batch: each one here is new.
			node := 0
			fresh := func() *redisledger.Ledger {
				node++
				return open(t, server.URL(), redisledger.Options{Node: "n" + itoa(node)})
			}
			first := makeClaims("s", 0, 10)
			l := fresh()
			loadOpen(t, l, "s", tight(1000))
			wantAll(t, claim(t, l, "s", first...), sluice.Accepted)
			server.Kill()
			before := appendOnlyFile(t, server)
			server.Start()
			wantAll(t, claim(t, fresh(), "s", makeClaims("s", 10, 20)...), sluice.Accepted)
			server.Kill()
			tear(t, server, len(before), c.cut)
			server.Start()
			l = fresh()
			if r := read(t, l, "s"); r.Seq != 10 || r.Fence != "" {
				t.Fatalf("after the first restart: %+v", r)
			}
			later := makeClaims("s", 20, 28)
			wantAll(t, claim(t, l, "s", later...), sluice.Accepted)
			server.Kill()
			server.Start()

			l = fresh()
			entries, err := l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New})
			if err == nil {
				t.Errorf("the pipeline gets %s", seqs(entries))
			}
			wantAll(t, claim(t, l, "s", makeClaim("s", 10)), sluice.Unavailable)
			wantLost(t, l, "s", "the journal has 3 entries, where 2 are on record")
			want := map[sluice.OrderID]bool{}
			for _, accepted := range append(first, later...) {
				want[accepted.Order] = true
			}
			must.Succeed(t, l.PeekJournal(t.Context(), "s", func(e port.Entry) bool {
				for i := range e.Claims {
					if !want[e.Claims[i].Order] {
						t.Errorf("order %s was never accepted and is to be saved", e.Claims[i].Order)
					}
					delete(want, e.Claims[i].Order)
				}
				return true
			}))
			if len(want) > 0 {
				t.Errorf("%d accepted orders are not to be saved", len(want))
			}
		})
	}
}

// An entry that disappears is a loss too, and so is one that appears, whichever
// call comes first.
func TestEntriesAreCounted(t *testing.T) {
	askers := map[string]func(t *testing.T, l *redisledger.Ledger){
		"claim": func(t *testing.T, l *redisledger.Ledger) {
			wantAll(t, claim(t, l, "s", makeClaim("s", 100)), sluice.Unavailable)
		},
		"release": func(t *testing.T, l *redisledger.Ledger) {
			if got, err := l.Release(t.Context(), "s", releasesOf("s", 1, makeClaim("s", 1))); err == nil {
				t.Errorf("released: %+v", got)
			}
		},
		"read journal": func(t *testing.T, l *redisledger.Ledger) {
			entries, err := l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New})
			if err == nil {
				t.Errorf("read: %s", seqs(entries))
			}
		},
		"read": func(*testing.T, *redisledger.Ledger) {},
	}
	harms := map[string]func(t *testing.T, j *journal){
		"has 1 entries, where 2": func(t *testing.T, j *journal) {
			command(t, newClient(t, j.url), "XDEL", j.key, streamID(j.read(j.Ledger, port.New, "", 1)[0]))
		},
		"has 3 entries, where 2": func(t *testing.T, j *journal) {
			command(t, newClient(t, j.url), "XADD", j.key, "*", "v", "1")
		},
	}
	for why, harm := range harms {
		for name, ask := range askers {
			t.Run(name+" "+why, func(t *testing.T) {
				j := newJournal(t, 2)
				harm(t, j)
				ask(t, j.Ledger)
				wantLost(t, j.Ledger, "s", why)
			})
		}
	}
}

func appendOnlyFile(t *testing.T, server *servertest.RedisServer) []byte {
	t.Helper()
	_, text := readAppendOnlyFile(t, server)
	return text
}

func readAppendOnlyFile(t *testing.T, server *servertest.RedisServer) (path string, text []byte) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(server.Dir(), "appendonlydir", "*.incr.aof"))
	if err != nil || len(found) == 0 { // before Redis 7 it is one file
		found = []string{filepath.Join(server.Dir(), "appendonly.aof")}
	}
	text = must.Get(os.ReadFile(found[0]))(t)
	return found[0], text
}

// tear cuts the append-only file in the middle of the n-th HSET behind the
// offset from, as a kill in the middle of the write does.
func tear(t *testing.T, server *servertest.RedisServer, from, n int) {
	t.Helper()
	path, text := readAppendOnlyFile(t, server)
	at := from
	for range n + 1 {
		next := bytes.Index(text[at:], []byte("HSET"))
		if next < 0 {
			t.Fatalf("the transaction has no HSET number %d", n)
		}
		at += next + len("HSET")
	}
	must.Succeed(t, os.Truncate(path, int64(at)))
}
