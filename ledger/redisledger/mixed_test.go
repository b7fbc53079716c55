package redisledger_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/servertest"
	"github.com/sluicehq/sluice/ledger/redisledger"
)

// A batch of new buyers, of some who occur again in it and of some who have claims already
// is decided claim by claim: what is accepted has the next sequences, and is in the journal
// and on record; what is not is in neither.
func TestAMixedBatch(t *testing.T) {
	url := servertest.Redis(t)
	const n = 250
	for _, quantities := range []int64{1, 3} {
		for _, total := range []int64{1 << 40, 200, 20} {
			t.Run(fmt.Sprintf("up to %d of %d", quantities, total), func(t *testing.T) {
				l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
				terms := loadOpen(t, l, "s", sluice.Terms{Version: 1, Total: total, MaxPerBuyer: 4, MaxOrders: 2})
				held := makeClaims("s", 0, 20) // claims from before, some of a second key
				for i := range 5 {
					held[10+i].Buyer = held[i].Buyer
				}

				batch := make([]sluice.Claim, n)
				for i := range batch {
					batch[i] = makeClaim("s", 100+i)
					batch[i].Quantity = int64(i)%quantities + 1
					switch {
					case i%4 == 3: // a repeat
						batch[i] = held[i%len(held)]
					case i%10 == 2: // a new key of a buyer who has others
						batch[i].Buyer = held[i%len(held)].Buyer
					case i%10 == 6: // of a buyer earlier in the batch
						batch[i].Buyer = batch[i-6].Buyer
					case i%50 == 5: // a repeat of one earlier in the batch
						batch[i] = batch[i-1]
					}
				}
				type had struct {
					units, orders int64
					keys          map[sluice.Key]sluice.Decision
				}
				buyers := map[sluice.BuyerID]*had{}
				of := func(b sluice.BuyerID) *had {
					if buyers[b] == nil {
						buyers[b] = &had{keys: map[sluice.Key]sluice.Decision{}}
					}
					return buyers[b]
				}
				taken, seq := int64(0), int64(0)
				var accepted []sluice.Claim
				decide := func(c sluice.Claim) sluice.Decision {
					b := of(c.Buyer)
					if d, ok := b.keys[c.Key]; ok {
						d.Replayed = true
						return d
					}
					switch {
					case b.units+c.Quantity > 4 || b.orders >= 2:
						return sluice.Decision{Code: sluice.BuyerLimit}
					case taken >= total:
						return sluice.Decision{Code: sluice.SoldOut}
					case taken+c.Quantity > total:
						return sluice.Decision{Code: sluice.Insufficient}
					}
					seq++
					taken += c.Quantity
					b.units, b.orders = b.units+c.Quantity, b.orders+1
					accepted = append(accepted, c)
					b.keys[c.Key] = sluice.Decision{Code: sluice.Accepted, Order: c.Order, Quantity: c.Quantity, Seq: seq}
					return b.keys[c.Key]
				}
				// Who is known to have claims goes later than others while there is enough for all.
				ask := func(batch []sluice.Claim) {
					t.Helper()
					before, places := len(accepted), []int64{}
					for i, d := range claim(t, l, "s", batch...) {
						want := decide(batch[i])
						if want.Code == sluice.Accepted && !want.Replayed {
							want.Seq = d.Seq
							of(batch[i].Buyer).keys[batch[i].Key] = want
							places = append(places, d.Seq)
						}
						got := sluice.Decision{Code: d.Code, Order: d.Order, Quantity: d.Quantity, Seq: d.Seq, Replayed: d.Replayed}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Fatalf("claim %d: -want +got\n%s", i, diff)
						}
					}
					slices.Sort(places)
					slices.SortFunc(accepted, func(a, b sluice.Claim) int {
						return int(of(a.Buyer).keys[a.Key].Seq - of(b.Buyer).keys[b.Key].Seq)
					})
					for i, place := range places {
						if place != int64(before+i+1) {
							t.Fatalf("sequences %d behind %d claims", places, before)
						}
					}
				}
				ask(held)
				ask(batch)
				ask(batch) // all that was accepted is repeated now
				var journal []sluice.Claim
				must.Succeed(t, l.PeekJournal(t.Context(), "s", func(e port.Entry) bool {
					if e.Damage != nil || e.FirstSeq != int64(len(journal)+1) {
						t.Errorf("entry %+v behind %d claims", e, len(journal))
					}
					journal = append(journal, e.Claims...)
					return true
				}))
				if diff := cmp.Diff(accepted, journal); diff != "" {
					t.Errorf("journal: -want +got\n%s", diff)
				}
				records := map[sluice.OrderID]sluice.Claim{}
				must.Succeed(t, l.Records(t.Context(), "s", func(r port.Record) bool {
					records[r.Order] = r.Claim
					if want := of(r.Buyer).keys[r.Key].Seq; r.Seq != want {
						t.Errorf("sequence %d on record, want %d", r.Seq, want)
					}
					return true
				}))
				for _, c := range accepted {
					if records[c.Order] != c {
						t.Errorf("record %+v, want %+v", records[c.Order], c)
					}
				}
				if r := read(t, l, "s"); len(records) != len(accepted) || r.Taken != taken || r.Seq != seq || r.Fence != "" {
					t.Errorf("%d records of %d, reading %+v", len(records), len(accepted), r)
				}
				terms.Version, terms.Total, terms.MaxOrders = 2, 1<<40, 0
				must.Succeed(t, l.Apply(t.Context(), "s", 1, terms))
				wantAll(t, claim(t, l, "s", makeClaims("s", 900, 910)...), sluice.BuyerLimit)
			})
		}
	}
}

// A known buyer's claim comes back and is decided again. Claims behind it overtake it while its counter has enough for
// the whole batch, and wait for it where that has not.
func TestCountersThatSufficeHoldNobodyUp(t *testing.T) {
	url := servertest.Redis(t)
	for most, want := range map[int64][]int64{10: {4, 2, 3}, 3: {2, 3, 0}} {
		l := open(t, url, redisledger.Options{Node: "a", Prefix: newPrefix(t, url)})
		loadOpen(t, l, "s", loose(100))
		batch := makeClaims("s", 0, 3)
		known := makeClaim("s", 3)
		known.Buyer = batch[0].Buyer
		all := append([]sluice.Claim{known}, batch...)
		for i := range all {
			all[i].Counters = all[i].Counters.With(sluice.Counter{Name: "home:1", Max: most})
		}
		wantAll(t, claim(t, l, "s", all[0]), sluice.Accepted)
		var got []int64
		for _, d := range claim(t, l, "s", all[1:]...) {
			got = append(got, d.Seq)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with a maximum of %d: -want +got\n%s", most, diff)
		}
	}
}
