package redisledger_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// journal is a sale with entries of one claim each, and ways to harm them.
type journal struct {
	testing.TB
	*redisledger.Ledger
	url    string
	prefix string
	key    string
}

func newJournal(t *testing.T, entries int) *journal {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	j := &journal{TB: t, url: url, prefix: prefix, key: prefix + ":{s}:journal"}
	j.Ledger = j.open("a")
	loadOpen(t, j.Ledger, "s", tight(100_000))
	for n := range entries {
		wantAll(t, claim(t, j.Ledger, "s", makeClaim("s", n)), sluice.Accepted)
	}
	return j
}

func (j *journal) open(node string) *redisledger.Ledger {
	return open(j.TB, j.url, redisledger.Options{Node: node, Prefix: j.prefix})
}

func (j *journal) read(l *redisledger.Ledger, source port.Source, after string, most int) []port.Entry {
	j.Helper()
	entries, err := l.ReadJournal(j.Context(), port.JournalRead{Sale: "s", Source: source, After: after, Max: most})
	if err != nil {
		j.Fatal(err)
	}
	return entries
}

// seqs lists the first sequences and deliveries of entries: "1x1 2x1".
func seqs(entries []port.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, fmt.Sprintf("%dx%d", e.FirstSeq, e.Deliveries))
	}
	return strings.Join(all, " ")
}

func (j *journal) want(what string, got []port.Entry, want string) {
	j.Helper()
	if s := seqs(got); s != want {
		j.Errorf("%s: %q, want %q", what, s, want)
	}
}

// An unreadable entry is handed out as it is, and blocks no other entry.
func TestDamagedEntries(t *testing.T) {
	j := newJournal(t, 1)
	client := newClient(t, j.url)
	good := map[string]string{"v": "1", "e": "1", "n": "a", "t": "1", "at": "1000", "s": "7", "c": claimLine(7)}
	damage := map[string]func(f map[string]string){
		"journal format": func(f map[string]string) { f["v"] = "2" },
		"not a number":   func(f map[string]string) { f["s"] = "seven" },
		"is missing":     func(f map[string]string) { delete(f, "n") },
		"no claims":      func(f map[string]string) { f["c"] = "" },
		"has no end":     func(f map[string]string) { f["c"] = strings.TrimSuffix(f["c"], "\n") },
		"claim 2":        func(f map[string]string) { f["c"] += "buyer\tkey\n" },
	}
	var reasons []string
	for reason, harm := range damage {
		fields := map[string]string{}
		for name, value := range good {
			fields[name] = value
		}
		harm(fields)
		words := []string{"XADD", j.key, "*"}
		for name, value := range fields {
			words = append(words, name, value)
		}
		command(t, client, words...)
		reasons = append(reasons, reason)
	}
	recordEntries(t, client, j.key, len(damage))
	wantAll(t, claim(t, j.Ledger, "s", makeClaim("s", 1)), sluice.Accepted)

	entries := j.read(j.Ledger, port.New, "", 100)
	if len(entries) != len(damage)+2 || entries[0].Damage != nil || entries[len(entries)-1].Damage != nil {
		t.Fatalf("entries %+v", entries)
	}
	var ids []string
	for i, e := range entries[1 : len(entries)-1] {
		ids = append(ids, e.ID)
		if e.Damage == nil || !strings.Contains(e.Damage.Error(), reasons[i]) || !strings.Contains(e.Raw, "at=1000\n") ||
			e.Sale != "s" || e.ID == "" {
			t.Errorf("want damage that says %q: %+v", reasons[i], e)
		}
	}
	if again := j.read(j.Ledger, port.Own, "", 100); len(again) != len(entries) || again[1].Deliveries != 2 {
		t.Errorf("own entries %s", seqs(again))
	}
	must.Succeed(t, j.Ack(t.Context(), "s", ids))
	j.want("after the damaged ones are acknowledged", j.read(j.Ledger, port.Own, "", 100), "1x3 2x3")
}

func claimLine(n int) string {
	c := makeClaim("s", n)
	return string(port.AppendClaim(nil, &c))
}

// recordEntries says that entries which a test has written into the journal of
// a sale are meant to be there.
func recordEntries(t testing.TB, client rueidis.Client, journal string, n int) {
	t.Helper()
	command(t, client, "HINCRBY", strings.TrimSuffix(journal, "journal")+"sale", "entries", itoa(n))
}

