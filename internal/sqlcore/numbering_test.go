package sqlcore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A clock that is set back between transactions changes the order of no sale's orders, and
// puts no change before its order. Orders of one moment that others come between are counted
// with those.
func TestNumbersWhileAClockIsSetBack(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	phones, tablets := &newOrders{sale: "phones", mark: 10}, &newOrders{sale: "tablets", mark: 3}
	for _, r := range []orderRun{
		{first: 11, last: 12, count: 2, at: at(5)},
		{first: 21, last: 45, count: 12, at: at(7)},
		{first: 31, last: 40, count: 8, at: at(9)},
		{first: 51, last: 52, count: 2, at: at(6)},
	} {
		phones.add(r)
	}
	tablets.add(orderRun{first: 13, last: 20, count: 4, at: at(8)})
	found := newRows{orders: []*newOrders{phones, tablets}, changes: []newRow{
		{position: 1, at: at(6), sale: "phones", order: 31},
		{position: 2, at: at(4), sale: "phones", order: 31},
		{position: 3, at: at(7), sale: "phones", order: 9},
	}, sales: []newRow{{position: 7, at: at(1), sale: "phones"}}}
	ranges, changes, sales, upto := number(found.inOrder(), 100)
	wantRanges := []orderRange{
		{102, 103, "phones", 10, 12}, {105, 108, "tablets", 3, 20}, {109, 130, "phones", 12, 52},
	}
	if diff := cmp.Diff(wantRanges, ranges, cmp.AllowUnexported(orderRange{})); diff != "" {
		t.Errorf("ranges (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Pair{{3, 104}, {1, 131}, {2, 132}}, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Pair{{7, 101}}, sales); diff != "" || upto != 132 {
		t.Errorf("up to %d, want 132; sales (-want +got):\n%s", upto, diff)
	}
}
