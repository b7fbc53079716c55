package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// readCases: Read, Records, Holders, Find.
var readCases = []testCase{
	{"many sales in order, unknown and repeated ones too", one, func(e *env) {
		e.load("a", total(3))
		e.load("b", plenty())
		e.claimsOf("b", sluice.Claim{Buyer: "ann", Key: "key-0001", Quantity: 2, Order: e.order("b")})
		readings, err := e.ledger.Read(e.ctx, []sluice.SaleID{"b", "unknown", "a", "b"})
		e.must("Read", err)
		b := port.Reading{
			Sale: "b", Loaded: true, Epoch: 1, Seq: 1, Taken: 2, Terms: plenty(), Now: start, Backlog: 1,
			Oldest: 1,
		}
		if e.noJournal {
			b.Backlog, b.Oldest = 0, 0
		}
		e.same("readings", readings, []port.Reading{
			b,
			{Sale: "unknown", Now: start},
			{Sale: "a", Loaded: true, Epoch: 1, Terms: total(3), Now: start},
			b,
		})
	}},
	{"every term, as it was loaded and as it was applied", one, func(e *env) {
		terms := sluice.Terms{
			Version: 3, Total: 4, MaxPerBuyer: 5, MaxOrders: 6, MaxUnpaid: 7, OpensAt: start, ClosesAt: start.Add(time.Hour),
			Paused: true,
		}
		e.load(sale, terms)
		e.same("loaded", e.read(sale).Terms, terms)
		e.change(sale, func(t *sluice.Terms) {
			t.Total, t.MaxPerBuyer, t.MaxOrders, t.MaxUnpaid, t.Paused = 14, 15, 16, 17, false
			t.OpensAt, t.ClosesAt = start.Add(time.Second), start.Add(time.Minute)
		})
		e.same("applied", e.read(sale).Terms, e.terms[sale])
	}},
	{"of no sales", one, func(e *env) {
		readings, err := e.ledger.Read(e.ctx, nil)
		e.must("Read", err)
		if len(readings) != 0 {
			e.Errorf("%+v, want none", readings)
		}
	}},
	{"Now is the ledger's clock, in whole milliseconds", one, func(e *env) {
		e.load(sale, total(1))
		e.clock.Advance(1999 * time.Microsecond)
		if r := e.read(sale); !r.Now.Equal(start.Add(time.Millisecond)) {
			e.Errorf("now %v, want %v", r.Now, start.Add(time.Millisecond))
		}
	}},
	{"records carry all of the claim", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Version = 3 }))
		claim := e.claim("ann", "k", 2)
		claim.Meta = `{"x":[1,2]}`
		e.clock.Advance(time.Second)
		e.accepted(claim)
		want := port.Record{
			Claim: claim, Sale: sale, Epoch: 1, Seq: 1, Terms: 3, At: start.Add(time.Second), Live: true,
		}
		e.same("records", e.records(sale), map[sluice.OrderID]port.Record{claim.Order: want})
		for _, buyer := range []sluice.BuyerID{"ann", ""} {
			got, err := e.ledger.Find(e.ctx, claim.Order, buyer)
			e.must("Find", err)
			e.same("Find", got, want)
		}
	}},
	{"records are many, and stop when told to", one, func(e *env) {
		e.load(sale, plenty())
		want := map[sluice.OrderID]bool{}
		for b := range 5 {
			var batch []sluice.Claim
			for i := range 200 {
				c := e.claim(sluice.BuyerID(fmt.Sprintf("buyer-%d-%d", b, i)), "k", 1)
				want[c.Order] = true
				batch = append(batch, c)
			}
			e.claims(batch...)
		}
		got := e.records(sale)
		if len(got) != len(want) {
			e.Errorf("%d records, want %d", len(got), len(want))
		}
		seen := 0
		e.must("Records", e.ledger.Records(e.ctx, sale, func(port.Record) bool { seen++; return seen < 7 }))
		if seen != 7 {
			e.Errorf("%d records after saying stop at 7", seen)
		}
		seen = 0
		e.must("Holders", e.ledger.Holders(e.ctx, sale, func(sluice.BuyerID) bool { seen++; return seen < 7 }))
		if seen != 7 {
			e.Errorf("%d holders after saying stop at 7", seen)
		}
	}},
	{"holders are the buyers with accepted claims", one, func(e *env) {
		e.loadImage(port.LoadImage{
			Sale: sale, Epoch: 2, Terms: total(4),
			Records: []port.Record{e.record("old", "k", 1, 1, false)},
		})
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		e.claims(e.claim("ann", "k1", 1), e.claim("ann", "k2", 1), e.claim("bob", "k", 2), e.claim("cid", "k", 1))
		holders := map[sluice.BuyerID]bool{}
		e.must("Holders", e.ledger.Holders(e.ctx, sale, func(b sluice.BuyerID) bool { holders[b] = true; return true }))
		e.same("holders", holders, map[sluice.BuyerID]bool{"old": true, "ann": true, "bob": true})
	}},
	{"what is not there", one, func(e *env) {
		nothing := func(port.Record) bool { return true }
		order := e.order(sale)
		e.wantErr("Records", e.ledger.Records(e.ctx, sale, nothing), port.ErrNotLoaded)
		e.wantErr("Holders", e.ledger.Holders(e.ctx, sale, func(sluice.BuyerID) bool { return true }), port.ErrNotLoaded)
		_, err := e.ledger.Find(e.ctx, order, "ann")
		e.wantErr("Find", err, port.ErrNotLoaded)
		if !e.noJournal {
			_, err = e.ledger.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: port.New, Max: 1})
			e.wantErr("ReadJournal", err, port.ErrNotLoaded)
		}

		e.load(sale, total(5))
		claim := e.claim("ann", "k", 1)
		e.accepted(claim)
		for _, buyer := range []sluice.BuyerID{"ann", ""} {
			_, err = e.ledger.Find(e.ctx, e.order(sale), buyer)
			e.wantErr("Find", err, sluice.ErrOrderNotFound)
		}
		_, err = e.ledger.Find(e.ctx, claim.Order, "bob") // another's order
		e.wantErr("Find", err, sluice.ErrOrderNotFound)
		_, err = e.ledger.Find(e.ctx, "no order at all", "ann")
		e.wantErr("Find", err, sluice.ErrOrderNotFound)
	}},
}

