package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// wantTerms checks total, cap, taken and version of a sale.
func wantTerms(t *testing.T, s port.Store, total, limit, taken, version int64) {
	t.Helper()
	c := mustBeSound(t, s, "phones")
	if got := c.Sale; got.Total != total || got.Cap != limit || got.Taken != taken || got.Version != version ||
		int64(len(c.Terms)) != version {
		t.Errorf("total %d, cap %d, taken %d, version %d of %d; want %d, %d, %d, %d",
			got.Total, got.Cap, got.Taken, got.Version, len(c.Terms), total, limit, taken, version)
	}
}

func restock(t *testing.T, s port.Store, id string, delta int64) sluice.Sale {
	t.Helper()
	sale := must.Get(s.Restock(t.Context(), "phones", id, delta))(t)
	if diff := cmp.Diff(read(t, s, "phones"), sale); diff != "" {
		t.Errorf("returned by Restock (-read +returned):\n%s", diff)
	}
	return sale
}

// undo takes back what waits under this version of the terms.
func undo(t *testing.T, s port.Store, version int64) {
	t.Helper()
	sale := must.Get(s.UndoLowering(t.Context(), "phones", version))(t)
	if diff := cmp.Diff(read(t, s, "phones"), sale); diff != "" {
		t.Errorf("returned by UndoLowering (-read +returned):\n%s", diff)
	}
}

// wantMade checks what Restocked says of a restock.
func wantMade(t *testing.T, s port.Store, id string, delta int64, want bool) {
	t.Helper()
	sale, made, err := s.Restocked(t.Context(), "phones", id, delta)
	if err != nil || made != want {
		t.Errorf("restock %q was made: %v, %v; want %v", id, made, err, want)
	}
	if diff := cmp.Diff(read(t, s, "phones"), sale); diff != "" {
		t.Errorf("returned by Restocked (-read +returned):\n%s", diff)
	}
}

func testRestock(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	before := read(t, s, "phones")
	src.store(t, s, 4)

	raised := restock(t, s, "a", 5)
	wantTerms(t, s, 15, 15, 4, 2) // the cap is raised at once
	want := before
	want.Total, want.Cap, want.Taken, want.Version, want.UpdatedAt = 15, 15, 4, 2, raised.UpdatedAt
	if diff := cmp.Diff(want, raised); diff != "" {
		t.Errorf("restocked (-want +got):\n%s", diff)
	}
	unchanged(t, s, "phones", func() {
		restock(t, s, "a", 5)
		_, err := s.Restock(t.Context(), "phones", "a", 6)
		wantError(t, err, sluice.ErrRestockReused)
		if err != nil && (!strings.Contains(err.Error(), "5") || !strings.Contains(err.Error(), "6")) {
			t.Errorf("error %v, want one that names both", err)
		}
	})
	restock(t, s, "A", -8) // ids differ by every byte
	wantTerms(t, s, 7, 15, 4, 3)
	unchanged(t, s, "phones", func() { // one lowering waits at a time
		restock(t, s, "A", -8)
		for _, delta := range []int64{-1, +1, +8} {
			_, err := s.Restock(t.Context(), "phones", "b", delta)
			wantError(t, err, sluice.ErrLoweringWaits)
		}
		undo(t, s, 2) // of other terms
		undo(t, s, 4)
	})
	wantMade(t, s, "A", -8, true)
	undo(t, s, 3)
	wantTerms(t, s, 15, 15, 4, 4)
	wantMade(t, s, "A", -8, false)
	unchanged(t, s, "phones", func() { // by two servers, say
		undo(t, s, 3)
		undo(t, s, 4)
	})
	restock(t, s, "A", -11) // its id can be used again, with another delta; down to taken
	wantTerms(t, s, 4, 15, 4, 5)
	must.Get(s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
		s.Paused = true
		return nil
	}))(t)
	undo(t, s, 5) // the ledger never saw version 5 alone
	wantTerms(t, s, 4, 15, 4, 6)
	undo(t, s, 6)
	wantTerms(t, s, 15, 15, 4, 7)
	wantMade(t, s, "A", -11, false)
	wantMade(t, s, "a", 5, true)
	_, _, err := s.Restocked(t.Context(), "phones", "a", 6)
	wantError(t, err, sluice.ErrRestockReused)

	other := create(t, s, aSale("tablets", 10))
	if got, err := s.Restock(t.Context(), "tablets", "a", 2); err != nil || got.Total != 12 ||
		got.Version != other.Version+1 {
		t.Errorf("the same id of another sale: %+v, %v", got, err)
	}
}

