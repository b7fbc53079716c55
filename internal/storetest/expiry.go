package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// expireDue ends what is due by the store's clock, and returns how many.
func expireDue(ctx context.Context, s port.Store, limit int) (n int, err error) {
	expired, err := s.ExpireDue(ctx, limit, nil, nil)
	for _, orders := range expired {
		n += orders
	}
	return n, err
}

func expire(t *testing.T, s port.Store, limit, want int) {
	t.Helper()
	if n, err := expireDue(t.Context(), s, limit); err != nil || n != want {
		t.Fatalf("%d expired, error %v, want %d", n, err, want)
	}
}

func testExpireDue(t *testing.T, db Database) {
	s := db.Open(t)
	expire(t, s, 10, 0)
	sources := map[sluice.SaleID]*source{}
	for _, id := range []sluice.SaleID{"phones", "tablets", "young"} {
		create(t, s, aSale(id, 100))
		sources[id] = &source{sale: id, epoch: 1}
		insert(t, s, port.Stored{Inserted: 4}, sources[id].entryOf(1, 2, 3, 4))
	}
	expire(t, s, 10, 0)
	orders := look(t, s, "phones").Orders
	change(t, s, want(orders[0].ID, sluice.Pay))
	change(t, s, want(orders[3].ID, sluice.Cancel))
	given(t, s)
	db.Age(t, "phones", time.Hour)
	db.Age(t, "tablets", 2*time.Hour)

	// Orders kept until after the moment that the caller chooses stay; a moment
	// after the store's clock is of no effect.
	before := must.Get(s.Clock(t.Context()))(t)
	for moment, want := range map[time.Duration]int{
		-100 * 24 * time.Hour: 0, look(t, s, "tablets").Orders[0].KeepUntil.Sub(before) - time.Millisecond: 0,
	} {
		var now time.Time
		expired, err := s.ExpireDue(t.Context(), 3, nil, func(at time.Time) time.Time { now = at; return before.Add(moment) })
		if err != nil || len(expired) != want || now.Before(before) || now.After(before.Add(time.Minute)) {
			t.Errorf("up to %v from now: %v expired at %v, %v", moment, expired, now, err)
		}
	}

	none := func(sluice.SaleID) bool { return false }
	if expired, err := s.ExpireDue(t.Context(), 10, none, nil); err != nil || len(expired) > 0 {
		t.Errorf("%v expired of sales whose orders may not, %v", expired, err)
	}

	// The most overdue first.
	expired, err := s.ExpireDue(t.Context(), 3, nil, func(now time.Time) time.Time { return now.Add(time.Hour) })
	if want := map[sluice.SaleID]int{"tablets": 3}; err != nil || !maps.Equal(expired, want) {
		t.Errorf("%v expired, %v, want %v", expired, err, want)
	}
	expire(t, s, 1, 1)
	for _, o := range look(t, s, "tablets").Orders {
		if entries := history(t, s, o.ID); o.Status != sluice.Expired || len(entries) != 2 ||
			entries[1] != (sluice.HistoryEntry{
				Order: o.ID, At: o.UpdatedAt, From: sluice.Pending, To: sluice.Expired, Action: sluice.Expire, By: "expiry",
			}) {
			t.Errorf("order %s is %s: %+v", o.ID, o.Status, entries)
		}
	}
	expire(t, s, 10, 2)
	expire(t, s, 10, 0)
	wantReleases := look(t, s, "tablets").Orders
	wantReleases = append(wantReleases, look(t, s, "phones").Orders[1:3]...)
	sameReleases(t, wantReleases, given(t, s))
	for id, taken := range map[sluice.SaleID]int64{"phones": 1, "tablets": 0, "young": 10} {
		if c := mustBeSound(t, s, id); c.Sale.Taken != taken {
			t.Errorf("%s: taken %d, want %d", id, c.Sale.Taken, taken)
		}
	}
	for _, limit := range []int{0, -1} {
		if _, err := expireDue(t.Context(), s, limit); err == nil {
			t.Errorf("limit %d: no error", limit)
		}
	}
}

