package sluice

import (
	"math/rand/v2"
	"testing"
)

const second = 1_000_000 // µs

func TestMeter(t *testing.T) {
	for _, c := range []struct {
		name string
		rate BuyerRate
		at   []int64 // when tries are made
		wait []int64 // the answers
	}{
		{
			"one a second",
			BuyerRate{Requests: 1, PerS: 1},
			[]int64{0, 1, second - 1, second, second + 1},
			[]int64{0, second - 1, 1, 0, second - 1},
		},
		{
			"as many at once",
			BuyerRate{Requests: 3, PerS: 3},
			[]int64{0, 0, 0, 0, second, second},
			[]int64{0, 0, 0, second, 0, second},
		},
		{
			"a denial costs nothing",
			BuyerRate{Requests: 1, PerS: 10},
			[]int64{0, second, 2 * second, 9 * second, 10 * second},
			[]int64{0, 9 * second, 8 * second, second, 0},
		},
		{
			"a rest fills it again, and no more",
			BuyerRate{Requests: 2, PerS: 2},
			[]int64{0, 0, 100 * second, 100 * second, 100 * second},
			[]int64{0, 0, 0, 0, second},
		},
		{
			"what does not divide is rounded up",
			BuyerRate{Requests: 3, PerS: 1},
			[]int64{0, 0, 0, 333_333, 333_334},
			[]int64{0, 0, 0, 1, 0},
		},
	} {
		var paid int64
		const start = 1_800_000_000 * second
		for i, at := range c.at {
			before := paid
			after, wait := c.rate.Meter().Try(paid, start+at)
			if wait != c.wait[i] {
				t.Errorf("%s: try %d at %d waits %d, want %d", c.name, i, at, wait, c.wait[i])
			}
			if wait > 0 && after != before {
				t.Errorf("%s: try %d is denied and changes what is kept from %d to %d", c.name, i, before, after)
			}
			paid = after
		}
	}
}

// Whatever comes when: no window of the period holds more than twice the
// requests (a burst and what refills meanwhile), a patient buyer is never
// denied, and what a denial promises is kept to the microsecond.
func TestMeterHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		rate := BuyerRate{Requests: 1 + random.Int64N(20), PerS: 1 + random.Int64N(5)}
		meter, period := rate.Meter(), rate.PerS*second
		var paid, now int64 = 0, 1
		var passed []int64
		for range 500 {
			now += random.Int64N(2 * meter.Interval)
			after, wait := meter.Try(paid, now)
			if wait == 0 {
				passed = append(passed, now)
			} else {
				if _, early := meter.Try(paid, now+wait-1); early != 1 {
					t.Fatalf("%+v: told to wait %d, and a microsecond before that %d", rate, wait, early)
				}
				if _, late := meter.Try(paid, now+wait); late != 0 {
					t.Fatalf("%+v: told to wait %d, and denied then", rate, wait)
				}
			}
			paid = after
		}
		for i := range passed {
			if j := i + int(2*rate.Requests); j < len(passed) && passed[j]-passed[i] < period {
				t.Fatalf("%+v: more than %d tries in %d µs", rate, 2*rate.Requests, passed[j]-passed[i])
			}
		}
		paid, now = 0, 1
		for i := range 50 {
			after, wait := meter.Try(paid, now)
			if wait != 0 {
				t.Fatalf("%+v: try %d of a patient buyer waits %d", rate, i, wait)
			}
			paid, now = after, now+meter.Interval
		}
	}
}

// A rate that changes while the sale runs is the new one at once.
func TestMeterOfAnotherRate(t *testing.T) {
	slow, fast := BuyerRate{Requests: 1, PerS: maxRatePerS}.Meter(), BuyerRate{Requests: 10, PerS: 1}.Meter()
	paid, _ := slow.Try(0, second)
	if after, wait := fast.Try(paid, second); wait != 0 || after != second+fast.Interval {
		t.Errorf("after a day was paid for, the fast rate waits %d and keeps %d", wait, after)
	}
	if after, wait := slow.Try(second+fast.Interval, second); wait != fast.Interval || after != second+fast.Interval {
		t.Errorf("the slow rate waits %d after a fast one", wait)
	}
	if m := (BuyerRate{Requests: maxRateRequests, PerS: 1}).Meter(); m.Interval != 1 || m.Full != maxRateRequests {
		t.Errorf("the fastest rate is %+v", m)
	}
}
