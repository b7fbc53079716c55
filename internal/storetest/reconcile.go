package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// plant damages the database as no program of ours does. The statements are
// those that every dialect understands.
func (db *Database) plant(t *testing.T, format string, args ...any) {
	t.Helper()
	if db.Execute == nil {
		t.Fatal("Database.Execute is missing")
	}
	db.Execute(t, fmt.Sprintf(format, args...))
}

func waiting(t *testing.T, s port.Store, sale sluice.SaleID) (orders []sluice.OrderID) {
	t.Helper()
	err := s.Snapshot(t.Context(), sale, func(n port.Snapshot) error {
		return n.Returning(func(id sluice.OrderID) bool {
			orders = append(orders, id)
			return true
		})
	})
	if err != nil && !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Fatal(err)
	}
	slices.Sort(orders)
	return orders
}

func reissue(t *testing.T, s port.Store, order sluice.OrderID, epoch int64, wanted bool, why string) {
	t.Helper()
	if written, err := s.ReissueRelease(t.Context(), order, epoch); err != nil || written != wanted {
		t.Errorf("%s: written %v, %v; want %v", why, written, err, wanted)
	}
}

func ordersOf(releases []port.Release) (orders []sluice.OrderID) {
	for _, r := range releases {
		orders = append(orders, r.Order)
	}
	slices.Sort(orders)
	return orders
}

// Releases wait from the ending until they are given, each under its own sale.
func testReturning(t *testing.T, db Database) {
	s := db.Open(t)
	for _, sale := range []sluice.SaleID{"unknown", ""} {
		if got := waiting(t, s, sale); len(got) != 0 {
			t.Errorf("%q: %v waits", sale, got)
		}
	}
	phones, tablets := ended(t, s, "phones", 3), ended(t, s, "tablets", 2)
	src := source{sale: "phones", epoch: 1, seq: 3, made: 3}
	src.store(t, s, 2) // these live
	readOnly := db.OpenReadOnly(t)
	for _, s := range []port.Store{s, readOnly} {
		if diff := cmp.Diff(ordersOf(phones), waiting(t, s, "phones")); diff != "" {
			t.Errorf("phones (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ordersOf(tablets), waiting(t, s, "tablets")); diff != "" {
			t.Errorf("tablets (-want +got):\n%s", diff)
		}
	}
	// Those that a ledger did not take still wait; those that it took do not.
	_, err := s.GiveReleases(t.Context(), 1, func(sluice.SaleID, []port.Release) error { return errLedgerIsDown })
	wantError(t, err, errLedgerIsDown)
	if n := len(waiting(t, s, "phones")) + len(waiting(t, s, "tablets")); n != 5 {
		t.Errorf("%d wait after a failure, want 5", n)
	}
	given(t, s)
	if n := len(waiting(t, s, "phones")) + len(waiting(t, s, "tablets")); n != 0 {
		t.Errorf("%d wait after all were given", n)
	}
}

// A release is written again for whatever ended an order that held units, and
// is what the first one was.
func testReissueRelease(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", sluice.Unlimited)
	for _, status := range []sluice.Status{
		sluice.Cancelled, sluice.Expired, sluice.Rejected, sluice.Refunded,
		sluice.RefundDue,
	} {
		id := become(t, s, db, src, status) // its release was given, or is lost: who knows
		order := read1(t, s, id)
		unchanged(t, s, "phones", func() { // but for the outbox
			reissue(t, s, id, 1, true, string(status))
			reissue(t, s, id, 1, false, string(status)+", while one waits")
		})
		if diff := cmp.Diff([]port.Release{releaseOf(&order, 1)}, given(t, s)); diff != "" {
			t.Errorf("%s: release (-want +got):\n%s", status, diff)
		}
		if got := history(t, s, id); len(got) == 0 || got[len(got)-1].To != status {
			t.Errorf("%s: history %+v", status, got)
		}
		reissue(t, s, id, 1, true, string(status)+", after it was given") // the ledger applies it once (I6)
		given(t, s)
	}
}

// Nothing is written that the ledger must not, or need not, apply.
func testReissueReleaseConditions(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 6)
	pending, paid, cancelled := become(t, s, db, src, sluice.Pending), become(t, s, db, src, sluice.Paid),
		sluice.OrderID("")
	for id, why := range map[sluice.OrderID]string{pending: "a pending order", paid: "a paid order"} {
		reissue(t, s, id, 1, false, why)
	}
	// Beyond the cap: it never held units.
	beyond := src.entryOf(1)
	insert(t, s, port.Stored{Inserted: 1, Rejected: []sluice.OrderID{beyond.Claims[0].Order}}, beyond)
	reissue(t, s, beyond.Claims[0].Order, 1, false, "an order beyond the cap")
	change(t, s, want(pending, sluice.Cancel))
	cancelled = pending
	given(t, s)
	for _, epoch := range []int64{0, 2} {
		reissue(t, s, cancelled, epoch, false, fmt.Sprintf("epoch %d of a sale of epoch 1", epoch))
	}
	// The next load counts the ending: a release of the epoch before is no use.
	must.Get(s.BeginLoad(t.Context(), "phones", 0))(t)
	reissue(t, s, cancelled, 1, false, "the epoch before")
	reissue(t, s, cancelled, 2, true, "the epoch that is being loaded")
	if got := given(t, s); len(got) != 1 || got[0].Epoch != 2 {
		t.Errorf("releases %+v", got)
	}
	for _, id := range []sluice.OrderID{
		sluice.SaleID("phones").Order(strings.Repeat("f", 32)),
		sluice.SaleID("unknown").Order(strings.Repeat("f", 32)), "no-order", "", "a\x00.b",
	} {
		_, err := s.ReissueRelease(t.Context(), id, 1)
		wantError(t, err, sluice.ErrOrderNotFound)
	}
	if _, err := db.OpenReadOnly(t).ReissueRelease(t.Context(), cancelled, 2); err == nil {
		t.Error("a reader wrote a release")
	}
	if n := len(waiting(t, s, "phones")); n != 0 {
		t.Errorf("%d releases wait", n)
	}
}

