package admission

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// sold is a view of a sale of 10 units that is open and sold out: read at
// clock, when the ledger's clock said the same, by a call that took 10 ms.
func sold(change func(*View)) *View {
	opens := clock.Add(-time.Hour)
	v := &View{
		Sale: sluice.Sale{ID: "sale", Epoch: 1, LoadedEpoch: 1},
		Reading: sluice.Reading{
			Sale: "sale", Loaded: true, Epoch: 1, Seq: 10, Taken: 10, Now: clock,
			Terms: sluice.Terms{Version: 1, Total: 10, MaxPerBuyer: 2, MaxOrders: 11, OpensAt: opens, ClosesAt: clock.Add(time.Hour)},
		},
		Asked: clock, Told: clock.Add(10 * time.Millisecond),
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
	}{
		{name: "sold out", want: sluice.SoldOut},
		{name: "a holder may be repeating (I4)", claim: sluice.Claim{Buyer: "holder"}, want: asks},
		{name: "the holders lag behind the sequence", change: func(v *View) { v.Reading.Seq = 11 }, want: asks},
		{name: "the holders are of an older epoch", change: func(v *View) { v.Reading.Epoch, v.Sale.Epoch, v.Sale.LoadedEpoch = 2, 2, 2 }, want: asks},
		{name: "no holders yet", change: func(v *View) { v.holders = nil }, want: asks},
		{name: "nobody can hold anything yet", change: func(v *View) {
			v.holders, v.Reading.Seq = nil, 0
			v.Reading.Taken, v.Reading.Terms.Total = 0, 0
		}, want: sluice.SoldOut},
		{name: "at the end of the lease", after: sluice.RefusalLease - leaseMargin, want: asks},
		{name: "just before it", after: sluice.RefusalLease - leaseMargin - 1, want: sluice.SoldOut},
		{name: "a ledger of the past", change: func(v *View) { v.Sale.Epoch = 2 }, want: sluice.Unavailable},
		{name: "the sale rests after reopening", change: func(v *View) { v.Reading.Calm = clock.Add(time.Second) }, want: asks},
		{name: "more than one buyer may have outranks sold out", claim: sluice.Claim{Quantity: 3}, want: sluice.BuyerLimit},
		{name: "exactly what one buyer may have", claim: sluice.Claim{Quantity: 2}, want: sluice.SoldOut},
		{name: "units left", change: func(v *View) { v.Reading.Taken = 9 }, want: asks},
		{name: "no total", change: func(v *View) { v.Reading.Terms.Total = sluice.Unlimited }, want: asks},
		{name: "paused", change: func(v *View) { v.Reading.Terms.Paused = true }, want: sluice.Paused},
		{name: "not in the ledger", change: func(v *View) { v.Reading = sluice.Reading{} }, want: asks},
		{name: "fenced in the ledger", change: func(v *View) { v.Reading.Fence = "lost" }, want: asks},
		{name: "fenced in the store", change: func(v *View) { v.Sale.Fence = "not_covered" }, want: sluice.Unavailable},

		// The boundary: the ledger's clock lies 0 to 10 ms behind our reading of it, and what it said was cut to a millisecond.
		{name: "before opening", change: window(time.Second, time.Hour), want: sluice.NotOpen},
		{name: "the last sure moment before opening", change: window(100*time.Millisecond, time.Hour), after: 99*time.Millisecond - 1, want: sluice.NotOpen},
		{name: "perhaps open", change: window(100*time.Millisecond, time.Hour), after: 99 * time.Millisecond, want: asks},
		{name: "perhaps not open", change: window(100*time.Millisecond, time.Hour), after: 109 * time.Millisecond, want: asks},
		{name: "open since the reading", change: window(100*time.Millisecond, time.Hour), after: 110 * time.Millisecond, want: asks},
		{name: "the last moment of sold out", change: window(-time.Hour, 100*time.Millisecond), after: 99*time.Millisecond - 1, want: sluice.SoldOut},
		{name: "perhaps closed", change: window(-time.Hour, 100*time.Millisecond), after: 99 * time.Millisecond, want: asks},
		{name: "closed since the reading, unless that was moved", change: window(-time.Hour, 100*time.Millisecond), after: 200 * time.Millisecond, want: asks},
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
			got, known := refuse(view, &c.claim, clock.Add(c.after))
			if known != (c.want != asks) || got.Code != c.want {
				t.Errorf("refuse = %v, known %v; want %v", got.Code, known, c.want)
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
			if got := v.State(v.Told); got != c.want {
				t.Errorf("State = %v, want %v", got, c.want)
			}
		})
	}
}
