package ledgertest

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// newSQLite is a real ledger for the suite's own tests.
func newSQLite(t testing.TB) Open {
	path := filepath.Join(t.TempDir(), "ledger.db")
	return func(t testing.TB, node string, clock *Clock) port.Ledger {
		t.Helper()
		l := must.Get(sqliteledger.Open(t.Context(), path, sqliteledger.Options{Node: node, Now: clock.Now}))(t)
		t.Cleanup(func() { l.Close() })
		return l
	}
}

// broken is a ledger with one fault of its own making. Each field, if set,
// takes the place of a method of the real one.
type broken struct {
	port.Ledger
	claim   func(l port.Ledger, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error)
	load    func(l port.Ledger, image port.LoadImage) error
	apply   func(l port.Ledger, sale sluice.SaleID, epoch int64, terms sluice.Terms) error
	release func(l port.Ledger, sale sluice.SaleID, releases []port.Release) (port.Released, error)
	fence   func() error
	ack     func() error
	reading func(r *port.Reading)
	record  func(r *port.Record) (keep bool)
	entry   func(e *port.Entry) (keep bool)
}

func (b *broken) Claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	if b.claim != nil {
		return b.claim(b.Ledger, sale, claims)
	}
	return b.Ledger.Claim(ctx, sale, claims)
}

func (b *broken) Load(ctx context.Context, image port.LoadImage) error {
	if b.load != nil {
		return b.load(b.Ledger, image)
	}
	return b.Ledger.Load(ctx, image)
}

func (b *broken) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	if b.apply != nil {
		return b.apply(b.Ledger, sale, epoch, terms)
	}
	return b.Ledger.Apply(ctx, sale, epoch, terms)
}

func (b *broken) Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error {
	if b.fence != nil {
		return b.fence()
	}
	return b.Ledger.Fence(ctx, sale, epoch, reason)
}

func (b *broken) Ack(ctx context.Context, sale sluice.SaleID, ids []string) error {
	if b.ack != nil {
		return b.ack()
	}
	return b.Ledger.Ack(ctx, sale, ids)
}

func (b *broken) Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error) {
	readings, err := b.Ledger.Read(ctx, sales)
	for i := range readings {
		if b.reading != nil {
			b.reading(&readings[i])
		}
	}
	return readings, err
}

func (b *broken) Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error {
	return b.Ledger.Records(ctx, sale, func(r port.Record) bool {
		return b.record != nil && !b.record(&r) || yield(r)
	})
}

func (b *broken) PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error {
	return b.Ledger.PeekJournal(ctx, sale, func(e port.Entry) bool {
		return b.entry != nil && !b.entry(&e) || yield(e)
	})
}

func (b *broken) Release(ctx context.Context, sale sluice.SaleID, releases []port.Release) (port.Released, error) {
	if b.release != nil {
		return b.release(b.Ledger, sale, releases)
	}
	return b.Ledger.Release(ctx, sale, releases)
}

// The broken methods have this context; the suite's deadline is around them.
var ctx = context.Background()

// oneMore loads and applies terms with one unit more, and hides it.
func oneMore() broken {
	raise := func(t sluice.Terms) sluice.Terms {
		if t.Total != unlimited {
			t.Total++
		}
		return t
	}
	return broken{
		load: func(l port.Ledger, image port.LoadImage) error {
			image.Terms = raise(image.Terms)
			return l.Load(ctx, image)
		},
		apply: func(l port.Ledger, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
			return l.Apply(ctx, sale, epoch, raise(terms))
		},
		reading: func(r *port.Reading) {
			if r.Loaded && r.Terms.Total != unlimited {
				r.Terms.Total--
			}
		},
	}
}

// decisions returns a ledger whose decisions are changed.
func decisions(change func(claim *sluice.Claim, d *sluice.Decision)) broken {
	return broken{claim: func(l port.Ledger, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
		out, err := l.Claim(ctx, sale, claims)
		for i := range out {
			change(&claims[i], &out[i])
		}
		return out, err
	}}
}

