package redisledger_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// info returns a number of Redis's INFO.
func info(t *testing.T, client rueidis.Client, section, name string) int {
	t.Helper()
	message := command(t, client, "INFO", section)
	text, err := message.ToString()
	must(t, err)
	_, text, _ = strings.Cut(text, name)
	text = text[:strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })]
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// ofBuyer makes claims of one buyer, from to to-1.
func ofBuyer(buyer sluice.BuyerID, from, to int) []sluice.Claim {
	claims := makeClaims("s", from, to)
	for i := range claims {
		claims[i].Buyer = buyer
	}
	return claims
}

// The worst case of a batch: all claims, or releases, are of one buyer who has
// thousands already, in either layout. Each field is put together and written
// once, so what the batch writes is bounded by what it touches.
func TestWorkOfOneBuyersBatch(t *testing.T) {
	server := servertest.StartRedis(t, "--appendfsync", "no")
	client := newClient(t, server.URL())
	const had, batch = 2000, 250
	for _, layout := range []string{"whole", "split"} {
		t.Run(layout, func(t *testing.T) {
			l := open(t, server.URL(), redisledger.Options{Node: "a", Prefix: layout})
			l.ForceLayout(layout)
			image := sluice.LoadImage{Sale: "s", Epoch: 2, Terms: loose(1 << 40), Taken: had}
			for i, c := range ofBuyer("ann", 0, had) {
				image.Records = append(image.Records, sluice.Record{
					Claim: c, Sale: "s", Epoch: 1, Seq: int64(i + 1), Terms: 1, At: time.Unix(0, 0), Live: true,
				})
			}
			must(t, l.Load(t.Context(), image))
			must(t, l.Unfence(t.Context(), "s", 2))
			// What ann has on record, all fields, after the batch.
			size := func() (bytes int) {
				values := command(t, client, "HVALS", layout+":{s}:buyers")
				all, err := values.AsStrSlice()
				must(t, err)
				for _, v := range all {
					bytes += len(v)
				}
				return bytes
			}
			written := func(what string, do func()) {
				t.Helper()
				before := info(t, client, "persistence", "aof_current_size:")
				used := info(t, client, "memory", "used_memory:")
				do()
				if peak := info(t, client, "memory", "used_memory_peak:") - used; peak > 5*size()+4<<20 {
					t.Errorf("%s takes %d bytes of memory, with %d on record", what, peak, size())
				}
				bytes, limit := info(t, client, "persistence", "aof_current_size:")-before, size()*3/2+4096
				if t.Logf("%s: %d bytes written, %d on record", what, bytes, size()); bytes > limit {
					t.Errorf("%s writes %d bytes, want at most %d", what, bytes, limit)
				}
			}
			claims := ofBuyer("ann", had, had+batch)
			written("a batch of claims", func() { wantAll(t, claim(t, l, "s", claims...), sluice.Accepted) })
			written("a batch of repeats", func() { wantAll(t, claim(t, l, "s", claims...), sluice.Accepted) })
			written("a batch of releases", func() {
				got, err := l.Release(t.Context(), "s", releasesOf("s", 2, claims...))
				if err != nil || got.Applied != batch {
					t.Errorf("%+v, %v", got, err)
				}
			})
			if r := read(t, l, "s"); r.Taken != had || r.Seq != batch || r.Fence != "" {
				t.Errorf("reading %+v", r)
			}
			n := 0
			must(t, l.Records(t.Context(), "s", func(r sluice.Record) bool {
				if n++; r.Live != (r.Epoch == 1) {
					t.Errorf("record %+v", r)
				}
				return true
			}))
			if n != had+batch {
				t.Errorf("%d records, want %d", n, had+batch)
			}
		})
	}
}

