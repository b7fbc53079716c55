package redisledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// info returns a number of Redis's INFO.
func info(t *testing.T, client rueidis.Client, section, name string) int {
	t.Helper()
	message := command(t, client, "INFO", section)
	text := must.Get(message.ToString())(t)
	_, text, _ = strings.Cut(text, name)
	text = text[:strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })]
	n := must.Get(strconv.Atoi(text))(t)
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

// What a buyer has does not make a batch of theirs more work: one who has thousands
// makes all claims, or gets all releases, and each field is written once.
func TestWorkOfOneBuyersBatch(t *testing.T) {
	server := servertest.StartRedis(t, "--appendfsync", "no")
	client := newClient(t, server.URL())
	const had, batch = 2000, 250
	l := open(t, server.URL(), redisledger.Options{Node: "a"})
	image := port.LoadImage{Sale: "s", Epoch: 2, Terms: loose(1 << 40), Taken: had}
	for i, c := range ofBuyer("ann", 0, had) {
		image.Records = append(image.Records, port.Record{
			Claim: c, Sale: "s", Epoch: 1, Seq: int64(i + 1), Terms: 1, At: time.Unix(0, 0), Live: true,
		})
	}
	must.Succeed(t, l.Load(t.Context(), image))
	must.Succeed(t, l.Unfence(t.Context(), "s", 2))
	// A claim is some 130 bytes, written in the journal and in the records.
	written := func(what string, most int, do func()) {
		t.Helper()
		before := info(t, client, "persistence", "aof_current_size:")
		used := info(t, client, "memory", "used_memory:")
		do()
		if peak := info(t, client, "memory", "used_memory_peak:") - used; peak > 4<<20 {
			t.Errorf("%s takes %d bytes of memory", what, peak)
		}
		bytes := info(t, client, "persistence", "aof_current_size:") - before
		if t.Logf("%s: %d bytes written", what, bytes); bytes > most {
			t.Errorf("%s writes %d bytes, want at most %d", what, bytes, most)
		}
	}
	claims := ofBuyer("ann", had, had+batch)
	written("claims, one by one", batch*1000, func() { wantAll(t, claim(t, l, "s", claims...), sluice.Accepted) })
	written("repeats", 0, func() { wantAll(t, claim(t, l, "s", claims...), sluice.Accepted) })
	written("a batch of releases", batch*500, func() {
		got, err := l.Release(t.Context(), "s", releasesOf("s", 2, claims...))
		if err != nil || got.Applied != batch {
			t.Errorf("%+v, %v", got, err)
		}
	})
	if r := read(t, l, "s"); r.Taken != had || r.Seq != batch || r.Fence != "" {
		t.Errorf("reading %+v", r)
	}
	records := map[sluice.OrderID]bool{}
	must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool {
		if r.Live != (r.Epoch == 1) {
			t.Errorf("record %+v", r)
		}
		records[r.Order] = true
		return true
	}))
	if len(records) != had+batch {
		t.Errorf("%d records, want %d", len(records), had+batch)
	}
	for _, n := range []int{0, 1, had / 2, had - 1, had, had + 1, had + batch - 1} { // from page to page
		r, err := l.Find(t.Context(), ofBuyer("ann", n, n+1)[0].Order, "ann")
		if err != nil || r.Key != ofBuyer("ann", n, n+1)[0].Key {
			t.Errorf("claim %d: %+v, %v", n, r, err)
		}
	}
	if r, err := l.Find(t.Context(), makeClaim("s", 9999).Order, "ann"); !errors.Is(err, sluice.ErrOrderNotFound) {
		t.Errorf("an order of no claim: %+v, %v", r, err)
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
	first := make([]sluice.Claim, 0, 5*buyers)
	for i := range 5 * buyers {
		c := makeClaim("s", i)
		c.Buyer = makeClaim("s", i%buyers).Buyer
		first = append(first, c)
	}
	wantAll(t, claim(t, l, "s", first...), sluice.Accepted)
	one := makeClaim("s", 600) // of a buyer with no other
	wantAll(t, claim(t, l, "s", one), sluice.Accepted)
	terms.Version, terms.MaxPerBuyer, terms.MaxOrders = 2, 2, 1
	must.Succeed(t, l.Apply(t.Context(), "s", 1, terms))

	again := make([]sluice.Claim, 0, 2*buyers)
	for i := range 2 * buyers {
		c := makeClaim("s", 1000+i)
		c.Buyer = first[i%buyers].Buyer
		again = append(again, c)
	}
	trips := func() int { return info(t, client, "commandstats", "cmdstat_evalsha:calls=") }
	before := trips()
	decisions := claim(t, l, "s", again...)
	calls := trips() - before
	wantAll(t, decisions, sluice.BuyerLimit)
	// The terms are not those of the batch before, so they are read. Of each buyer the second claim goes with
	// the others' second ones; each time, what 64 of 100 buyers hold is listed.
	if calls != 2+2*(1+64) {
		t.Errorf("%d calls for %d refused claims of %d buyers", calls, len(again), buyers)
	}
	for i, d := range decisions {
		var want []sluice.OrderID
		for n := i % buyers; n < len(first) && i%buyers < 64; n += buyers {
			want = append(want, first[n].Order)
		}
		if !slices.Equal(d.Orders, want) {
			t.Errorf("claim %d: orders %v, want %v", i, d.Orders, want)
		}
	}

	// Of a buyer with one claim the answer has it. Buyers who hold nothing, or far too
	// much, are not looked up.
	more := makeClaim("s", 601)
	more.Buyer = one.Buyer
	none := makeClaim("s", 5000)
	none.Quantity = 3
	before = trips()
	if d := claim(t, l, "s", more); fmt.Sprint(d[0].Code, d[0].Orders) != fmt.Sprint(sluice.BuyerLimit, []sluice.OrderID{
		one.Order,
	}) {
		t.Errorf("%+v", d)
	}
	if d := claim(t, l, "s", none); d[0].Code != sluice.BuyerLimit || d[0].Orders != nil {
		t.Errorf("%+v", d)
	}
	message := command(t, client, "HGET", "sluice:{s}:buyers", "buyer-0")
	record := must.Get(message.ToString())(t)
	for _, head := range []string{"5\t100000", "5\t100000\t1"} { // the last number: one of them ended unpaid
		command(t, client, "HSET", "sluice:{s}:buyers", "buyer-0", head+record[strings.Index(record, "\n"):])
		if d := claim(t, l, "s", again[0]); d[0].Code != sluice.BuyerLimit || d[0].Orders != nil {
			t.Errorf("%+v", d)
		}
	}
	if calls := trips() - before; calls != 4 {
		t.Errorf("%d calls, want that of each claim alone", calls)
	}

	proxy := newWait72(t, server, "buyer")
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
