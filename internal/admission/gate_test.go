package admission

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// sold is a view of a sale of 10 units that is open and sold out: read at
// clock, when the ledger's clock said the same, by a call that took 10 ms.
func sold(change func(*View)) *View {
	opens := clock.Add(-time.Hour)
	v := &View{
		Sale: sluice.Sale{ID: "sale", Epoch: 1, LoadedEpoch: 1},
		Reading: port.Reading{
			Sale: "sale", Loaded: true, Epoch: 1, Seq: 10, Taken: 10, Now: clock,
			Terms: sluice.Terms{
				Version: 1, Total: 10, MaxPerBuyer: 2, MaxOrders: 11, OpensAt: opens,
				ClosesAt: clock.Add(time.Hour),
			},
		},
		Asked: clock, Received: clock.Add(10 * time.Millisecond),
		holders: &holders{epoch: 1, seq: 10, buyers: map[uint64]struct{}{hashBuyer("holder"): {}}},
	}
	if change != nil {
		change(v)
	}
	return v
}

var clock = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

func TestGateRefusesOnlyWhatItKnows(t *testing.T) {
	const asks = sluice.Code(0) // the ledger is asked
	window := func(opens, closes time.Duration) func(*View) {
		return func(v *View) {
			v.Reading.Terms.OpensAt, v.Reading.Terms.ClosesAt = clock.Add(opens), clock.Add(closes)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*View)
		claim  sluice.Claim
		after  time.Duration // since the ledger was asked
		want   sluice.Code

		repeats bool // the ledger is asked because the claim may be a repeat
	}{
		{name: "sold out", want: sluice.SoldOut},
		{name: "a holder may be repeating (I4)", claim: sluice.Claim{Buyer: "holder"}, want: asks, repeats: true},
		{
			name: "of units left a holder may take more", change: func(v *View) { v.Reading.Taken = 9 },
			claim: sluice.Claim{Buyer: "holder"}, want: asks,
		},
		{name: "the holders lag behind the sequence", change: func(v *View) { v.Reading.Seq = 11 }, want: asks},
		{name: "the holders are of an older epoch", change: func(v *View) {
			v.Reading.Epoch, v.Sale.Epoch, v.Sale.LoadedEpoch = 2, 2, 2
		}, want: asks},
		{name: "no holders yet", change: func(v *View) { v.holders = nil }, want: asks},
		{name: "no buyer can hold anything yet", change: func(v *View) {
			v.holders, v.Reading.Seq = nil, 0
			v.Reading.Taken, v.Reading.Terms.Total = 0, 0
		}, want: sluice.SoldOut},
		{name: "at the end of the lease", after: sluice.RefusalLease - leaseMargin, want: asks},
		{name: "just before it", after: sluice.RefusalLease - leaseMargin - 1, want: sluice.SoldOut},
		{name: "a ledger of the past", change: func(v *View) { v.Sale.Epoch = 2 }, want: sluice.Unavailable},
		{name: "a cooldown after reopening", change: func(v *View) {
			v.Reading.CooldownUntil = clock.Add(time.Second)
		}, want: asks},
		{name: "more than one buyer may have outranks sold out", claim: sluice.Claim{Quantity: 3}, want: sluice.BuyerLimit},
		{name: "exactly what one buyer may have", claim: sluice.Claim{Quantity: 2}, want: sluice.SoldOut},
		{name: "units left", change: func(v *View) { v.Reading.Taken = 9 }, want: asks},
		{name: "no total", change: func(v *View) { v.Reading.Terms.Total = sluice.Unlimited }, want: asks},
		{name: "paused", change: func(v *View) { v.Reading.Terms.Paused = true }, want: sluice.Paused},
		{name: "not in the ledger", change: func(v *View) { v.Reading = port.Reading{} }, want: asks},
		{name: "fenced in the ledger", change: func(v *View) { v.Reading.Fence = "lost" }, want: asks},
		{name: "fenced in the store", change: func(v *View) { v.Sale.Fence = "not_covered" }, want: sluice.Unavailable},

		{name: "the ledger's clock says that it is open", change: func(v *View) {
			v.Reading.Now, v.Reading.Terms.OpensAt = clock.Add(10*time.Second), clock.Add(5*time.Second)
		}, want: sluice.SoldOut},

		// The boundary: the ledger's clock lies 0 to 10 ms behind our reading of it, and what it said was cut to a
		// millisecond.
		{name: "before opening", change: window(time.Second, time.Hour), want: sluice.NotOpen},
		{
			name: "the last sure moment before opening", change: window(100*time.Millisecond, time.Hour),
			after: 99*time.Millisecond - 1, want: sluice.NotOpen,
		},
		{name: "perhaps open", change: window(100*time.Millisecond, time.Hour), after: 99 * time.Millisecond, want: asks},
		{
			name: "perhaps not open", change: window(100*time.Millisecond, time.Hour), after: 109 * time.Millisecond,
			want: asks,
		},
		{
			name: "open since the reading", change: window(100*time.Millisecond, time.Hour), after: 110 * time.Millisecond,
			want: asks,
		},
		{
			name: "the last moment of sold out", change: window(-time.Hour, 100*time.Millisecond),
			after: 99*time.Millisecond - 1, want: sluice.SoldOut,
		},
		{name: "perhaps closed", change: window(-time.Hour, 100*time.Millisecond), after: 99 * time.Millisecond, want: asks},
		{
			name: "closed since the reading, unless that was moved", change: window(-time.Hour, 100*time.Millisecond),
			after: 200 * time.Millisecond, want: asks,
		},
		{name: "closed", change: window(-time.Hour, -time.Minute), want: sluice.Closed},
		{name: "open since the reading, and paused then", change: func(v *View) {
			window(100*time.Millisecond, time.Hour)(v)
			v.Reading.Terms.Paused = true
		}, after: 200 * time.Millisecond, want: asks},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.claim.Buyer == "" {
				c.claim.Buyer = "stranger"
			}
			if c.claim.Quantity == 0 {
				c.claim.Quantity = 1
			}
			view := sold(c.change)
			got, standing := view.standing(&c.claim, clock.Add(c.after))
			if (standing == refused) != (c.want != asks) || (standing == repeating) != c.repeats || got.Code != c.want {
				t.Errorf("standing = %v, standing %v; want %v, repeating %v", got.Code, standing, c.want, c.repeats)
			}
			if got.Code == sluice.NotOpen && !got.OpensAt.Equal(view.Reading.Terms.OpensAt) {
				t.Errorf("not_open carries %v, want the opening time %v", got.OpensAt, view.Reading.Terms.OpensAt)
			}
		})
	}
}

