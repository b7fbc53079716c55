package redisledger

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

var applied = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// Until the moment that Apply has the script compare, other terms reopen a sale, or do not, as
// they did when it was read.
func TestAlikeUntil(t *testing.T) {
	lease := sluice.RefusalLease
	offsets := []time.Duration{
		-time.Hour, 0, time.Millisecond, lease - time.Millisecond, lease, lease + time.Millisecond, time.Hour,
	}
	terms := func(opens, closes time.Duration, paused bool) sluice.Terms {
		return sluice.Terms{Total: 2, OpensAt: applied.Add(opens), ClosesAt: applied.Add(closes), Paused: paused}
	}
	for _, opens := range offsets {
		for _, closes := range offsets {
			for _, later := range offsets {
				for _, paused := range []bool{false, true} {
					before, after := terms(opens, closes, paused), terms(later, 2*time.Hour, false)
					until := alikeUntil(&before, &after, applied)
					for _, at := range offsets[1:] {
						for _, near := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
							now := applied.Add(at + near)
							if now.Before(applied) || !until.IsZero() && !now.Before(until) {
								continue
							}
							for _, taken := range []int64{0, 2} {
								if was, is := before.Reopens(&after, taken, applied), before.Reopens(&after, taken, now); was != is {
									t.Fatalf("%+v, then %+v: %v at once, %v after %v, although alike until %v", before, after, was, is,
										now.Sub(applied), until)
								}
							}
						}
					}
				}
			}
		}
	}
}

// What changes between reading a sale and applying terms to it is found, and decided again: the
// cooldown is that of the moment.
func TestApplyDecidesAgain(t *testing.T) {
	l := openTest(t)
	clock, calls, between := applied, 0, func() {}
	l.opts.Now = func() time.Time {
		if calls++; calls == 2 { // the first is of the reading
			between()
		}
		return clock
	}
	terms := sluice.Terms{
		Version: 1, Total: 1, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited, OpensAt: applied.Add(-time.Hour),
	}
	n := 0
	for name, c := range map[string]struct {
		edit    func(*sluice.Terms)
		between func(sale sluice.SaleID)
		want    sluice.Code
	}{
		"nothing": {
			edit: func(t *sluice.Terms) { t.Total = 2 }, want: sluice.Accepted, between: func(sluice.SaleID) {},
		},
		"the last unit is sold": {
			edit: func(t *sluice.Terms) { t.Total = 2 }, want: sluice.SoldOut,
			between: func(sale sluice.SaleID) {
				must.Get(l.Claim(t.Context(), sale, []sluice.Claim{
					{Buyer: "ann", Key: "key-00000001", Quantity: 1, Order: sale.Order("00000000000000000000000000000001")},
				}))(t)
			},
		},
		"it closes": {
			edit: func(t *sluice.Terms) { t.ClosesAt = time.Time{} }, want: sluice.Closed,
			between: func(sluice.SaleID) { clock = applied.Add(time.Minute) },
		},
		"another pauses it": {
			edit: func(t *sluice.Terms) { t.Version = 3 }, want: sluice.Paused,
			between: func(sale sluice.SaleID) {
				paused := terms
				paused.Version, paused.Paused, paused.ClosesAt = 2, true, applied.Add(time.Minute)
				must.Succeed(t, l.Apply(t.Context(), sale, 1, paused))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n++
			sale := sluice.SaleID(fmt.Sprint("s-", n))
			t.Cleanup(func() {
				for _, key := range l.keys.of(sale) {
					l.client.Do(context.Background(), l.client.B().Unlink().Key(key).Build())
				}
			})
			first := terms
			first.ClosesAt = applied.Add(time.Minute)
			loaded := image(1, 0, first)
			loaded.Sale = sale
			clock = applied
			must.Succeed(t, l.Load(t.Context(), loaded))
			must.Succeed(t, l.Unfence(t.Context(), sale, 1))
			next := first
			next.Version = 2
			c.edit(&next)
			calls, between = 0, func() { c.between(sale) }
			must.Succeed(t, l.Apply(t.Context(), sale, 1, next))
			d := must.Get(l.Claim(t.Context(), sale, []sluice.Claim{
				{Buyer: "bob", Key: "key-00000001", Quantity: 1, Order: sale.Order("00000000000000000000000000000002")},
			}))(t)[0]
			if d.Code != c.want || d.Code == sluice.Accepted && d.Terms != next.Version {
				t.Errorf("a claim at that moment: %s under version %d, want %s under %d", d.Code, d.Terms, c.want, next.Version)
			}
		})
	}
}
