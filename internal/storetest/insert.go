package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func testInsert(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 500)
	sale := read(t, s, "phones")
	// More than a statement inserts at once, and the second entry begins in the middle of one.
	ones := slices.Repeat([]int64{1}, 70)
	one, two := src.entryOf(append(ones, 2)...), src.entryOf(append(ones, 3)...)
	two.Terms, two.Node = 2, "node-2"
	insert(t, s, port.Stored{Inserted: 142}, one, two)

	c := mustBeSound(t, s, "phones")
	if c.Sale.Taken != 145 {
		t.Errorf("taken %d, want 145", c.Sale.Taken)
	}
	var want []sluice.Order
	for _, entry := range []port.Entry{one, two} {
		for i := range entry.Claims {
			if changes, err := s.History(t.Context(), entry.Claims[i].Order); err != nil || changes[0].By != entry.Node {
				t.Fatalf("history %+v, %v, want it stored by %s", changes, err, entry.Node)
			}
			record := entry.Record(i)
			order := record.AsOrder(sale.Price)
			order.Status = sluice.Pending
			order.StoredAt = c.Orders[len(want)].StoredAt
			order.ExpiresAt = order.StoredAt.Add(sale.PaymentWindow)
			order.KeepUntil = order.ExpiresAt.Add(sale.PaymentGrace)
			order.UpdatedAt = order.StoredAt
			want = append(want, order)
		}
	}
	if diff := cmp.Diff(want, c.Orders); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	if at := c.Orders[0].StoredAt; !at.Equal(at.Truncate(time.Millisecond)) || at.Location() != time.UTC ||
		at.Before(sale.CreatedAt) {
		t.Errorf("stored at %v, want whole milliseconds, UTC, after %v", at, sale.CreatedAt)
	}
}

func testInsertNothing(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	unchanged(t, s, "phones", func() {
		if got, err := s.Insert(t.Context(), "phones", nil); err != nil || got.Inserted+got.Redelivered != 0 {
			t.Errorf("no entries: %+v, %v", got, err)
		}
		insert(t, s, port.Stored{}, src.entry(0))
	})
	unknown := source{sale: "unknown", epoch: 1}
	_, err := s.Insert(t.Context(), "unknown", []port.Entry{unknown.entry(1)})
	wantError(t, err, sluice.ErrSaleNotFound)
}

func testInsertInvalid(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	unchanged(t, s, "phones", func() {
		for name, spoil := range map[string]func(*port.Entry){
			"damaged":         func(e *port.Entry) { e.Damage = errors.New("torn") },
			"of another sale": func(e *port.Entry) { e.Sale = "other" },
			"order of another": func(e *port.Entry) {
				e.Claims[1].Order = sluice.SaleID("other").Order(strings.Repeat("0", 32))
			},
			"no epoch":            func(e *port.Entry) { e.Epoch = 0 },
			"no sequence":         func(e *port.Entry) { e.FirstSeq = 0 },
			"no terms":            func(e *port.Entry) { e.Terms = 0 },
			"no time":             func(e *port.Entry) { e.At = time.Time{} },
			"no quantity":         func(e *port.Entry) { e.Claims[1].Quantity = 0 },
			"negative quantity":   func(e *port.Entry) { e.Claims[1].Quantity = -1 },
			"NUL in meta":         func(e *port.Entry) { e.Claims[1].Meta = "\x00" },
			"meta not UTF-8":      func(e *port.Entry) { e.Claims[1].Meta = "\"\xff\"" },
			"buyer not UTF-8":     func(e *port.Entry) { e.Claims[1].Buyer = "\xff" },
			"no order id":         func(e *port.Entry) { e.Claims[1].Order = "" },
			"key of other signs":  func(e *port.Entry) { e.Claims[1].Key = "key with blanks" },
			"buyer is over-long":  func(e *port.Entry) { e.Claims[1].Buyer = sluice.BuyerID(strings.Repeat("b", 200)) },
			"quantity overflows.": func(e *port.Entry) { e.Claims[1].Quantity = 1 << 62 },
		} {
			src := source{sale: "phones", epoch: 1}
			good, bad := src.entry(2), src.entry(2)
			spoil(&bad)
			_, err := s.Insert(t.Context(), "phones", []port.Entry{good, bad})
			if conflict := (*port.ConflictError)(nil); err == nil || errors.As(err, &conflict) {
				t.Errorf("%s: error %v, want one that is no conflict", name, err)
			}
		}
	})
}