func TestViewState(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*View)
		want   sluice.State
	}{
		{"sold out", nil, sluice.StateSoldOut},
		{"open", func(v *View) { v.Reading.Taken = 9 }, sluice.StateOpen},
		{"paused", func(v *View) { v.Reading.Terms.Paused = true }, sluice.StatePaused},
		{"down", func(v *View) { v.Down = true }, sluice.StateUnavailable},
		{"another epoch", func(v *View) { v.Reading.Epoch = 2 }, sluice.StateUnavailable},
		{"load not confirmed", func(v *View) { v.Sale.LoadedEpoch = 0 }, sluice.StateUnavailable},
		{"fenced", func(v *View) { v.Sale.Fence = "lost" }, sluice.StateUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := sold(c.change)
			if got := v.State(v.Received); got != c.want {
				t.Errorf("State = %v, want %v", got, c.want)
			}
		})
	}
}

// A buyer who holds something has the ledger asked, since the claim may be a
// repeat (I4), but not by a flood: beyond repeatRate the answer is
// rate_limited, which says nothing about earlier attempts. The same bound holds
// for everything else that asks only whether a refused claim is a repeat.
func TestAHoldersFloodIsRefusedForFree(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(ledger *keeper) *Gate
	}{
		{"sold out", func(l *keeper) *Gate { return gateBefore(l, sold(nil), BatcherOptions{}) }},
		{"not let in", func(l *keeper) *Gate {
			g := gateBefore(l, open(sluice.Rules{Eligibility: sluice.EligibleToken}), BatcherOptions{})
			g.Guard(&Eligibility{}, l)
			return g
		}},
		{"archived", func(l *keeper) *Gate {
			g := gateBefore(l, sold(func(v *View) { v.Sale.ArchivedAt = clock }), BatcherOptions{})
			g.archive = shelved{l}
			return g
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := &keeper{claim: sluice.Claim{Buyer: "holder", Key: "key-00001", Quantity: 1, Order: "sale.1"}}
				g := c.make(ledger)
				now := clock.Add(10 * time.Millisecond)
				g.now = func() time.Time { return now }
				for i := range 1000 {
					d, _ := g.Claim(t.Context(), "sale", sluice.Claim{
						Buyer: "holder", Key: sluice.Key(fmt.Sprintf("other-%05d", i)), Quantity: 1,
					}, sluice.Caller{})
					if limited := d.Code == sluice.RateLimited; limited != (i >= 10) || limited && d.RetryAfter != time.Second {
						t.Fatalf("claim %d: %+v", i, d)
					}
				}
				if ledger.asked != 10 || g.Refused()["repeat"] != 990 {
					t.Errorf("asked %d times, %v refused; want 10 and 990", ledger.asked, g.Refused())
				}
				now = now.Add(time.Second) // an accepted claim's repeat gets its order when the wait is over
				if c.name == "sold out" {
					show(g, sold(func(v *View) { v.Asked, v.Received = now, now }))
				}
				d, err := g.Claim(t.Context(), "sale", ledger.claim, sluice.Caller{})
				if d.Code != sluice.Accepted || d.Order != "sale.1" || err != nil {
					t.Errorf("the repeat after the wait: %+v, %v", d, err)
				}
				// From now on this server knows the key: other keys do not hold it up, and it
				// has a bound of its own.
				other := sluice.Claim{Buyer: "holder", Key: "other-00001", Quantity: 1}
				if d, _ := g.Claim(t.Context(), "sale", other, sluice.Caller{}); d.Code != sluice.RateLimited {
					t.Fatalf("another key: %+v", d)
				}
				for i := range 150 {
					if d, err := g.Claim(t.Context(), "sale", ledger.claim, sluice.Caller{}); err != nil ||
						d.Code != map[bool]sluice.Code{true: sluice.Accepted, false: sluice.RateLimited}[i < 100] {
						t.Fatalf("repeat %d of a key that is known: %+v, %v", i, d, err)
					}
				}
			})
		})
	}
}

