package redisledger_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

func itoa(n int) string { return strconv.Itoa(n) }

// claimWhenBack repeats a call until it is answered, as a buyer would.
func claimWhenBack(t testing.TB, l *redisledger.Ledger, sale sluice.SaleID, claims []sluice.Claim) []sluice.Decision {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		decisions, err := l.Claim(t.Context(), sale, claims)
		if err == nil {
			return decisions
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// With appendfsync always, what was answered is on disk: SIGKILL at any moment
// loses nothing that a server received (I4, I5), and the same servers go on. A
// kill in the middle of a write may leave a torn transaction, whose remains take
// effect at the next start (docs/adr/0007): then the sale is fenced, and what was
// answered is on record all the same.
func TestKillInTheMiddleOfClaims(t *testing.T) {
	server := servertest.StartRedis(t)
	url := server.URL()
	nodes := []*redisledger.Ledger{
		open(t, url, redisledger.Options{Node: "a"}), open(t, url, redisledger.Options{Node: "b"}),
	}
	loadOpen(t, nodes[0], "s", tight(1<<40))

	const kills, enough = 3, 20
	var answered sync.Map // order -> sluice.Decision
	var calls atomic.Int64
	var next atomic.Int64
	stop := make(chan struct{})
	var torn atomic.Bool
	var group sync.WaitGroup
	for _, l := range nodes {
		for range 2 {
			group.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					from := int(next.Add(40))
					claims := makeClaims("s", from, from+40)
					decisions := claimWhenBack(t, l, "s", claims)
					if decisions[0].Code == sluice.Unavailable {
						torn.Store(true)
						return
					}
					for i, d := range decisions {
						if d.Code != sluice.Accepted {
							t.Errorf("claim %s: %s", claims[i].Order, d.Code)
							return
						}
						answered.Store(d.Order, d)
					}
					calls.Add(1)
				}
			})
		}
	}
	for range kills {
		before := calls.Load()
		deadline := time.Now().Add(20 * time.Second)
		for calls.Load() < before+enough && !torn.Load() && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		server.Kill()
		server.Start()
	}
	close(stop)
	group.Wait()
	await(t, nodes[0])

	records := map[sluice.OrderID]port.Record{}
	must.Succeed(t, nodes[0].Records(t.Context(), "s", func(r port.Record) bool { records[r.Order] = r; return true }))
	journal := map[sluice.OrderID]int64{}
	must.Succeed(t, nodes[0].PeekJournal(t.Context(), "s", func(e port.Entry) bool {
		for i := range e.Claims {
			journal[e.Claims[i].Order] = e.FirstSeq + int64(i)
		}
		return true
	}))
	n := 0
	answered.Range(func(_, value any) bool {
		n++
		d := value.(sluice.Decision)
		if r := records[d.Order]; r.Seq != d.Seq || !r.At.Equal(d.At) {
			t.Errorf("order %s was answered with sequence %d, on record is %+v", d.Order, d.Seq, r)
		}
		if journal[d.Order] != d.Seq {
			t.Errorf("order %s was answered with sequence %d, the journal has %d", d.Order, d.Seq, journal[d.Order])
		}
		return !t.Failed()
	})
	r := read(t, nodes[0], "s")
	if torn.Load() || r.Fence != "" {
		// The records may hold claims of the torn batch, that were never decided.
		if !strings.HasPrefix(r.Fence, port.FenceLost) || !strings.Contains(r.Fence, "are on record") {
			t.Errorf("fence %q; want none, or that of a torn transaction", r.Fence)
		}
	} else if r.Seq != int64(len(records)) || r.Taken != r.Seq || len(journal) != len(records) {
		t.Errorf("reading %+v with %d records and %d in the journal", r, len(records), len(journal))
	}
	t.Logf("%d answers, %d records, %d kills, fence %q", n, len(records), kills, r.Fence)
}