// brokenLedgers: each has to be caught by the random runs.
var brokenLedgers = []struct {
	name string
	make func() broken
}{
	{"sells one unit too many", oneMore},
	{"forgets that a claim was accepted", func() broken {
		return broken{claim: func(l port.Ledger, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
			renamed := make([]sluice.Claim, len(claims))
			for i, c := range claims {
				if c.Key == "attempt-3" {
					c.Key = sluice.Key(c.Order[len(c.Order)-32:])
				}
				renamed[i] = c
			}
			return l.Claim(ctx, sale, renamed)
		}}
	}},
	{"answers a repeat with the order id it proposes", func() broken {
		return decisions(func(c *sluice.Claim, d *sluice.Decision) {
			if d.Replayed {
				d.Order = c.Order
			}
		})
	}},
	{"does not say that it repeats", func() broken {
		return decisions(func(c *sluice.Claim, d *sluice.Decision) { d.Replayed = false })
	}},
	{"leaves a gap in the sequence", func() broken {
		skip := func(seq int64) int64 {
			if seq > 20 {
				return seq + 1
			}
			return seq
		}
		b := decisions(func(c *sluice.Claim, d *sluice.Decision) { d.Seq = skip(d.Seq) })
		b.reading = func(r *port.Reading) { r.Seq = skip(r.Seq) }
		b.record = func(r *port.Record) bool { r.Seq = skip(r.Seq); return true }
		return b
	}},
	{"drops a journal entry", func() broken {
		return broken{entry: func(e *port.Entry) bool { return e.FirstSeq%5 != 0 }}
	}},
	{"repeats a journal entry's place", func() broken {
		return broken{entry: func(e *port.Entry) bool {
			if e.FirstSeq > 5 {
				e.FirstSeq--
			}
			return true
		}}
	}},
	{"loses the meta on the way to the journal", func() broken {
		return broken{entry: func(e *port.Entry) bool {
			for i := range e.Claims {
				e.Claims[i].Meta = ""
			}
			return true
		}}
	}},
	{"does not acknowledge", func() broken { return broken{ack: func() error { return nil }} }},
	{"does not give units back", func() broken {
		return broken{release: func(_ port.Ledger, _ sluice.SaleID, releases []port.Release) (port.Released, error) {
			return port.Released{Applied: len(releases)}, nil
		}}
	}},
	{"gives the units of an older epoch back, too", func() broken {
		return broken{release: func(l port.Ledger, sale sluice.SaleID, releases []port.Release) (port.Released,
			error,
		) {
			readings, err := l.Read(ctx, []sluice.SaleID{sale})
			if err != nil {
				return port.Released{}, err
			}
			for i := range releases {
				releases[i].Epoch = readings[0].Epoch
			}
			return l.Release(ctx, sale, releases)
		}}
	}},
	{"does not fence", func() broken { return broken{fence: func() error { return nil }} }},
	{"forgets a record", func() broken {
		return broken{record: func(r *port.Record) bool { return r.Seq != 3 }}
	}},
	{"refills a live sale", func() broken {
		var mu sync.Mutex
		highest := map[sluice.SaleID]int64{}
		return broken{load: func(l port.Ledger, image port.LoadImage) error {
			mu.Lock()
			defer mu.Unlock()
			if image.Epoch <= highest[image.Sale] {
				return nil
			}
			highest[image.Sale] = image.Epoch
			return l.Load(ctx, image)
		}}
	}},
	{"does not count what it loads", func() broken {
		return broken{load: func(l port.Ledger, image port.LoadImage) error {
			image.Taken, image.Records = 0, nil
			return l.Load(ctx, image)
		}}
	}},
	{"has no cooldown after reopening", func() broken {
		return broken{reading: func(r *port.Reading) { r.CooldownUntil = time.Time{} }}
	}},
	{"takes a lower version of the terms", func() broken {
		return broken{apply: func(l port.Ledger, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
			r, err := l.Read(ctx, []sluice.SaleID{sale})
			if err != nil {
				return err
			}
			terms.Version = max(terms.Version, r[0].Terms.Version+1)
			return l.Apply(ctx, sale, epoch, terms)
		}}
	}},
	{"allows one unit more than the limit", func() broken {
		return broken{apply: func(l port.Ledger, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
			if terms.MaxPerBuyer != unlimited {
				terms.MaxPerBuyer++
			}
			return l.Apply(ctx, sale, epoch, terms)
		}, reading: func(r *port.Reading) {
			if r.Loaded && r.Terms.Version > 1 && r.Terms.MaxPerBuyer != unlimited {
				r.Terms.MaxPerBuyer--
			}
		}}
	}},
	{"opens a millisecond early", func() broken {
		return broken{apply: func(l port.Ledger, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
			terms.OpensAt = terms.OpensAt.Add(-time.Millisecond)
			return l.Apply(ctx, sale, epoch, terms)
		}, reading: func(r *port.Reading) {
			if r.Loaded && r.Terms.Version > 1 {
				r.Terms.OpensAt = r.Terms.OpensAt.Add(time.Millisecond)
			}
		}}
	}},
}