// Entries that were deleted while they were handed out end there.
func TestDeletedEntriesAreAcknowledged(t *testing.T) {
	j := newJournal(t, 5)
	client := newClient(t, j.url)
	entries := j.read(j.Ledger, port.New, "", 10)
	for _, e := range entries[:3] {
		command(t, client, "XDEL", j.key, streamID(e))
	}
	// The first page has nothing but deleted ones; the read goes on behind it.
	j.want("own", j.read(j.Ledger, port.Own, "", 2), "4x2")
	j.want("own", j.read(j.Ledger, port.Own, "", 10), "4x3 5x2")
	summary := command(t, client, "XPENDING", j.key, "sluice")
	pending, err := summary.ToArray()
	if n, _ := pending[0].AsInt64(); err != nil || n != 2 {
		t.Errorf("%d pending, %v; want 2", n, err)
	}
}

// Without its group the journal is handed out again, from the first entry.
func TestGroupIsMadeAgain(t *testing.T) {
	j := newJournal(t, 3)
	first := j.read(j.Ledger, port.New, "", 10)
	must.Succeed(t, j.Ack(t.Context(), "s", []string{first[0].ID}))
	command(t, newClient(t, j.url), "XGROUP", "DESTROY", j.key, "sluice")
	j.want("own", j.read(j.Ledger, port.Own, "", 10), "")
	j.want("new", j.read(j.Ledger, port.New, "", 10), "2x1 3x1")
}

// A server takes over what others have left, never what it holds itself, and
// gets to the end of a long list in several calls.
func TestAbandonedEntries(t *testing.T) {
	j := newJournal(t, 9)
	b, c := j.open("b"), j.open("c")
	j.want("a", j.read(j.Ledger, port.New, "", 2), "1x1 2x1")
	j.want("b", j.read(b, port.New, "", 5), "3x1 4x1 5x1 6x1 7x1")
	j.want("c", j.read(c, port.New, "", 2), "8x1 9x1")

	taken, err := b.ReadJournal(t.Context(), port.JournalRead{
		Sale: "s", Source: port.Abandoned, Idle: time.Hour, Max: 10,
	})
	if err != nil || len(taken) != 0 {
		t.Errorf("idle for an hour: %s, %v", seqs(taken), err)
	}
	j.want("a, not acknowledged for long", j.read(b, port.Abandoned, "", 2), "1x2 2x2")
	j.want("behind b's own", j.read(b, port.Abandoned, "", 2), "8x2")
	j.want("the last page", j.read(b, port.Abandoned, "", 2), "9x2")
	j.want("all are b's own now", j.read(b, port.Abandoned, "", 2), "")
	j.want("nothing is left to a", j.read(j.Ledger, port.Own, "", 10), "")
	j.want("b's own", j.read(b, port.Own, "", 20), "1x3 2x3 3x2 4x2 5x2 6x2 7x2 8x3 9x3")
}

func TestAcknowledgeMany(t *testing.T) {
	j := newJournal(t, 1)
	client := newClient(t, j.url)
	for range 1200 {
		command(t, client, "XADD", j.key, "*", "v", "0")
	}
	recordEntries(t, client, j.key, 1200)
	var ids []string
	for _, e := range j.read(j.Ledger, port.New, "", 5000) {
		ids = append(ids, e.ID)
	}
	if len(ids) != 1201 {
		t.Fatalf("%d entries", len(ids))
	}
	must.Succeed(t, j.Ack(t.Context(), "s", nil))
	must.Succeed(t, j.Ack(t.Context(), "s", []string{"", "x", "1", "1-x", "99-1"}))
	must.Succeed(t, j.Ack(t.Context(), "s", slices.Concat([]string{"not-an-id"}, ids, []string{"*"})))
	if r := read(t, j.Ledger, "s"); r.Backlog != 0 {
		t.Errorf("backlog %d", r.Backlog)
	}
	must.Succeed(t, j.Ack(t.Context(), "unknown", ids[:1]))
}

func TestPeekInPages(t *testing.T) {
	j := newJournal(t, 0)
	client := newClient(t, j.url)
	for n := range 450 {
		command(t, client, "XADD", j.key, "*", "v", "1", "e", "1", "n", "a", "t", "1", "at", "1000", "s", itoa(n+1), "c",
			claimLine(n))
	}
	recordEntries(t, client, j.key, 450)
	var got []int64
	must.Succeed(t, j.PeekJournal(t.Context(), "s", func(e port.Entry) bool {
		got = append(got, e.FirstSeq)
		return len(got) < 430
	}))
	if len(got) != 430 || !slices.IsSorted(got) || got[429] != 430 {
		t.Errorf("%d entries, sorted %t", len(got), slices.IsSorted(got))
	}
}

