package ledgertest

import (
	"fmt"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// releaseOf is what the store gives for an ended order of the claim.
func releaseOf(id sluice.SaleID, c sluice.Claim, epoch int64) port.Release {
	return port.Release{Order: c.Order, Sale: id, Buyer: c.Buyer, Key: c.Key, Quantity: c.Quantity, Epoch: epoch}
}

// release gives claims of the first epoch back.
func (e *env) release(claims ...sluice.Claim) port.Released {
	e.Helper()
	var releases []port.Release
	for _, c := range claims {
		releases = append(releases, releaseOf(sale, c, 1))
	}
	got, err := e.ledger.Release(e.ctx, sale, releases)
	e.must("Release", err)
	return got
}

// releaseUnpaid gives claims of the first epoch back that ended unpaid.
func (e *env) releaseUnpaid(claims ...sluice.Claim) port.Released {
	e.Helper()
	var releases []port.Release
	for _, c := range claims {
		r := releaseOf(sale, c, 1)
		r.Unpaid = true
		releases = append(releases, r)
	}
	got, err := e.ledger.Release(e.ctx, sale, releases)
	e.must("Release", err)
	return got
}

// unpaidEndings plays MaxUnpaid with either layout of records: few claims per
// buyer, or any number.
func unpaidEndings(maxOrders int64) func(e *env) {
	return func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer, t.MaxOrders, t.MaxUnpaid = 3, maxOrders, 2 }))
		paid, kept, first, second := e.claim("ann", "paid", 1), e.claim("ann", "kept", 1), e.claim("ann", "first", 1),
			e.claim("ann", "second", 1)
		e.claims(paid, kept)
		e.same("the merchant's ending", e.release(paid), port.Released{Applied: 1})
		e.accepted(first)
		e.same("unpaid", e.releaseUnpaid(first, first), port.Released{Applied: 1, Before: 1})
		e.same("again", e.releaseUnpaid(first, paid), port.Released{Before: 2})
		e.accepted(second) // one of two; and what is added to the record keeps the count
		e.same("the last one", e.releaseUnpaid(second), port.Released{Applied: 1})
		refused := func() {
			e.Helper()
			d := e.wantCode(e.claim("ann", "third", 1), sluice.BuyerLimit)
			e.same("orders", d.Orders, []sluice.OrderID{kept.Order})
			e.wantCode(e.claim("ann", "third", 1), sluice.BuyerLimit)
		}
		refused()
		for _, c := range []sluice.Claim{paid, kept, first, second} { // I4
			if d := e.wantCode(c, sluice.Accepted); !d.Replayed || d.Order != c.Order {
				e.Errorf("the repeat of %s: %+v", c.Key, d)
			}
		}
		e.accepted(e.claim("bob", "k", 1))
		records := e.records(sale)
		for _, c := range []sluice.Claim{paid, kept, first, second} {
			want := c.Order == first.Order || c.Order == second.Order
			if r := records[c.Order]; r.Unpaid != want || r.Live != (c.Order == kept.Order) {
				e.Errorf("record of %s: live %v, unpaid %v; want unpaid %v", c.Key, r.Live, r.Unpaid, want)
			}
		}
		e.restart()
		refused()
		e.same("records after a restart", e.records(sale), records)

		image := port.LoadImage{Sale: sale, Epoch: 2, Terms: e.terms[sale]}
		for _, r := range records {
			image.Records = append(image.Records, r)
			if r.Live {
				image.Taken += r.Quantity
			}
		}
		e.must("Load", e.ledger.Load(e.ctx, image))
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 2))
		refused()
		e.same("records after a load", e.records(sale), records)
		e.restart()
		refused()
		e.change(sale, func(t *sluice.Terms) { t.MaxUnpaid = 3 })
		e.accepted(e.claim("ann", "third", 1))
		e.change(sale, func(t *sluice.Terms) { t.MaxUnpaid = 1 })
		e.wantCode(e.claim("ann", "fourth", 1), sluice.BuyerLimit)
		e.change(sale, func(t *sluice.Terms) { t.MaxUnpaid = 0 })
		e.accepted(e.claim("ann", "fourth", 1))
	}
}