// An archived sale has no ledger to give releases to.
func testReissueReleaseArchived(t *testing.T, db Database) {
	s := db.Open(t)
	releases := ended(t, s, "phones", 1)
	given(t, s)
	closed(t, s, "phones")
	archive(t, s, true, "with nothing to come")
	reissue(t, s, releases[0].Order, 1, false, "an archived sale")
	if n := len(waiting(t, s, "phones")); n != 0 {
		t.Errorf("%d releases wait", n)
	}
}

// Several servers that find the same release lost write it once (I6).
func testConcurrentReissue(t *testing.T, db Database) {
	const orders = 40
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	lost := ended(t, handles[0], "phones", orders)
	db.plant(t, "DELETE FROM releases WHERE sale_id = 'phones'")
	if n := len(waiting(t, handles[0], "phones")); n != 0 {
		t.Fatalf("%d releases wait", n)
	}
	var running sync.WaitGroup
	written := make([]atomic.Int64, orders)
	for _, s := range handles {
		running.Go(func() {
			for i := range lost {
				ok, err := s.ReissueRelease(t.Context(), lost[i].Order, 1)
				if err != nil {
					t.Error(err)
				}
				if ok {
					written[i].Add(1)
				}
			}
		})
	}
	running.Wait()
	for i := range written {
		if n := written[i].Load(); n != 1 {
			t.Errorf("the release of order %d was written %d times", i, n)
		}
	}
	if diff := cmp.Diff(ordersOf(lost), ordersOf(given(t, handles[0]))); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}

// While orders end and their releases wait, none is written a second time: a
// reconciliation that comes at the same moment changes nothing.
func testReissueAgainstEndings(t *testing.T, db Database) {
	const orders = 60
	ending, other := db.Open(t), db.Open(t)
	src := selling(t, ending, "phones", sluice.Unlimited)
	entry := src.store(t, ending, orders)
	var running sync.WaitGroup
	for i := range entry.Claims {
		id := entry.Claims[i].Order
		running.Go(func() {
			if written, err := other.ReissueRelease(t.Context(), id, 1); err != nil || written {
				t.Errorf("written %v, %v, while the order ends", written, err)
			}
		})
		change(t, ending, want(id, sluice.Cancel))
	}
	running.Wait()
	if n := len(given(t, ending)); n != orders {
		t.Errorf("%d releases of %d endings", n, orders)
	}
}

