package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// longAgo makes a sale, and all that has happened to it and to its orders, two hours
// older.
func longAgo(t *testing.T, db Database, s port.Store, id sluice.SaleID) {
	t.Helper()
	numberAll(t, s, 1000)
	db.Age(t, id, 2*time.Hour)
	twoHoursAgo(t, db, "sales", "archived_at", fmt.Sprintf("id = '%s'", id))
	twoHoursAgo(t, db, "sale_events", "created_at", fmt.Sprintf("sale_id = '%s'", id))
	twoHoursAgo(t, db, "order_changes", "changed_at", fmt.Sprintf("order_id LIKE '%s.%%'", id))
}

// goesOn lets another sale sell: the store has a newer order, and newer events.
func goesOn(t *testing.T, s port.Store, id sluice.SaleID) {
	t.Helper()
	selling(t, s, id, 1000).store(t, s, 1)
	numberAll(t, s, 1000)
}

func purge(t *testing.T, s port.Store) port.Purged {
	t.Helper()
	done := must.Get(s.PurgeOlder(t.Context(), time.Hour))(t)
	return done
}

func samePurged(t *testing.T, want, got port.Purged) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("purged (-want +got):\n%s", diff)
	}
}

// soldOut is an archived sale of long ago: two orders are paid, one of them of two
// units, one is refunded, one cancelled, and two were beyond the total, of which one
// was paid and waits for its refund.
func soldOut(t *testing.T, db Database, s port.Store, id sluice.SaleID) port.Entry {
	t.Helper()
	src := selling(t, s, id, 5)
	entry := src.entryOf(2, 1, 1, 1, 1, 1)
	order := func(i int) sluice.OrderID { return entry.Claims[i].Order }
	insert(t, s, port.Stored{Inserted: 6, Rejected: []sluice.OrderID{order(4), order(5)}}, entry)
	numberAll(t, s, 1000)
	for i := range 3 {
		change(t, s, want(order(i), sluice.Pay))
	}
	change(t, s, want(order(2), sluice.Refund))
	change(t, s, want(order(3), sluice.Cancel))
	must.Succeed(t, s.SetAside(t.Context(), letterOf(id, "whole", entry.Claims...)))
	archivedSale(t, s, id)
	change(t, s, want(order(5), sluice.Pay))
	longAgo(t, db, s, id)
	return entry
}

