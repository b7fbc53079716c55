package settle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// A ledger that decides by terms that the store does not have, under the same
// version or under one of its own, is fenced with the next reading, rebuilt from
// the store, and goes on.
func TestOtherTermsAreFenced(t *testing.T) {
	for name, change := range map[string]func(*sluice.Terms){
		"total":      func(s *sluice.Terms) { s.Total++ },
		"max_buyer":  func(s *sluice.Terms) { s.MaxPerBuyer = sluice.Unlimited },
		"max_orders": func(s *sluice.Terms) { s.MaxOrders-- },
		"max_unpaid": func(s *sluice.Terms) { s.MaxUnpaid = 7 },
		"opens":      func(s *sluice.Terms) { s.OpensAt = s.OpensAt.Add(-time.Millisecond) },
		"closes":     func(s *sluice.Terms) { s.ClosesAt = time.Now().Add(time.Hour) },
		"paused":     func(s *sluice.Terms) { s.Paused = true },
		"version":    func(s *sluice.Terms) { s.Version = 1_000_000_000 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.create(-time.Hour)
			image := must.Get(r.store.BeginLoad(t.Context(), id, 0))(t)
			change(&image.Terms)
			must.Succeed(t, r.ledger.Load(t.Context(), image))
			must.Succeed(t, r.store.ConfirmLoad(t.Context(), id, 1))
			must.Succeed(t, r.ledger.Unfence(t.Context(), id, 1))
			if !r.follow(false) {
				t.Error("it is not noticed")
			}
			fenced := r.sale()
			if !strings.HasPrefix(fenced.Fence, port.FenceLost) || !strings.Contains(fenced.Fence, "of the terms") ||
				strings.Contains(fenced.Fence, "0001") || r.reading().Fence != fenced.Fence {
				t.Errorf("fences %q and %q", fenced.Fence, r.reading().Fence)
			}
			must.Succeed(t, r.store.Heartbeat(t.Context(), port.Server{Node: "a"}))
			if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(t.Context(), &fenced); !done || err != nil {
				t.Fatalf("rebuilt %v, %v", done, err)
			}
			r.inStep(2)
			if sale, reading := r.sale(), r.reading(); sale.Version != 1 || !reading.Terms.Same(&sale.Terms) {
				t.Errorf("the store has %+v, the ledger %+v", sale.Terms, reading.Terms)
			}
			if r.follow(false) {
				t.Error("it is not over")
			}
		})
	}
}

// Terms that are on their way are no others: what Follow is given may be older
// than what ledger and store have by now, either of them.
func TestTermsOnTheirWayAreNotFenced(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	moments := []struct {
		sale    sluice.Sale
		reading port.Reading
	}{{r.sale(), r.reading()}}
	note := func() {
		moments = append(moments, struct {
			sale    sluice.Sale
			reading port.Reading
		}{r.sale(), r.reading()})
	}
	steps := []func() error{
		func() error { _, err := r.store.Restock(ctx, id, "more", 5); return err }, // and then the server dies
		func() error { _, err := r.desk.Pause(ctx, id); return err },
		func() error { _, err := r.desk.Resume(ctx, id); return err },
		func() error { _, err := r.store.Restock(ctx, id, "less", -3); return err },
		func() error { r.follow(false); return nil },
		func() error {
			_, err := r.desk.Patch(ctx, id, func(s *sluice.Sale) error {
				s.ClosesAt = time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
				return nil
			})
			return err
		},
		func() error { return r.store.FenceSale(ctx, id, 1, "rebuild: the test asks for it") },
		func() error { return r.loader.Load(ctx, id) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		note()
		before := r.sale().Fence
		for a := range moments {
			for b := range moments {
				sale, reading := moments[a].sale, moments[b].reading
				_, _ = r.loader.Follow(ctx, &sale, &reading)
				if fence := r.sale().Fence; fence != before {
					t.Fatalf("after step %d, with the row of %d and the reading of %d: fence %q", i, a, b, fence)
				}
			}
		}
	}
	r.inStep(2)
	made := r.sale()
	made.Total = 99 // what is told of a row or a reading is not believed alone
	reading := r.reading()
	reading.Terms.MaxPerBuyer = 99
	for range 2 {
		must.Get(r.loader.Follow(ctx, &made, &reading))(t)
		reading = r.reading()
	}
	r.inStep(2)
}

// What foreign terms let pass stays in the audit for as long as it lives: a
// person cancels the orders beyond the limit, and then it adds up.
func TestOrdersBeyondTheLimit(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.MaxPerBuyer = 1
	must.Get(r.desk.Create(ctx, sale))(t)
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, "rebuild: a test asks for it"))
	image := must.Get(r.store.BeginLoad(ctx, id, 0))(t)
	image.Terms.MaxPerBuyer = sluice.Unlimited // by another program, for a moment
	must.Succeed(t, errors.Join(r.ledger.Load(ctx, image), r.store.ConfirmLoad(ctx, id, 2), r.ledger.Unfence(ctx, id, 2)))
	var orders []sluice.OrderID
	for i := range 3 {
		order := id.Order(fmt.Sprintf("%032x", i))
		decisions, err := r.ledger.Claim(ctx, id, []sluice.Claim{
			{Buyer: "alice", Key: sluice.Key(fmt.Sprintf("attempt-%d", i)), Quantity: 1, Order: order},
		})
		if err != nil || decisions[0].Code != sluice.Accepted {
			t.Fatal(decisions, err)
		}
		orders = append(orders, order)
	}
	r.drain()
	if !r.follow(false) {
		t.Error("it is not noticed")
	}
	fenced := r.sale()
	if done, err := r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &fenced); !done || err != nil {
		t.Fatal(done, err)
	}
	ok := func(want bool) {
		t.Helper()
		report, err := audit.Run(ctx, r.ledger, r.store, id)
		if err != nil || report.OK != want {
			t.Errorf("audit: %+v, %v; want ok %v", report, err, want)
		}
	}
	ok(false)
	pay := sluice.Change{Order: orders[1], Action: sluice.Pay, PaymentID: "p", By: "test"}
	refund := sluice.Change{Order: orders[1], Action: sluice.Refund, By: "test"}
	for _, c := range []sluice.Change{pay, refund, {Order: orders[2], Action: sluice.Cancel, By: "test"}} {
		must.Get(r.store.Change(ctx, c))(t)
	}
	must.Get(r.store.GiveReleases(ctx, 10, func(id sluice.SaleID, releases []port.Release) error {
		_, err := r.ledger.Release(ctx, id, releases)
		return err
	}))(t)
	ok(true)
}