func testRestockRefused(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	create(t, s, aSale("endless", sluice.Unlimited))
	src := source{sale: "phones", epoch: 1}
	src.store(t, s, 4)
	restock(t, s, "up", 3)
	unchanged(t, s, "phones", func() {
		for _, delta := range []int64{-10, -14, -sluice.MaxUnits} {
			_, err := s.Restock(t.Context(), "phones", "down", delta)
			wantError(t, err, sluice.ErrBelowTaken)
		}
		for name, test := range map[string]struct {
			id    string
			delta int64
			want  string
		}{
			"nothing":           {"x", 0, "delta"},
			"above all":         {"x", sluice.MaxUnits - 12, "want at most"},
			"far above":         {"x", 1<<63 - 1, "at most"},
			"far below":         {"x", -1 << 63, "at most"},
			"no id":             {"", 1, "restock id"},
			"NUL in the id":     {"a\x00b", 1, "restock id"},
			"id not UTF-8":      {"a\xff", 1, "restock id"},
			"an id without end": {strings.Repeat("x", 256), 1, "restock id"},
		} {
			_, err := s.Restock(t.Context(), "phones", test.id, test.delta)
			if err == nil || errors.Is(err, sluice.ErrBelowTaken) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: error %v, want one with %q", name, err, test.want)
			}
		}
	})
	src.store(t, s, 7)
	must.Succeed(t, s.FenceSale(t.Context(), "phones", 1, "lost: x"))
	unchanged(t, s, "phones", func() { // more may be taken than the ledger knows
		_, err := s.Restock(t.Context(), "phones", "down", -1)
		wantError(t, err, sluice.ErrTotalUndecided)
	})
	load := func() {
		t.Helper()
		must.Get(s.BeginLoad(t.Context(), "phones", 0))(t)
	}
	load()
	unchanged(t, s, "phones", func() {
		_, err := s.Restock(t.Context(), "phones", "down", -1)
		wantError(t, err, sluice.ErrTotalUndecided)
	})
	must.Succeed(t, s.ConfirmLoad(t.Context(), "phones", 2))
	// A lowering that the ledger has not decided about ends with the ledger.
	restock(t, s, "down", -1)
	wantTerms(t, s, 12, 13, 11, 3)
	must.Succeed(t, s.FenceSale(t.Context(), "phones", 2, "lost: x"))
	load()
	wantTerms(t, s, 13, 13, 11, 4)
	wantMade(t, s, "down", -1, false)
	wantMade(t, s, "up", 3, true)
	must.Succeed(t, s.ConfirmTotal(t.Context(), "phones", 3))
	wantTerms(t, s, 13, 13, 11, 4)

	if got, err := s.Restock(t.Context(), "phones", "max", sluice.MaxUnits-13); err != nil ||
		got.Total != sluice.MaxUnits {
		t.Errorf("up to the most there can be: %+v, %v", got, err)
	}
	_, err := s.Restock(t.Context(), "endless", "a", 1)
	wantError(t, err, sluice.ErrNoTotal)
	for _, do := range []func() (sluice.Sale, error){
		func() (sluice.Sale, error) { return s.Restock(t.Context(), "unknown", "a", 1) },
		func() (sluice.Sale, error) { return s.UndoLowering(t.Context(), "unknown", 1) },
		func() (sluice.Sale, error) {
			sale, _, err := s.Restocked(t.Context(), "unknown", "a", 1)
			return sale, err
		},
		func() (sluice.Sale, error) { return sluice.Sale{}, s.ConfirmTotal(t.Context(), "unknown", 1) },
	} {
		_, err := do()
		wantError(t, err, sluice.ErrSaleNotFound)
	}
}

// What the ledger accepted before a lowered total reached it is stored, up to
// the old total; once the ledger has it, no more than that.
func testCap(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 20)
	src.store(t, s, 10)
	confirm := func(version int64) {
		t.Helper()
		must.Succeed(t, s.ConfirmTotal(t.Context(), "phones", version))
	}
	lower := func(total int64) {
		t.Helper()
		must.Get(s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
			s.Total = total
			return nil
		}))(t)
	}
	confirm(1)
	wantTerms(t, s, 20, 20, 10, 1)
	lower(15)
	wantTerms(t, s, 15, 20, 10, 2)
	src.store(t, s, 3) // late, the fast way
	confirm(1)         // of other terms
	confirm(3)
	wantTerms(t, s, 15, 20, 13, 2)
	confirm(2)
	wantTerms(t, s, 15, 15, 13, 2)
	confirm(2)
	wantTerms(t, s, 15, 15, 13, 2)

	restock(t, s, "down", -1)
	lower(13)
	wantTerms(t, s, 13, 15, 13, 4)
	late := src.store(t, s, 1)
	again := src.entry(1) // with care, since one is known
	insert(t, s, port.Stored{Inserted: 1, Redelivered: 1}, late, again)
	wantTerms(t, s, 13, 15, 15, 4)
	confirm(4) // the ledger lost data: more is taken than it says
	wantTerms(t, s, 13, 15, 15, 4)
	if c := mustBeSound(t, s, "phones"); c.Sale.Fence != "" {
		t.Errorf("fence %q after late claims that the cap covers", c.Sale.Fence)
	}

	// The ledger refused that total. Meanwhile other terms can be changed, and
	// the way back up is open.
	if _, err := s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
		s.Paused = true
		return nil
	}); err != nil {
		t.Errorf("pause with taken above the total: %v", err)
	}
	_, err := s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error { s.Total = 14; return nil })
	wantError(t, err, sluice.ErrBelowTaken)
	undo(t, s, 5) // all the way up
	wantTerms(t, s, 15, 15, 15, 6)
	wantMade(t, s, "down", -1, false)
	lower(18)
	wantTerms(t, s, 18, 18, 15, 7)

	beyond := src.entry(4)
	insert(t, s, port.Stored{Inserted: 4, Rejected: []sluice.OrderID{beyond.Claims[3].Order}}, beyond)
	wantTerms(t, s, 18, 18, 18, 7)
}

