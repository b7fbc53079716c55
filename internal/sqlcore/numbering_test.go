package sqlcore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A clock that is set back between transactions changes the order of no sale's orders, and
// puts no change before its order.
func TestNumbersWhileAClockIsSetBack(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	pairs, upto := number([]item{
		{kind: saleEvent, position: 7, count: 1, at: at(1), sale: "phones"},
		{kind: ordersStored, position: 11, count: 2, at: at(5), sale: "phones"},
		{kind: ordersStored, position: 12, count: 20, at: at(9), sale: "phones"},
		{kind: ordersStored, position: 13, count: 4, at: at(8), sale: "tablets"},
		{kind: ordersStored, position: 14, count: 2, at: at(6), sale: "phones"},
		{kind: orderChange, position: 1, count: 1, at: at(6), order: 31, stored: 12},
		{kind: orderChange, position: 2, count: 1, at: at(4), order: 31, stored: 12},
		{kind: orderChange, position: 3, count: 1, at: at(8), order: 9},
	}, 100)
	want := [...][]Pair{
		saleEvent:    {{7, 101}},
		ordersStored: {{11, 103}, {13, 108}, {12, 128}, {14, 130}},
		orderChange:  {{3, 104}, {1, 131}, {2, 132}},
	}
	if diff := cmp.Diff(want, pairs); diff != "" || upto != 132 {
		t.Errorf("up to %d, want 132; pairs (-want +got):\n%s", upto, diff)
	}
}
