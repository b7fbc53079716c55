package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
)

// allRules is one of each, with the awkward values.
func allRules() sluice.Rules {
	return sluice.Rules{
		BuyerRate:      sluice.BuyerRate{Requests: 10, PerS: 1, Shared: true},
		AddressRate:    sluice.AddressRate{Requests: 1_000_000, PerS: 86_400, Shared: true},
		AdmissionRatio: 1.0000000000000002, // every bit of it
		Ticket:         sluice.Ticket{BeforeS: 60},
		Challenge:      sluice.Challenge{Difficulty: 20},
		Risk:           sluice.Risk{URL: `https://risk.example/?a="b"&c='手机'\`, TimeoutMS: 1, OnFailure: sluice.Allow},
		Eligibility:    sluice.EligibleList,
		Visibility:     sluice.Hidden,
		Availability:   sluice.None,
	}
}

// testRules: a sale's rules come back as they were given, on every way that
// reads a sale, and change with a new version of the row.
func testRules(t *testing.T, db Database) {
	s := db.Open(t)
	sale := aSale("phones", 10)
	sale.Rules = allRules()
	created := create(t, s, sale)
	plain := create(t, s, aSale("plain", 10))
	if diff := cmp.Diff(sluice.Rules{}, plain.Rules); diff != "" {
		t.Errorf("rules of a sale without any (-want +got):\n%s", diff)
	}
	want := sale.Rules
	check := func(how string, got sluice.Sale, err error) {
		t.Helper()
		if diff := cmp.Diff(want, got.Rules); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", how, err, diff)
		}
	}
	check("created", created, nil)
	check("read", read(t, s, "phones"), nil)
	all, err := s.Sales(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%d sales, %v", len(all), err)
	}
	for i := range all {
		if all[i].ID == "phones" {
			check("listed", all[i], nil)
		}
	}

	// Another change leaves them.
	changed, err := s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error { sale.Paused = true; return nil })
	check("after another change", changed, err)
	want = sluice.Rules{AdmissionRatio: 1.5}
	changed, err = s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error { sale.Rules = want; return nil })
	check("changed", changed, err)
	if changed.Version != created.Version+2 || changed.UpdatedAt.Before(created.UpdatedAt) {
		t.Errorf("version %d at %v after %d at %v", changed.Version, changed.UpdatedAt, created.Version, created.UpdatedAt)
	}
	check("changed, read", read(t, s, "phones"), nil)
	c := mustBeSound(t, s, "phones")
	check("in the snapshot", c.Sale, nil)

	for name, spoil := range map[string]func(*sluice.Rules){
		"rate without a period":      func(r *sluice.Rules) { r.BuyerRate = sluice.BuyerRate{Requests: 1} },
		"rate of nothing":            func(r *sluice.Rules) { r.AddressRate = sluice.AddressRate{PerS: 1} },
		"negative ratio":             func(r *sluice.Rules) { r.AdmissionRatio = -1 },
		"negative ticket":            func(r *sluice.Rules) { r.Ticket.BeforeS = -1 },
		"endless work":               func(r *sluice.Rules) { r.Challenge.Difficulty = 64 },
		"risk service without a URL": func(r *sluice.Rules) { r.Risk = sluice.Risk{TimeoutMS: 5, OnFailure: sluice.Deny} },
		"unknown eligibility":        func(r *sluice.Rules) { r.Eligibility = "vip" },
	} {
		unchanged(t, s, "phones", func() {
			if _, err := s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error {
				spoil(&sale.Rules)
				return nil
			}); err == nil {
				t.Errorf("%s: no error", name)
			}
		})
	}
}