// TestSuiteCatches breaks a ledger in one way at a time: the random runs have
// to find each of them. Otherwise their silence would mean nothing.
func TestSuiteCatches(t *testing.T) {
	for _, tc := range brokenLedgers {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, seed := range randomSeeds()[:3] {
				sound := newSQLite(t)
				b := tc.make()
				open := func(t testing.TB, node string, clock *Clock) port.Ledger {
					opened := b
					opened.Ledger = sound(t, node, clock)
					return &opened
				}
				if err := judge(t, open, seed, false); err != nil {
					first, _, _ := strings.Cut(err.Error(), "\n")
					t.Logf("caught: %s", first)
					return
				}
			}
			t.Error("not caught")
		})
	}
}

// TestSuiteCatchesLossAtRestart: a ledger that is opened with older data.
func TestSuiteCatchesLossAtRestart(t *testing.T) {
	opened := 0
	open := func(t testing.TB, node string, clock *Clock) port.Ledger {
		opened++
		return newSQLite(t)(t, node, clock) // fresh data each time
	}
	err := judge(t, open, 1, false)
	if err == nil || opened < 2 {
		t.Errorf("opened %d times, error %v; want loss to be found", opened, err)
	}
}

// TestInvariantsCatch: the checks that do without the model, on planted
// violations.
func TestInvariantsCatch(t *testing.T) {
	newSale := func() (port.Reading, []port.Record, []port.Entry) {
		terms := with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer, t.MaxOrders = 10, 4, 2 })
		r := port.Reading{Sale: sale, Loaded: true, Epoch: 1, Seq: 3, Taken: 5, Terms: terms, Backlog: 2, Oldest: 1}
		var records []port.Record
		for i, c := range []sluice.Claim{
			{Buyer: "ann", Key: "k1", Quantity: 1, Order: "1"},
			{Buyer: "ann", Key: "k2", Quantity: 2, Order: "2"},
			{Buyer: "bob", Key: "k1", Quantity: 2, Order: "3"},
		} {
			records = append(records, port.Record{
				Claim: c, Sale: sale, Epoch: 1, Seq: int64(i + 1), Terms: 1, At: start,
				Live: true,
			})
		}
		return r, records, []port.Entry{
			{
				ID: "a", Sale: sale, Epoch: 1, Terms: 1, At: start, FirstSeq: 1,
				Claims: []sluice.Claim{records[0].Claim, records[1].Claim},
			},
			{ID: "b", Sale: sale, Epoch: 1, Terms: 1, At: start, FirstSeq: 3, Claims: []sluice.Claim{records[2].Claim}},
		}
	}
	for _, tc := range []struct {
		want  string // empty: nothing is wrong
		plant func(r *port.Reading, records []port.Record, journal []port.Entry)
	}{
		{"", func(r *port.Reading, records []port.Record, journal []port.Entry) {}},
		{"I1: taken 5 of a total of 4", func(r *port.Reading, _ []port.Record, _ []port.Entry) { r.Terms.Total = 4 }},
		{"I2: taken 6", func(r *port.Reading, _ []port.Record, _ []port.Entry) { r.Taken = 6 }},
		{"I3: order 2 is the buyer's unit 5 of 4", func(_ *port.Reading, records []port.Record, _ []port.Entry) {
			records[1].Quantity = 4
		}},
		{"buyer's claim 3 of 2", func(_ *port.Reading, records []port.Record, _ []port.Entry) {
			records[2].Buyer, records[2].Key, records[2].Quantity = "ann", "k3", 1
		}},
		{"I5: claim", func(_ *port.Reading, records []port.Record, _ []port.Entry) { records[1].Key = "k1" }},
		{"I5: order 1 is on record twice", func(_ *port.Reading, records []port.Record, _ []port.Entry) {
			records[1].Order = "1"
		}},
		{"I8: order 2", func(_ *port.Reading, records []port.Record, _ []port.Entry) {
			records[1].At = start.Add(-2 * time.Hour)
		}},
		{"unknown terms 9", func(_ *port.Reading, records []port.Record, _ []port.Entry) { records[1].Terms = 9 }},
		{"seq 2 of 1 to 3 has no record", func(_ *port.Reading, records []port.Record, _ []port.Entry) {
			records[1].Seq = 4
		}},
		{"seq 3 is both", func(_ *port.Reading, records []port.Record, _ []port.Entry) { records[1].Seq = 3 }},
		{"oldest 2", func(r *port.Reading, _ []port.Record, _ []port.Entry) { r.Oldest = 2 }},
		{"backlog 3", func(r *port.Reading, _ []port.Record, _ []port.Entry) { r.Backlog = 3 }},
		{"I5: seq 3 is not in the journal", func(_ *port.Reading, _ []port.Record, journal []port.Entry) {
			journal[1].Claims = nil
		}},
		{"seq 1 after 1", func(_ *port.Reading, _ []port.Record, journal []port.Entry) {
			journal[1] = journal[0]
			journal[0].Claims = journal[0].Claims[:1]
		}},
		{"I5: entry b, seq 3", func(_ *port.Reading, _ []port.Record, journal []port.Entry) { journal[1].Terms = 2 }},
	} {
		r, records, journal := newSale()
		tc.plant(&r, records, journal)
		wrong := strings.Join(checkInvariants(r, records, journal, nil, map[int64]sluice.Terms{1: newSaleTerms(newSale)}),
			"\n")
		if (wrong == "") != (tc.want == "") || !strings.Contains(wrong, tc.want) {
			t.Errorf("want %q, found:\n%s", tc.want, wrong)
		}
	}
}