// Taken is counted again: the units of live orders, whatever the row says.
func testRecountTaken(t *testing.T, db Database) {
	s := db.Open(t)
	_, _, err := s.RecountTaken(t.Context(), "unknown")
	wantError(t, err, sluice.ErrSaleNotFound)
	for sale, total := range map[sluice.SaleID]int64{"phones": 50, "tablets": sluice.Unlimited} {
		create(t, s, aSale(sale, total))
		src := source{sale: sale, epoch: 1}
		for _, status := range []sluice.Status{ // of three units each; two of them live
			sluice.Pending, sluice.Paid, sluice.Cancelled, sluice.Expired, sluice.Rejected, sluice.Refunded, sluice.RefundDue,
		} {
			if status == sluice.Expired { // which makes pending ones old as well
				continue
			}
			become(t, s, db, &src, status)
		}
		recount := func(wantBefore int64) {
			t.Helper()
			before, after, err := s.RecountTaken(t.Context(), sale)
			if err != nil || before != wantBefore || after != 6 {
				t.Errorf("%s: %d before, %d after, %v; want %d and 6", sale, before, after, err, wantBefore)
			}
			mustBeSound(t, s, sale)
		}
		unchanged(t, s, sale, func() { recount(6) }) // it was right
		right := look(t, s, sale)
		for _, wrong := range []int64{0, 5, 7, 49} {
			db.plant(t, "UPDATE sales SET taken = %d WHERE id = '%s'", wrong, sale)
			recount(wrong)
		}
		right.Sale.UpdatedAt = look(t, s, sale).Sale.UpdatedAt
		if diff := cmp.Diff(right, look(t, s, sale), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: counting changed more than taken (-want +got):\n%s", sale, diff)
		}
	}
	if _, _, err := db.OpenReadOnly(t).RecountTaken(t.Context(), "phones"); err == nil {
		t.Error("a reader counted, and wrote")
	}
}

// Orders beyond the cap are evidence, not arithmetic: nothing changes (I1).
func testRecountBeyondTheCap(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 5)
	src.store(t, s, 5)
	db.plant(t, "UPDATE sales SET taken = 1, total = 4, cap = 4 WHERE id = 'phones'")
	if _, _, err := s.RecountTaken(t.Context(), "phones"); err == nil ||
		!strings.Contains(err.Error(), "5 units, more than the cap of 4") {
		t.Errorf("error %v", err)
	}
	if sale := read(t, s, "phones"); sale.Taken != 1 {
		t.Errorf("taken %d, want it left at 1", sale.Taken)
	}
}

// Counting beside orders that come and end finds taken right each time, and
// leaves it so (I2).
func testRecountAgainstChanges(t *testing.T, db Database) {
	s, inserting, ending := db.Open(t), db.Open(t), db.Open(t)
	src := selling(t, s, "phones", sluice.Unlimited)
	const batches, each = 25, 8
	fresh := make(chan sluice.OrderID, batches*each)
	var running sync.WaitGroup
	running.Go(func() {
		defer close(fresh)
		for range batches {
			entry := src.entry(each)
			if _, err := inserting.Insert(t.Context(), "phones", []port.Entry{entry}); err != nil {
				t.Error(err)
				return
			}
			for i := range entry.Claims {
				fresh <- entry.Claims[i].Order
			}
		}
	})
	running.Go(func() {
		n := 0
		for id := range fresh {
			if n++; n%2 == 0 {
				if _, err := ending.Change(t.Context(), want(id, sluice.Cancel)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	over := make(chan struct{})
	go func() {
		running.Wait()
		close(over)
	}()
	for last := false; !last; {
		select {
		case <-over:
			last = true
		default:
		}
		if before, after, err := s.RecountTaken(t.Context(), "phones"); err != nil || before != after {
			t.Errorf("taken was %d and became %d, %v", before, after, err)
		}
		time.Sleep(time.Millisecond) // the others want the row as well
	}
	if c := mustBeSound(t, s, "phones"); c.Sale.Taken != batches*each/2 {
		t.Errorf("taken %d, want %d", c.Sale.Taken, batches*each/2)
	}
}