// sameReleases compares in any order; epoch 1.
func sameReleases(t *testing.T, orders []sluice.Order, got []port.Release) {
	t.Helper()
	var want []port.Release
	for i := range orders {
		want = append(want, releaseOf(&orders[i], 1))
	}
	byOrder := func(a, b port.Release) int { return strings.Compare(string(a.Order), string(b.Order)) }
	slices.SortFunc(want, byOrder)
	slices.SortFunc(got, byOrder)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}

// Nothing expires before its time, by the store's clock, and then at once.
func testExpiryIsInTime(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.store(t, s, 1)
	order := read1(t, s, entry.Claims[0].Order)
	db.Age(t, "phones", order.KeepUntil.Sub(order.StoredAt)-150*time.Millisecond)
	keepUntil := read1(t, s, order.ID).KeepUntil
	for deadline := time.Now().Add(time.Minute); ; {
		n, err := expireDue(t.Context(), s, 10)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d expired, error %v", n, err)
		}
		if n == 1 {
			break
		}
	}
	if at := read1(t, s, order.ID).UpdatedAt; at.Before(keepUntil) {
		t.Errorf("expired at %v, kept until %v", at, keepUntil)
	}
}

// Several servers expire side by side, while orders are cancelled and paid too
// late: each order ends once, and no lock cycle forms.
func testConcurrentExpiry(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	sales := []sluice.SaleID{"a", "b", "c"}
	var orders []sluice.OrderID
	entries := make([]port.Entry, len(sales))
	for i, id := range sales {
		create(t, handles[0], aSale(id, sluice.Unlimited))
		src := source{sale: id, epoch: 1}
		entries[i] = src.entry(200)
	}
	for range 10 { // so that each batch has orders of all sales
		for k := range entries {
			head, tail := split(entries[k], 20)
			insert(t, handles[0], port.Stored{Inserted: len(head.Claims)}, head)
			entries[k] = tail
			for _, c := range head.Claims {
				orders = append(orders, c.Order)
			}
		}
	}
	for _, id := range sales {
		db.Age(t, id, time.Hour)
	}
	var running sync.WaitGroup
	var expired, others atomic.Int64
	for worker := range 4 {
		running.Go(func() {
			for {
				n, err := expireDue(t.Context(), handles[worker%3], 17)
				if err != nil {
					t.Error(err)
				}
				if n == 0 || err != nil {
					return
				}
				expired.Add(int64(n))
			}
		})
	}
	for worker := range 2 {
		running.Go(func() {
			for i := worker; i < len(orders); i += 20 {
				action := []sluice.Action{sluice.Cancel, sluice.Pay}[worker]
				_, err := handles[worker].Change(t.Context(), want(orders[len(orders)-1-i], action))
				if refused := (*sluice.OrderStateError)(nil); err != nil && !errors.As(err, &refused) {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	// A pass over what others hold may have left some.
	for {
		n := must.Get(expireDue(t.Context(), handles[0], 100))(t)
		if n == 0 {
			break
		}
		expired.Add(int64(n))
	}
	var all []sluice.Order
	for _, id := range sales {
		c := mustBeSound(t, handles[0], id)
		if c.Sale.Taken != 0 {
			t.Errorf("%s: taken %d", id, c.Sale.Taken)
		}
		all = append(all, c.Orders...)
		for _, o := range c.Orders {
			if entries := history(t, handles[0], o.ID); entries[1].To != sluice.Expired || entries[1].By != "expiry" {
				others.Add(1) // cancelled
			} else if o.Status == sluice.RefundDue && len(entries) != 3 || o.Status == sluice.Expired && len(entries) != 2 {
				t.Errorf("%s: %+v", o.ID, entries)
			}
		}
	}
	if n := expired.Load() + others.Load(); n > int64(len(all)) || expired.Load() == 0 {
		t.Errorf("%d expired by the job and %d cancelled, of %d", expired.Load(), others.Load(), len(all))
	}
	sameReleases(t, all, given(t, handles[0]))
}
