package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
)

// retaking makes a sale that takes the units of expired orders again, with an expired
// order of two units.
func retaking(t *testing.T, s sluice.Store, db Database) (*source, sluice.Order) {
	t.Helper()
	sale := aSale("phones", 100)
	sale.Rules.LatePayment = sluice.LateRetake
	create(t, s, sale)
	src := &source{sale: sale.ID, epoch: 1}
	return src, expiredOf(t, s, db, src)
}

func expiredOf(t *testing.T, s sluice.Store, db Database, src *source) sluice.Order {
	t.Helper()
	entry := src.entryOf(2)
	insert(t, s, sluice.Stored{Inserted: 1}, entry)
	db.Age(t, src.sale, 24*time.Hour)
	change(t, s, want(entry.Claims[0].Order, sluice.Expire))
	given(t, s)
	return read1(t, s, entry.Claims[0].Order)
}

// claimed stores the order that a ledger accepts for a retake.
func (s *source) claimed(t *testing.T, store sluice.Store, o *sluice.Order) sluice.OrderID {
	t.Helper()
	e := s.entryOf(o.Quantity)
	id := e.Claims[0].Order
	e.Claims[0] = o.RetakeClaim()
	e.Claims[0].Order = id
	insert(t, store, sluice.Stored{Inserted: 1}, e)
	return id
}

// late is the usual payment of an expired order, which may be retaken, or is by another.
func late(o *sluice.Order, by sluice.OrderID) sluice.Change {
	c := want(o.ID, sluice.Pay)
	c.Retake, c.Replacement, c.Paid = true, by, o.Due()
	return c
}

func wantsRetake(t *testing.T, s sluice.Store, o *sluice.Order) {
	t.Helper()
	unchanged(t, s, o.Sale, func() {
		_, err := s.Change(t.Context(), late(o, ""))
		if ask, ok := errors.AsType[*sluice.RetakeError](err); !ok || cmp.Diff(*o, ask.Order) != "" {
			t.Fatalf("error %v, want a RetakeError of the order", err)
		}
	})
}