// threeEntries makes a sale with three journal entries of one claim each.
func (e *env) threeEntries() []sluice.Claim {
	e.Helper()
	e.load(sale, plenty())
	var claims []sluice.Claim
	for i := range 3 {
		c := e.claim(sluice.BuyerID(fmt.Sprint("buyer-", i)), "k", int64(i+1))
		e.accepted(c)
		claims = append(claims, c)
	}
	return claims
}

// seqs returns the first sequence of each entry.
func seqs(entries []port.Entry) []int64 {
	all := make([]int64, len(entries))
	for i := range entries {
		all[i] = entries[i].FirstSeq
	}
	return all
}

// journalCases: at least once, with acknowledgement, oldest first.
var journalCases = []testCase{
	{"an entry holds the accepted claims of its batch", journal, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Version, t.Total = 7, 3 }))
		e.clock.Advance(time.Second)
		batch := []sluice.Claim{e.claim("ann", "k", 1), e.claim("bob", "k", 9), e.claim("cid", "k", 2)}
		batch[2].Meta = "m"
		e.claims(batch...)
		entries := e.journal(port.New, "", 10)
		if len(entries) != 1 || entries[0].ID == "" {
			e.Fatalf("%+v, want one entry with an id", entries)
		}
		e.same("entry", entries[0], port.Entry{
			ID: entries[0].ID, Sale: sale, Epoch: 1, Node: "node-a", Terms: 7, At: start.Add(time.Second), FirstSeq: 1,
			Claims: []sluice.Claim{batch[0], batch[2]}, Deliveries: 1,
		})
	}},
	{"refusals and repeats make no entry", journal, func(e *env) {
		e.load(sale, total(1))
		claim := e.claim("ann", "k", 1)
		e.accepted(claim)
		e.claims(claim, e.claim("bob", "k", 1))
		if got := seqs(e.peek(sale)); !slices.Equal(got, []int64{1}) {
			e.Errorf("entries at %v, want one", got)
		}
	}},
	{"new entries are handed out once, in order, and become own", journal, func(e *env) {
		claims := e.threeEntries()
		e.same("own before", seqs(e.journal(port.Own, "", 10)), []int64{})
		e.same("two", seqs(e.journal(port.New, "", 2)), []int64{1, 2})
		e.same("the third", seqs(e.journal(port.New, "", 2)), []int64{3})
		e.same("no more", seqs(e.journal(port.New, "", 2)), []int64{})
		own := e.journal(port.Own, "", 10)
		e.same("own", seqs(own), []int64{1, 2, 3})
		for i, entry := range own {
			e.same("claim", entry.Claims, claims[i:i+1])
		}
	}},
	{"own entries after an id, and at most so many", journal, func(e *env) {
		e.threeEntries()
		all := e.journal(port.New, "", 10)
		e.same("first page", seqs(e.journal(port.Own, "", 2)), []int64{1, 2})
		e.same("second page", seqs(e.journal(port.Own, all[1].ID, 2)), []int64{3})
		e.same("after the last", seqs(e.journal(port.Own, all[2].ID, 2)), []int64{})
		e.must("Ack", e.ledger.Ack(e.ctx, sale, []string{all[0].ID}))
		e.same("after an acknowledged id", seqs(e.journal(port.Own, all[0].ID, 2)), []int64{2, 3})
	}},
	{"deliveries are counted", journal, func(e *env) {
		e.threeEntries()
		for _, entry := range e.journal(port.New, "", 2) {
			e.same("first", entry.Deliveries, int64(1))
		}
		for want := int64(2); want < 5; want++ {
			for _, entry := range e.journal(port.Own, "", 1) {
				e.same("again", entry.Deliveries, want)
			}
		}
		e.same("the other one", e.journal(port.Own, "", 2)[1].Deliveries, int64(2))
	}},
	{"acknowledged entries are gone, unknown ids are ignored", journal, func(e *env) {
		e.threeEntries()
		all := e.journal(port.New, "", 10)
		e.same("backlog", e.read(sale).Backlog, int64(3))
		e.must("Ack", e.ledger.Ack(e.ctx, sale, []string{all[1].ID}))
		e.must("Ack nothing", e.ledger.Ack(e.ctx, sale, nil))
		e.must("Ack again", e.ledger.Ack(e.ctx, sale, []string{all[1].ID, all[1].ID}))
		e.same("own", seqs(e.journal(port.Own, "", 10)), []int64{1, 3})
		e.same("peek", seqs(e.peek(sale)), []int64{1, 3})
		e.same("backlog", e.read(sale).Backlog, int64(2))
		e.must("Ack", e.ledger.Ack(e.ctx, sale, ids(all)))
		e.same("backlog", e.read(sale).Backlog, int64(0))
		e.same("own", seqs(e.journal(port.Own, "", 10)), []int64{})
		e.wantTaken(6, 3) // the claims stay on record
		if n := len(e.records(sale)); n != 3 {
			e.Errorf("%d records, want 3", n)
		}
		e.accepted(e.claim("dan", "k", 1))
		e.same("the next", seqs(e.journal(port.New, "", 10)), []int64{4})
	}},
	{"peeking hands nothing out, and stops when told to", journal, func(e *env) {
		e.threeEntries()
		e.same("peek", seqs(e.peek(sale)), []int64{1, 2, 3})
		e.journal(port.New, "", 1)
		e.same("peek", seqs(e.peek(sale)), []int64{1, 2, 3})
		e.same("deliveries", e.journal(port.New, "", 1)[0].Deliveries, int64(1))
		n := 0
		e.must("PeekJournal", e.ledger.PeekJournal(e.ctx, sale, func(port.Entry) bool { n++; return n < 2 }))
		e.same("stopped", n, 2)
	}},
	{"two servers read different new entries", several | journal, func(e *env) {
		e.threeEntries()
		b := e.open(e, "node-b", e.clock)
		e.same("a", seqs(e.journal(port.New, "", 1)), []int64{1})
		got, err := b.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: port.New, Max: 10})
		e.must("ReadJournal", err)
		e.same("b", seqs(got), []int64{2, 3})
		e.same("own of a", seqs(e.journal(port.Own, "", 10)), []int64{1})
		got, err = b.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: port.Own, Max: 10})
		e.must("ReadJournal", err)
		e.same("own of b", seqs(got), []int64{2, 3})
		e.must("Ack what another was given", b.Ack(e.ctx, sale, ids(e.peek(sale)[:1])))
		e.same("own of a", seqs(e.journal(port.Own, "", 10)), []int64{})
	}},
	{"abandoned entries go to another server", several | journal, func(e *env) {
		e.threeEntries()
		e.journal(port.New, "", 2)
		b := e.open(e, "node-b", e.clock)
		read := func(idle time.Duration) []port.Entry {
			got, err := b.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: port.Abandoned, Idle: idle, Max: 10})
			e.must("ReadJournal", err)
			return got
		}
		e.same("too early", seqs(read(time.Hour)), []int64{})
		var got []port.Entry
		for end := time.Now().Add(10 * time.Second); len(got) < 2 && time.Now().Before(end); {
			got = append(got, read(time.Millisecond)...) // the idle time is the backend's own, not the test's clock
		}
		e.same("abandoned", seqs(got), []int64{1, 2})
		e.same("deliveries", got[0].Deliveries, int64(2))
		e.same("own of a", seqs(e.journal(port.Own, "", 10)), []int64{})
		own, err := b.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: port.Own, Max: 10})
		e.must("ReadJournal", err)
		e.same("own of b", seqs(own), []int64{1, 2})
	}},
	{"a server's entries name it", several | journal, func(e *env) {
		e.load(sale, plenty())
		b := e.open(e, "node-b", e.clock)
		_, err := b.Claim(e.ctx, sale, []sluice.Claim{e.claim("ann", "k", 1)})
		e.must("Claim", err)
		e.same("node", e.peek(sale)[0].Node, "node-b")
	}},
}