// The script cache may be emptied at any moment without an effect.
func TestScriptFlushWhileClaiming(t *testing.T) {
	server := servertest.StartRedis(t, "--appendfsync", "no")
	l := open(t, server.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(1<<40))
	client := newClient(t, server.URL())
	var group sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		group.Go(func() {
			for range 50 {
				from := int(next.Add(20))
				decisions, err := l.Claim(t.Context(), "s", makeClaims("s", from, from+20))
				if err != nil {
					t.Error(err)
					return
				}
				wantAll(t, decisions, sluice.Accepted)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	flushes := 0
	for flushing := true; flushing; flushes++ {
		command(t, client, "SCRIPT", "FLUSH")
		select {
		case <-done:
			flushing = false
		default:
		}
	}
	// Reading is by script as well, and two at once.
	command(t, client, "SCRIPT", "FLUSH")
	readings, err := l.Read(t.Context(), []sluice.SaleID{"s", "other"})
	if err != nil || readings[0].Seq != 4*50*20 || readings[1].Loaded {
		t.Errorf("readings %+v, %v; want %d claims accepted", readings, err, 4*50*20)
	}
	t.Logf("%d flushes", flushes)
}

// An empty Redis is no full sale.
func TestFlushAll(t *testing.T) {
	server := servertest.StartRedis(t)
	l := open(t, server.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(5))
	claims := makeClaims("s", 0, 5)
	wantAll(t, claim(t, l, "s", claims...), sluice.Accepted)
	wantAll(t, claim(t, l, "s", makeClaim("s", 7)), sluice.SoldOut)
	command(t, newClient(t, server.URL()), "FLUSHALL")

	wantAll(t, claim(t, l, "s", makeClaim("s", 7)), sluice.Unavailable)
	wantAll(t, claim(t, l, "s", claims...), sluice.Unavailable) // repeats too: nothing is known
	if r := read(t, l, "s"); r.Loaded || r.State(r.Now) != sluice.StateUnavailable {
		t.Errorf("reading %+v", r)
	}

	// A load under the epoch that was lost would forget what servers received.
	loadOpen(t, l, "s", tight(5))
	wantLost(t, l, "s", "sequence")
	loadEpoch(t, l, "s", 2, tight(5))
	wantAll(t, claim(t, l, "s", makeClaim("s", 8)), sluice.Accepted)
}

// restore makes the server one that was started from an older backup.
func restore(t *testing.T, server *servertest.RedisServer, backup string) {
	t.Helper()
	server.Kill()
	must.Succeed(t, os.RemoveAll(server.Dir()+"/appendonlydir"))
	must.Succeed(t, os.CopyFS(server.Dir()+"/appendonlydir", os.DirFS(backup)))
	server.Start()
}

func TestOlderDataIsLoss(t *testing.T) {
	server := servertest.StartRedis(t)
	backup := t.TempDir()
	a := open(t, server.URL(), redisledger.Options{Node: "a"})
	sales := []sluice.SaleID{"seen", "grown", "read", "watched", "epoch", "epoch-read", "quiet"}
	for _, sale := range sales {
		loadOpen(t, a, sale, tight(1000))
		wantAll(t, claim(t, a, sale, makeClaims(sale, 0, 3)...), sluice.Accepted)
	}
	server.Stop()
	must.Succeed(t, os.CopyFS(backup, os.DirFS(server.Dir()+"/appendonlydir")))
	server.Start()
	await(t, a)
	b := open(t, server.URL(), redisledger.Options{Node: "b"})
	for _, sale := range sales[:4] {
		wantAll(t, claimWhenBack(t, a, sale, makeClaims(sale, 3, 6)), sluice.Accepted)
	}
	// b has seen the sequence of another server's claims.
	for _, sale := range []sluice.SaleID{"seen", "watched"} {
		if r := read(t, b, sale); r.Seq != 6 {
			t.Fatalf("reading %+v", r)
		}
	}
	loadEpoch(t, a, "epoch", 2, tight(1000))
	loadEpoch(t, a, "epoch-read", 2, tight(1000))
	restore(t, server, backup)
	await(t, a)
	await(t, b)

	t.Run("by what another server saw", func(t *testing.T) {
		wantAll(t, claim(t, b, "seen", makeClaim("seen", 50)), sluice.Unavailable)
		wantLost(t, b, "seen", "saw 6")
	})
	t.Run("by what a server received, though others have gone beyond it", func(t *testing.T) {
		fresh := open(t, server.URL(), redisledger.Options{Node: "c"})
		wantAll(t, claim(t, fresh, "grown", makeClaims("grown", 100, 110)...), sluice.Accepted)
		wantAll(t, claim(t, a, "grown", makeClaims("grown", 3, 6)...), sluice.Unavailable)
		wantLost(t, fresh, "grown", "received sequence 6")
	})
	t.Run("by reading alone", func(t *testing.T) {
		fresh := open(t, server.URL(), redisledger.Options{Node: "d"})
		wantAll(t, claim(t, fresh, "read", makeClaims("read", 100, 110)...), sluice.Accepted)
		if r := read(t, a, "read"); !strings.HasPrefix(r.Fence, port.FenceLost) {
			t.Errorf("reading %+v", r)
		}
		wantAll(t, claim(t, fresh, "read", makeClaim("read", 50)), sluice.Unavailable)
		wantLost(t, b, "watched", "saw 6")
		wantLost(t, a, "epoch-read", "epoch 1")
	})
	t.Run("by the epoch", func(t *testing.T) {
		wantAll(t, claim(t, a, "epoch", makeClaim("epoch", 50)), sluice.Unavailable)
		wantLost(t, a, "epoch", "epoch 1")
	})
	t.Run("not where nothing is missing", func(t *testing.T) {
		wantAll(t, claim(t, a, "quiet", makeClaim("quiet", 50)), sluice.Accepted)
	})
}

// await returns when all of the ledger's connections work again after a restart.
// Each call takes one of up to eight by chance: in so many, none is left out.
func await(t *testing.T, l *redisledger.Ledger) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for good := 0; good < 200; {
		if _, err := l.Read(t.Context(), []sluice.SaleID{"none"}); err == nil {
			good++
		} else if good = 0; time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// A key that is gone is loss, not emptiness.
func TestMissingKeysAreLoss(t *testing.T) {
	url := servertest.Redis(t)
	for _, terms := range []sluice.Terms{tight(100), loose(100)} {
		for _, key := range []string{"buyers", "journal"} {
			t.Run(key, func(t *testing.T) {
				prefix := newPrefix(t, url)
				l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
				loadOpen(t, l, "s", terms)
				decisions := claim(t, l, "s", makeClaims("s", 0, 3)...)
				wantAll(t, decisions, sluice.Accepted)
				command(t, newClient(t, url), "DEL", prefix+":{s}:"+key)

				wantAll(t, claim(t, l, "s", makeClaims("s", 0, 4)...), sluice.Unavailable)
				wantLost(t, l, "s", "gone")
				if key == "journal" {
					if _, err := l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New}); err == nil {
						t.Error("ReadJournal: no error")
					}
					if err := l.PeekJournal(t.Context(), "s", func(port.Entry) bool { return true }); err == nil {
						t.Error("PeekJournal: no error")
					}
					return
				}
				if err := l.Records(t.Context(), "s", func(port.Record) bool { return true }); err == nil {
					t.Error("Records: no error")
				}
				for _, buyer := range []sluice.BuyerID{"buyer-0", ""} {
					if r, err := l.Find(t.Context(), decisions[0].Order, buyer); err == nil ||
						strings.Contains(err.Error(), sluice.ErrOrderNotFound.Error()) {
						t.Errorf("Find: %+v, %v; want an error that is not ErrOrderNotFound", r, err)
					}
				}
				if err := l.Unfence(t.Context(), "s", 1); err == nil {
					t.Error("Unfence: no error, though the records are gone")
				}
			})
		}
	}
}

// A reader finds the loss too, and its fence stops the other servers.
func TestMissingKeysFenceWhenRead(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	for _, test := range []struct {
		name, key string
		read      func(l *redisledger.Ledger) error
		wantErr   bool
	}{
		{"buyers by Read", "buyers", func(l *redisledger.Ledger) error { read(t, l, "s"); return nil }, false},
		{"journal by Read", "journal", func(l *redisledger.Ledger) error { read(t, l, "s"); return nil }, false},
		{"journal by ReadJournal", "journal", func(l *redisledger.Ledger) error {
			_, err := l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.Own})
			return err
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadOpen(t, l, "s", tight(100))
			command(t, client, "DEL", prefix+":{s}:"+test.key)
			if err := test.read(l); test.wantErr != (err != nil) {
				t.Errorf("error %v", err)
			}
			fence := command(t, client, "HGET", prefix+":{s}:sale", "fence")
			if text, _ := fence.ToString(); !strings.HasPrefix(text, port.FenceLost) || !strings.Contains(text, test.key) {
				t.Errorf("fence %q", text)
			}
		})
	}
}

