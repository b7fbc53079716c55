package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
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
	handles := [2]port.Store{db.Open(t), db.Open(t)}
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
