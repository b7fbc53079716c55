package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
)

func extension(order sluice.OrderID, until time.Time) sluice.Change {
	return sluice.Change{Order: order, Action: sluice.Extend, By: someone, Reason: why, ExpiresAt: until}
}

// An order whose payment is pending gets a later deadline, never an earlier one, and is
// paid and expires by that. Its history and the feed say so.
func testExtend(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	id := become(t, s, db, src, sluice.Pending)
	before, past := read1(t, s, id), history(t, s, id)
	until := before.ExpiresAt.Add(time.Hour + time.Millisecond)
	want1 := before
	want1.ExpiresAt, want1.KeepUntil = until, before.KeepUntil.Add(time.Hour+time.Millisecond)
	for _, deadline := range []time.Time{until, until, before.ExpiresAt, until.Add(-time.Millisecond)} { // and repeats
		got := change(t, s, extension(id, deadline))
		want1.UpdatedAt = got.UpdatedAt
		if diff := cmp.Diff(want1, got); diff != "" || got.UpdatedAt.Before(before.UpdatedAt) {
			t.Errorf("extended to %v (-want +got):\n%s", deadline, diff)
		}
		if diff := cmp.Diff(got, read1(t, s, id)); diff != "" {
			t.Errorf("(-told +stored):\n%s", diff)
		}
	}
	further := until.Add(time.Hour)
	change(t, s, extension(id, further))
	now := history(t, s, id)
	for i, deadline := range []time.Time{until, further} {
		want := sluice.HistoryEntry{
			Order: id, From: sluice.Pending, To: sluice.Pending, Action: sluice.Extend, By: someone, Reason: why,
			ExpiresAt: deadline,
		}
		if len(now) != len(past)+2 {
			t.Fatalf("history %+v", now)
		}
		want.At = now[len(past)+i].At
		if diff := cmp.Diff(want, now[len(past)+i]); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	}
	latest := before.StoredAt.Add(sluice.MaxPaymentWindow)
	tooFar := (*sluice.ExtensionError)(nil)
	if _, err := s.Change(t.Context(), extension(id, latest.Add(time.Millisecond))); !errors.As(err, &tooFar) ||
		!tooFar.Latest.Equal(latest) {
		t.Errorf("too far: %v", err)
	}

	// Its old time passes, and it is still there; its new time passes, and it is not.
	other := become(t, s, db, src, sluice.Pending)
	db.Age(t, "phones", before.KeepUntil.Sub(before.StoredAt))
	expire(t, s, 10, 1)
	if got := read1(t, s, other); got.Status != sluice.Expired {
		t.Errorf("the order beside it is %s", got.Status)
	}
	if got := change(t, s, want(id, sluice.Pay)); got.Status != sluice.Paid {
		t.Errorf("paid by its new deadline, and %s", got.Status)
	}
	third := become(t, s, db, src, sluice.Pending)
	change(t, s, extension(third, read1(t, s, third).ExpiresAt.Add(time.Hour)))
	db.Age(t, "phones", 24*time.Hour)
	for _, id := range []sluice.OrderID{third, id, other} { // late, and of no status that can be extended
		ended := (*sluice.OrderStateError)(nil)
		if _, err := s.Change(t.Context(), extension(id, time.Now().Add(time.Hour))); !errors.As(err, &ended) {
			t.Errorf("%s extended: %v", id, err)
		}
	}
	expire(t, s, 10, 1)
	numberAll(t, s, 100)
	var deadlines []time.Time
	for _, e := range feed(t, s, 100) {
		if e.Type == sluice.EventOrderExtended && e.Order.ID == id {
			deadlines = append(deadlines, e.Order.ExpiresAt)
			if e.Order.Status != sluice.Pending || e.Order.PaymentID != "" || e.RefusedPayment != "" {
				t.Errorf("event %+v", e)
			}
		}
	}
	if !slices.EqualFunc(deadlines, []time.Time{until, further}, time.Time.Equal) {
		t.Errorf("deadlines of the feed: %v, want %v and %v", deadlines, until, further)
	}
	given(t, s)
	mustBeSound(t, s, "phones")
}

func testExtendInvalid(t *testing.T, db Database) {
	s := db.Open(t)
	id := become(t, s, db, selling(t, s, "phones", 10), sluice.Pending)
	unchanged(t, s, "phones", func() {
		none, both := extension(id, time.Time{}), extension(id, time.Now().Add(time.Hour))
		both.PaymentID = "p"
		paid := want(id, sluice.Pay)
		paid.ExpiresAt = time.Now()
		for _, c := range []sluice.Change{none, both, paid} {
			if _, err := s.Change(t.Context(), c); err == nil {
				t.Errorf("%+v: no error", c)
			}
		}
	})
}

