package settle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/settle"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// earlier are n orders of n buyers, one unit each.
func earlier(n int) []sluice.EarlierOrder {
	orders := make([]sluice.EarlierOrder, n)
	for i := range orders {
		orders[i] = sluice.EarlierOrder{
			Line: i + 1, Buyer: sluice.BuyerID(fmt.Sprint("buyer-", i)), Quantity: 1, ID: fmt.Sprint("WC-", i),
		}
	}
	return orders
}

// upcoming creates a sale of so many units that opens in an hour.
func (r *rig) upcoming(total int64) {
	r.t.Helper()
	sale := phone(time.Hour)
	sale.Total = total
	if _, err := r.desk.Create(r.t.Context(), sale); err != nil {
		r.t.Fatal(err)
	}
}

// counts fails the test unless both sides count so many units, and the audit has no
// objection.
func (r *rig) counts(units int64) {
	r.t.Helper()
	if sale, reading := r.sale(), r.reading(); sale.Taken != units || reading.Taken != units {
		r.t.Errorf("taken: %d in the store, %d in the ledger, want %d", sale.Taken, reading.Taken, units)
	}
	report, err := audit.Run(r.t.Context(), r.ledger, r.store, id)
	if err != nil || !report.OK {
		r.t.Errorf("audit: %v\n%+v", err, report.Checks)
	}
}

