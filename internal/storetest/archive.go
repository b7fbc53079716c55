package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func archive(t *testing.T, s port.Store, want bool, why string) {
	t.Helper()
	if got, err := s.Archive(t.Context(), "phones"); err != nil || got != want {
		t.Errorf("%s: archived %v, %v, want %v", why, got, err, want)
	}
}

// A sale is archived once nothing is still to come.
func testArchive(t *testing.T, db Database) {
	s := db.Open(t)
	sale := aSale("phones", 10)
	sale.OpensAt, sale.ClosesAt = time.Now().Add(-time.Hour), time.Time{}
	create(t, s, sale)
	create(t, s, aSale("tablets", 10))
	src, other := source{sale: "phones", epoch: 1}, source{sale: "tablets", epoch: 1}
	entry := src.store(t, s, 3)
	other.store(t, s, 2) // is pending, of another sale
	change(t, s, want(entry.Claims[0].Order, sluice.Pay))
	change(t, s, want(entry.Claims[1].Order, sluice.Cancel))
	change(t, s, want(entry.Claims[2].Order, sluice.Pay))
	change(t, s, want(entry.Claims[2].Order, sluice.Refund))
	given(t, s)

	archive(t, s, false, "without a closing time")
	must.Get(s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
		s.ClosesAt = time.Now().Add(time.Hour)
		return nil
	}))(t)
	archive(t, s, false, "before it closes")
	closed(t, s, "phones")
	late := src.store(t, s, 1)
	archive(t, s, false, "with a pending order")
	change(t, s, want(late.Claims[0].Order, sluice.Cancel))
	archive(t, s, false, "with a release")
	given(t, s)
	must.Succeed(t, s.SetAside(t.Context(), aLetter("phones", 1, "x")))
	archive(t, s, false, "with a dead letter")
	letters, err := s.DeadLetters(t.Context(), "phones")
	if err != nil || len(letters) != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
	must.Succeed(t, s.ResolveDeadLetter(t.Context(), letters[0].ID, "stored"))
	must.Succeed(t, s.SetAside(t.Context(), aLetter("tablets", 1, "x")))
	before := read(t, s, "phones")
	if !before.ArchivedAt.IsZero() {
		t.Errorf("archived at %v", before.ArchivedAt)
	}
	archive(t, s, true, "with nothing to come")
	after := read(t, s, "phones")
	if after.ArchivedAt.Before(before.UpdatedAt) || after.ArchivedAt.IsZero() {
		t.Errorf("archived at %v", after.ArchivedAt)
	}
	unchanged(t, s, "phones", func() { archive(t, s, true, "again") })
	before.ArchivedAt, before.UpdatedAt = after.ArchivedAt, after.UpdatedAt
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("archived (-want +got):\n%s", diff)
	}
	_, err = s.Archive(t.Context(), "unknown")
	wantError(t, err, sluice.ErrSaleNotFound)
	archivedStays(t, s, &entry)
}

// archivedStays checks a sale that is archived, with a paid order, one that was
// cancelled and one that was refunded.
func archivedStays(t *testing.T, s port.Store, entry *port.Entry) {
	t.Helper()
	unchanged(t, s, "phones", func() {
		_, changed := s.ChangeSale(t.Context(), "phones", func(*sluice.Sale) error { return nil })
		_, restocked := s.Restock(t.Context(), "phones", "a", 1)
		_, begun := s.BeginLoad(t.Context(), "phones", 0)
		for _, err := range []error{changed, restocked, begun} {
			wantError(t, err, sluice.ErrArchived)
		}
	})
	insert(t, s, port.Stored{Redelivered: 3}, *entry) // the store still answers for its claims (I4)
	// Money can come and go; no release waits for a ledger that has forgotten
	// the sale.
	change(t, s, want(entry.Claims[1].Order, sluice.Pay))
	change(t, s, want(entry.Claims[0].Order, sluice.Refund))
	if c := mustBeSound(t, s, "phones"); c.Sale.Taken != 0 {
		t.Errorf("taken %d", c.Sale.Taken)
	}
	if n, err := s.PendingReleases(t.Context(), "phones"); err != nil || n != 0 {
		t.Errorf("%d releases, %v", n, err)
	}
}