// An extension and the expiry race around the deadline: the order is extended and stays
// pending, or it has expired, once, and its units return.
func testExtendAgainstExpiry(t *testing.T, db Database) {
	handles := [2]sluice.Store{db.Open(t), db.Open(t)}
	src := selling(t, handles[0], "phones", sluice.Unlimited)
	extended := map[sluice.OrderID]bool{}
	lead := 30 * time.Millisecond
	for range races() / 50 {
		entry := src.store(t, handles[0], 50)
		newest := read1(t, handles[0], entry.Claims[0].Order)
		db.Age(t, "phones", newest.KeepUntil.Sub(newest.StoredAt)-lead)
		done := make(chan struct{})
		var expiring sync.WaitGroup
		expiring.Go(func() {
			for {
				if _, err := expireDue(t.Context(), handles[1], 5); err != nil {
					t.Error(err)
				}
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond):
				}
			}
		})
		won := 0
		for _, c := range entry.Claims {
			ended := (*sluice.OrderStateError)(nil)
			_, err := handles[0].Change(t.Context(), extension(c.Order, time.Now().Add(20*24*time.Hour)))
			if err != nil && !errors.As(err, &ended) {
				t.Error(err)
			}
			if extended[c.Order] = err == nil; err == nil {
				won++
			}
		}
		close(done)
		expiring.Wait()
		switch { // the deadline should come in the middle
		case won > 40:
			lead = lead * 3 / 4
		case won < 10:
			lead = lead*4/3 + time.Millisecond
		}
		db.Age(t, "phones", time.Hour) // those that were late for both
		if _, err := expireDue(t.Context(), handles[1], 1000); err != nil {
			t.Error(err)
		}
	}
	released := map[sluice.OrderID]int{}
	for _, r := range given(t, handles[0]) {
		released[r.Order]++
	}
	n := 0
	for _, o := range mustBeSound(t, handles[0], "phones").Orders {
		wanted, units := sluice.Expired, 1
		if extended[o.ID] {
			wanted, units = sluice.Pending, 0
			n++
		}
		if entries := history(t, handles[0], o.ID); o.Status != wanted || released[o.ID] != units || len(entries) != 2 {
			t.Errorf("order %s, extended %v: %s, released %d times: %+v", o.ID, extended[o.ID], o.Status, released[o.ID],
				entries)
		}
	}
	t.Logf("%d of %d were extended", n, len(extended))
}