// Imported orders count for the total and for the limits of their buyers, and a repeat
// imports nothing twice.
func TestImport(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.upcoming(5)
	first := []sluice.EarlierOrder{
		{Line: 1, Buyer: "alice", Quantity: 3, ID: `"1",<&>`}, {Line: 2, Buyer: "bob", Quantity: 1, ID: "WC-2"},
	}
	for round, want := range []sluice.Imported{{Orders: 2, Units: 4}, {Before: 2}} {
		done, err := r.desk.Import(ctx, id, first)
		if done.Sale.Paused || done.Sale.ID != id {
			t.Errorf("round %d: the sale is %+v", round, done.Sale)
		}
		if done.Sale = (sluice.Sale{}); err != nil || done != want {
			t.Fatalf("round %d: %+v, %v; want %+v", round, done, err, want)
		}
		r.inStep(2)
		r.counts(4)
	}
	claim := first[0].Claim(id)
	order, err := r.store.Order(ctx, claim.Order)
	if err != nil || order.Status != sluice.Paid || order.Meta != `{"imported":"\"1\",<&>"}` {
		t.Errorf("an imported order: %+v, %v", order, err)
	}
	if name, imported := order.ID.EarlierID(order.Meta); name != first[0].ID || !imported {
		t.Errorf("it was imported as %q, %v", name, imported)
	}
	if _, imported := order.ID.EarlierID(`{"imported":"WC-2"}`); imported {
		t.Error("what a buyer may write into meta makes an order an imported one")
	}
	if _, err := r.desk.Open(ctx, id); err != nil {
		t.Fatal(err)
	}
	if d := r.claim("alice"); d.Code != sluice.BuyerLimit { // more than a buyer may have: a fact
		t.Errorf("a claim of a buyer who has bought elsewhere is %v", d.Code)
	}
	if d := r.claim("bob"); d.Code != sluice.Accepted {
		t.Errorf("a claim of a buyer who has bought less than the limit elsewhere is %v", d.Code)
	}
	if d := r.claim("carol"); d.Code != sluice.SoldOut {
		t.Errorf("a claim beyond what is left is %v", d.Code)
	}
	_, err = r.desk.Import(ctx, id, first)
	refusedState(t, err, "accepted")
	// Given back, its units are for sale again.
	if _, err := r.store.Change(ctx, sluice.Change{Order: claim.Order, Action: sluice.Refund}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.GiveReleases(ctx, 10, func(sale sluice.SaleID, releases []sluice.Release) error {
		released, err := r.ledger.Release(ctx, sale, releases)
		if released.Applied != 1 {
			t.Errorf("released: %+v", released)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if reading := r.reading(); reading.Taken != 2 {
		t.Errorf("taken %d after a refund, want 2", reading.Taken)
	}
}

// What cannot be imported changes nothing.
func TestWhatCannotBeImported(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.upcoming(3)
	one := sluice.EarlierOrder{Line: 1, Buyer: "alice", Quantity: 1, ID: "WC-1"}
	if _, err := r.desk.Import(ctx, id, []sluice.EarlierOrder{one}); err != nil {
		t.Fatal(err)
	}
	other := one
	other.Buyer = "bob"
	for name, orders := range map[string][]sluice.EarlierOrder{
		"line 3: the order id of line 2": {
			{Line: 2, Buyer: "bob", Quantity: 1, ID: "x"}, {Line: 3, Buyer: "a", Quantity: 1, ID: "x"},
		},
		"line 1: the order was imported": {other, {Line: 2, Buyer: "carol", Quantity: 1, ID: "WC-3"}},
		"line 4: with this order more": {
			one, {Line: 3, Buyer: "bob", Quantity: 2, ID: "y"}, {Line: 4, Buyer: "bob", Quantity: 1, ID: "z"},
		},
	} {
		_, err := r.desk.Import(ctx, id, orders)
		if wrong, ok := errors.AsType[*sluice.ImportError](err); !ok || !strings.HasPrefix(wrong.Text("; "), name) {
			t.Errorf("%s: %v", name, err)
		}
		r.inStep(2)
		r.counts(1)
		if r.sale().Paused || r.reading().Terms.Paused {
			t.Errorf("%s: the sale is left paused", name)
		}
	}
	refusedState(t, r.desk.Delete(ctx, id), "imported")
	r.inStep(2)
	if _, err := r.desk.Patch(ctx, id, later); err != nil {
		t.Errorf("a sale with imported orders is postponed: %v", err)
	}
	if _, err := r.desk.Open(ctx, id); err != nil {
		t.Fatal(err)
	}
	if _, err := r.desk.Patch(ctx, id, later); err != nil {
		t.Errorf("a sale with imported orders alone is postponed after its opening: %v", err)
	}
}

// breaking is a store in which an import ends after some of its transactions.
type breaking struct {
	*sqlitestore.Store
	left  int
	after bool // and the last one is committed all the same
}

var errBroken = errors.New("broken")

func (b *breaking) Import(ctx context.Context, orders sluice.Import) error {
	if b.left--; b.left >= 0 {
		return b.Store.Import(ctx, orders)
	}
	if b.after {
		_ = b.Store.Import(ctx, orders)
	}
	return errBroken
}

// An import that breaks off leaves a sale that sells nothing before it is repeated, or
// an operator says so; and what is stored counts.
func TestAnImportThatBreaksOff(t *testing.T) {
	const orders = 2500
	for _, at := range []struct {
		batches int
		after   bool
		stored  int64
	}{{0, false, 0}, {0, true, 1000}, {1, false, 1000}, {1, true, 2000}, {2, true, 2500}} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			r := newRig(t)
			ctx := t.Context()
			r.upcoming(orders + 1)
			broken := settle.NewControl(&breaking{Store: r.store, left: at.batches, after: at.after}, r.ledger, r.loader)
			if _, err := broken.Import(ctx, id, earlier(orders)); !errors.Is(err, errBroken) {
				t.Fatalf("the import: %v", err)
			}
			if sale := r.sale(); sale.Taken != at.stored || !sale.Paused {
				t.Errorf("taken %d, paused %v; want %d and paused", sale.Taken, sale.Paused, at.stored)
			}
			// An operator who opens it now does not sell what is sold.
			if _, err := r.desk.Open(ctx, id); err != nil {
				t.Fatal(err)
			}
			_, _ = r.desk.Resume(ctx, id)
			if d := r.claim("buyer-1"); d.Code != sluice.Unavailable {
				t.Fatalf("a claim before the load is %v", d.Code)
			}
			if _, err := r.desk.Patch(ctx, id, later); err == nil {
				t.Error("the opening moves while nothing is known of the sale's claims")
			}
			rebuilder := r.rebuilder("a", settle.NewMemory(0))
			for deadline := time.Now().Add(30 * time.Second); ; {
				r.follow(false)
				sale := r.sale()
				if sale.Fence == "" && r.reading().Fence == "" {
					break
				}
				if _, err := rebuilder.Step(ctx, &sale); err != nil || time.Now().After(deadline) {
					t.Fatalf("the rebuild: %v", err)
				}
			}
			r.counts(at.stored)
			if _, err := r.desk.Patch(ctx, id, later); err != nil {
				t.Fatal(err)
			}
			done, err := r.desk.Import(ctx, id, earlier(orders))
			if err != nil || done.Before != at.stored || done.Orders != orders-at.stored {
				t.Errorf("the repeat: %+v, %v", done, err)
			}
			r.counts(orders)
		})
	}
}

// Of imports at the same moment one may be told to try again; none is stored twice, and
// an operator's pause stays.
func TestImportsAtOnce(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	r.upcoming(5000)
	if _, err := r.desk.Pause(ctx, id); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for deadline := time.Now().Add(time.Minute); ; {
				_, err := r.desk.Import(ctx, id, earlier(1500))
				if _, state := errors.AsType[*sluice.StateError](err); err == nil || !state || time.Now().After(deadline) {
					if err != nil {
						t.Error(err)
					}
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	all.Wait()
	r.counts(1500)
	if !r.sale().Paused {
		t.Error("the operator's pause is gone")
	}
}