// The cap follows a total that appears or disappears.
func testCapOfNoTotal(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", sluice.Unlimited))
	for i, total := range []int64{7, 3, sluice.Unlimited, sluice.Unlimited, 0} {
		must.Get(s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
			s.Total = total
			return nil
		}))(t)
		wantTerms(t, s, total, []int64{7, 7, sluice.Unlimited, sluice.Unlimited, 0}[i], 0, int64(i+2))
		if total == sluice.Unlimited {
			if err := s.ConfirmTotal(t.Context(), "phones", int64(i+2)); err != nil {
				t.Error(err)
			}
		}
	}
	src := source{sale: "phones", epoch: 1}
	late := src.entry(1)
	insert(t, s, port.Stored{Inserted: 1, Rejected: []sluice.OrderID{late.Claims[0].Order}}, late)
}

// The same restock by several servers is made once.
func testConcurrentRestock(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	create(t, handles[0], aSale("phones", 100))
	var running sync.WaitGroup
	for worker := range 6 {
		running.Go(func() {
			s := handles[worker%3]
			for i := range 6 {
				id := fmt.Sprintf("restock-%d", (i+worker)%6)
				if _, err := s.Restock(t.Context(), "phones", id, 7); err != nil {
					t.Error(err)
				}
			}
			id := fmt.Sprintf("of-%d", worker/2) // with two deltas: one learns that it came second
			if _, err := s.Restock(t.Context(), "phones", id, 1+int64(worker%2)); err != nil &&
				!errors.Is(err, sluice.ErrRestockReused) {
				t.Error(err)
			}
		})
	}
	running.Wait()
	c := mustBeSound(t, handles[0], "phones")
	if c.Sale.Version != 10 || c.Sale.Total < 100+6*7+3 || c.Sale.Total > 100+6*7+6 {
		t.Errorf("total %d, version %d, want 145 to 148 and 10", c.Sale.Total, c.Sale.Version)
	}
}

// I1 while the total goes up and down: at no moment does the store hold more
// than the cap, and what is not covered is reported.
func testRestockAgainstInserts(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	s := handles[0]
	src := selling(t, s, "phones", 40)
	var entries []port.Entry
	for range 60 {
		entries = append(entries, src.entry(2))
	}
	var writing, restocking sync.WaitGroup
	for worker := range 3 {
		writing.Go(func() {
			for i := worker; i < len(entries); i += 3 {
				if _, err := handles[worker].Insert(t.Context(), "phones", entries[i:i+1]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	restocking.Go(func() {
		for i := range 30 {
			delta := []int64{+6, -3, -3}[i%3]
			sale, err := handles[1].Restock(t.Context(), "phones", fmt.Sprint(i), delta)
			if errors.Is(err, sluice.ErrTotalUndecided) { // fenced, or an insert went past the total before the cap followed
				now := read(t, handles[1], "phones")
				if _, err := handles[1].UndoLowering(t.Context(), "phones", now.Version); err != nil {
					t.Error(err)
				}
				continue
			}
			if errors.Is(err, sluice.ErrBelowTaken) && delta < 0 {
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			if err := handles[1].ConfirmTotal(t.Context(), "phones", sale.Version); err != nil {
				t.Error(err)
			}
		}
	})
	done := make(chan struct{})
	go func() { writing.Wait(); restocking.Wait(); close(done) }()
	for looking := true; looking; {
		mustBeSound(t, handles[2], "phones")
		select {
		case <-done:
			looking = false
		default:
		}
	}
	c := mustBeSound(t, s, "phones")
	rejected := 0
	for _, o := range c.Orders {
		if o.Status == sluice.Rejected {
			rejected++
		}
	}
	if len(c.Orders) != 120 || int64(rejected) != 120-c.Sale.Taken || (rejected > 0) != (c.Sale.Fence != "") {
		t.Errorf("%d orders, %d rejected, taken %d of %d, fence %q", len(c.Orders), rejected, c.Sale.Taken, c.Sale.Total,
			c.Sale.Fence)
	}
}

// closed lets a sale have closed before this test began.
func closed(t *testing.T, s port.Store, id sluice.SaleID) {
	t.Helper()
	must.Get(s.ChangeSale(t.Context(), id, func(sale *sluice.Sale) error {
		sale.OpensAt, sale.ClosesAt = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		return nil
	}))(t)
}
