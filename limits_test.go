package sluice

import (
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	rules := Rules{Limits: Limits{{"household", 2}, {"device", 1}}, LimitSalt: "salt"}
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	counters := func(r *Rules, household string) Counters {
		all, missing := r.Counters(map[string]string{"household": household, "device": "d", "name": "Ann"})
		if err := all.Validate(); err != nil || missing != "" || strings.Contains(string(all), household) {
			t.Errorf("%q, %q missing, %v", all, missing, err)
		}
		return all
	}
	one, other := counters(&rules, "elm street 17"), rules
	other.LimitSalt = "pepper"
	if list := one.List(); len(list) != 2 || list[0].Max != 2 || LimitedBy(list[0].Name) != "household" ||
		LimitedBy(list[1].Name) != "device" {
		t.Errorf("counters %v", list)
	}
	if counters(&rules, "elm street 17") != one || counters(&rules, "elm street 18") == one ||
		counters(&other, "elm street 17") == one {
		t.Error("a counter is of one value and one sale")
	}
	for _, signed := range []map[string]string{
		nil,
		{"device": "d"},
		{"household": "", "device": "d"},
		{"household": strings.Repeat("x", MaxSigned+1), "device": "d"},
	} {
		if all, missing := rules.Counters(signed); missing != "household" || all != "" {
			t.Errorf("%v: %q, %q is missing", signed, all, missing)
		}
	}
	for _, bad := range []Limits{
		{{"", 2}},
		{{"household", 0}},
		{{"household", -1}},
		{{"household", MaxUnits + 1}},
		{{"Household", 2}},
		{{"sub", 2}},
		{{"house hold", 2}},
		{{"7", 1}},
		{{"household", 2}, {"household", 3}},
		{{}, {"household", 2}},
		{{strings.Repeat("h", 33), 1}},
	} {
		if (&Rules{Limits: bad}).Validate() == nil {
			t.Errorf("%v pass", bad)
		}
	}
}
