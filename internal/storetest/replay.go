package storetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// A dead letter that was dealt with is no longer listed, and still there.
func testResolveDeadLetter(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 3))
	for _, entry := range []string{"a", "b"} {
		must.Succeed(t, s.SetAside(t.Context(), aLetter("phones", 1, entry)))
	}
	list := func(sale sluice.SaleID) []port.DeadLetter {
		t.Helper()
		letters := must.Get(s.DeadLetters(t.Context(), sale))(t)
		return letters
	}
	one := func(id int64) port.DeadLetter {
		t.Helper()
		letter := must.Get(s.DeadLetter(t.Context(), id))(t)
		return letter
	}
	letters := list("phones")
	for _, letter := range letters {
		if diff := cmp.Diff(letter, one(letter.ID)); diff != "" || !letter.Resolved.IsZero() || letter.Resolution != "" {
			t.Errorf("alone (-listed +alone):\n%s", diff)
		}
	}
	must.Succeed(t, s.ResolveDeadLetter(t.Context(), letters[0].ID, "stored: 手机 \x00"))
	got := one(letters[0].ID)
	if got.Resolved.Before(got.CreatedAt) || got.Resolution != "stored: 手机 \uFFFD" {
		t.Errorf("dealt with: %+v", got)
	}
	want := letters[0]
	want.Resolved, want.Resolution = got.Resolved, got.Resolution
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dealt with (-want +got):\n%s", diff)
	}
	if err := s.ResolveDeadLetter(t.Context(), letters[0].ID, "another"); err != nil { // the first note stands
		t.Fatal(err)
	}
	if err := s.SetAside(t.Context(), aLetter("phones", 1, "a")); err != nil { // is known
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, one(letters[0].ID)); diff != "" {
		t.Errorf("after a second note (-before +after):\n%s", diff)
	}
	for _, listed := range [][]port.DeadLetter{list("phones"), list("phones"), look(t, s, "phones").Letters} {
		if diff := cmp.Diff(letters[1:], listed); diff != "" {
			t.Errorf("those left (-want +got):\n%s", diff)
		}
	}
	if err := s.ResolveDeadLetter(t.Context(), letters[1].ID, strings.Repeat("x", 1025)); err == nil {
		t.Error("a note without end: no error")
	}
	_, err := s.DeadLetter(t.Context(), 999)
	wantError(t, err, sluice.ErrDeadLetterNotFound)
	wantError(t, s.ResolveDeadLetter(t.Context(), 999, "x"), sluice.ErrDeadLetterNotFound)
}

// Several servers note how a letter was dealt with, and one is the first.
func testConcurrentResolve(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t)}
	must.Succeed(t, handles[0].SetAside(t.Context(), aLetter("phones", 1, "a")))
	letters, err := handles[0].DeadLetters(t.Context(), "phones")
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	var running sync.WaitGroup
	seen := make([]string, 4)
	for worker, note := range []string{"a", "b", "c", "d"} {
		running.Go(func() {
			s := handles[worker%2]
			if err := s.ResolveDeadLetter(t.Context(), letters[0].ID, note); err != nil {
				t.Error(err)
			}
			letter, err := s.DeadLetter(t.Context(), letters[0].ID)
			if err != nil {
				t.Error(err)
			}
			seen[worker] = letter.Resolution
		})
	}
	running.Wait()
	for _, note := range seen {
		if note == "" || note != seen[0] {
			t.Errorf("notes that were read afterwards: %q, want one", seen)
		}
	}
}