// restartCases: what was answered is there after a restart.
var restartCases = []testCase{
	{"nothing is lost", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = 10, 4 }))
		claim := e.claim("ann", "k1", 3)
		claim.Meta = "meta"
		want := e.accepted(claim)
		e.accepted(e.claim("bob", "k1", 1))
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		before, records, entries := e.read(sale), e.records(sale), e.peek(sale)

		e.restart()
		e.same("reading", e.read(sale), before)
		e.same("records", e.records(sale), records)
		e.same("journal", e.peek(sale), entries)
		want.Replayed = true
		e.same("repeat", e.one(claim), want)
		e.wantCode(e.claim("ann", "k2", 2), sluice.BuyerLimit)
		e.wantCode(e.claim("cid", "k1", 2), sluice.Insufficient)
		if d := e.accepted(e.claim("cid", "k2", 1)); d.Seq != 3 {
			e.Errorf("seq %d after the restart, want 3", d.Seq)
		}
		e.wantCode(e.claim("dan", "k", 1), sluice.SoldOut)
	}},
	{"loaded records are still answered", one, func(e *env) {
		record := e.record("ann", "k", 2, 9, false)
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 4, Terms: total(7), Taken: 0, Records: []port.Record{record}})
		e.restart()
		if r := e.read(sale); r.Epoch != 4 || r.Fence != port.FenceLoading {
			e.Errorf("%+v, want epoch 4, loading", r)
		}
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 4))
		if d := e.one(record.Claim); !d.Replayed || d.Seq != 9 {
			e.Errorf("%+v, want the loaded claim again", d)
		}
		e.same("record", e.records(sale)[record.Order], record)
	}},
	{"own entries come again, and the rest once", journal, func(e *env) {
		e.threeEntries()
		handed := e.journal(port.New, "", 2)
		e.must("Ack", e.ledger.Ack(e.ctx, sale, []string{handed[0].ID}))
		e.restart()
		own := e.journal(port.Own, "", 10)
		if len(own) == 0 || own[0].FirstSeq != 2 || own[0].ID != handed[1].ID || own[0].Deliveries < 2 {
			e.Fatalf("own %+v, want the entry at 2 again, with its id and a higher count", own)
		}
		// An entry that no reader has received may come as own or as new.
		e.same("all", seqs(append(own, e.journal(port.New, "", 10)...)), []int64{2, 3})
		e.ackAll()
		e.same("backlog", e.read(sale).Backlog, int64(0))
		e.restart()
		e.same("backlog", e.read(sale).Backlog, int64(0))
		e.same("peek", seqs(e.peek(sale)), []int64{})
	}},
	{"an older epoch stays refused", one, func(e *env) {
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 3, Terms: total(1)})
		e.restart()
		e.wantErr("Load", e.ledger.Load(e.ctx, port.LoadImage{Sale: sale, Epoch: 3, Terms: total(1)}), port.ErrStaleEpoch)
	}},
}