// The units of an expired order are taken again: the other order is paid, at the price
// that was paid, and this one names it. No units move, and each of the two ends once.
func testRetake(t *testing.T, db Database) {
	s := db.Open(t)
	src, o := retaking(t, s, db)
	wantsRetake(t, s, &o)
	if _, err := s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error {
		sale.Price, sale.ListPrice = sluice.Money{Amount: 7, Currency: "EUR"}, sluice.Money{}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	by := src.claimed(t, s, &o)
	pending, taken := read1(t, s, by), read(t, s, "phones").Taken
	wantsRetake(t, s, &o) // until it is said that this one was accepted

	got := change(t, s, late(&o, by))
	paid := pending
	paid.Status, paid.PaymentID, paid.Price, paid.UpdatedAt = sluice.Paid, paymentOf(o.ID), o.Price, got.UpdatedAt
	if diff := cmp.Diff(paid, got); diff != "" || got.Replaces() != o.ID {
		t.Errorf("it replaces %q (-want +got):\n%s", got.Replaces(), diff)
	}
	if diff := cmp.Diff(got, read1(t, s, by)); diff != "" {
		t.Errorf("what is stored of it (-told +stored):\n%s", diff)
	}
	was := o
	was.Status, was.Reason = sluice.Retaken, string(by)
	is := read1(t, s, o.ID)
	was.UpdatedAt = is.UpdatedAt
	if diff := cmp.Diff(was, is); diff != "" || is.ReplacedBy() != by {
		t.Errorf("it is replaced by %q (-want +got):\n%s", is.ReplacedBy(), diff)
	}
	if n := read(t, s, "phones").Taken; n != taken {
		t.Errorf("taken %d, before %d", n, taken)
	}
	if all := given(t, s); len(all) > 0 {
		t.Errorf("releases %+v", all)
	}
	last := history(t, s, o.ID)[2]
	wants := sluice.HistoryEntry{
		Order: o.ID, At: last.At, From: sluice.Expired, To: sluice.Retaken, Action: sluice.Pay, By: someone,
		Reason: string(by), PaymentID: paymentOf(o.ID),
	}
	if diff := cmp.Diff(wants, last); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	for _, action := range actionsOfOrders { // what follows is for the order that is paid
		_, err := s.Change(t.Context(), want(o.ID, action))
		if state, ok := errors.AsType[*sluice.OrderStateError](err); !ok || state.Status != sluice.Retaken {
			t.Errorf("%s: %v", action, err)
		}
	}
	ends := timesEnded(t, s, "phones")
	if ends[o.ID] != 1 || ends[by] != 0 {
		t.Errorf("endings %v", ends)
	}
	change(t, s, want(by, sluice.Refund))
	if all := given(t, s); len(all) != 1 || all[0].Order != by || all[0].Quantity != 2 {
		t.Errorf("releases after the refund: %+v", all)
	}
	mustBeSound(t, s, "phones")

	numberAll(t, s, 10)
	var types []sluice.EventType
	for _, e := range feed(t, s, 100) {
		if e.Order.ID == o.ID || e.Order.ID == by {
			types = append(types, e.Type)
			if r := e.Order.ReplacedBy(); (r != "") != (e.Type == sluice.EventOrderRetaken) {
				t.Errorf("%s of an order that is replaced by %q", e.Type, r)
			}
		}
	}
	if diff := cmp.Diff([]sluice.EventType{
		sluice.EventOrderCreated, sluice.EventOrderExpired, sluice.EventOrderCreated, sluice.EventOrderPaid,
		sluice.EventOrderRetaken, sluice.EventOrderRefunded,
	}, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func timesEnded(t *testing.T, s sluice.Store, id sluice.SaleID) map[sluice.OrderID]int64 {
	t.Helper()
	all := map[sluice.OrderID]int64{}
	err := s.Snapshot(t.Context(), id, func(snap sluice.Snapshot) error {
		return snap.Endings(func(order sluice.OrderID, times int64) bool { all[order] = times; return true })
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Only orders that have expired, of a sale that says so, are retaken, and only by an
// order that was claimed for it and waits; else the money is due back. A pending order
// still has its units.
func testRetakeConditions(t *testing.T, db Database) {
	s := db.Open(t)
	src, o := retaking(t, s, db)
	plain := selling(t, s, "radios", 100)
	for name, c := range map[string]struct {
		src     *source
		expires bool
		steps   []sluice.Action // of the merchant
		want    sluice.Status
	}{
		"late, not expired yet":   {src, false, nil, sluice.Paid},
		"cancelled":               {src, false, []sluice.Action{sluice.Cancel}, sluice.RefundDue},
		"rejected":                {src, false, []sluice.Action{sluice.Reject}, sluice.RefundDue},
		"of another sale":         {plain, true, nil, sluice.RefundDue},
		"of another sale, late":   {plain, false, nil, sluice.RefundDue},
		"due for a refund before": {src, false, []sluice.Action{sluice.Cancel, sluice.Pay}, sluice.RefundDue},
	} {
		entry := c.src.entryOf(2)
		insert(t, s, sluice.Stored{Inserted: 1}, entry)
		of := read1(t, s, entry.Claims[0].Order)
		for _, action := range c.steps {
			change(t, s, want(of.ID, action))
		}
		db.Age(t, c.src.sale, 24*time.Hour)
		if c.expires {
			change(t, s, want(of.ID, sluice.Expire))
		}
		if got := change(t, s, late(&of, "")); got.Status != c.want || got.ID != of.ID {
			t.Errorf("%s: %s is %s, want %s", name, got.ID, got.Status, c.want)
		}
	}
	given(t, s)

	ended, mine := src.claimed(t, s, &o), expiredOf(t, s, db, src)
	for name, by := range map[string]sluice.OrderID{
		"of another order": src.claimed(t, s, &mine), "a usual one": src.store(t, s, 1).Claims[0].Order,
	} {
		unchanged(t, s, "phones", func() {
			if _, err := s.Change(t.Context(), late(&o, by)); err == nil {
				t.Errorf("retaken by %s", name)
			}
		})
	}
	unchanged(t, s, "phones", func() {
		_, err := s.Change(t.Context(), late(&o, sluice.SaleID("phones").Order("0123456789abcdef0123456789abcdef")))
		wantError(t, err, sluice.ErrOrderNotFound)
	})
	change(t, s, want(ended, sluice.Cancel)) // it has expired, say
	c := late(&o, ended)
	c.Retake = false
	if got := change(t, s, c); got.ID != o.ID || got.Status != sluice.RefundDue || got.PaymentID != paymentOf(o.ID) {
		t.Errorf("by one that has ended: %+v", got)
	}
	for _, bad := range []sluice.Change{
		{Order: mine.ID, Action: sluice.Cancel, Retake: true},
		{Order: mine.ID, Action: sluice.Refund, Replacement: ended},
	} {
		if _, err := s.Change(t.Context(), bad); err == nil {
			t.Errorf("%+v was done", bad)
		}
	}
	// What is refused of other orders is refused here, too, before anything is claimed.
	c = late(&mine, "")
	c.PaymentID = paymentOf(o.ID)
	_, err := s.Change(t.Context(), c)
	if conflict, ok := errors.AsType[*sluice.PaymentConflictError](err); !ok || conflict.Other != o.ID {
		t.Errorf("another order's payment: %v", err)
	}
	c.PaymentID, c.Paid.Amount = "p", 1
	_, err = s.Change(t.Context(), c)
	if _, ok := errors.AsType[*sluice.PaymentAmountError](err); !ok {
		t.Errorf("another amount: %v", err)
	}
	given(t, s)
	mustBeSound(t, s, "phones")
	closed(t, s, "phones")
	for _, other := range mustBeSound(t, s, "phones").Orders {
		if other.Status == sluice.Pending {
			change(t, s, want(other.ID, sluice.Cancel))
		}
	}
	archivedSale(t, s, "phones")
	if got := change(t, s, late(&mine, "")); got.Status != sluice.RefundDue {
		t.Errorf("of an archived sale: %s", got.Status)
	}
}

// Many servers report payments of one order at once: one payment is the order's, however
// often it comes, and every other is refused.
func testRetakeTogether(t *testing.T, db Database) {
	handles := []sluice.Store{db.Open(t), db.Open(t), db.Open(t)}
	s := handles[0]
	src, o := retaking(t, s, db)
	for range 5 {
		other := expiredOf(t, s, db, src)
		by, byOther := src.claimed(t, s, &o), src.claimed(t, s, &other)
		var running sync.WaitGroup
		for i := range 12 {
			c := late(&o, by)
			switch i % 3 {
			case 1:
				c.PaymentID = "payment-2-of-" + string(o.ID)
			case 2: // one payment of two orders
				c = late(&other, byOther)
				c.PaymentID = paymentOf(o.ID)
			}
			running.Go(func() {
				_, err := handles[i%3].Change(t.Context(), c)
				_, state := errors.AsType[*sluice.OrderStateError](err)
				_, conflict := errors.AsType[*sluice.PaymentConflictError](err)
				if err != nil && !state && !conflict {
					t.Error(err)
				}
			})
		}
		running.Wait()
		paid := map[string]int{}
		for _, id := range []sluice.OrderID{by, byOther} {
			if got := read1(t, s, id); got.Status == sluice.Paid {
				if old := read1(t, s, got.Replaces()); old.ReplacedBy() != id {
					t.Errorf("%+v is paid in the place of %+v", got, old)
				}
				paid[got.PaymentID]++
			}
		}
		if n := paid[paymentOf(o.ID)]; n > 1 || len(paid) == 0 {
			t.Errorf("payments %v", paid)
		}
		mustBeSound(t, s, "phones")
		o = expiredOf(t, s, db, src)
	}
}

// What names persons goes from both orders, and what leads from one to the other stays.
// Then both are deleted.
func testRetakenErased(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	src, o := retaking(t, s, db)
	by := src.claimed(t, s, &o)
	change(t, s, late(&o, by))
	numberAll(t, s, 10)
	archivedSale(t, s, "phones")
	erase := func(want sluice.Erased) {
		t.Helper()
		got, err := s.EraseBuyer(t.Context(), o.Buyer)
		sameErased(t, want, got, err)
	}
	erase(sluice.Erased{Orders: 2})
	erase(sluice.Erased{})
	old, now := read1(t, s, o.ID), read1(t, s, by)
	if old.Buyer == o.Buyer || now.Buyer != old.Buyer || old.ReplacedBy() != by || now.Replaces() != o.ID {
		t.Errorf("erased:\n%+v\n%+v", old, now)
	}
	for _, e := range append(history(t, s, o.ID), history(t, s, by)...) {
		if e.PaymentID == paymentOf(o.ID) {
			t.Errorf("%+v names the payment", e)
		}
	}
	goesOn(t, s, "radios")
	longAgo(t, db, s, "phones")
	if done := purge(t, s); done.Orders != 2 {
		t.Errorf("purged %+v", done)
	}
}

// The table of payments is newer than that of orders: the order has a payment there that
// its row does not know. Another one is refused, and that one is the order's.
func testPaymentLeftOver(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	o := src.store(t, s, 1).Claims[0].Order
	db.Execute(t, "INSERT INTO payments (payment_id, order_id) VALUES ('"+paymentOf(o)+"', '"+string(o)+"')")
	c := want(o, sluice.Pay)
	c.PaymentID = "another"
	_, err := s.Change(t.Context(), c)
	conflict, ok := errors.AsType[*sluice.PaymentConflictError](err)
	if !ok || *conflict != (sluice.PaymentConflictError{Order: o, Have: paymentOf(o)}) {
		t.Errorf("error %v", err)
	}
	if past := history(t, s, o); len(past) != 2 || past[1].PaymentID != "another" {
		t.Errorf("history %+v", past)
	}
	if got := change(t, s, want(o, sluice.Pay)); got.Status != sluice.Paid {
		t.Errorf("paid: %+v", got)
	}
}