// Orders and events that are old enough are deleted, and what they count for stays.
func testPurge(t *testing.T, db Database) {
	s := db.Open(t)
	entry := soldOut(t, db, s, "phones")
	due := entry.Claims[5].Order
	if got, err := s.PurgeOlder(t.Context(), 3*time.Hour); err != nil || !cmp.Equal(got, port.Purged{}) {
		t.Errorf("too early: %+v, %v", got, err)
	}
	// Without a newer order and a newer event the last ones stay.
	goesOn(t, s, "radios")
	before, last := read(t, s, "phones"), feed(t, s, 100)
	cut := int64(len(last) - 3) // radios: created, loaded, an order
	refundDue := []sluice.ErasureWait{{Sale: "phones", Why: sluice.OwedRefund}}
	samePurged(t, port.Purged{Orders: 5, Events: cut, Waits: refundDue}, purge(t, s))
	samePurged(t, port.Purged{Waits: refundDue}, purge(t, s))
	sums := []sluice.Sum{
		{Status: sluice.Paid, Currency: "CNY", Orders: 2, Units: 3, Amount: 3 * 199900},
		{Status: sluice.Refunded, Currency: "CNY", Orders: 1, Units: 1, Amount: 199900},
		{Status: sluice.Cancelled, Currency: "CNY", Orders: 1, Units: 1, Amount: 199900},
		{Status: sluice.Rejected, Currency: "CNY", Orders: 1, Units: 1, Amount: 199900},
	}
	remains := &sluice.Remains{Sums: sums, NotCovered: 1}
	after := read(t, s, "phones")
	if diff := cmp.Diff(remains, after.Remains); diff != "" {
		t.Errorf("remains (-want +got):\n%s", diff)
	}
	if after.Taken != 3 || after.Epoch != before.Epoch+1 {
		t.Errorf("taken %d, epoch %d after %d", after.Taken, after.Epoch, before.Epoch)
	}
	if was, is, err := s.RecountTaken(t.Context(), "phones"); err != nil || was != 3 || is != 3 {
		t.Errorf("counted again: %d, %d, %v", was, is, err)
	}

	// The feed begins later, and says so.
	for _, from := range []int64{0, cut - 1} {
		_, err := s.Events(t.Context(), from, 10)
		if gone := (*sluice.EventsGoneError)(nil); !errors.As(err, &gone) || gone.First != cut+1 {
			t.Errorf("events after %d: %v, want the first to be %d", from, err, cut+1)
		}
	}
	page, err := s.Events(t.Context(), cut, 10)
	if diff := cmp.Diff(last[cut:], page); err != nil || diff != "" {
		t.Errorf("what is left of the feed: %v (-want +got):\n%s", err, diff)
	}

	// No second order for a claim (I5), and no ledger that is loaded.
	first := entry.Claims[0]
	_, err = s.Claim(t.Context(), sluice.ClaimID{Sale: "phones", Buyer: first.Buyer, Key: first.Key})
	wantError(t, err, sluice.ErrOrderNotFound)
	_, err = s.Order(t.Context(), first.Order)
	wantError(t, err, sluice.ErrOrderNotFound)
	unchanged(t, s, "phones", func() {
		_, err := s.Insert(t.Context(), "phones", []port.Entry{entry})
		wantError(t, err, port.ErrStaleEpoch)
		whole, _ := split(entry, 1)
		_, err = s.Insert(t.Context(), "phones", []port.Entry{whole})
		wantError(t, err, port.ErrStaleEpoch)
		_, err = s.BeginLoad(t.Context(), "phones", 0)
		wantError(t, err, sluice.ErrArchived)
	})

	// The refund is new, and its order stays as long as its event.
	change(t, s, want(due, sluice.Refund))
	samePurged(t, port.Purged{Waits: []sluice.ErasureWait{{Sale: "phones", Why: sluice.RecentEvents}}}, purge(t, s))
	numberAll(t, s, 1000)
	samePurged(t, port.Purged{Waits: []sluice.ErasureWait{{Sale: "phones", Why: sluice.RecentEvents}}}, purge(t, s))
	longAgo(t, db, s, "radios")
	longAgo(t, db, s, "phones")
	goesOn(t, s, "tablets")
	samePurged(t, port.Purged{Orders: 1, Events: 4}, purge(t, s))
	remains.Sums[1].Orders, remains.Sums[1].Units, remains.Sums[1].Amount = 2, 2, 2*199900
	remains.NotCovered = 2
	after = read(t, s, "phones")
	remains.At = after.Remains.At
	if diff := cmp.Diff(remains, after.Remains); diff != "" || remains.At.IsZero() {
		t.Errorf("remains (-want +got):\n%s", diff)
	}
	for id := int64(1); id < 10; id++ {
		if l, err := s.DeadLetter(t.Context(), id); err == nil {
			t.Errorf("dead letter %+v", l)
		}
	}
	samePurged(t, port.Purged{}, purge(t, s))
	if left := mustBeSound(t, s, "radios"); len(left.Orders) != 1 {
		t.Errorf("the other sale has %d orders", len(left.Orders))
	}
	if _, err := s.EraseBuyer(t.Context(), first.Buyer); err != nil && !errors.Is(err, sluice.ErrNoErasureKey) {
		t.Error(err)
	}
}

// What remains of one sale is damaged: lists have all sales and say so of that one; it
// alone cannot be read, nor may its sums be written over.
func testRemainsUnreadable(t *testing.T, db Database) {
	s := db.Open(t)
	soldOut(t, db, s, "phones")
	goesOn(t, s, "radios")
	purge(t, s)
	db.Execute(t, `UPDATE sales SET remains = '{"sums":"gone"}' WHERE id = 'phones'`)
	for what, filter := range map[string]port.SaleFilter{
		"all": {}, "named": {IDs: []sluice.SaleID{"phones", "radios"}}, "a page": {Limit: 2},
	} {
		list, err := s.Sales(t.Context())
		if what != "all" {
			list, err = s.SelectSales(t.Context(), filter)
		}
		if err != nil || len(list) != 2 {
			t.Fatalf("%s: %d sales, %v", what, len(list), err)
		}
		for i := range list {
			if r := list[i].Remains; (list[i].ID == "phones") != (r != nil && r.Err != nil) || list[i].Version == 0 {
				t.Errorf("%s: %+v", what, list[i])
			}
		}
	}
	if sale, err := s.Sale(t.Context(), "phones"); err == nil {
		t.Errorf("read alone: %+v", sale)
	}
	if done, err := s.PurgeOlder(t.Context(), time.Hour); err == nil {
		t.Errorf("purged %+v over unreadable sums", done)
	}
}

