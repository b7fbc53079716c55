package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// The store's clock goes on, and is the one that stamps what it stores.
func testClock(t *testing.T, db Database) {
	s := db.Open(t)
	before, err := s.Clock(t.Context())
	if err != nil || before.IsZero() || before != before.Truncate(time.Millisecond) || before.Location() != time.UTC {
		t.Fatalf("clock %v, %v", before, err)
	}
	sale := create(t, s, aSale("phones", 1))
	after, err := s.Clock(t.Context())
	if err != nil || after.Before(before) {
		t.Fatalf("clock %v after %v, %v", after, before, err)
	}
	if sale.CreatedAt.Before(before) || sale.CreatedAt.After(after) {
		t.Errorf("stored at %v, want between %v and %v", sale.CreatedAt, before, after)
	}
}

// What is stored when, what is due, and which payment is in time, is judged by the
// database's clock alone, however far from it the server's own is.
func testDatabasesClock(t *testing.T, db Database) {
	s := db.Open(t)
	for name, c := range map[string]struct {
		by, age time.Duration // of the database's clock; of the orders
		paid    sluice.Status
		expired int
	}{
		"ahead":  {time.Hour, 0, sluice.RefundDue, 1},
		"behind": {-time.Hour, 30 * time.Minute, sluice.Paid, 0},
	} {
		t.Run(name, func(t *testing.T) {
			id := sluice.SaleID("clock-" + name)
			sale := create(t, s, aSale(id, sluice.Unlimited))
			src := source{sale: id, epoch: 1}
			first := src.store(t, s, 2)
			db.Age(t, id, c.age)

			skewed := db.OpenAhead(t, c.by)
			now, err := skewed.Clock(t.Context())
			if err != nil || (time.Until(now)-c.by).Abs() > time.Minute {
				t.Fatalf("the clock is ahead by %v, %v; want %v", time.Until(now), err, c.by)
			}
			if got := change(t, skewed, want(first.Claims[0].Order, sluice.Pay)); got.Status != c.paid {
				t.Errorf("paid: the order is %s, want %s", got.Status, c.paid)
			}
			expired, err := skewed.ExpireDue(t.Context(), 100, nil, nil)
			if err != nil || expired[id] != c.expired {
				t.Errorf("%d expired, %v; want %d", expired[id], err, c.expired)
			}

			// All new; and a redelivery with one that is new.
			second, third := src.entry(1), src.entry(1)
			insert(t, skewed, port.Stored{Inserted: 1}, second)
			insert(t, skewed, port.Stored{Inserted: 1, Redelivered: 1}, second, third)
			for _, e := range []port.Entry{second, third} {
				o := read1(t, s, e.Claims[0].Order)
				if o.StoredAt.Sub(now).Abs() > time.Minute ||
					!o.KeepUntil.Equal(o.StoredAt.Add(sale.PaymentWindow+sale.PaymentGrace)) {
					t.Errorf("stored at %v, kept until %v, by a clock of %v", o.StoredAt, o.KeepUntil, now)
				}
			}
			mustBeSound(t, s, id)
		})
	}
}

// A payment that waits for its order's row until that is due is late, and what is
// stored after waiting for the sale's row has the time of getting it: the clock is read
// when the lock is there.
func testTimeAfterLock(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.store(t, s, 1)
	id := entry.Claims[0].Order
	clock := func() time.Time {
		t.Helper()
		now := must.Get(s.Clock(t.Context()))(t)
		return now
	}
	const wait = 400 * time.Millisecond
	order := read1(t, s, id)
	db.Age(t, "phones", order.KeepUntil.Sub(clock())-wait)
	due := read1(t, s, id).KeepUntil

	// during runs do while another transaction holds what the statement touches,
	// until the database's clock has reached a moment.
	during := func(statement string, until time.Time, do func(ctx context.Context) error) {
		t.Helper()
		free := db.Hold(t, statement)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- do(ctx) }()
		for clock().Before(until) {
			select {
			case err := <-done:
				t.Fatalf("it did not wait: %v", err)
			case <-time.After(5 * time.Millisecond):
			}
		}
		free()
		must.Succeed(t, <-done)
	}
	during(fmt.Sprintf("UPDATE orders SET meta = meta WHERE order_id = '%s'", id), due, func(ctx context.Context) error {
		got, err := s.Change(ctx, want(id, sluice.Pay))
		if err == nil && got.Status != sluice.RefundDue {
			t.Errorf("paid after it was due: the order is %s", got.Status)
		}
		return err
	})
	if got := read1(t, s, id); got.Status != sluice.RefundDue || got.UpdatedAt.Before(due) {
		t.Errorf("the order is %s since %v, and was due at %v", got.Status, got.UpdatedAt, due)
	}

	later, until := src.entry(1), clock().Add(wait)
	during("UPDATE sales SET title = title WHERE id = 'phones'", until, func(ctx context.Context) error {
		_, err := s.Insert(ctx, "phones", []port.Entry{later})
		return err
	})
	if got := read1(t, s, later.Claims[0].Order); got.StoredAt.Before(until) {
		t.Errorf("stored at %v, while the sale was locked until %v", got.StoredAt, until)
	}
	if c := mustBeSound(t, s, "phones"); c.Sale.Taken != 1 {
		t.Errorf("taken %d, want 1", c.Sale.Taken)
	}
}
