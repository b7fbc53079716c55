package sluice

import (
	"slices"
	"strings"
	"testing"
)

func TestCounters(t *testing.T) {
	all := Counters("").With(Counter{"household:Zm9v", 2}).With(Counter{"device:-_9", MaxUnits})
	if all != "household:Zm9v=2 device:-_9=1000000000000" || all.Validate() != nil {
		t.Errorf("%q: %v", all, all.Validate())
	}
	if want := []Counter{{"household:Zm9v", 2}, {"device:-_9", MaxUnits}}; !slices.Equal(all.List(), want) {
		t.Errorf("%q lists %v", all, all.List())
	}
	for _, c := range []struct {
		counted map[string]int64
		units   int64
		want    string
	}{
		{nil, 2, ""},
		{nil, 3, "household:Zm9v"},
		{map[string]int64{"household:Zm9v": 1}, 1, ""},
		{map[string]int64{"household:Zm9v": 2}, 1, "household:Zm9v"},
		{map[string]int64{"device:-_9": MaxUnits, "another:1": 5}, 1, "device:-_9"},
	} {
		if got := all.Full(c.counted, c.units); got != c.want {
			t.Errorf("%d more where %v are counted: %q is full, want %q", c.units, c.counted, got, c.want)
		}
	}
	for _, bad := range []Counters{
		"a", "a:1", "a:1=", "a:1=0", "a:1=-1", "a:1=1000000000001", "a:1=01", "a:1=1 ", " a:1=1", "a:1=1  b:1=1", "a=1",
		"a:1=1 a:1=2", "a:1=1 b:1=1 c:1=1 d:1=1", "a:\t=1", "a:é=1", "a:1=1,b:1=1",
		Counters(strings.Repeat("a", 63) + ":1=1"),
	} {
		if bad.Validate() == nil {
			t.Errorf("%q passes", bad)
		}
		bad.Full(nil, 1) // whatever a database contains
	}
}