// What the database refuses for what it is, is ErrUnstorable, and stores nothing of the
// batch; the rest of it can be stored, and all of it when the database takes it. Nothing
// else is ErrUnstorable: an entry that meets it often becomes a dead letter soon.
func testUnstorable(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 20)
	good, bad := src.entry(2), src.entryOf(1, 2)
	refused := func(entries ...port.Entry) {
		t.Helper()
		unchanged(t, s, "phones", func() {
			_, err := s.Insert(t.Context(), "phones", entries)
			if wantError(t, err, port.ErrUnstorable); errors.Is(err, sluice.ErrStoreBusy) {
				t.Errorf("error %v is both", err)
			}
		})
	}
	db.Execute(t, db.Refuse)
	accept := sync.OnceFunc(func() { db.Execute(t, db.Accept) })
	defer accept() // tests may share the database
	refused(good, bad)
	insert(t, s, port.Stored{Inserted: 2}, good)
	refused(bad)
	refused(good, bad)
	accept()
	insert(t, s, port.Stored{Inserted: 2, Redelivered: 2}, good, bad)

	spoilt := src.entry(1)
	spoilt.Claims[0].Quantity = 0
	refused(spoilt)

	// A table that is away is a matter of the database, not of the entry.
	next := src.entry(1)
	db.Execute(t, "ALTER TABLE orders RENAME TO orders_away")
	back := sync.OnceFunc(func() { db.Execute(t, "ALTER TABLE orders_away RENAME TO orders") })
	defer back()
	_, err := s.Insert(t.Context(), "phones", []port.Entry{next})
	if err == nil || errors.Is(err, port.ErrUnstorable) {
		t.Errorf("without the table: error %v, want one that is not ErrUnstorable", err)
	}
	back()
	insert(t, s, port.Stored{Inserted: 1}, next)
	conflict := next
	conflict.FirstSeq++
	if _, err := s.Insert(t.Context(), "phones", []port.Entry{conflict}); errors.Is(err, port.ErrUnstorable) {
		t.Errorf("a conflict: error %v, want one that is not ErrUnstorable", err)
	}
}

func testRedelivery(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 12)) // the total is reached: redelivery must not need room
	src := source{sale: "phones", epoch: 1}
	first, second := src.entry(6), src.entry(4)
	insert(t, s, port.Stored{Inserted: 10}, first, second)

	head, tail := split(first, 2)
	reordered, later := head, tail
	later.Deliveries, later.At = 5, later.At.Add(time.Hour)
	unchanged(t, s, "phones", func() {
		insert(t, s, port.Stored{Redelivered: 10}, first, second)
		insert(t, s, port.Stored{Redelivered: 4}, second)
		insert(t, s, port.Stored{Redelivered: 4}, tail)
		insert(t, s, port.Stored{Redelivered: 10}, second, later, reordered)
	})

	third := src.entry(2)
	insert(t, s, port.Stored{Inserted: 2, Redelivered: 8}, second, third, tail)
	if c := mustBeSound(t, s, "phones"); c.Sale.Taken != 12 || len(c.Orders) != 12 || c.Sale.Fence != "" {
		t.Errorf("taken %d, %d orders, fence %q", c.Sale.Taken, len(c.Orders), c.Sale.Fence)
	}

	// What was redelivered has the first price and node, whatever is now.
	must.Get(s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
		s.Price.Amount = 1
		return nil
	}))(t)
	unchanged(t, s, "phones", func() { insert(t, s, port.Stored{Redelivered: 6}, first) })
}

func testRedeliveryWithin(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 3)
	entry := src.entry(3)
	head, tail := split(entry, 1)
	insert(t, s, port.Stored{Inserted: 3, Redelivered: 3}, entry, tail, head)
	mustBeSound(t, s, "phones")
}

