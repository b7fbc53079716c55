package admission

import (
	"context"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

// What a refusal costs, by the check that makes it: no network, and hardly any
// memory.
func BenchmarkRefused(b *testing.B) {
	second := sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 1, PerS: 86_400}}
	for _, c := range []struct {
		name  string
		view  *View
		opts  BatcherOptions
		fill  bool // one claim is on its way, for as long as the benchmark takes
		check check
	}{
		{name: "sold_out", view: sold(nil), check: checkState},
		{name: "not_open", view: sold(func(v *View) {
			v.Reading.Terms.OpensAt, v.Reading.Terms.ClosesAt = clock.Add(time.Hour), time.Time{}
		}), check: checkState},
		{name: "buyer_rate", view: open(second), check: checkBuyerRate},
		{
			name: "address_rate", view: open(sluice.Rules{AddressRate: sluice.AddressRate{Requests: 1, PerS: 86_400}}),
			check: checkAddressRate,
		},
		{name: "slots", view: open(sluice.Rules{}), opts: BatcherOptions{MaxInFlight: 1}, fill: true, check: checkSlots},
		{name: "ratio", view: open(sluice.Rules{AdmissionRatio: 0.1}), fill: true, check: checkRatio},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := gateBefore(instant{}, c.view, c.opts)
			g.now = func() time.Time { return clock.Add(10 * time.Millisecond) }
			if c.fill {
				slot := must.Get(g.batcher.Acquire("sale", sluice.Unlimited))(b)
				defer slot.Release()
			}
			claim := sluice.Claim{Buyer: "a-buyer-with-a-name", Key: "key-00001", Quantity: 1}
			ask := func() sluice.Code {
				d := must.Get(g.Claim(context.Background(), "sale", claim, sluice.Caller{Address: home}))(b)
				return d.Code
			}
			ask() // the one that a rate lets pass
			before := g.Refused()[c.check.String()]
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				if ask() == sluice.Accepted {
					b.Fatal("accepted")
				}
				n++
			}
			if got := g.Refused()[c.check.String()] - before; got != n {
				b.Errorf("%s refused %d of %d", c.check, got, n)
			}
		})
	}
}
