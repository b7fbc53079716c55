package settle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

func TestRestock(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 1
	must.Get(r.desk.Create(ctx, sale))(t)
	is := func(total int64) {
		t.Helper()
		s, reading := r.sale(), r.reading()
		if s.Total != total || s.Cap != total || reading.Terms.Total != total {
			t.Errorf("total %d, cap %d in the store, %d in the ledger; want %d", s.Total, s.Cap, reading.Terms.Total, total)
		}
	}
	r.accepted("alice", true)
	r.accepted("bob", false)
	for range 2 { // once per id
		must.Get(r.desk.Restock(ctx, id, "delivery-1", 2))(t)
		is(3)
	}
	r.accepted("bob", true) // it is on again when Restock returns
	if _, err := r.desk.Restock(ctx, id, "recall-1", -2); !errors.Is(err, sluice.ErrBelowTaken) {
		t.Errorf("taking back units that are taken: %v, want ErrBelowTaken", err)
	}
	is(3)
	if _, err := r.desk.Restock(ctx, id, "recall-1", -1); err != nil { // the id was not used up
		t.Fatal(err)
	}
	is(2)
	r.accepted("carol", false)
	if _, err := r.desk.Restock(ctx, id, "delivery-1", 5); !errors.Is(err, sluice.ErrRestockReused) {
		t.Errorf("an id with another delta: %v", err)
	}
}

// accepted claims one unit and fails the test if the answer is another.
func (r *rig) accepted(buyer string, want bool) sluice.OrderID {
	r.t.Helper()
	order := id.Order(fmt.Sprintf("%032x", []byte(buyer)))
	decisions := must.Get(r.ledger.Claim(r.t.Context(), id, []sluice.Claim{
		{Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: order},
	}))(r.t)
	if got := decisions[0].Code == sluice.Accepted; got != want {
		r.t.Errorf("%s hears %v, want accepted %v", buyer, decisions[0].Code, want)
	}
	return decisions[0].Order
}

// A lower total that a crash left between store and ledger is passed on, or
// taken back when too many were sold meanwhile.
func TestALoweringIsMadeGoodAfterACrash(t *testing.T) {
	for _, sold := range []int{3, 8} {
		r := newRig(t)
		must.Get(r.desk.Create(t.Context(), phone(-time.Hour)))(t)
		must.Get(r.store.Restock(t.Context(), id, "recall", -5))(t)
		for i := range sold {
			r.accepted(fmt.Sprint("buyer-", i), true)
		}
		for n := 0; r.follow(false); n++ {
			if n > 5 {
				t.Fatal("it never comes to rest")
			}
		}
		want := map[int]int64{3: 5, 8: 10}[sold]
		if s, reading := r.sale(), r.reading(); s.Total != want || s.Cap != want || reading.Terms.Total != want {
			t.Errorf("%d sold: total %d, cap %d, ledger %d; want %d everywhere", sold, s.Total, s.Cap, reading.Terms.Total, want)
		}
	}
}

// lowering writes a lower total that has not reached the ledger, as a server
// that dies in between leaves it.
func (r *rig) lowering(restock string, delta int64) sluice.Sale {
	r.t.Helper()
	sale := must.Get(r.store.Restock(r.t.Context(), id, restock, delta))(r.t)
	return sale
}

// totals checks the total and cap of the store, and the ledger's total.
func (r *rig) totals(total, limit, ledger int64) {
	r.t.Helper()
	if s, reading := r.sale(), r.reading(); s.Total != total || s.Cap != limit || reading.Terms.Total != ledger {
		r.t.Errorf("total %d, cap %d, ledger %d; want %d, %d, %d", s.Total, s.Cap, reading.Terms.Total, total, limit, ledger)
	}
}