func newSaleTerms(newSale func() (port.Reading, []port.Record, []port.Entry)) sluice.Terms {
	r, _, _ := newSale()
	return r.Terms
}

// TestHistoriesCatch: porcupine has to reject what no order in time explains.
func TestHistoriesCatch(t *testing.T) {
	claim := func(buyer sluice.BuyerID, key sluice.Key) call {
		return call{sluice.Claim{Buyer: buyer, Key: key, Quantity: 1, Order: sluice.OrderID(string(buyer) + string(key))}}
	}
	accepted := func(c call, seq int64, replayed bool) answer {
		return answer{decision: sluice.Decision{
			Code: sluice.Accepted, Order: c.claim.Order, Quantity: 1, Seq: seq, At: start,
			Epoch: 1, Terms: 1, Replayed: replayed,
		}}
	}
	ann, bob := claim("ann", "k"), claim("bob", "k")
	soldOut := answer{decision: sluice.Decision{Code: sluice.SoldOut}}
	for name, tc := range map[string]struct {
		ok      bool
		history []said
	}{
		"in turn": {true, []said{
			{ann, accepted(ann, 1, false)},
			{bob, soldOut},
			{ann, accepted(ann, 1, true)},
		}},
		"sold twice":                 {false, []said{{ann, accepted(ann, 1, false)}, {bob, accepted(bob, 2, false)}}},
		"sold out before it is":      {false, []said{{bob, soldOut}, {ann, accepted(ann, 1, false)}}},
		"a repeat is forgotten":      {false, []said{{ann, accepted(ann, 1, false)}, {ann, soldOut}}},
		"a reading of the past":      {false, []said{{ann, accepted(ann, 1, false)}, {call{}, answer{}}}},
		"a lost reply explains it":   {true, []said{{ann, answer{unknown: true}}, {bob, soldOut}}},
		"a lost reply of a claim":    {true, []said{{ann, answer{unknown: true}}, {bob, accepted(bob, 1, false)}}},
		"nothing lost, yet sold out": {false, []said{{call{}, answer{}}, {bob, soldOut}}},
	} {
		if got := explained(tc.history); got != tc.ok {
			t.Errorf("%s: explained %t, want %t", name, got, tc.ok)
		}
	}
}