// The database's clock has jumped ahead: what is young by the server's own is neither
// deleted nor erased, for that is for ever.
func testPurgeAfterJump(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	for _, c := range selling(t, s, "phones", 5).store(t, s, 5).Claims {
		change(t, s, want(c.Order, sluice.Pay))
	}
	archivedSale(t, s, "phones")
	recordAction(t, s, port.AdminAction{By: "admin"})
	goesOn(t, s, "radios")
	before := look(t, s, "phones")
	const years = 365 * 24 * time.Hour
	skewed := db.OpenAhead(t, 11*years)
	must.Get(skewed.SealSecrets(t.Context(), erasureKey))(t)
	erased, err := skewed.EraseOlder(t.Context(), 10*years)
	sameErased(t, sluice.Erased{}, erased, err)
	purged := must.Get(skewed.PurgeOlder(t.Context(), 10*years))(t)
	samePurged(t, port.Purged{}, purged)
	if diff := cmp.Diff(before, look(t, s, "phones")); diff != "" {
		t.Errorf("the sale (-before +after):\n%s", diff)
	}
}

// What a webhook has not received stays in the feed, and so do the orders of it. The
// last event and the last order of the store stay in any case.
func testPurgeWaitsForWebhooks(t *testing.T, db Database) {
	s := db.Open(t)
	hook := aWebhook("wh_slow")
	hook.Types = nil
	makeWebhook(t, s, hook)
	soldOut(t, db, s, "phones")
	recent := []sluice.ErasureWait{{Sale: "phones", Why: sluice.RecentEvents}}
	behind := []sluice.WebhookID{"wh_slow"}
	samePurged(t, port.Purged{Waits: recent, Behind: behind}, purge(t, s))

	last := must.Get(s.LastEvent(t.Context()))(t)
	kept := []sluice.Delivery{
		{Event: 2, Subject: "phones", State: sluice.DeliveryFailed},
		{Event: 4, Subject: "phones", State: sluice.DeliveryPending},
	}
	if ok, err := s.Advance(t.Context(), "wh_slow", port.Progress{To: last, Kept: kept}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	samePurged(t, port.Purged{Events: 3, Waits: recent, Behind: behind}, purge(t, s))
	pending, failed, err := s.CountDeliveries(t.Context(), "wh_slow")
	if err != nil || pending != 1 || failed != 0 {
		t.Errorf("%d pending, %d failed, %v", pending, failed, err)
	}
	for _, err := range []error{
		s.ReplayFrom(t.Context(), "wh_slow", 3), s.ReplayEvent(t.Context(), "wh_slow", 3, "phones"),
	} {
		if gone := (*sluice.EventsGoneError)(nil); !errors.As(err, &gone) || gone.First != 4 {
			t.Errorf("replay of a deleted event: %v, want that the first one is 4", err)
		}
	}
	if err := s.ReplayFrom(t.Context(), "wh_slow", 4); err != nil {
		t.Error(err)
	}
	samePurged(t, port.Purged{Waits: recent, Behind: behind}, purge(t, s))
	must.Succeed(t, s.DeleteWebhook(t.Context(), "wh_slow"))
	// All is old, and the last event and the last order stay.
	done := purge(t, s)
	if done.Events != last-4 || done.Behind != nil {
		t.Errorf("%+v, want %d events", done, last-4)
	}
	if page, err := s.Events(t.Context(), last-1, 1); err != nil || len(page) != 1 {
		t.Errorf("the last event: %+v, %v", page, err)
	}
	if newest := look(t, s, "phones").Orders; len(newest) == 0 {
		t.Error("the store has no order left")
	}
}

// manyEnded is an archived sale of long ago with so many cancelled orders.
func manyEnded(t *testing.T, db Database, s port.Store, id sluice.SaleID, n int) {
	t.Helper()
	entry := selling(t, s, id, 100_000).store(t, s, n)
	for i := range entry.Claims {
		if i%10 == 0 {
			change(t, s, want(entry.Claims[i].Order, sluice.Pay))
		}
	}
	db.Age(t, id, time.Hour)
	for {
		due := must.Get(s.ExpireDue(t.Context(), 1000, nil, func(now time.Time) time.Time { return now }))(t)
		if len(due) == 0 {
			break
		}
	}
	archivedSale(t, s, id)
	longAgo(t, db, s, id)
}

// adds fails the test unless the remains of a sale and its orders are n orders, of
// which every tenth is paid.
func adds(t *testing.T, s port.Store, id sluice.SaleID, n int64) (left int64) {
	t.Helper()
	c := look(t, s, id)
	left = int64(len(c.Orders))
	all, live := left, int64(0)
	for i := range c.Orders {
		if c.Orders[i].Status.Live() {
			live += c.Orders[i].Quantity
		}
	}
	if c.Sale.Remains != nil {
		for _, sum := range c.Sale.Remains.Sums {
			all += sum.Orders
		}
		live += c.Sale.Remains.Live()
	}
	if all != n || live != n/10 || c.Sale.Taken != n/10 {
		t.Errorf("sale %s: %d orders, %d live units, %d taken; want %d, %d, %d", id, all, live, c.Sale.Taken, n, n/10, n/10)
	}
	return left
}

// Deleting is cut off in the middle, again and again: what remains and what is left are
// all orders at every moment, and in the end nothing is left.
func testPurgeCutOff(t *testing.T, db Database) {
	s := db.Open(t)
	const many = 900
	manyEnded(t, db, s, "phones", many)
	goesOn(t, s, "radios")
	cutOff := 0
	for wait := time.Millisecond; ; wait = wait*5/4 + time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		_, err := s.PurgeOlder(ctx, time.Hour)
		cancel()
		left := adds(t, s, "phones", many)
		if left > 0 && left < many {
			cutOff++
		}
		if err == nil {
			break
		}
	}
	if sale := read(t, s, "phones"); sale.Remains == nil || sale.Remains.At.IsZero() || adds(t, s, "phones", many) != 0 {
		t.Errorf("remains %+v", sale.Remains)
	}
	t.Logf("cut off %d times among the orders", cutOff)
}