// releaseCases: units come back, once (I6), and can be sold again (I7).
var releaseCases = []testCase{
	{"units and the buyer's allowance return, the claim stays on record", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = 10, 3 }))
		first, second := e.claim("ann", "k1", 2), e.claim("ann", "k2", 1)
		e.claims(first, second)
		e.ackAll()
		e.same("released", e.release(first), port.Released{Applied: 1})
		e.wantTaken(1, 2)
		records := e.records(sale)
		if records[first.Order].Live || !records[second.Order].Live {
			e.Errorf("records %+v, want only the second live", records)
		}
		found, err := e.ledger.Find(e.ctx, first.Order, "ann")
		e.must("Find", err)
		e.same("Find", found, records[first.Order])
		if d := e.one(first); !d.Replayed || d.Order != first.Order { // I4: also after its end
			e.Errorf("a repeat of the ended claim: %+v", d)
		}
		d := e.wantCode(e.claim("ann", "k3", 3), sluice.BuyerLimit)
		e.same("orders", d.Orders, []sluice.OrderID{second.Order})
		e.accepted(e.claim("ann", "k4", 2))
		e.wantTaken(3, 3)
	}},
	{"each order once, however often and in whatever company", one, func(e *env) {
		e.load(sale, total(10))
		a, b := e.claim("ann", "k", 2), e.claim("bob", "k", 3)
		e.claims(a, b)
		e.same("twice in one call", e.release(a, a), port.Released{Applied: 1, Before: 1})
		e.same("again, with another", e.release(a, b, a), port.Released{Applied: 1, Before: 2})
		e.same("again", e.release(b, a), port.Released{Before: 2})
		e.same("none", e.release(), port.Released{})
		e.wantTaken(0, 2)
	}},
	{"an order that the ledger does not know", one, func(e *env) {
		e.load(sale, total(10))
		a := e.claim("ann", "k", 2)
		e.accepted(a)
		stranger, otherOrder, otherKey := e.claim("bob", "k", 1), a, a
		otherOrder.Order, otherKey.Key = e.order(sale), "another-key"
		e.same("released", e.release(stranger, otherOrder, otherKey, a),
			port.Released{Applied: 1, Unknown: []sluice.OrderID{stranger.Order, otherOrder.Order, otherKey.Order}})
		e.wantTaken(0, 1)
	}},
	{"epochs: an older one was counted by the load, a newer one must wait", one, func(e *env) {
		live, ended := e.record("ann", "k1", 2, 1, true), e.record("ann", "k2", 3, 2, false)
		live.Epoch, ended.Epoch = 4, 4
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 5, Terms: total(9), Taken: 2, Records: []port.Record{live, ended}})
		give := func(releases ...port.Release) (port.Released, error) {
			return e.ledger.Release(e.ctx, sale, releases)
		}

		_, err := give(releaseOf(sale, live.Claim, 5))
		e.wantErr("fenced", err, port.ErrStaleEpoch)
		e.must("Unfence", e.ledger.Unfence(e.ctx, sale, 5))
		_, err = give(releaseOf(sale, live.Claim, 5), releaseOf(sale, live.Claim, 6))
		e.wantErr("newer", err, port.ErrStaleEpoch)
		e.wantTaken(2, 0)
		got, err := give(releaseOf(sale, live.Claim, 4), releaseOf(sale, ended.Claim, 4))
		e.must("older", err)
		e.same("older", got, port.Released{Before: 2})
		e.wantTaken(2, 0)
		got, err = give(releaseOf(sale, live.Claim, 5), releaseOf(sale, ended.Claim, 5))
		e.must("this one", err)
		e.same("this one", got, port.Released{Applied: 1, Before: 1})
		e.wantTaken(0, 0)
	}},
	{"a sale that is not there", one, func(e *env) {
		_, err := e.ledger.Release(e.ctx, sale, []port.Release{releaseOf(sale, e.claim("ann", "k", 1), 1)})
		e.wantErr("Release", err, port.ErrNotLoaded)
	}},
	{"a sold-out sale has a cooldown, and sells again", one, func(e *env) {
		e.load(sale, total(2))
		a := e.claim("ann", "k", 2)
		e.accepted(a)
		e.release(a)
		until := start.Add(sluice.RefusalLease)
		if r := e.read(sale); !r.CooldownUntil.Equal(until) || r.Taken != 0 {
			e.Errorf("%+v, want nothing taken, in cooldown until %v", r, until)
		}
		e.wantCode(e.claim("bob", "k", 1), sluice.SoldOut)
		e.clock.Set(until)
		e.accepted(e.claim("bob", "k", 2))
		e.release(a) // again: no cooldown begins
		if r := e.read(sale); !r.CooldownUntil.IsZero() || r.Taken != 2 {
			e.Errorf("%+v, want 2 taken, no cooldown", r)
		}
	}},
	{"a sale with units left needs no cooldown", one, func(e *env) {
		e.load(sale, total(3))
		a := e.claim("ann", "k", 2)
		e.accepted(a)
		e.release(a)
		if r := e.read(sale); !r.CooldownUntil.IsZero() {
			e.Errorf("in cooldown until %v, want none", r.CooldownUntil)
		}
		e.accepted(e.claim("bob", "k", 3))
	}},
	{"MaxOrders counts what has ended", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer, t.MaxOrders = 1, 2 }))
		for i := range 2 {
			c := e.claim("ann", sluice.Key(fmt.Sprint("k", i)), 1)
			e.accepted(c)
			e.release(c)
		}
		d := e.wantCode(e.claim("ann", "k9", 1), sluice.BuyerLimit)
		e.same("orders", d.Orders, []sluice.OrderID(nil))
	}},
	{"MaxUnpaid counts what ended unpaid, and nothing else", one, unpaidEndings(40)},
	{"MaxUnpaid, where a buyer may have any number of claims", one, unpaidEndings(unlimited)},
	{"MaxUnpaid, in calls with several claims of one buyer", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxUnpaid = 3 }))
		first := e.claim("ann", "first", 1)
		e.accepted(first)
		e.releaseUnpaid(first)
		// The batch keeps the mark, and one release call makes two.
		batch := []sluice.Claim{e.claim("ann", "a", 1), e.claim("ann", "b", 1), e.claim("ann", "c", 1)}
		e.wantCodes(e.claims(batch...), sluice.Accepted, sluice.Accepted, sluice.Accepted)
		e.releaseUnpaid(batch[0], batch[1])
		e.wantCodes(e.claims(e.claim("ann", "d", 1), e.claim("ann", "e", 1)), sluice.BuyerLimit, sluice.BuyerLimit)
		e.change(sale, func(t *sluice.Terms) { t.MaxUnpaid = 4 })
		e.accepted(e.claim("ann", "f", 1))
	}},
	{"a batch whose buyers have unpaid endings", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxUnpaid = 1 }))
		ann, bob, eve := e.claim("ann", "1", 1), e.claim("bob", "1", 1), e.claim("eve", "1", 1)
		e.claims(ann, bob, eve)
		e.releaseUnpaid(ann, bob)
		var codes []sluice.Code
		for _, d := range e.claims(e.claim("ann", "2", 1), e.claim("eve", "2", 1), e.claim("bob", "2", 1),
			e.claim("eve", "3", 1), e.claim("ann", "3", 1)) {
			codes = append(codes, d.Code)
		}
		e.same("codes", codes, []sluice.Code{
			sluice.BuyerLimit, sluice.Accepted, sluice.BuyerLimit, sluice.Accepted,
			sluice.BuyerLimit,
		})
	}},
	{"what was released stays released after a restart", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = 4, 2 }))
		a, b := e.claim("ann", "k", 2), e.claim("bob", "k", 2)
		e.claims(a, b)
		e.release(a)
		before, records := e.read(sale), e.records(sale)
		e.restart()
		e.same("reading", e.read(sale), before)
		e.same("records", e.records(sale), records)
		e.same("again", e.release(a), port.Released{Before: 1})
		e.clock.Advance(sluice.RefusalLease)
		e.accepted(e.claim("ann", "k2", 2))
		e.wantCode(e.claim("ann", "k3", 1), sluice.BuyerLimit)
		e.wantTaken(4, 3)
	}},
	{"a reply is lost", one, func(e *env) {
		e.load(sale, total(3))
		a := e.claim("ann", "k", 2)
		e.accepted(a)
		f := e.faulty(nth("Release", 1, fault{After: true}))
		_, err := f.Release(e.ctx, sale, []port.Release{releaseOf(sale, a, 1)})
		e.wantErr("Release", err, errInjected)
		e.same("again", e.release(a), port.Released{Before: 1})
		e.wantTaken(0, 1)
	}},
	{"one buyer, many claims", one, func(e *env) {
		e.load(sale, with(func(t *sluice.Terms) { t.MaxPerBuyer = 40 }))
		var claims []sluice.Claim
		for i := range 40 {
			claims = append(claims, e.claim("shop", sluice.Key(fmt.Sprint("key-", i)), 1))
		}
		e.claims(claims...)
		e.same("released", e.release(claims[5:35]...), port.Released{Applied: 30})
		d := e.wantCode(e.claim("shop", "more", 31), sluice.BuyerLimit)
		if len(d.Orders) != 10 {
			e.Errorf("%d live orders, want 10", len(d.Orders))
		}
		e.accepted(e.claim("shop", "more", 30))
		e.wantTaken(40, 41)
	}},
	{"the same releases at once from everywhere count once", one, func(e *env) {
		e.load(sale, total(50))
		var claims []sluice.Claim
		for i := range 50 {
			claims = append(claims, e.claim(sluice.BuyerID(fmt.Sprint("buyer-", i)), "k", 1))
		}
		e.claims(claims...)
		var mu sync.Mutex
		var sum port.Released
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				got := e.release(claims[:30]...)
				mu.Lock()
				defer mu.Unlock()
				sum.Applied += got.Applied
				sum.Before += got.Before
			})
		}
		all.Wait()
		e.same("together", sum, port.Released{Applied: 30, Before: 7 * 30})
		e.wantTaken(20, 50)
	}},
}