// A Redis without memory refuses a batch whole; with memory it goes on.
func TestOutOfMemory(t *testing.T) {
	server := servertest.StartRedis(t)
	l := open(t, server.URL(), redisledger.Options{Node: "a"})
	loadOpen(t, l, "s", tight(100))
	claims := makeClaims("s", 0, 10)
	wantAll(t, claim(t, l, "s", claims[:3]...), sluice.Accepted)
	client := newClient(t, server.URL())
	command(t, client, "CONFIG", "SET", "maxmemory", "1")
	if d, err := l.Claim(t.Context(), "s", claims[3:]); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("%v, %v; want OOM", d, err)
	}
	command(t, client, "CONFIG", "SET", "maxmemory", "0")
	if r := read(t, l, "s"); r.Seq != 3 || r.Taken != 3 || r.Backlog != 1 || r.Fence != "" {
		t.Errorf("reading %+v, want that of before", r)
	}
	if d := claim(t, l, "s", claims[3:]...); d[0].Code != sluice.Accepted || d[0].Replayed || d[0].Seq != 4 {
		t.Errorf("%+v, want accepted now", d[0])
	}
}

// One damaged sale hides no other: its own reading finds the loss, and a rebuild
// can read what is left (I5) and load it again. Only of a newer format nothing is
// known.
func TestDamageIsOfOneSale(t *testing.T) {
	url := servertest.Redis(t)
	for _, field := range []string{
		"format", "epoch", "seq", "taken", "terms", "total", "max_buyer", "max_orders", "opens", "closes", "paused",
		"calm_until", "entries", "fence", "max_unpaid",
	} {
		for _, damage := range [][]string{{"HDEL", field}, {"HSET", field, "x"}, {"HSET", field, "1000"}} {
			if damage[len(damage)-1] == "1000" && field != "format" {
				continue
			}
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			for _, sale := range []sluice.SaleID{"s", "t", "u"} {
				loadOpen(t, l, sale, tight(5))
				wantAll(t, claim(t, l, sale, makeClaim(sale, 0)), sluice.Accepted)
			}
			command(t, newClient(t, url), append([]string{damage[0], prefix + ":{t}:sale"}, damage[1:]...)...)
			readings, err := l.Read(t.Context(), []sluice.SaleID{"s", "t", "u"})
			if len(readings) != 3 {
				t.Fatalf("%v: %d readings, %v", damage, len(readings), err)
			}
			for _, i := range []int{0, 2} {
				if r := readings[i]; r.Err != nil || !r.Loaded || r.Fence != "" || r.Seq != 1 {
					t.Errorf("%v of one sale: another reads %+v", damage, r)
				}
			}
			r := readings[1]
			if (r.Err != nil) != (err != nil) {
				t.Errorf("%v: the reading's error is %v, that of Read %v", damage, r.Err, err)
			}
			if newer := damage[len(damage)-1] == "1000"; newer != (r.Err != nil) {
				t.Errorf("%v: reading %v", damage, r.Err)
			} else if newer {
				wantAll(t, claim(t, l, "t", makeClaim("t", 0)), sluice.Unavailable) // not unknown: nothing was decided
				ended := []port.Release{release(makeClaim("t", 0), 1)}
				if _, err := l.Release(t.Context(), "t", ended); err == nil || !strings.Contains(err.Error(), "format") {
					t.Errorf("%v: release: %v", damage, err)
				}
				continue
			}
			if state := r.State(time.Now()); state != sluice.StateUnavailable {
				t.Errorf("%v: the sale is %s", damage, state)
			}
			wantAll(t, claim(t, l, "t", makeClaim("t", 0)), sluice.Unavailable)
			entries, records := 0, 0
			must.Succeed(t, l.PeekJournal(t.Context(), "t", func(port.Entry) bool { entries++; return true }))
			must.Succeed(t, l.Records(t.Context(), "t", func(port.Record) bool { records++; return true }))
			if entries != 1 || records != 1 {
				t.Errorf("%v: %d entries and %d records can be read", damage, entries, records)
			}
			loadEpoch(t, l, "t", 2, tight(5))
			wantAll(t, claim(t, l, "t", makeClaim("t", 1)), sluice.Accepted)
			if r := read(t, l, "t"); r.Epoch != 2 || r.Seq != 1 || r.Fence != "" {
				t.Errorf("%v: after the load %+v", damage, r)
			}
		}
	}
}