// keeper is a ledger and archive that is sold out and has one accepted claim.
type keeper struct {
	port.Reader
	claim sluice.Claim
	asked int
}

func (k *keeper) Recall(_ context.Context, id sluice.ClaimID) (port.Record, error) {
	k.asked++
	if id.Key != k.claim.Key {
		return port.Record{}, sluice.ErrOrderNotFound
	}
	return port.Record{Claim: k.claim, Sale: id.Sale}, nil
}

func (k *keeper) Claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim) ([]sluice.Decision, error) {
	decisions := make([]sluice.Decision, len(claims))
	for i := range claims {
		decisions[i].Code = sluice.SoldOut
		if r, err := k.Recall(ctx, sluice.ClaimID{Sale: sale, Key: claims[i].Key}); err == nil {
			decisions[i] = sluice.Decision{Code: sluice.Accepted, Order: r.Order, Replayed: true}
		}
	}
	return decisions, nil
}

// shelved is what the keeper knows, in an archive.
type shelved struct{ *keeper }

func (s shelved) Claim(ctx context.Context, id sluice.ClaimID) (sluice.Order, error) {
	r, err := s.Recall(ctx, id)
	return r.AsOrder(sluice.Money{}), err
}

// A claim on an archived sale is answered from the store: the same content gets
// its order (I4), other content under the same key is a reused key.
func TestAReusedKeyOnAnArchivedSale(t *testing.T) {
	first := sluice.Claim{Buyer: "holder", Key: "key-00001", Quantity: 2, Meta: `{"a":1}`, Order: "sale.1"}
	g := gateBefore(&refusingLedger{code: sluice.Paused}, sold(func(v *View) {
		v.Sale.ArchivedAt = clock
	}), BatcherOptions{})
	g.archive = shelved{&keeper{claim: first}}
	for _, c := range []struct {
		name   string
		change func(*sluice.Claim)
		want   sluice.Code
	}{
		{"a repeat", func(*sluice.Claim) {}, sluice.Accepted},
		{"another quantity", func(c *sluice.Claim) { c.Quantity = 1 }, sluice.KeyReused},
		{"another meta", func(c *sluice.Claim) { c.Meta = "" }, sluice.KeyReused},
		{"another key", func(c *sluice.Claim) { c.Key = "key-00002" }, sluice.Closed},
	} {
		again := first
		again.Order = ""
		c.change(&again)
		d, err := g.Claim(t.Context(), "sale", again, sluice.Caller{})
		if d.Code != c.want || err != nil || (d.Order == first.Order) != (c.want == sluice.Accepted) ||
			d.Replayed != (c.want == sluice.Accepted) {
			t.Errorf("%s: %+v, %v; want %v", c.name, d, err, c.want)
		}
	}
	g.archive = mute{}
	if d, err := g.Claim(t.Context(), "sale", first, sluice.Caller{}); err == nil {
		t.Errorf("a store that does not answer: %+v; it may have the claim", d)
	}
}

// mute is an archive that does not answer.
type mute struct{}

func (mute) Claim(context.Context, sluice.ClaimID) (sluice.Order, error) {
	return sluice.Order{}, sluice.ErrStoreBusy
}

// lateReadings reads the ledger, and takes a while to say so.
type lateReadings struct {
	noReadings
	opens time.Time
}

func (l lateReadings) Read(_ context.Context, ids []sluice.SaleID) (all []port.Reading, err error) {
	for _, id := range ids {
		all = append(all, port.Reading{
			Sale: id, Loaded: true, Epoch: 1, Now: time.Now(),
			Terms: sluice.Terms{Version: 1, Total: 10, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: l.opens},
		})
	}
	time.Sleep(time.Second)
	return all, nil
}

// What was read while a claim waited for it is as old as it is: a sale that has opened
// meanwhile is open, also for the first buyer on a server that did not know it.
func TestAClaimThatWaitedForItsSale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opens := time.Now().Add(300 * time.Millisecond)
		store := &rows{one: sluice.Sale{ID: "sale", Epoch: 1, LoadedEpoch: 1}}
		board := NewBoard(lateReadings{opens: opens}, store, BoardOptions{})
		g := NewGate(board, NewBatcher(&slowLedger{}, BatcherOptions{}), noArchive{})
		if code := try(g, "ann", home); code != "accepted" || time.Now().Before(opens) {
			t.Errorf("a claim whose sale opened while it was read: %s", code)
		}
	})
}
