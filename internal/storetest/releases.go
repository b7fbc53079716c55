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
	"github.com/sluicehq/sluice/internal/port"
)

// ended stores n orders of a new sale and cancels them.
func ended(t *testing.T, s port.Store, id sluice.SaleID, n int) (releases []port.Release) {
	t.Helper()
	create(t, s, aSale(id, sluice.Unlimited))
	src := source{sale: id, epoch: 1}
	src.store(t, s, n)
	for _, o := range look(t, s, id).Orders {
		change(t, s, want(o.ID, sluice.Cancel))
		releases = append(releases, releaseOf(&o, 1))
	}
	return releases
}

var errLedgerIsDown = errors.New("the ledger is down")

func testReleases(t *testing.T, db Database) {
	s := db.Open(t)
	never := func(sluice.SaleID, []port.Release) error { t.Error("called"); return nil }
	if n, err := s.GiveReleases(t.Context(), 10, never); n != 0 || err != nil {
		t.Errorf("%d given, %v", n, err)
	}
	want := map[sluice.SaleID][]port.Release{
		"phones": ended(t, s, "phones", 5), "tablets": ended(t, s, "tablets", 2),
		"radios": ended(t, s, "radios", 3),
	}
	got := map[sluice.SaleID][]port.Release{}
	total := 0
	for total < 10 {
		n, err := s.GiveReleases(t.Context(), 2, func(sale sluice.SaleID, releases []port.Release) error {
			if len(releases) < 1 || len(releases) > 2 {
				t.Errorf("%d releases at once", len(releases))
			}
			for _, r := range releases {
				if r.Sale != sale {
					t.Errorf("a release of %s among those of %s", r.Sale, sale)
				}
			}
			got[sale] = append(got[sale], releases...)
			return nil
		})
		if err != nil || n == 0 {
			t.Fatalf("%d given, %v", n, err)
		}
		total += n
		for sale, all := range want {
			if n, err := s.PendingReleases(t.Context(), sale); err != nil || n != int64(len(all)-len(got[sale])) {
				t.Errorf("%s: %d releases wait, %v, after %d of %d", sale, n, err, len(got[sale]), len(all))
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" { // the oldest first
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	if n, err := s.GiveReleases(t.Context(), 10, never); n != 0 || err != nil {
		t.Errorf("%d given, %v", n, err)
	}
	for _, limit := range []int{0, -1} {
		if _, err := s.GiveReleases(t.Context(), limit, never); err == nil {
			t.Errorf("limit %d: no error", limit)
		}
	}
	if n, err := s.PendingReleases(t.Context(), "unknown"); n != 0 || err != nil {
		t.Errorf("%d releases of an unknown sale, %v", n, err)
	}
}

// What was not given is handed out again, however it failed.
func testReleasesComeAgain(t *testing.T, db Database) {
	s := db.Open(t)
	want := ended(t, s, "phones", 3)
	var handed []port.Release
	keep := func(releases []port.Release) { handed = slices.Clone(releases) }
	for name, attempt := range map[string]func(context.Context, context.CancelFunc) error{
		"it fails": func(ctx context.Context, _ context.CancelFunc) error {
			_, err := s.GiveReleases(ctx, 10, func(_ sluice.SaleID, r []port.Release) error {
				keep(r)
				return errLedgerIsDown
			})
			if handed != nil {
				wantError(t, err, errLedgerIsDown)
			}
			return err
		},
		"the server dies in between": func(ctx context.Context, _ context.CancelFunc) (err error) {
			defer func() { err, _ = recover().(error) }()
			_, _ = s.GiveReleases(ctx, 10, func(_ sluice.SaleID, r []port.Release) error { keep(r); panic(errLedgerIsDown) })
			return nil
		},
		"the server stops before it forgets them": func(ctx context.Context, stop context.CancelFunc) error {
			_, err := s.GiveReleases(ctx, 10, func(_ sluice.SaleID, r []port.Release) error { keep(r); stop(); return nil })
			return err
		},
	} {
		// The database may take a moment to see that the one before is gone, and may see it between two rows.
		for deadline := time.Now().Add(time.Minute); len(handed) < len(want) && time.Now().Before(deadline); {
			ctx, cancel := context.WithCancel(t.Context())
			if err := attempt(ctx, cancel); err == nil && handed != nil {
				t.Errorf("%s: no error", name)
			}
			cancel()
		}
		if diff := cmp.Diff(want, handed); diff != "" {
			t.Errorf("%s: handed out (-want +got):\n%s", name, diff)
		}
		handed = nil
		if n, err := s.PendingReleases(t.Context(), "phones"); err != nil || n != 3 {
			t.Errorf("%s: %d releases wait, %v", name, n, err)
		}
	}
	other := db.Open(t)
	var got []port.Release
	for deadline := time.Now().Add(time.Minute); got == nil && time.Now().Before(deadline); {
		got = given(t, other)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
	if again := given(t, s); len(again) != 0 {
		t.Errorf("handed out after they were given: %v", again)
	}
}

// A sale whose releases cannot be given, as it is fenced, say, does not keep
// those of others.
func testReleasesOfOthersGoOn(t *testing.T, db Database) {
	s := db.Open(t)
	sales := []sluice.SaleID{"a", "b", "c", "d"}
	for _, id := range sales {
		ended(t, s, id, 4)
	}
	for round := range 2 {
		got := map[sluice.SaleID]int{}
		n, err := s.GiveReleases(t.Context(), 2, func(sale sluice.SaleID, releases []port.Release) error {
			got[sale]++
			if sale == "a" || sale == "c" {
				return errLedgerIsDown
			}
			return nil
		})
		wantError(t, err, errLedgerIsDown)
		if err == nil || !strings.Contains(err.Error(), "sale=a") || !strings.Contains(err.Error(), "sale=c") ||
			strings.Contains(err.Error(), "sale=b") {
			t.Errorf("error %v, want one about a and c", err)
		}
		if n != 4 {
			t.Errorf("%d given, want 4", n)
		}
		if diff := cmp.Diff(map[sluice.SaleID]int{"a": 1, "b": 1, "c": 1, "d": 1}, got); diff != "" {
			t.Errorf("round %d: (-want +got):\n%s", round, diff)
		}
	}
	if n := len(given(t, s)); n != 8 {
		t.Errorf("%d releases are left, want 8", n)
	}

	// One that takes all the time there is does not keep the others either.
	for _, id := range []sluice.SaleID{"e", "f", "g"} {
		ended(t, s, id, 1)
	}
	seen := map[sluice.SaleID]bool{}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := s.GiveReleases(ctx, 2, func(sale sluice.SaleID, releases []port.Release) error {
			seen[sale] = true
			cancel()
			return ctx.Err()
		})
		cancel()
		wantError(t, err, context.Canceled)
	}
	if len(seen) != 3 {
		t.Errorf("only %v had their turn", seen)
	}
}

// While one server gives releases back, another skips them: it neither waits
// nor gets them. And no writer is blocked.
func testReleasesInOtherHands(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	ended(t, s, "phones", 5)
	ended(t, s, "tablets", 5)
	handed := map[sluice.OrderID]int{}
	var first []port.Release
	entered, leave, done := make(chan bool), make(chan error), make(chan error)
	go func() {
		_, err := s.GiveReleases(t.Context(), 2, func(_ sluice.SaleID, releases []port.Release) error {
			if first != nil {
				t.Errorf("%d more were left", len(releases))
			}
			first = releases
			entered <- true
			return <-leave
		})
		done <- err
	}()
	<-entered
	for _, r := range given(t, other) {
		handed[r.Order]++
	}
	src := selling(t, other, "more", 10)
	src.store(t, other, 1)
	change(t, other, want(look(t, other, "more").Orders[0].ID, sluice.Cancel))
	if n := len(given(t, other)); n != 1 {
		t.Errorf("%d new releases, want 1", n)
	}
	for _, r := range first {
		if handed[r.Order] != 0 {
			t.Errorf("%s was in two hands", r.Order)
		}
	}
	leave <- errLedgerIsDown
	wantError(t, <-done, errLedgerIsDown)
	for _, r := range given(t, other) {
		handed[r.Order]++
	}
	for order, n := range handed {
		if n != 1 {
			t.Errorf("%s was given %d times", order, n)
		}
	}
	if len(handed) != 10 {
		t.Errorf("%d were given, want 10", len(handed))
	}
}

// Many servers give at once, and some fail: each release is given once.
func testConcurrentGivers(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t), db.Open(t)}
	want := len(ended(t, handles[0], "phones", 120)) + len(ended(t, handles[0], "tablets", 60))
	var mu sync.Mutex
	times := map[sluice.OrderID]int{}
	calls := 0
	left := func() bool {
		for _, sale := range []sluice.SaleID{"phones", "tablets"} {
			if n, err := handles[0].PendingReleases(t.Context(), sale); err != nil || n > 0 {
				return err == nil
			}
		}
		return false
	}
	var running sync.WaitGroup
	for _, s := range handles {
		running.Go(func() {
			for left() {
				_, err := s.GiveReleases(t.Context(), 7, func(_ sluice.SaleID, releases []port.Release) error {
					mu.Lock()
					defer mu.Unlock()
					if calls++; calls%3 == 0 {
						return errLedgerIsDown
					}
					for _, r := range releases {
						times[r.Order]++
					}
					return nil
				})
				if err != nil && !errors.Is(err, errLedgerIsDown) {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	for order, n := range times {
		if n != 1 {
			t.Errorf("%s was given %d times", order, n)
		}
	}
	if len(times) != want {
		t.Errorf("%d were given, want %d", len(times), want)
	}
}
