package redisledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
)

// openTest opens a ledger with keys of the test's own.
func openTest(t *testing.T) *Ledger {
	t.Helper()
	l := must.Get(Open(t.Context(), servertest.Redis(t), Options{
		Node: "a", Prefix: fmt.Sprintf("sluicetest-%016x", rand.Uint64()),
	}))(t)
	t.Cleanup(func() {
		for _, key := range append(l.keys.of("s"), l.keys.aside("s", 2)) {
			l.client.Do(context.Background(), l.client.B().Unlink().Key(key).Build())
		}
		l.Close()
	})
	return l
}

// image makes a load of n records, every third of them ended.
func image(epoch int64, n int, terms sluice.Terms) port.LoadImage {
	terms.Version, terms.OpensAt = 1, time.UnixMilli(1000).UTC()
	image := port.LoadImage{Sale: "s", Epoch: epoch, Terms: terms}
	for i := range n {
		id := fmt.Sprintf("%032x", i)
		r := port.Record{
			Claim: sluice.Claim{
				Buyer: sluice.BuyerID(fmt.Sprintf("买家 %d", i/2)), Key: sluice.Key(id), Quantity: int64(i%4 + 1),
				Order: sluice.SaleID("s").Order(id),
			},
			Sale: "s", Epoch: epoch - 1, Seq: int64(i + 1), Terms: 1, At: time.UnixMilli(int64(5000 + i)).UTC(), Live: i%3 > 0,
		}
		if i%5 == 0 {
			r.Meta = fmt.Sprintf(`{"n":%d}`, i)
		}
		if r.Live {
			image.Taken += r.Quantity
		}
		image.Records = append(image.Records, r)
	}
	return image
}

var (
	limited   = sluice.Terms{Total: 1 << 40, MaxPerBuyer: 8, MaxOrders: 3}
	unlimited = sluice.Terms{Total: 1 << 40, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited}
	allTerms  = map[string]sluice.Terms{"limits": limited, "no limits": unlimited}
)

func TestLoadOfManyRecords(t *testing.T) {
	for name, terms := range allTerms {
		t.Run(name, func(t *testing.T) {
			l := openTest(t)
			image := image(2, 3000, terms)
			must.Succeed(t, l.Load(t.Context(), image))
			must.Succeed(t, l.Unfence(t.Context(), "s", 2))

			want, got := map[sluice.OrderID]port.Record{}, map[sluice.OrderID]port.Record{}
			for _, r := range image.Records {
				want[r.Order] = r
			}
			must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool { got[r.Order] = r; return true }))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("records: -want +got\n%s", diff)
			}
			holders := map[sluice.BuyerID]bool{}
			must.Succeed(t, l.Holders(t.Context(), "s", func(b sluice.BuyerID) bool { holders[b] = true; return true }))
			if len(holders) != 1500 {
				t.Errorf("%d holders, want 1500", len(holders))
			}

			claims := make([]sluice.Claim, len(image.Records))
			for i := range claims {
				claims[i] = image.Records[i].Claim
			}
			decisions := must.Get(l.Claim(t.Context(), "s", claims))(t)
			for i, d := range decisions {
				if r := image.Records[i]; d.Code != sluice.Accepted || !d.Replayed || d.Order != r.Order || d.Seq != r.Seq ||
					!d.At.Equal(r.At) {
					t.Fatalf("repeat of %+v: %+v", r, d)
				}
			}
		})
	}
}

// Live units count against max_per_buyer, ended ones against max_orders too.
func TestLoadCountsForTheLimits(t *testing.T) {
	l := openTest(t)
	im := image(2, 6, limited) // buyer 0: 1 (ended) and 2 units, buyer 1: 3 and 4 (ended), buyer 2: 1 and 2
	must.Succeed(t, l.Load(t.Context(), im))
	must.Succeed(t, l.Unfence(t.Context(), "s", 2))
	ask := func(buyer int, key string, quantity int64) sluice.Claim {
		return sluice.Claim{
			Buyer: im.Records[2*buyer].Buyer, Key: sluice.Key(key), Quantity: quantity,
			Order: sluice.SaleID("s").Order(strings.Repeat("f", 24) + key),
		}
	}
	decisions := must.Get(l.Claim(t.Context(), "s", []sluice.Claim{
		ask(0, "aaaaaaa0", 7), ask(0, "aaaaaaa1", 6), ask(0, "aaaaaaa2", 1), // 2 + 7 > 8; 2 + 6; a fourth claim
		ask(1, "aaaaaaa3", 5), ask(2, "aaaaaaa4", 6), // 3 + 5; 3 + 6 > 8
	}))(t)
	var got []string
	for _, d := range decisions {
		got = append(got, fmt.Sprint(d.Code, len(d.Orders)))
	}
	if diff := cmp.Diff([]string{"buyer_limit 1", "accepted 0", "buyer_limit 2", "accepted 0", "buyer_limit 2"},
		got); diff != "" {
		t.Errorf("codes and live orders: -want +got\n%s", diff)
	}
}