// While buyers go on claiming, a scan returns every earlier claim once.
func TestRecordsWhileClaiming(t *testing.T) {
	url := servertest.Redis(t)
	for name, terms := range map[string]sluice.Terms{"limits": tight(1 << 40), "no limits": loose(1 << 40)} {
		t.Run(name, func(t *testing.T) {
			l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
			loadOpen(t, l, "s", terms)
			const before, during = 3000, 6000
			wantAll(t, claim(t, l, "s", makeClaims("s", 0, before)...), sluice.Accepted)
			var group sync.WaitGroup
			group.Go(func() {
				for n := before; n < before+during; n += 200 {
					claims := makeClaims("s", n, n+200)
					for i := range claims { // the buyers of before, a second time
						claims[i].Buyer = makeClaim("s", n-before).Buyer
						if terms.MaxPerBuyer > 0 {
							claims[i].Buyer = makeClaim("s", (n-before+i)%before).Buyer
						}
					}
					if _, err := l.Claim(t.Context(), "s", claims); err != nil {
						t.Error(err)
					}
				}
			})
			seen := map[sluice.OrderID]int{}
			must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool { seen[r.Order]++; return true }))
			group.Wait()
			for n := range before {
				if order := makeClaim("s", n).Order; seen[order] != 1 {
					t.Fatalf("order %s was returned %d times", order, seen[order])
				}
			}
			for order, times := range seen {
				if times != 1 {
					t.Fatalf("order %s was returned %d times", order, times)
				}
			}
		})
	}
}

// An order is found by its buyer, and without; another's is not.
func TestFind(t *testing.T) {
	url := servertest.Redis(t)
	for name, terms := range map[string]sluice.Terms{"limits": tight(100), "no limits": loose(100)} {
		t.Run(name, func(t *testing.T) {
			prefix := newPrefix(t, url)
			l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
			loadOpen(t, l, "s", terms)
			claims := makeClaims("s", 0, 20)
			decisions := claim(t, l, "s", claims...)
			fresh := open(t, url, redisledger.Options{Node: "b", Prefix: prefix})
			entries := must.Get(l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New}))(t)
			for _, when := range []string{"in the journal", "acknowledged"} {
				for i, buyer := range map[int]sluice.BuyerID{3: claims[3].Buyer, 4: ""} {
					r, err := fresh.Find(t.Context(), claims[i].Order, buyer)
					if diff := cmp.Diff(claims[i], r.Claim); err != nil || diff != "" || r.Seq != decisions[i].Seq || !r.Live {
						t.Errorf("%s, buyer %q: %+v, %v\n%s", when, buyer, r, err, diff)
					}
				}
				_, err := fresh.Find(t.Context(), claims[3].Order, claims[4].Buyer)
				_, err2 := fresh.Find(t.Context(), makeClaim("s", 77).Order, "")
				for _, err := range []error{err, err2} {
					if err == nil || !strings.Contains(err.Error(), sluice.ErrOrderNotFound.Error()) {
						t.Errorf("%s: %v, want ErrOrderNotFound", when, err)
					}
				}
				must.Succeed(t, l.Ack(t.Context(), "s", []string{entries[0].ID}))
			}
		})
	}
}

// Acknowledging entries of an epoch that is over takes nothing out of the
// journal, whatever they are called, and makes no sale where there is none.
func TestAckOfAnotherEpoch(t *testing.T) {
	url := servertest.Redis(t)
	prefix := newPrefix(t, url)
	l := open(t, url, redisledger.Options{Node: "a", Prefix: prefix})
	loadOpen(t, l, "s", tight(100))
	loadEpoch(t, l, "s", 2, tight(100))
	wantAll(t, claim(t, l, "s", makeClaims("s", 0, 2)...), sluice.Accepted)
	entries, err := l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New})
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	id := entries[0].ID
	old := "1" + strings.TrimPrefix(id, "2") // what the old journal called so, when the clock was there before
	must.Succeed(t, l.Ack(t.Context(), "s", []string{old, "nonsense", "2:nonsense"}))
	if r := read(t, l, "s"); r.Backlog != 1 || r.Fence != "" {
		t.Errorf("after an acknowledgement of epoch 1: %+v", r)
	}
	must.Succeed(t, l.Ack(t.Context(), "s", []string{old, id}))
	if r := read(t, l, "s"); r.Backlog != 0 || r.Fence != "" {
		t.Errorf("acknowledged: %+v", r)
	}

	wantAll(t, claim(t, l, "s", makeClaims("s", 2, 4)...), sluice.Accepted)
	entries = must.Get(l.ReadJournal(t.Context(), port.JournalRead{Sale: "s", Source: port.New}))(t)
	client := newClient(t, url)
	command(t, client, "DEL", prefix+":{s}:sale")
	must.Succeed(t, l.Ack(t.Context(), "s", []string{entries[0].ID}))
	message := command(t, client, "EXISTS", prefix+":{s}:sale")
	if n, _ := message.AsInt64(); n != 0 {
		t.Error("an acknowledgement has made a sale of nothing but a number of entries")
	}
}