// Whichever keys are gone or hold something else, nothing is decided and nothing is
// called unknown for good, a rebuild reads what is left (I5), and a load brings the
// sale back.
func TestAnyKeysAreGone(t *testing.T) {
	url := servertest.Redis(t)
	client := newClient(t, url)
	keys := []string{"sale", "buyers", "journal"}
	for _, damage := range [][]string{{"DEL"}, {"SET", "something else"}} {
		for gone := 1; gone < 1<<len(keys); gone++ {
			for _, wait := range []int{0, 3} { // entries in the journal
				prefix := newPrefix(t, url)
				l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
				loadOpen(t, l, "s", tight(100))
				claims := makeClaims("s", 0, 3)
				wantAll(t, claim(t, l, "s", claims...), sluice.Accepted)
				if wait == 0 {
					entries := must.Get(l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New}))(t)
					must.Succeed(t, l.Ack(t.Context(), "s", []string{entries[0].ID}))
				}
				for i, key := range keys {
					if gone&(1<<i) != 0 {
						command(t, client, append([]string{damage[0], prefix + ":{s}:" + key}, damage[1:]...)...)
					}
				}
				if r := read(t, l, "s"); r.Loaded != (gone&1 == 0) || r.Loaded && !strings.HasPrefix(r.Fence, port.FenceLost) {
					t.Errorf("%s %03b: reading %+v", damage[0], gone, r)
				}
				wantAll(t, claim(t, l, "s", claims...), sluice.Unavailable)
				if _, err := l.Find(t.Context(), claims[0].Order, ""); !errors.Is(err, port.ErrNotLoaded) && err != nil {
					t.Errorf("%s %03b: Find: %v", damage[0], gone, err)
				}
				if _, err := l.Release(t.Context(), "s", releasesOf("s", 1, claims[0])); err == nil {
					t.Errorf("%s %03b: released", damage[0], gone)
				}
				entries, records := 0, 0
				peekErr := l.PeekJournal(t.Context(), "s", func(e port.Entry) bool { entries += len(e.Claims); return true })
				recordsErr := l.Records(t.Context(), "s", func(port.Record) bool { records++; return true })
				for what, got := range map[string]struct {
					err     error
					n, want int
					missing bool
				}{"journal": {peekErr, entries, wait, gone&4 != 0}, "records": {recordsErr, records, 3, gone&2 != 0}} {
					if got.missing && !errors.Is(got.err, port.ErrNotLoaded) || !got.missing &&
						(got.err != nil || got.n != got.want) {
						t.Errorf("%s %03b: %s: %d claims, %v", damage[0], gone, what, got.n, got.err)
					}
				}
				loadEpoch(t, l, "s", 2, tight(100))
				wantAll(t, claim(t, l, "s", makeClaim("s", 7)), sluice.Accepted)
				if r := read(t, l, "s"); r.Epoch != 2 || r.Fence != "" || r.Seq != 1 || r.Backlog != 1 {
					t.Errorf("%s %03b: after the load %+v", damage[0], gone, r)
				}
			}
		}
	}
}

// A Redis without memory refuses every claim and says so; nothing is decided,
// also in a transaction, whose EXEC only says that something was wrong.
func TestRefusalToWrite(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		server := servertest.StartRedis(t)
		l := open(t, server.URL(), redisledger.Options{Node: "a", WaitReplicas: replicas, WaitTimeout: 50 * time.Millisecond})
		loadOpen(t, l, "s", tight(500))
		client := newClient(t, server.URL())
		command(t, client, "CONFIG", "SET", "maxmemory", "1")
		_, err := l.Claim(t.Context(), "s", makeClaims("s", 0, 5))
		if !errors.Is(err, sluice.ErrRefusesWrites) || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("%d replicas: %v", replicas, err)
		}
		command(t, client, "CONFIG", "SET", "maxmemory", "0")
		if r := read(t, l, "s"); r.Seq != 0 || r.Fence != "" {
			t.Errorf("%d replicas: reading %+v", replicas, r)
		}
	}
}
