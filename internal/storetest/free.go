package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// Orders of a free sale are paid when they are stored, whichever way that is, and end as other paid orders do.
func testFree(t *testing.T, db Database) {
	s := db.Open(t)
	sale := aSale("tickets", 3)
	sale.Price.Amount, sale.Free = 0, true
	if create(t, s, sale); !read(t, s, "tickets").Free {
		t.Fatal("the sale is not free")
	}
	src := &source{sale: "tickets", epoch: 1}
	first := src.store(t, s, 2)
	second := src.entry(2) // the last one is not covered, so these are stored with care
	id := func(e port.Entry, i int) sluice.OrderID { return e.Claims[i].Order }
	insert(t, s, port.Stored{Inserted: 2, Rejected: []sluice.OrderID{id(second, 1)}}, second)
	for _, order := range []sluice.OrderID{id(first, 0), id(first, 1), id(second, 0)} {
		if o := must.Get(s.Order(t.Context(), order))(t); o.Status != sluice.Paid || !o.Free() || o.PaymentID != "" {
			t.Errorf("%+v", o)
		}
	}
	if o := must.Get(s.Order(t.Context(), id(second, 1)))(t); o.Status != sluice.Rejected {
		t.Errorf("not covered: %+v", o)
	}

	db.Age(t, "tickets", 24*time.Hour)
	if n, err := expireDue(t.Context(), s, 10); err != nil || n != 0 {
		t.Errorf("expired %d, %v", n, err)
	}
	var state *sluice.OrderStateError
	for _, action := range []sluice.Action{sluice.Reject, sluice.Expire} {
		if _, err := s.Change(t.Context(), want(id(first, 0), action)); !errors.As(err, &state) {
			t.Errorf("%s: %v", action, err)
		}
	}
	// Money that came for nothing is on record, and given back.
	if _, err := s.Change(t.Context(), want(id(first, 0), sluice.Pay)); !errors.As(err,
		new(*sluice.PaymentConflictError)) {
		t.Errorf("a payment: %v", err)
	}
	refunded := change(t, s, want(id(first, 0), sluice.Refund))
	change(t, s, want(id(first, 0), sluice.Refund)) // once (I6)
	if refunded.Status != sluice.Refunded || refunded.Unpaid || read(t, s, "tickets").Taken != 2 {
		t.Errorf("refunded: %+v, %d taken", refunded, read(t, s, "tickets").Taken)
	}
	release := []port.Release{releaseOf(&refunded, 1)}
	if diff := cmp.Diff(release, given(t, s)); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	if _, _, err := s.RecountTaken(t.Context(), "tickets"); err != nil || read(t, s, "tickets").Taken != 2 {
		t.Errorf("counted again: %d, %v", read(t, s, "tickets").Taken, err)
	}
	// There is no money to give back: its buyer and the merchant end one by cancel as well, once.
	others := src.store(t, s, 1)
	own := sluice.Change{Order: id(others, 0), Action: sluice.Cancel, Buyer: others.Claims[0].Buyer, By: "buyer"}
	if _, err := s.Change(t.Context(), sluice.Change{
		Order: own.Order, Action: sluice.Cancel, Buyer: "another", By: "buyer",
	}); !errors.Is(err, sluice.ErrOrderNotFound) {
		t.Errorf("another buyer's: %v", err)
	}
	for _, c := range []sluice.Change{own, own, want(own.Order, sluice.Cancel), want(own.Order, sluice.Refund)} {
		if o := change(t, s, c); o.Status != sluice.Refunded || o.Unpaid || read(t, s, "tickets").Taken != 2 {
			t.Errorf("%s: %+v, %d taken", c.Action, o, read(t, s, "tickets").Taken)
		}
	}
	if n := given(t, s); len(n) != 1 || n[0].Order != own.Order || n[0].Unpaid {
		t.Errorf("releases of a cancelled order: %+v", n)
	}
	if h := history(t, s, own.Order); len(h) != 2 || h[1].Action != sluice.Cancel || h[1].To != sluice.Refunded {
		t.Errorf("history of a cancelled order: %+v", h)
	}
	// A release that the ledger lost is written again, as that of any order that held units.
	if written, err := s.ReissueRelease(t.Context(), id(first, 0), 1); err != nil || !written {
		t.Errorf("the release again: %v, %v", written, err)
	}
	if diff := cmp.Diff(release, given(t, s)); diff != "" {
		t.Errorf("releases again (-want +got):\n%s", diff)
	}
	again := port.RecordOf(new(must.Get(s.Order(t.Context(), id(first, 1)))(t)))
	again.Live = false
	must.Succeed(t, s.EndAgain(t.Context(), &again, "node-1", why))
	if o := must.Get(s.Order(t.Context(), id(first, 1)))(t); o.Status != sluice.Refunded ||
		read(t, s, "tickets").Taken != 1 {
		t.Errorf("its ending was forgotten: %+v", o)
	}
	// What had ended when the store lost it was paid before, and ends as a paid order does.
	ended := anEntry("tickets", 2, 7, 1)
	lost := ended.Record(0)
	lost.Live = false
	if left, err := s.InsertEnded(t.Context(), "tickets", []port.Record{lost}, "node-1", why); err != nil ||
		len(left) != 0 || read(t, s, "tickets").Taken != 1 {
		t.Errorf("left %v, %v, %d taken", left, err, read(t, s, "tickets").Taken)
	}
	if o := must.Get(s.Order(t.Context(), lost.Order))(t); o.Status != sluice.Refunded {
		t.Errorf("it had ended: %+v", o)
	}

	numberAll(t, s, 100)
	var ofOrders []string
	for _, e := range feed(t, s, 10) {
		if e.Order.ID != "" {
			ofOrders = append(ofOrders, string(e.Type))
		}
	}
	slices.Sort(ofOrders)
	if diff := cmp.Diff([]string{
		"order.paid", "order.paid", "order.paid", "order.paid", "order.paid", "order.payment_refused",
		"order.refunded", "order.refunded", "order.refunded", "order.refunded", "order.rejected",
	}, ofOrders); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	steps := history(t, s, id(first, 0))
	if len(steps) != 3 || steps[0].From != sluice.Queued || steps[0].To != sluice.Paid {
		t.Errorf("history %+v", steps)
	}
}
