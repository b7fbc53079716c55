package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// decideCases: what a ledger makes of decisions. The rules have their own tests (sluice.Verdict).
var decideCases = []testCase{
	{"accepted carries order, quantity, sequence and time", one, func(e *env) {
		e.load(sale, total(10))
		e.clock.Advance(1234567 * time.Microsecond)
		first, second := e.claim("ann", "k", 1), e.claim("bob", "k", 2)
		at := e.clock.Now().Truncate(time.Millisecond)
		e.same("first", e.one(first), sluice.Decision{
			Code: sluice.Accepted, Order: first.Order, Quantity: 1, Seq: 1, At: at,
			Epoch: 1, Terms: 1,
		})
		e.same("second", e.one(second), sluice.Decision{
			Code: sluice.Accepted, Order: second.Order, Quantity: 2, Seq: 2,
			At: at, Epoch: 1, Terms: 1,
		})
		e.wantTaken(3, 2)
	}},
	{"a sale that is not loaded is unavailable, never sold out or not found", one, func(e *env) {
		e.wantCode(e.claim("ann", "k", 1), sluice.Unavailable)
	}},
	{"the window opens and closes at exact milliseconds", one, func(e *env) {
		opens, closes := start.Add(5*time.Millisecond), start.Add(8*time.Millisecond)
		e.load(sale, with(func(t *sluice.Terms) { t.OpensAt, t.ClosesAt = opens, closes }))
		for i, want := range []struct {
			at   time.Time
			code sluice.Code
		}{
			{opens.Add(-time.Millisecond), sluice.NotOpen},
			{opens.Add(-time.Microsecond), sluice.NotOpen}, // the clock counts whole milliseconds
			{opens, sluice.Accepted},
			{closes.Add(-time.Millisecond), sluice.Accepted},
			{closes.Add(-time.Microsecond), sluice.Accepted},
			{closes, sluice.Closed},
			{closes.Add(time.Hour), sluice.Closed},
		} {
			e.clock.Set(want.at)
			e.wantCode(e.claim("ann", sluice.Key(fmt.Sprint("k", i)), 1), want.code)
		}
	}},
	{"a limit above one counts units, and carries the live orders", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer = 5 }))
		first := e.accepted(e.claim("ann", "k1", 2))
		second := e.accepted(e.claim("ann", "k2", 2))
		d := e.wantCode(e.claim("ann", "k3", 2), sluice.BuyerLimit)
		e.same("orders", sorted(d.Orders), sorted([]sluice.OrderID{first.Order, second.Order}))
		third := e.accepted(e.claim("ann", "k4", 1))
		d = e.wantCode(e.claim("ann", "k5", 1), sluice.BuyerLimit)
		e.same("orders", sorted(d.Orders), sorted([]sluice.OrderID{first.Order, second.Order, third.Order}))
		e.accepted(e.claim("bob", "k1", 5)) // another buyer has a limit of its own
		e.wantTaken(10, 4)
	}},
	{"the largest total and limit are exact to the unit", one, func(e *env) {
		e.loadImage(port.LoadImage{
			Sale: sale, Epoch: 1, Taken: sluice.MaxUnits - 3,
			Terms: with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = sluice.MaxUnits, sluice.MaxUnits }),
		})
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 1))
		e.wantCode(e.claim("ann", "k1", 4), sluice.Insufficient)
		e.accepted(e.claim("ann", "k2", 2))
		e.accepted(e.claim("ann", "k3", 1))
		e.wantCode(e.claim("ann", "k4", 1), sluice.SoldOut)
		e.wantTaken(sluice.MaxUnits, 2)
	}},
	{"a buyer without a limit has thousands of claims", one, func(e *env) {
		const batches, size = 12, 200
		e.load(sale, plenty())
		var first sluice.Claim
		for b := range batches {
			batch := make([]sluice.Claim, size)
			for i := range batch {
				batch[i] = e.claim("shop", sluice.Key(fmt.Sprintf("key-%d-%d", b, i)), 1)
			}
			if b == 0 {
				first = batch[0]
			}
			for i, d := range e.claims(batch...) {
				if want := int64(b*size + i + 1); d.Code != sluice.Accepted || d.Seq != want {
					e.Fatalf("claim %d: %+v, want accepted at %d", i, d, want)
				}
			}
		}
		e.wantTaken(batches*size, batches*size)
		d := e.one(first)
		if !d.Replayed || d.Order != first.Order {
			e.Errorf("repeat of the first claim: %+v, want order %s again", d, first.Order)
		}
		if n := len(e.records(sale)); n != batches*size {
			e.Errorf("%d records, want %d", n, batches*size)
		}
	}},
	{"buyers, meta and keys of every allowed form", one, func(e *env) {
		e.load(sale, plenty())
		odd := []sluice.Claim{
			e.claim("a", "AZaz09-_", 1),
			e.claim("买家 🧧 with spaces, \"quotes\", 'ticks' \\ and {braces}", "k", 1),
			e.claim("a:b|c;d%00,*?[x]", "k", 1),
			e.claim("0", "k", 1),
			e.claim("-1", "k", 1),
			e.claim(sluice.BuyerID(slices.Repeat([]byte("x"), 128)), sluice.Key(slices.Repeat([]byte("K"), 64)), 1),
		}
		odd[1].Meta = `{"备注":"a b \\ \" %s"}`
		odd[2].Meta = string(slices.Repeat([]byte("m"), sluice.MaxMeta))
		for i := range odd {
			e.must("Validate", odd[i].Validate())
		}
		e.claims(odd...)
		records := e.records(sale)
		for _, entry := range e.wantEntries(1) {
			e.same("journal", entry.Claims, odd)
		}
		for _, want := range odd {
			e.same("record", records[want.Order].Claim, want)
			if d := e.one(want); !d.Replayed {
				e.Errorf("repeat of %q: %+v", want.Buyer, d)
			}
		}
	}},
	{"the longest sale id", one, func(e *env) {
		id := sluice.SaleID("0" + string(slices.Repeat([]byte("-_z9"), 11)) + "abc")
		e.must("Validate", id.Validate())
		e.load(id, total(1))
		c := sluice.Claim{Buyer: "ann", Key: "key-0001", Quantity: 1, Order: e.order(id)}
		if d := e.claimsOf(id, c)[0]; d.Code != sluice.Accepted {
			e.Errorf("%s, want accepted", d.Code)
		}
	}},
	{"sales do not touch each other", one, func(e *env) {
		other := sluice.SaleID("sale-1-b")
		e.load(sale, total(1))
		e.load(other, total(1))
		c := e.claim("ann", "k", 1)
		e.accepted(c)
		c.Order = e.order(other)
		d := e.claimsOf(other, c)[0]
		if d.Code != sluice.Accepted || d.Replayed || d.Seq != 1 {
			e.Errorf("the same key in another sale: %+v, want a new acceptance", d)
		}
	}},
	{"an empty batch is no error", one, func(e *env) {
		e.load(sale, total(1))
		e.claims()
		e.wantTaken(0, 0)
	}},
	{"refusals leave nothing", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = 1, 1 }))
		e.accepted(e.claim("ann", "k1", 1))
		e.claims(e.claim("ann", "k2", 1), e.claim("bob", "k", 1), e.claim("bob", "k", 2))
		e.wantTaken(1, 1)
		if n := len(e.records(sale)); n != 1 {
			e.Errorf("%d records, want 1", n)
		}
		e.wantEntries(1)
		// A refused key is not taken: it may come again, with other content.
		e.change(sale, func(t *sluice.Terms) { t.Total = 5 })
		e.clock.Advance(sluice.RefusalLease)
		e.accepted(e.claim("bob", "k", 1))
	}},
	{"after Close everything is ErrClosed", one, func(e *env) {
		e.load(sale, total(1))
		e.must("Close", e.ledger.Close())
		e.must("Close again", e.ledger.Close())
		_, err := e.ledger.Claim(e.ctx, sale, []sluice.Claim{e.claim("ann", "k", 1)})
		e.wantErr("Claim", err, sluice.ErrClosed)
		_, err = e.ledger.Read(e.ctx, []sluice.SaleID{sale})
		e.wantErr("Read", err, sluice.ErrClosed)
		e.wantErr("Fence", e.ledger.Fence(e.ctx, sale, 1, "x"), sluice.ErrClosed)
	}},
}

func sorted(ids []sluice.OrderID) []sluice.OrderID { return slices.Sorted(slices.Values(ids)) }