// Limits that are lifted before anything is sold bring the layout that suits
// them; those that are lifted later leave the records as they are.
func TestLiftedLimitsBringTheirLayout(t *testing.T) {
	url := servertest.Redis(t)
	for sold, want := range map[int]string{0: "split", 1: "whole"} {
		prefix := newPrefix(t, url)
		a := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
		b := open(t, url, redisledger.Options{Node: "b", Prefix: prefix})
		terms := loadOpen(t, a, "s", tight(1000))
		wantAll(t, claim(t, b, "s", makeClaims("s", 0, sold)...), sluice.Accepted)
		read(t, b, "s")
		terms.Version, terms.MaxPerBuyer, terms.MaxOrders = 2, sluice.Unlimited, sluice.Unlimited
		must(t, a.Apply(t.Context(), "s", 1, terms))
		message := command(t, newClient(t, url), "HGET", prefix+":{s}:sale", "layout")
		if layout, _ := message.ToString(); layout != want {
			t.Errorf("layout %q after %d claims, want %q", layout, sold, want)
		}
		for _, l := range []*redisledger.Ledger{a, b, a} {
			wantAll(t, claim(t, l, "s", ofBuyer("ann", 10, 90)...), sluice.Accepted)
		}
		if r := read(t, a, "s"); r.Seq != int64(80+sold) {
			t.Errorf("reading %+v", r)
		}
	}
}

// What refused buyers hold is read in one round trip, once for each, and no more
// than is cheap; when that fails the batch is decided all the same.
func TestOrdersOfTheRefused(t *testing.T) {
	server := servertest.StartRedis(t, "--appendfsync", "no")
	client := newClient(t, server.URL())
	l := open(t, server.URL(), redisledger.Options{Node: "a"})
	terms := loadOpen(t, l, "s", loose(1<<40))
	const buyers = 100
	first := makeClaims("s", 0, buyers)
	wantAll(t, claim(t, l, "s", first...), sluice.Accepted)
	terms.Version, terms.MaxPerBuyer = 2, 1
	must(t, l.Apply(t.Context(), "s", 1, terms))

	again := make([]sluice.Claim, 0, 2*buyers)
	for i := range 2 * buyers {
		c := makeClaim("s", 1000+i)
		c.Buyer = first[i%buyers].Buyer
		again = append(again, c)
	}
	before := info(t, client, "commandstats", "cmdstat_hmget:calls=")
	decisions := claim(t, l, "s", again...)
	calls := info(t, client, "commandstats", "cmdstat_hmget:calls=") - before
	wantAll(t, decisions, sluice.BuyerLimit)
	if calls < 20 || calls > 70 {
		t.Errorf("%d commands for %d refused claims of %d buyers", calls, len(again), buyers)
	}
	told := 0
	for i, d := range decisions {
		switch got := fmt.Sprint(d.Orders); got {
		case "[]":
		case fmt.Sprint([]sluice.OrderID{first[i%buyers].Order}):
			told++
		default:
			t.Errorf("claim %d: orders %s", i, got)
		}
	}
	if told != 2*64 {
		t.Errorf("%d refusals carry the buyer's order, want 128", told)
	}

	// Buyers who hold nothing, or far too much, are not looked up.
	none := makeClaim("s", 5000)
	none.Quantity = 2
	if d := claim(t, l, "s", none); d[0].Code != sluice.BuyerLimit || d[0].Orders != nil {
		t.Errorf("%+v", d)
	}
	for _, head := range []string{"1\t100000", "1\t100000\t1"} { // the last number: one of them ended unpaid
		command(t, client, "HSET", "sluice:{s}:buyers", "buyer-0", head)
		before = info(t, client, "commandstats", "cmdstat_hmget:calls=")
		if d := claim(t, l, "s", again[0]); d[0].Code != sluice.BuyerLimit || d[0].Orders != nil {
			t.Errorf("%+v", d)
		}
		if calls := info(t, client, "commandstats", "cmdstat_hmget:calls=") - before; calls != 3 {
			t.Errorf("head %q: %d commands for a buyer with 100,000 claims, want the script's 3", head, calls)
		}
	}

	proxy := newWait72(t, server, "HMGET")
	broken := open(t, "redis://"+proxy.addr, redisledger.Options{Node: "b"})
	mixed := append(again[1:3:3], makeClaims("s", 7000, 7002)...)
	got := claim(t, broken, "s", mixed...)
	want := []sluice.Code{sluice.BuyerLimit, sluice.BuyerLimit, sluice.Accepted, sluice.Accepted}
	for i := range want {
		if got[i].Code != want[i] {
			t.Errorf("claim %d: %s, want %s", i, got[i].Code, want[i])
		}
	}
}