// dropCases: archived sales are forgotten.
var dropCases = []testCase{
	{"nothing is left", one, func(e *env) {
		e.load(sale, total(3))
		e.load("other", total(1))
		a := e.claim("ann", "k", 2)
		e.accepted(a)
		e.ackAll()
		e.must("Drop", e.ledger.Drop(e.ctx, sale, 1))
		e.must("Drop again", e.ledger.Drop(e.ctx, sale, 1))
		for range 2 {
			readings, err := e.ledger.Read(e.ctx, []sluice.SaleID{sale, "other"})
			e.must("Read", err)
			if readings[0].Loaded || !readings[1].Loaded {
				e.Errorf("%+v, want only the other loaded", readings)
			}
			e.wantCode(a, sluice.Unavailable)
			e.wantErr("Records", e.ledger.Records(e.ctx, sale, func(port.Record) bool { return true }), port.ErrNotLoaded)
			e.restart()
		}
		e.load(sale, total(3)) // a new sale by this name begins from nothing
		e.accepted(a)
		for _, entry := range e.wantEntries(1) {
			e.same("journal", entry.FirstSeq, int64(1))
		}
	}},
	{"another epoch, and a sale that is not there", one, func(e *env) {
		e.must("not there", e.ledger.Drop(e.ctx, sale, 1))
		e.loadImage(port.LoadImage{Sale: sale, Epoch: 2, Terms: total(1)})
		e.wantErr("older", e.ledger.Drop(e.ctx, sale, 1), port.ErrStaleEpoch)
		e.wantErr("newer", e.ledger.Drop(e.ctx, sale, 3), port.ErrStaleEpoch)
		e.read(sale)
		e.must("fenced", e.ledger.Drop(e.ctx, sale, 2))
	}},
	{"not while entries wait in the journal", journal, func(e *env) {
		e.threeEntries()
		entries := e.journal(port.New, "", 2)
		e.must("Ack", e.ledger.Ack(e.ctx, sale, ids(entries)))
		if err := e.ledger.Drop(e.ctx, sale, 1); err == nil {
			e.Error("no error, with an entry that no reader has received")
		}
		entries = e.journal(port.New, "", 2)
		if err := e.ledger.Drop(e.ctx, sale, 1); err == nil {
			e.Error("no error, with an entry that is not acknowledged")
		}
		e.wantTaken(6, 3)
		e.must("Ack", e.ledger.Ack(e.ctx, sale, ids(entries)))
		e.must("Drop", e.ledger.Drop(e.ctx, sale, 1))
	}},
}