// A load that broke off decides nothing and shows nothing, and cannot be
// unfenced; only a load under a higher epoch helps.
func TestLoadThatBreaksOff(t *testing.T) {
	for name, terms := range allTerms {
		t.Run(name, func(t *testing.T) {
			l, ctx := openTest(t), t.Context()
			first := image(1, 0, terms)
			must.Succeed(t, l.Load(ctx, first))
			must.Succeed(t, l.Unfence(ctx, "s", 1))
			im := image(2, 10, terms)
			decisions, err := l.Claim(ctx, "s", []sluice.Claim{im.Records[0].Claim})
			if err != nil || decisions[0].Code != sluice.Accepted {
				t.Fatal(decisions, err)
			}

			must.Succeed(t, l.loadBegin(ctx, &im, "2"))
			must.Succeed(t, l.loadRecords(ctx, "s", []string{"2", "somebody", "1\t1"}))

			decisions, err = l.Claim(ctx, "s", []sluice.Claim{im.Records[0].Claim})
			if err != nil || decisions[0].Code != sluice.Unavailable {
				t.Errorf("Claim: %v, %v", decisions, err)
			}
			readings, err := l.Read(ctx, []sluice.SaleID{"s"})
			if err != nil || !readings[0].Loaded || readings[0].Fence != port.FenceLoading || readings[0].Epoch != 2 {
				t.Errorf("Read: %+v, %v", readings, err)
			}
			_, findErr := l.Find(ctx, im.Records[0].Order, im.Records[0].Buyer)
			for what, err := range map[string]error{
				"Find":    findErr,
				"Records": l.Records(ctx, "s", func(port.Record) bool { return true }),
				"Holders": l.Holders(ctx, "s", func(sluice.BuyerID) bool { return true }),
			} {
				if !errors.Is(err, port.ErrNotLoaded) {
					t.Errorf("%s: %v, want ErrNotLoaded", what, err)
				}
			}
			if err := l.Unfence(ctx, "s", 2); !errors.Is(err, errIncomplete) {
				t.Errorf("Unfence: %v, want a refusal", err)
			}
			if err := l.Load(ctx, im); !errors.Is(err, port.ErrStaleEpoch) {
				t.Errorf("Load under the same epoch: %v, want ErrStaleEpoch", err)
			}
			im.Epoch = 3
			must.Succeed(t, l.Load(ctx, im))
			must.Succeed(t, l.Unfence(ctx, "s", 3))
			if r, err := l.Find(ctx, im.Records[0].Order, im.Records[0].Buyer); err != nil || r.Order != im.Records[0].Order {
				t.Errorf("Find: %+v, %v", r, err)
			}
		})
	}
}

// Of two loads at once the one with the higher epoch wins, whole.
func TestLoadIsTakenOver(t *testing.T) {
	l, ctx := openTest(t), t.Context()
	slow := image(2, 10, limited)
	must.Succeed(t, l.loadBegin(ctx, &slow, "2"))
	must.Succeed(t, l.Load(ctx, image(3, 5, limited)))
	for _, args := range [][]string{{"2", "somebody", "1\t1"}, {"2", sentinel, "2"}} {
		if err := l.loadRecords(ctx, "s", args); !errors.Is(err, port.ErrStaleEpoch) {
			t.Errorf("records of the slow load: %v, want ErrStaleEpoch", err)
		}
	}
	must.Succeed(t, l.Unfence(ctx, "s", 3))
	if err := l.loadRecords(ctx, "s", []string{"3", "somebody", "1\t1"}); !errors.Is(err, port.ErrStaleEpoch) {
		t.Errorf("records of a load that has ended: %v, want ErrStaleEpoch", err)
	}
	n := 0
	must.Succeed(t, l.Records(ctx, "s", func(port.Record) bool { n++; return true }))
	if n != 5 {
		t.Errorf("%d records, want those of the load that won", n)
	}
}