// The feed says once of each deadline that it is near: of sales that want it, of orders
// that are pending then, however many servers look.
func testRemind(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	src := selling(t, s, "phones", sluice.Unlimited)
	quiet := selling(t, s, "tablets", sluice.Unlimited)
	notices := map[sluice.SaleID]sluice.Notice{"phones": {Ahead: 5 * time.Minute, Grace: aSale("phones", 1).PaymentGrace}}
	search := func(s sluice.Store) (noted int, end sluice.Due) {
		for parts := 1; ; parts++ {
			found, err := s.Remind(t.Context(), notices, end)
			if err != nil || parts > 100 || found.Now.IsZero() {
				t.Errorf("part %d: %+v, %v", parts, found, err)
				return noted, end
			}
			noted, end = noted+found.Noted, found.Next
			if found.Done {
				return noted, end
			}
		}
	}
	remind := func(want int) {
		t.Helper()
		if n, _ := search(s); n != want {
			t.Fatalf("%d noted, want %d", n, want)
		}
	}
	const orders = 2500 // more than one page of a search, all of one moment
	entry := src.store(t, s, 8)
	for range orders / 500 {
		src.store(t, s, 500)
	}
	quiet.store(t, s, 8)
	id := func(i int) sluice.OrderID { return entry.Claims[i].Order }
	first := read1(t, s, id(0))
	remind(0)
	change(t, s, want(id(1), sluice.Pay))
	change(t, s, want(id(2), sluice.Cancel))
	change(t, s, extension(id(3), first.ExpiresAt.Add(time.Hour)))
	for _, sale := range []sluice.SaleID{"phones", "tablets"} {
		db.Age(t, sale, first.ExpiresAt.Sub(first.StoredAt)-4*time.Minute)
	}
	var running sync.WaitGroup
	counts := make([]int, 3)
	for i, handle := range []sluice.Store{s, other, s} {
		running.Go(func() {
			counts[i], _ = search(handle)
		})
	}
	running.Wait()
	all := int64(8 + orders/500*500 - 3)
	remind(int(all) - counts[0] - counts[1] - counts[2]) // what one held the others passed over
	remind(0)

	// Where a search ended nothing is near, however many are near before it.
	_, end := search(s)
	change(t, s, extension(id(6), read1(t, s, id(6)).ExpiresAt.Add(time.Second)))
	if found, err := s.Remind(t.Context(), notices, end); err != nil || found.Noted != 0 || !found.Done ||
		found.Next.KeepUntil.Before(end.KeepUntil) {
		t.Errorf("from %+v on: %+v, %v", end, found, err)
	}
	remind(1)

	// A new deadline is another one. One that has passed is not near.
	change(t, s, extension(id(4), read1(t, s, id(4)).ExpiresAt.Add(time.Minute/2)))
	remind(1)
	src.store(t, s, 1)
	db.Age(t, "phones", first.ExpiresAt.Sub(first.StoredAt)+first.KeepUntil.Sub(first.ExpiresAt)/2)
	remind(0)
	change(t, s, want(id(5), sluice.Pay))
	numberAll(t, s, 10_000)
	seen := map[sluice.OrderID][]time.Time{}
	n := int64(0)
	for _, e := range feed(t, s, 1000) {
		if e.Type != sluice.EventOrderExpiring {
			continue
		}
		n++
		seen[e.Order.ID] = append(seen[e.Order.ID], e.Order.ExpiresAt)
		if e.Order.Sale != "phones" || e.Order.Status != sluice.Pending || e.RefusedPayment != "" {
			t.Errorf("event %+v", e)
		}
	}
	if n != all+2 || int64(len(seen)) != all || len(seen[id(4)]) != 2 || len(seen[id(3)]) != 0 {
		t.Errorf("%d events of %d orders, want %d", n, len(seen), all+2)
	}
	for _, e := range history(t, s, id(5))[1:2] {
		if e.Action != sluice.Remind || e.From != sluice.Pending || e.To != sluice.Pending || e.By != "expiry" ||
			!e.ExpiresAt.Equal(seen[id(5)][0]) {
			t.Errorf("history %+v", e)
		}
	}
	if _, err := s.Change(t.Context(), sluice.Change{Order: id(6), Action: sluice.Remind}); err == nil {
		t.Error("a person can remind")
	}
	given(t, s)
	mustBeSound(t, s, "phones")
}

// An order is extended after it was found, while the notes wait: its new deadline is not
// near, and is noted when it is.
func testRemindBesideExtend(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	src := selling(t, s, "phones", sluice.Unlimited)
	var ids []sluice.OrderID
	for _, c := range src.store(t, s, 150).Claims { // more than one transaction notes
		ids = append(ids, c.Order)
	}
	slices.Sort(ids)
	first, last := read1(t, s, ids[0]), ids[149]
	db.Age(t, "phones", first.ExpiresAt.Sub(first.StoredAt)-4*time.Minute)
	near := read1(t, s, last).ExpiresAt
	free := db.Hold(t, fmt.Sprintf(`INSERT INTO order_changes (order_id, changed_at, from_status, to_status, action,
		changed_by, reason, payment_id, refused)
		SELECT order_id, stored_at, 'pending', 'pending', 'remind', 'x', '', '', '%s'
		FROM orders WHERE order_id = '%s'`, fmt.Sprintf("\tremind %d", near.UnixMilli()), ids[0]))
	notices := map[sluice.SaleID]sluice.Notice{"phones": {Ahead: 5 * time.Minute, Grace: time.Hour}}
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := s.Remind(t.Context(), notices, sluice.Due{}); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(time.Second) // the search has found them, or finds the new deadline
	extended := make(chan struct{})
	running.Go(func() {
		defer close(extended)
		if _, err := other.Change(t.Context(), extension(last, near.Add(time.Hour))); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-extended:
	case <-time.After(time.Second): // the database has one writer
	}
	free()
	running.Wait()
	for _, e := range history(t, s, last) {
		if e.Action == sluice.Remind && e.ExpiresAt.After(near) {
			t.Errorf("%v is noted at %v", e.ExpiresAt, e.At)
		}
	}
}