// The order with the highest position of the store stays until there is a newer one: no
// position is given twice, so a reader of pages passes over nothing.
func testPurgeNewestOrder(t *testing.T, db Database) {
	s := db.Open(t)
	manyEnded(t, db, s, "phones", 30)
	create(t, s, aSale("radios", 10)) // has the newest event, and no order
	numberAll(t, s, 1000)
	_, cursor, err := s.Orders(t.Context(), sluice.OrderFilter{Limit: 29})
	if err != nil || cursor == "" {
		t.Fatal(cursor, err)
	}
	last := look(t, s, "phones").Orders[29].ID
	done := purge(t, s)
	newest := []sluice.ErasureWait{{Sale: "phones", Why: sluice.NewestOrder}}
	samePurged(t, port.Purged{Orders: 29, Events: done.Events, Waits: newest}, done)
	radios := source{sale: "radios", epoch: 1}
	next := radios.store(t, s, 1).Claims[0].Order
	page, _, err := s.Orders(t.Context(), sluice.OrderFilter{Limit: 10, Cursor: cursor})
	if err != nil || len(page) != 2 || page[0].ID != last || page[1].ID != next {
		t.Errorf("the page after the cursor: %+v, %v", page, err)
	}
	samePurged(t, port.Purged{Orders: 1}, purge(t, s))
	adds(t, s, "phones", 30)
}

// Two servers delete the same orders: each is counted once.
func testConcurrentPurge(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	const many = 500
	manyEnded(t, db, s, "phones", many)
	goesOn(t, s, "radios")
	all := make(chan int64, 2)
	of := func(s port.Store) func(context.Context) error {
		return func(ctx context.Context) error {
			done, err := s.PurgeOlder(ctx, time.Hour)
			all <- done.Orders
			return err
		}
	}
	wait := atOnce(t, of(s), of(other))
	radios := source{sale: "radios", epoch: 1, seq: 1, made: 1}
	for range 20 { // the neighbour sells
		radios.store(t, s, 1)
	}
	wait()
	if n := <-all + <-all; n != many {
		t.Errorf("%d orders were deleted, want %d", n, many)
	}
	purge(t, s)
	if sale := read(t, s, "phones"); sale.Remains == nil || sale.Remains.At.IsZero() || adds(t, s, "phones", many) != 0 {
		t.Errorf("remains %+v", sale.Remains)
	}
}