// Whatever is not the same order, claim and place is a conflict.
func testConflicts(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	stored := src.store(t, s, 3)
	fresh := src
	fresh.made += 100 // shares nothing with anybody
	other := fresh.entry(1).Claims[0]

	for name, forge := range map[string]func(e *port.Entry){
		"order of another claim": func(e *port.Entry) {
			e.Claims[0] = other
			e.Claims[0].Order = stored.Claims[0].Order
			e.FirstSeq = 50
		},
		"order of another claim, place": func(e *port.Entry) {
			e.Claims[0] = other
			e.Claims[0].Order = stored.Claims[0].Order
		},
		"claim with another order":       func(e *port.Entry) { e.Claims[0].Order = other.Order; e.FirstSeq = 50 },
		"claim with order of a neighbor": func(e *port.Entry) { e.Claims[0].Order = stored.Claims[1].Order },
		"place of another claim":         func(e *port.Entry) { e.Claims[0] = other },
		"another place":                  func(e *port.Entry) { e.FirstSeq = 50 },
		"place of a neighbor":            func(e *port.Entry) { e.FirstSeq = 2 },
		"another epoch":                  func(e *port.Entry) { e.Epoch = 2 },
		"another key":                    func(e *port.Entry) { e.Claims[0].Key = other.Key },
		"another buyer":                  func(e *port.Entry) { e.Claims[0].Buyer = other.Buyer },
		"another quantity":               func(e *port.Entry) { e.Claims[0].Quantity = 2 },
		"another meta":                   func(e *port.Entry) { e.Claims[0].Meta = "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			forged := stored
			forged.ID = "forged"
			forged.Claims = slices.Clone(stored.Claims[:1])
			forge(&forged)
			next := src
			good := next.entryOf(1, 1)
			good.FirstSeq = 60
			unchanged(t, s, "phones", func() {
				_, err := s.Insert(t.Context(), "phones", []port.Entry{good, forged})
				conflict := (*port.ConflictError)(nil)
				if !errors.As(err, &conflict) {
					t.Fatalf("error %v, want a ConflictError", err)
				}
				if conflict.Entry != "forged" || conflict.Order != forged.Claims[0].Order || conflict.Detail == "" {
					t.Errorf("conflict %+v, want entry forged and order %s", conflict, forged.Claims[0].Order)
				}
			})
		})
	}
	t.Run("within one batch", func(t *testing.T) {
		next := src
		a, b := next.entry(1), next.entry(1)
		b.FirstSeq = a.FirstSeq
		unchanged(t, s, "phones", func() {
			_, err := s.Insert(t.Context(), "phones", []port.Entry{a, b})
			if conflict := (*port.ConflictError)(nil); !errors.As(err, &conflict) {
				t.Errorf("error %v, want a ConflictError", err)
			}
		})
	})
}

func testEqualKeys(t *testing.T, db Database) {
	s := db.Open(t)
	for _, id := range []sluice.SaleID{"phones", "tablets"} {
		create(t, s, aSale(id, 10))
		src := source{sale: id, epoch: 1}
		entry := src.entry(2) // the same buyers and keys in both sales
		entry.Claims[1].Key = entry.Claims[0].Key
		insert(t, s, port.Stored{Inserted: 2}, entry)
		mustBeSound(t, s, id)
	}
}

// No collation may make two ids one: not case, nor accents, nor blanks at the end.
func testExactIDs(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	buyers := []sluice.BuyerID{"ann", "Ann", "ann ", " ann", "änn", "a\u0308nn", "ＡＮＮ", "ann\u00a0", "anń"}
	entry := src.entry(len(buyers))
	for i := range buyers {
		entry.Claims[i].Buyer, entry.Claims[i].Key = buyers[i], "key-of-all"
	}
	keys := src.entry(3)
	for i, key := range []sluice.Key{"Key-of-all", "KEY-OF-ALL", "key_of_all"} {
		keys.Claims[i].Buyer, keys.Claims[i].Key = "ann", key
	}
	insert(t, s, port.Stored{Inserted: len(buyers) + 3}, entry, keys)
	insert(t, s, port.Stored{Redelivered: len(buyers) + 3}, entry, keys)
	for i, buyer := range buyers {
		page, _, err := s.Orders(t.Context(), sluice.OrderFilter{Buyer: buyer, Limit: 10})
		want := 1
		if buyer == "ann" {
			want = 4
		}
		if err != nil || len(page) != want || page[0].ID != entry.Claims[i].Order {
			t.Errorf("orders of %q: %v, %v, want %d", buyer, page, err, want)
		}
	}
}

func testEpochs(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	for epoch := int64(1); epoch <= 3; epoch++ {
		src := source{sale: "phones", epoch: epoch}
		src.store(t, s, 2)
	}
	mustBeSound(t, s, "phones")
}