// Two servers that both see the ledger refuse a lowering take it back once, and
// a repeat with its id gets the ledger's answer.
func TestALoweringIsTakenBackOnce(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	for i := range 9 {
		r.accepted(fmt.Sprint("buyer-", i), true)
	}
	seen := r.lowering("recall", -4)
	_, added := r.desk.Restock(ctx, id, "more", 1)
	_, raised := r.desk.Patch(ctx, id, func(s *sluice.Sale) error { s.Total = 12; return nil })
	for _, err := range []error{added, raised} {
		if !errors.Is(err, sluice.ErrLoweringWaits) {
			t.Errorf("raised while a lower total waits: %v, want ErrLoweringWaits", err)
		}
	}
	for range 2 { // both with the row as it was
		must.Get(r.loader.Follow(ctx, &seen, new(r.reading())))(t)
	}
	r.totals(10, 10, 10)
	for range 2 {
		if _, err := r.desk.Restock(ctx, id, "recall", -4); !errors.Is(err, sluice.ErrBelowTaken) {
			t.Errorf("the lowering that was taken back, again: %v, want ErrBelowTaken", err)
		}
		r.totals(10, 10, 10)
	}
	if _, err := r.desk.Restock(ctx, id, "recall", -1); err != nil {
		t.Error(err)
	}
	r.totals(9, 9, 9)
	r.drain()
	for r.follow(false) {
	}
	r.totals(9, 9, 9)
}

// The follower of another server is faster than the server that was asked.
func TestALoweringTakenBackMeanwhileIsNotDone(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	for i := range 9 {
		r.accepted(fmt.Sprint("buyer-", i), true)
	}
	ledger := &overtaken{Ledger: r.ledger, before: func() { r.follow(false) }}
	desk := settle.NewControl(r.store, ledger, settle.NewLoader(r.store, ledger))
	if _, err := desk.Restock(ctx, id, "recall", -4); !errors.Is(err, sluice.ErrTotalUndecided) {
		t.Errorf("a lowering that another server took back: %v, want ErrTotalUndecided", err)
	}
	_, err := desk.Patch(ctx, id, func(s *sluice.Sale) error { s.Paused = true; return nil })
	if err != nil || !r.sale().Paused {
		t.Errorf("paused %v: %v", r.sale().Paused, err)
	}
	r.totals(10, 10, 10)
}

// overtaken is a ledger that another server reaches first, once, before terms are applied.
type overtaken struct {
	settle.Ledger
	before func()
}

func (l *overtaken) Apply(ctx context.Context, sale sluice.SaleID, epoch int64, terms sluice.Terms) error {
	if l.before != nil {
		before := l.before
		l.before = nil
		before()
	}
	return l.Ledger.Apply(ctx, sale, epoch, terms)
}

// Without a ledger that can decide, a lowering writes nothing: the units may
// have been promised.
func TestALoweringNeedsTheLedger(t *testing.T) {
	for name, lose := range map[string]func(r *rig) error{
		"not loaded": func(r *rig) error { return r.ledger.Drop(r.t.Context(), id, 1) },
		"fenced in the ledger": func(r *rig) error {
			return r.ledger.Fence(r.t.Context(), id, 1, "lost: told more than it knows")
		},
		"fenced in the store": func(r *rig) error { return r.store.FenceSale(r.t.Context(), id, 1, "lost: it is") },
		"being loaded": func(r *rig) error {
			err := r.store.FenceSale(r.t.Context(), id, 1, "lost: it is")
			if err == nil {
				_, err = r.store.BeginLoad(r.t.Context(), id, 0)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			must.Get(r.desk.Create(t.Context(), phone(time.Hour)))(t)
			must.Get(r.desk.Restock(t.Context(), id, "done", -1))(t)
			must.Succeed(t, lose(r))
			before := r.sale()
			if _, err := r.desk.Restock(t.Context(), id, "recall", -4); !errors.Is(err, sluice.ErrTotalUndecided) ||
				errors.Is(err, sluice.ErrLoweringWaits) {
				t.Errorf("lowered: %v, want ErrTotalUndecided", err)
			}
			_, err := r.desk.Patch(t.Context(), id, func(s *sluice.Sale) error { s.Total = 4; return nil })
			if !errors.Is(err, sluice.ErrTotalUndecided) || errors.Is(err, sluice.ErrLoweringWaits) {
				t.Errorf("lowered before the opening: %v, want ErrTotalUndecided", err)
			}
			if r.sale() != before {
				t.Errorf("the sale changed:\n%+v\n%+v", before, r.sale())
			}
			if sale, err := r.desk.Restock(t.Context(), id, "done", -1); err != nil || sale.Total != 9 {
				t.Errorf("a lowering that is done, again: total %d, %v", sale.Total, err)
			}
		})
	}
}