// An image that cannot be right changes nothing.
func TestLoadRefusesBadImages(t *testing.T) {
	l, ctx := openTest(t), t.Context()
	must.Succeed(t, l.Load(ctx, image(1, 4, limited)))
	must.Succeed(t, l.Unfence(ctx, "s", 1))
	for name, change := range map[string]func(*port.LoadImage){
		"epoch 0":      func(im *port.LoadImage) { im.Epoch = 0 },
		"a key twice":  func(im *port.LoadImage) { im.Records[1].Key = im.Records[0].Key },
		"a bad record": func(im *port.LoadImage) { im.Records[3].Meta = "two\nlines" },
	} {
		im := image(2, 4, limited)
		change(&im)
		if err := l.Load(ctx, im); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if readings, err := l.Read(ctx, []sluice.SaleID{"s"}); err != nil || readings[0].Epoch != 1 ||
		readings[0].Fence != "" {
		t.Errorf("reading %+v, %v; want the sale as it was", readings, err)
	}
}

// A load starts a new journal and keeps the entries that were not acknowledged.
func TestLoadKeepsTheOldJournalAside(t *testing.T) {
	l, ctx := openTest(t), t.Context()
	must.Succeed(t, l.Load(ctx, image(1, 0, limited)))
	must.Succeed(t, l.Unfence(ctx, "s", 1))
	claims := image(2, 2, limited).Records
	for _, r := range claims {
		must.Get(l.Claim(ctx, "s", []sluice.Claim{r.Claim}))(t)
	}
	entries, err := l.ReadJournal(ctx, port.JournalRead{Sale: "s", Source: port.New})
	if err != nil || len(entries) != 2 {
		t.Fatal(entries, err)
	}
	must.Succeed(t, l.Ack(ctx, "s", []string{entries[0].ID}))

	must.Succeed(t, l.Load(ctx, image(2, 0, limited)))
	for _, source := range []port.Source{port.Own, port.New} {
		if entries, err := l.ReadJournal(ctx, port.JournalRead{Sale: "s", Source: source}); err != nil ||
			len(entries) != 0 {
			t.Errorf("source %d: %v, %v; want an empty journal", source, entries, err)
		}
	}
	aside, err := l.client.Do(ctx, l.client.B().Xrange().Key(l.keys.aside("s", 2)).Start("-").End("+").Build()).AsXRange()
	if err != nil || len(aside) != 1 || "1:"+aside[0].ID != entries[1].ID {
		t.Fatalf("kept aside: %v, %v; want entry %s", aside, err, entries[1].ID)
	}
	if e := decodeEntry("s", aside[0]); e.Damage != nil || e.Claims[0].Order != claims[1].Order {
		t.Errorf("kept aside: %+v", e)
	}
}

// A record is written and read back as it was, whatever a valid claim holds.
func TestRecordRoundTrip(t *testing.T) {
	const seed = 1
	random := rand.New(rand.NewPCG(seed, 0))
	text := func(alphabet string, least, most int) string {
		runes := []rune(alphabet)
		b := make([]rune, least+random.IntN(most-least+1))
		for i := range b {
			b[i] = runes[random.IntN(len(runes))]
		}
		return string(b)
	}
	for range 1000 {
		r := port.Record{
			Claim: sluice.Claim{
				Buyer:    sluice.BuyerID(text(`abxyz/{}"'%\ 买0189|.:-`, 1, 40)),
				Key:      sluice.Key(text("abyzAZ019_-", 8, 64)),
				Quantity: 1 + random.Int64N(sluice.MaxQuantity),
				Order:    sluice.SaleID("s").Order(text("0123456789abcdef", 32, 32)),
			},
			Sale: "s", Epoch: 1 + random.Int64N(1<<40), Seq: 1 + random.Int64N(1<<40), Terms: 1 + random.Int64N(1000),
			Live: random.IntN(2) == 0, At: time.UnixMilli(random.Int64N(253402300800000)).UTC(),
		}
		if random.IntN(2) == 0 {
			r.Meta = `{"` + text("abz", 0, 5) + `":"` + text(`az\"`, 0, 9) + `"}`
		}
		line := string(appendRecord(nil, &r))
		if strings.Contains(line, "\n") {
			t.Fatalf("line %q", line)
		}
		got, err := resolve("s", r.Buyer, line, nil)
		if diff := cmp.Diff(r, got); err != nil || diff != "" {
			t.Fatalf("%v: -want +got\n%s", err, diff)
		}
	}
}

// Of a batch, what was not accepted has no sequence, and the others have no gap.
func TestSequencesOfABatch(t *testing.T) {
	line := func(position string) string {
		c := image(2, 1, limited).Records[0].Claim
		text := string(port.AppendClaim(nil, &c))
		return text[:len(text)-1] + "\tb1:" + position + "\t1"
	}
	buyer := image(2, 1, limited).Records[0].Buyer
	for kept, want := range map[string][]int64{
		"7\t2\t5000\t3":             {7, 8, 9, 10},
		"7\t2\t5000\t3\t1":          {0, 7, 8, 9},
		"7\t2\t5000\t3\t2,3":        {7, 0, 0, 8},
		"7\t2\t5000\t3\t4":          {7, 8, 9, 0},
		"7\t2\t5000\t3\t1,x":        {0, 0, 0, 0},
		"":                          {0, 0, 0, 0},
		"7\t2\t5000":                {0, 0, 0, 0},
		"07\t2\t5000\t3":            {0, 0, 0, 0},
		"7\t2\t5000\t3\t\t":         {0, 0, 0, 0},
		"0\t2\t5000\t3":             {0, 0, 0, 0},
		"7\t1125899906842625\t5\t3": {0, 0, 0, 0},
	} {
		for i, seq := range want {
			r, err := resolve("s", buyer, line(fmt.Sprint(i+1)), map[string]string{"b1": kept})
			if (err == nil) != (seq > 0) ||
				err == nil && (r.Seq != seq || r.Epoch != 2 || r.Terms != 3 || r.At.UnixMilli() != 5000) {
				t.Errorf("%q, position %d: %+v, %v; want sequence %d", kept, i+1, r, err, seq)
			}
		}
	}
	for _, position := range []string{"0", "-1", "", "01", "x", "1:1"} {
		if r, err := resolve("s", buyer, line(position), map[string]string{"b1": "7\t2\t5000\t3"}); err == nil {
			t.Errorf("position %q: %+v", position, r)
		}
	}
}

func TestDamagedRecordsAreErrors(t *testing.T) {
	good := string(appendRecord(nil, &image(2, 1, limited).Records[0]))
	for _, line := range []string{
		"", "\t\t\t\t", good[:len(good)-2], good + "\t1", strings.Replace(good, "买家", "x", 1),
		strings.Replace(good, "5000", "5k", 1),
	} {
		if r, err := resolve("s", "买家 0", line, nil); err == nil {
			t.Errorf("%q: %+v, want an error", line, r)
		}
	}
	if _, err := resolve("s", "买家 0", good, nil); err != nil {
		t.Error(err)
	}
}

// Unpaid endings are counted while there is no limit of them, and count once there is one.
func TestUnpaidEndingsBeforeTheirLimit(t *testing.T) {
	for name, terms := range allTerms {
		t.Run(name, func(t *testing.T) {
			l := openTest(t)
			terms := terms
			terms.MaxUnpaid = 0
			must.Succeed(t, l.Load(t.Context(), image(2, 6, terms)))
			must.Succeed(t, l.Unfence(t.Context(), "s", 2))
			head := func(buyer sluice.BuyerID) string {
				t.Helper()
				value, err := l.client.Do(t.Context(), l.client.B().Hget().Key(l.keys.buyers("s")).Field(string(buyer)).Build()).
					ToString()
				must.Succeed(t, err)
				value, _, _ = strings.Cut(value, "\n")
				return value
			}
			claim := func(key string) sluice.Claim {
				return sluice.Claim{
					Buyer: "old", Key: sluice.Key(key), Quantity: 1,
					Order: sluice.SaleID("s").Order(strings.Repeat("e", 24) + key),
				}
			}
			end := func(c sluice.Claim) {
				t.Helper()
				answer, err := l.Release(t.Context(), "s", []port.Release{
					{Order: c.Order, Sale: "s", Buyer: c.Buyer, Key: c.Key, Quantity: 1, Epoch: 2, Unpaid: true},
				})
				if err != nil || answer.Applied != 1 {
					t.Fatalf("%+v, %v", answer, err)
				}
			}
			accept := func(c sluice.Claim) {
				t.Helper()
				decisions, err := l.Claim(t.Context(), "s", []sluice.Claim{c})
				if err != nil || decisions[0].Code != sluice.Accepted {
					t.Fatalf("%+v, %v", decisions, err)
				}
			}
			if readings, err := l.Read(t.Context(), []sluice.SaleID{"s"}); err != nil || readings[0].Fence != "" ||
				readings[0].Terms.MaxUnpaid != 0 {
				t.Fatalf("%+v, %v", readings, err)
			}
			first, second := claim("aaaaaaa1"), claim("aaaaaaa2")
			accept(first)
			if got := head("old"); got != "1\t1" {
				t.Errorf("head %q", got)
			}
			end(first)
			accept(second) // there is no limit
			if got := head("old"); got != "1\t2\t1" {
				t.Errorf("head %q", got)
			}
			found, err := l.Recall(t.Context(), sluice.ClaimID{Sale: "s", Buyer: "old", Key: first.Key})
			if err != nil || found.Live || !found.Unpaid {
				t.Errorf("record %+v, %v", found, err)
			}
			terms.Version, terms.OpensAt, terms.MaxUnpaid = 2, time.UnixMilli(1000).UTC(), 1
			must.Succeed(t, l.Apply(t.Context(), "s", 2, terms))
			if decisions, err := l.Claim(t.Context(), "s", []sluice.Claim{claim("aaaaaaa3")}); err != nil ||
				decisions[0].Code != sluice.BuyerLimit {
				t.Errorf("%+v, %v", decisions, err)
			}
		})
	}
}

// Of a sale whose format is a later one nothing is decided, read, changed or dropped.
func TestASaleOfALaterFormat(t *testing.T) {
	l, ctx := openTest(t), t.Context()
	must.Succeed(t, l.Load(ctx, image(1, 0, limited)))
	must.Succeed(t, l.Unfence(ctx, "s", 1))
	r := image(2, 1, limited).Records[0]
	if d, err := l.Claim(ctx, "s", []sluice.Claim{r.Claim}); err != nil || d[0].Code != sluice.Accepted {
		t.Fatal(d, err)
	}
	change := l.client.B().Hset().Key(l.keys.sale("s")).FieldValue().FieldValue("format", "2").Build()
	must.Succeed(t, l.client.Do(ctx, change).Error())
	dump := func() string {
		t.Helper()
		all := must.Get(l.client.Do(ctx, l.client.B().Hgetall().Key(l.keys.sale("s")).Build()).AsStrMap())(t)
		n := must.Get(l.client.Do(ctx, l.client.B().Xpending().Key(l.keys.journal("s")).Group(group).Build()).ToArray())(t)
		return fmt.Sprint(all, n[0].String())
	}
	was := dump()
	if d, err := l.Claim(ctx, "s", []sluice.Claim{r.Claim}); err != nil || d[0].Code != sluice.Unavailable {
		t.Errorf("%+v, %v", d, err)
	}
	errs := map[string]error{"load": l.Load(ctx, image(2, 0, limited)), "drop": l.Drop(ctx, "s", 1)}
	_, errs["release"] = l.Release(ctx, "s", []port.Release{{Buyer: r.Buyer, Key: r.Key, Order: r.Order, Epoch: 1}})
	_, errs["read"] = l.Read(ctx, []sluice.SaleID{"s"})
	_, errs["recall"] = l.Recall(ctx, sluice.ClaimID{Sale: "s", Buyer: r.Buyer, Key: r.Key})
	_, errs["journal"] = l.ReadJournal(ctx, port.JournalRead{Sale: "s", Source: port.New})
	errs["records"] = l.Records(ctx, "s", func(port.Record) bool { return true })
	for what, err := range errs {
		if err == nil || !strings.Contains(err.Error(), "format") || errors.Is(err, port.ErrNotLoaded) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if now := dump(); now != was {
		t.Errorf("it was changed:\n%s\n%s", was, now)
	}
}

// A name of a batch that is taken decides nothing: what is kept under it is another's.
func TestABatchNameIsTaken(t *testing.T) {
	l, ctx := openTest(t), t.Context()
	must.Succeed(t, l.Load(ctx, image(1, 0, limited)))
	must.Succeed(t, l.Unfence(ctx, "s", 1))
	claims := image(2, 3, limited).Records
	for i, want := range []bool{true, false, true} {
		if i == 1 {
			l.batches.Store(0)
		}
		d, err := l.Claim(ctx, "s", []sluice.Claim{claims[i].Claim})
		if (err == nil) != want || want && d[0].Code != sluice.Accepted {
			t.Errorf("claim %d: %+v, %v", i, d, err)
		}
	}
	if r, err := l.Read(ctx, []sluice.SaleID{"s"}); err != nil || r[0].Seq != 2 || r[0].Backlog != 2 || r[0].Fence != "" {
		t.Errorf("%+v, %v", r, err)
	}
}