// What the ledger of an epoch that has passed accepted and the store has never
// seen, the ledger of today has not counted: it brings nothing new (I2).
func testOldEpochs(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	old := source{sale: "phones", epoch: 1}
	stored, late := old.entry(2), old.entry(2)
	insert(t, s, port.Stored{Inserted: 2}, stored)
	must.Succeed(t, s.FenceSale(t.Context(), "phones", 1, "test"))
	if _, err := s.BeginLoad(t.Context(), "phones", 0); err != nil { // it need not be confirmed
		t.Fatal(err)
	}
	src := source{sale: "phones", epoch: 2}
	fresh := src.entry(2)
	unchanged(t, s, "phones", func() {
		for _, entries := range [][]port.Entry{{late}, {fresh, late}, {late, fresh}, {stored, late}} {
			_, err := s.Insert(t.Context(), "phones", entries)
			wantError(t, err, port.ErrStaleEpoch)
		}
		insert(t, s, port.Stored{Redelivered: 2}, stored)
	})
	insert(t, s, port.Stored{Inserted: 2, Redelivered: 2}, stored, fresh)
	head, tail := split(src.entry(2), 1)
	tail.Epoch = 3 // a store that was restored from an older copy
	insert(t, s, port.Stored{Inserted: 2}, tail, head)
	if c := mustBeSound(t, s, "phones"); len(c.Orders) != 6 {
		t.Errorf("%d orders, want 6", len(c.Orders))
	}
}

func testNotCovered(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 5)
	first, second := src.entry(4), src.entry(3)
	insert(t, s, port.Stored{Inserted: 4}, first)
	rejected := []sluice.OrderID{second.Claims[1].Order, second.Claims[2].Order}
	insert(t, s, port.Stored{Inserted: 3, Rejected: rejected}, second)

	c := mustBeSound(t, s, "phones")
	if c.Sale.Taken != 5 || !strings.HasPrefix(c.Sale.Fence, sluice.NotCovered) {
		t.Errorf("taken %d, fence %q", c.Sale.Taken, c.Sale.Fence)
	}
	for i, order := range c.Orders {
		status, reason := sluice.Pending, ""
		if i > 4 {
			status, reason = sluice.Rejected, sluice.NotCovered
		}
		if order.Status != status || order.Reason != reason {
			t.Errorf("order %d: %s %q, want %s %q", i, order.Status, order.Reason, status, reason)
		}
	}
	unchanged(t, s, "phones", func() { // a rejected order is a stored one
		insert(t, s, port.Stored{Redelivered: 7}, second, first)
	})
	fence := c.Sale.Fence
	third := src.entry(1)
	insert(t, s, port.Stored{Inserted: 1, Rejected: []sluice.OrderID{third.Claims[0].Order}}, third)
	if got := read(t, s, "phones").Fence; got != fence {
		t.Errorf("fence %q, want the first one %q", got, fence)
	}
}

// Each claim is judged by itself, in order, as the ledger did.
func testNotCoveredMixed(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	old := src.entryOf(4)
	insert(t, s, port.Stored{Inserted: 1}, old)
	mixed := src.entryOf(5, 3, 1, 1)
	insert(t, s, port.Stored{
		Inserted: 4, Redelivered: 1,
		Rejected: []sluice.OrderID{mixed.Claims[1].Order, mixed.Claims[3].Order},
	}, old, mixed)
	if c := mustBeSound(t, s, "phones"); c.Sale.Taken != 10 {
		t.Errorf("taken %d, want 10", c.Sale.Taken)
	}

	create(t, s, aSale("nothing", 0))
	src = &source{sale: "nothing", epoch: 1}
	entry := src.entry(1)
	insert(t, s, port.Stored{Inserted: 1, Rejected: []sluice.OrderID{entry.Claims[0].Order}}, entry)
	mustBeSound(t, s, "nothing")
}

// An Insert that is interrupted has stored all or nothing; repeated, all.
func testCancelledInsert(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100_000)
	taken, interrupted := int64(0), 0
	for i := range 25 {
		entry := src.entry(100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*100*time.Microsecond)
		_, err := s.Insert(ctx, "phones", []port.Entry{entry})
		cancel()
		if err != nil {
			interrupted++
		}
		if n := read(t, s, "phones").Taken - taken; n != 0 && n != 100 || err == nil && n != 100 {
			t.Fatalf("error %v, and %d of 100 units are taken", err, n)
		}
		got, err := s.Insert(t.Context(), "phones", []port.Entry{entry})
		if err != nil || got.Inserted+got.Redelivered != 100 || got.Inserted%100 != 0 {
			t.Fatalf("repeated: %+v, %v", got, err)
		}
		taken += 100
	}
	if interrupted == 0 {
		t.Error("no insert was interrupted")
	}
	if c := mustBeSound(t, s, "phones"); int64(len(c.Orders)) != taken {
		t.Errorf("%d orders, want %d", len(c.Orders), taken)
	}
}