// Archiving against a refund: either the refund is first, and its release keeps
// the sale from being archived, or it finds the sale archived and writes none.
func testArchiveAgainstRefund(t *testing.T, db Database) {
	handles := [2]port.Store{db.Open(t), db.Open(t)}
	s := handles[0]
	first := 0
	for i := range 40 {
		id := sluice.SaleID("sale-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		create(t, s, aSale(id, 10))
		src := source{sale: id, epoch: 1}
		entry := src.store(t, s, 1)
		change(t, s, want(entry.Claims[0].Order, sluice.Pay))
		closed(t, s, id)
		var running sync.WaitGroup
		var archived bool
		start := make(chan bool)
		running.Go(func() {
			<-start
			var err error
			if archived, err = handles[0].Archive(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() {
			<-start
			if _, err := handles[1].Change(t.Context(), want(entry.Claims[0].Order, sluice.Refund)); err != nil {
				t.Error(err)
			}
		})
		close(start)
		running.Wait()
		n, err := s.PendingReleases(t.Context(), id)
		c := mustBeSound(t, s, id)
		if err != nil || archived != (n == 0) || archived == c.Sale.ArchivedAt.IsZero() || c.Sale.Taken != 0 ||
			c.Orders[0].Status != sluice.Refunded {
			t.Errorf("%s: archived %v, %d releases, %v, sale %+v", id, archived, n, err, c.Sale)
		}
		if archived {
			first++
		}
	}
	t.Logf("40 races: archiving was first in %d", first)
}

// Archiving against terms that change, and against late claims: nothing is
// changed after it, and a claim that is stored is an order like any other.
func testArchiveAgainstChanges(t *testing.T, db Database) {
	handles := [3]port.Store{db.Open(t), db.Open(t), db.Open(t)}
	s := handles[0]
	create(t, s, aSale("phones", 1000))
	closed(t, s, "phones")
	src := source{sale: "phones", epoch: 1}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			_, err := handles[1].ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error {
				if !sale.ArchivedAt.IsZero() {
					t.Error("an archived sale was given to change")
				}
				sale.MaxOrders++
				return nil
			})
			if err != nil {
				wantError(t, err, sluice.ErrArchived)
				return
			}
		}
	})
	running.Go(func() {
		for range 20 {
			entry := src.entry(1)
			if _, err := handles[2].Insert(t.Context(), "phones", []port.Entry{entry}); err != nil {
				t.Error(err)
			}
			if _, err := handles[2].Change(t.Context(), want(entry.Claims[0].Order, sluice.Cancel)); err != nil {
				t.Error(err)
			}
		}
	})
	for archived := false; !archived; {
		given(t, s)
		var err error
		if archived, err = s.Archive(t.Context(), "phones"); err != nil {
			t.Fatal(err)
		}
	}
	at := read(t, s, "phones")
	running.Wait()
	c := mustBeSound(t, s, "phones")
	if c.Sale.Taken != 0 || len(c.Orders) != 20 || c.Sale.Version != at.Version ||
		!c.Sale.ArchivedAt.Equal(at.ArchivedAt) {
		t.Errorf("%d orders, archived as %+v, now %+v", len(c.Orders), at, c.Sale)
	}
	if n, err := s.PendingReleases(t.Context(), "phones"); err != nil || n != 0 {
		t.Errorf("%d releases wait, %v", n, err)
	}
}

func testClaim(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 1))
	create(t, s, aSale("tablets", 10))
	src := source{sale: "phones", epoch: 1}
	entry := src.entry(2)
	insert(t, s, port.Stored{Inserted: 2, Rejected: []sluice.OrderID{entry.Claims[1].Order}}, entry)
	for _, c := range entry.Claims {
		got := must.Get(s.Claim(t.Context(), sluice.ClaimID{Sale: "phones", Buyer: c.Buyer, Key: c.Key}))(t)
		order, err := s.Order(t.Context(), c.Order)
		if diff := cmp.Diff(order, got); err != nil || diff != "" {
			t.Errorf("%v (-order +claim):\n%s", err, diff)
		}
	}
	c := entry.Claims[0]
	for _, id := range []sluice.ClaimID{
		{Sale: "tablets", Buyer: c.Buyer, Key: c.Key},
		{Sale: "phones", Buyer: entry.Claims[1].Buyer, Key: c.Key},
		{Sale: "phones", Buyer: c.Buyer, Key: entry.Claims[1].Key},
		{Sale: "phones", Buyer: c.Buyer + " ", Key: c.Key},
		{Sale: "phones", Buyer: c.Buyer, Key: c.Key + "\x00"},
		{},
	} {
		_, err := s.Claim(t.Context(), id)
		wantError(t, err, sluice.ErrOrderNotFound)
	}
}
