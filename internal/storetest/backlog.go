package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// The backlog counts dead letters, releases and overdue orders, each of its own
// sale, and nothing that does not wait.
func testBacklog(t *testing.T, db Database) {
	s := db.Open(t)
	is := func(what string, wanted map[sluice.SaleID]port.SaleBacklog) {
		t.Helper()
		for _, s := range []port.Store{s, db.OpenReadOnly(t)} {
			got := must.Get(s.Backlog(t.Context()))(t)
			if time.Since(got.At).Abs() > time.Hour {
				t.Errorf("%s: at %v", what, got.At)
			}
			if diff := cmp.Diff(wanted, got.Sales); diff != "" {
				t.Errorf("%s: backlog (-want +got):\n%s", what, diff)
			}
		}
	}
	is("nothing is there", map[sluice.SaleID]port.SaleBacklog{})

	releases := ended(t, s, "phones", 3)
	src := selling(t, s, "tablets", 10)
	entry := src.store(t, s, 3)
	change(t, s, want(entry.Claims[2].Order, sluice.Pay))
	since := read1(t, s, releases[0].Order).UpdatedAt
	for _, r := range releases {
		if at := read1(t, s, r.Order).UpdatedAt; at.Before(since) {
			since = at
		}
	}
	is("pending in time, releases wait", map[sluice.SaleID]port.SaleBacklog{
		"phones": {Releases: 3, OldestRelease: since},
	})

	db.Age(t, "tablets", 24*time.Hour) // two pending orders are due
	due := read1(t, s, entry.Claims[0].Order).KeepUntil
	for _, id := range []string{"x", "y"} {
		must.Succeed(t, s.SetAside(t.Context(), aLetter("phones", 1, id)))
	}
	is("all of them", map[sluice.SaleID]port.SaleBacklog{
		"phones":  {Releases: 3, OldestRelease: since, DeadLetters: 2},
		"tablets": {Overdue: 2, OldestDue: due},
	})

	expire(t, s, 10, 2)
	given(t, s)
	letters, err := s.DeadLetters(t.Context(), "phones")
	if err != nil || len(letters) != 2 {
		t.Fatal(letters, err)
	}
	must.Succeed(t, s.ResolveDeadLetter(t.Context(), letters[0].ID, "stored"))
	is("what is done is gone", map[sluice.SaleID]port.SaleBacklog{"phones": {DeadLetters: 1}})
}