// A lowering that a loss overtakes is taken back by the load, so that every
// promise made under the old total is kept.
func TestALoweringThatALossOvertakes(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	r.lowering("recall", -4)
	for i := range 10 {
		r.accepted(fmt.Sprint("buyer-", i), true)
	}
	must.Succeed(t, r.store.FenceSale(ctx, id, 1, "lost: it is"))
	sale := r.sale()
	must.Get(r.rebuilder("a", settle.NewMemory(0)).Step(ctx, &sale))(t)
	r.inStep(2)
	r.totals(10, 10, 10)
	if s, reading := r.sale(), r.reading(); s.Taken != 10 || reading.Taken != 10 {
		t.Errorf("taken %d in the store, %d in the ledger; want 10", s.Taken, reading.Taken)
	}
}

// store puts everything in the journal into the store.
func (r *rig) drain() {
	r.t.Helper()
	for {
		entries, err := r.ledger.ReadJournal(r.t.Context(), port.JournalRead{Sale: id, Source: port.New, Max: 100})
		if err != nil || len(entries) == 0 {
			if err != nil {
				r.t.Fatal(err)
			}
			return
		}
		must.Get(r.store.Insert(r.t.Context(), id, entries))(r.t)
		var ids []string
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		must.Succeed(r.t, r.ledger.Ack(r.t.Context(), id, ids))
	}
}

func TestASettledSaleIsArchived(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	must.Get(r.desk.Create(ctx, phone(-time.Hour)))(t)
	order := r.accepted("alice", true)
	archiver := settle.NewArchiver(r.store, r.ledger, time.Millisecond)
	step := func() bool {
		t.Helper()
		time.Sleep(2 * time.Millisecond) // the retention
		sale, reading := r.sale(), r.reading()
		archived := must.Get(archiver.Step(ctx, &sale, &reading))(t)
		return archived
	}
	if step() {
		t.Error("an open sale is archived")
	}
	must.Get(r.desk.Close(ctx, id))(t)
	if step() {
		t.Error("a sale with an entry in the journal is archived")
	}
	r.drain()
	if step() {
		t.Error("a sale with a pending order is archived")
	}
	must.Get(r.store.Change(ctx, sluice.Change{Order: order, Action: sluice.Cancel, By: "test"}))(t)
	if step() {
		t.Error("a sale with a release on its way is archived")
	}
	must.Succeed(t, settle.NewEnder(r.store, r.ledger, settle.EnderOptions{}).Once(ctx))
	if !step() {
		t.Fatal("a settled sale is not archived")
	}
	if r.reading().Loaded {
		t.Error("the ledger still holds the archived sale")
	}
	if step() || r.follow(true) {
		t.Error("an archived sale is touched again")
	}
	if kept, err := r.store.Claim(ctx, sluice.ClaimID{Sale: id, Buyer: "alice", Key: "attempt-1"}); err != nil ||
		kept.ID != order {
		t.Errorf("the store answers %v, %v for the claim; want %s (I4)", kept.ID, err, order)
	}
	if _, err := r.desk.Restock(ctx, id, "late", 1); err == nil {
		t.Error("an archived sale is restocked")
	}
}
