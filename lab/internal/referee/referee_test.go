package referee

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// judge judges a shop of one test in fake time.
func judge(t *testing.T, sys System, trial Trial) (v *Verdict, err error) {
	t.Helper()
	if trial.Buyers == 0 {
		trial.Buyers, trial.Units = 400, 40
	}
	synctest.Test(t, func(t *testing.T) { v, err = Judge(t.Context(), sys, trial) })
	return v, err
}

// counts are those of the findings, in their order.
func counts(v *Verdict) (all [6]int) {
	for i, f := range v.Findings() {
		all[i] = f.Count
		if len(f.Evidence) != min(f.Count, maxEvidence) {
			all[i] = -1
		}
	}
	return all
}

// The referee finds the faults of a shop in exactly the numbers that were planted,
// and nothing in a right shop: alone and together, whatever the crowd's habits.
func TestExactNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		shop shop
		want [6]int // oversold, undersold, lost, twice, changed, unasked
	}{
		"right":             {shop{}, [6]int{}},
		"stores late":       {shop{storeAfter: 20 * time.Second}, [6]int{}},
		"sells the rest":    {shop{freed: 30 * time.Second}, [6]int{}},
		"oversells":         {shop{oversell: 3}, [6]int{3, 0, 0, 0, 0, 0}},
		"undersells":        {shop{undersell: 4}, [6]int{0, 4, 0, 0, 0, 0}},
		"loses":             {shop{lose: 5}, [6]int{0, 0, 5, 0, 0, 0}},
		"twice":             {shop{twice: 6}, [6]int{0, 0, 0, 6, 0, 0}},
		"other order":       {shop{change: 7}, [6]int{0, 0, 0, 0, 7, 0}},
		"strangers":         {shop{strangers: 2}, [6]int{0, 0, 0, 0, 0, 2}},
		"refuses and sells": {shop{promiseRefused: 3}, [6]int{0, 0, 0, 0, 0, 3}},
		"much at once": {
			shop{oversell: 1, lose: 2, twice: 3, change: 4, strangers: 5, storeAfter: 5 * time.Second}, [6]int{1, 0, 2, 3, 4, 5},
		},
		"little at once": {shop{undersell: 9, lose: 25, twice: 1}, [6]int{0, 9, 25, 1, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				shop := c.shop
				trial := Trial{Seed: seed, Lost: 0.2, Reload: 0.2, Again: 0.2}
				if shop.promiseRefused > 0 {
					trial.Lost = 0 // who did not hear the refusal may have an order
				}
				v := must.Get(judge(t, &shop, trial))(t)
				if got := counts(v); got != c.want {
					t.Errorf("seed %d: got %v, want %v: %+v", seed, got, c.want, v)
				}
				if v.Clean() != (c.want == [6]int{}) {
					t.Errorf("seed %d: clean %v", seed, v.Clean())
				}
			}
		})
	}
}

// A buyer who heard no decision was promised nothing and refused nothing.
func TestUnknownIsNeitherPromiseNorRefusal(t *testing.T) {
	s := &shop{first: func(buyer, _ string) Answer {
		if buyer < buyerName(50) {
			return Answer{Said: "away"}
		}
		return Answer{}
	}}
	v, err := judge(t, s, Trial{})
	if err != nil || !v.Clean() || v.Undecided != 50 || v.Promised != 40 || v.SoldOut != 310 {
		t.Errorf("%v, %+v", err, v)
	}
	// Nor is one accused of an order that such a buyer has.
	s = &shop{}
	s.first = func(buyer, _ string) Answer {
		if len(s.rows) == 0 {
			s.taken++
			s.store(Order{ID: "x", Buyer: buyerName(7)})
		}
		if buyer == buyerName(7) {
			return Answer{Said: "away"}
		}
		return Answer{}
	}
	if v, err := judge(t, s, Trial{}); err != nil || !v.Clean() || v.Undecided != 1 || v.Promised != 39 {
		t.Errorf("%v, %+v", err, v)
	}
}

// Such an order may be listed after the others, when all else stands still.
func TestALateOrderOfOneWhoHeardNothing(t *testing.T) {
	s := &shop{}
	s.first = func(buyer, _ string) Answer {
		if len(s.rows) == 0 {
			s.taken++
			s.rows = append(s.rows, row{Order{ID: "x", Buyer: buyerName(7)}, s.begin.Add(3 * time.Minute)})
		}
		if buyer == buyerName(7) {
			return Answer{Said: "away"}
		}
		return Answer{}
	}
	v, err := judge(t, s, Trial{Settle: 5 * time.Minute})
	if err != nil || !v.Clean() || v.Orders != 40 {
		t.Errorf("%v, %+v", err, v)
	}
}

// Buyers whose answer was lost repeat the request: a shop that takes this for a new
// one serves them twice.
func TestLostAnswersAreRepeated(t *testing.T) {
	v, err := judge(t, &shop{keyless: true}, Trial{Buyers: 100, Units: 300, Lost: 1})
	if err != nil || counts(v) != [6]int{0, 0, 0, 100, 0, 0} {
		t.Errorf("lost: %v, %+v", err, v)
	}
	v, err = judge(t, &shop{keyless: true}, Trial{Buyers: 100, Units: 300, Reload: 1})
	if err != nil || counts(v) != [6]int{0, 0, 0, 100, 100, 0} { // and hear two orders for one key
		t.Errorf("reload: %v, %+v", err, v)
	}
	v, err = judge(t, &shop{keyless: true}, Trial{Buyers: 100, Units: 300, Again: 0.5})
	if err != nil || counts(v) != [6]int{0, 0, 0, 50, 0, 0} {
		t.Errorf("again: %v, %+v", err, v)
	}
}

// A buyer whose promise is lost does not come back for another unit, also if the shop
// has said meanwhile that nothing is left: that would hide the loss.
func TestALostPromiseStaysLost(t *testing.T) {
	s := &shop{lose: 5}
	s.first = func(buyer, key string) Answer {
		_, promised := s.answers[key]
		if promised && !slices.ContainsFunc(s.rows, func(r row) bool { return r.Buyer == buyer }) {
			delete(s.answers, key)
			delete(s.bought, buyer)
			return Answer{Kind: SoldOut}
		}
		return Answer{}
	}
	v, err := judge(t, s, Trial{Buyers: 20, Units: 40, Reload: 1})
	if err != nil || counts(v) != [6]int{0, 0, 5, 0, 0, 0} {
		t.Errorf("%v, %+v", err, v)
	}
}

// Two buyers whose orders have one id cannot tell them apart: a shop that counts from 1
// again after a restart does that.
func TestOneIDForTwoOrders(t *testing.T) {
	s := &shop{}
	s.first = func(string, string) Answer {
		if s.n == 30 {
			s.n = 0
		}
		return Answer{}
	}
	v, err := judge(t, s, Trial{})
	if err != nil || counts(v) != [6]int{0, 0, 0, 0, 10, 0} {
		t.Errorf("%v, %+v", err, v)
	}
}

// Orders that a sale begins with are judged, and named.
func TestOrdersBeforeTheCrowd(t *testing.T) {
	v, err := judge(t, &shop{strangers: 2}, Trial{})
	if err != nil || !slices.Contains(v.Notes, "2 orders were there before the crowd came") {
		t.Errorf("%v, %+v", err, v)
	}
}

// Units that are left after a sale has closed are not undersold: the shop does not
// say that it is sold out.
func TestAClosedSaleDoesNotUndersell(t *testing.T) {
	s := &shop{undersell: 10}
	s.first = func(string, string) Answer {
		if time.Since(s.begin) > time.Second {
			return Answer{Kind: Refused, Said: "closed"}
		}
		return Answer{}
	}
	if v, err := judge(t, s, Trial{}); err != nil || !v.Clean() || v.Orders != 30 {
		t.Errorf("%v, %+v", err, v)
	}
}

// A shop that dies for good does not keep the referee for as long as each of its
// buyers would wait.
func TestTheCrowdGivesUp(t *testing.T) {
	s := &shop{}
	s.first = func(string, string) Answer {
		if s.n == 40 {
			return Answer{Said: "away"}
		}
		return Answer{}
	}
	v, err := judge(t, s, Trial{})
	if err != nil || !v.Clean() || v.Undecided != 360 || v.Rush > 125 || len(v.Notes) != 1 {
		t.Errorf("%v, %+v", err, v)
	}
}

// A shop that hangs while units are left is not clean, though it has done no wrong yet.
func TestAShopThatHangs(t *testing.T) {
	s := &shop{}
	s.first = func(string, string) Answer {
		if s.n == 3 {
			return Answer{Said: "away"}
		}
		return Answer{}
	}
	v, err := judge(t, s, Trial{})
	if v != nil || err == nil || !strings.Contains(err.Error(), "37 units are left, and 397 buyers heard no decision") {
		t.Errorf("%v, %+v", err, v)
	}
}

// What cannot be judged is an error, never a verdict.
func TestNotJudged(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		shop  System
		trial Trial
		want  string
	}{
		"no decision": {
			&shop{first: func(string, string) Answer { return Answer{Said: "what?"} }},
			Trial{Buyers: 2, Units: 1, RetryFor: time.Millisecond},
			"not one buyer was promised a unit or refused one as sold out; the answers: 2 x no answer: what?: unknown",
		},
		"no list": {
			&shop{orders: func() error { return away }}, Trial{}, "the orders cannot be listed: away",
		},
		"never starts": {&broken{at: "start"}, Trial{}, "the shop does not start: start"},
		"no sale":      {&broken{at: "reset"}, Trial{}, "no sale of 40 units: reset"},
		"a part that cannot be broken": {
			&shop{},
			Trial{Faults: []Fault{{Name: "disk", Break: func(context.Context) error { return away }}}},
			"break disk: away",
		},
		"shares": {&shop{}, Trial{Lost: 1.5}, "lost: 1.5: want 0 to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := judge(t, c.shop, c.trial)
			if v != nil || err == nil || err.Error() != c.want {
				t.Errorf("got %v, %+v\nwant %s", err, v, c.want)
			}
		})
	}
	// A part that stays broken ends the trial: the crowd would wait for it in vain.
	var down atomic.Bool
	begin := time.Now()
	v, err := judge(t, &shop{first: func(string, string) Answer {
		if down.Load() {
			return Answer{Said: "away"}
		}
		return Answer{}
	}}, Trial{RetryFor: 1000 * time.Hour, Timeout: time.Hour, Faults: []Fault{{
		Name: "disk",
		Break: func(context.Context) error {
			begin = time.Now()
			down.Store(true)
			return nil
		},
		Mend: func(context.Context) error {
			if time.Since(begin) > time.Minute {
				t.Error("mended late")
			}
			return away
		},
	}}})
	if v != nil || err == nil || err.Error() != "mend disk: away" {
		t.Errorf("a part that stays broken: %v, %+v", err, v)
	}
	// Whose decisions end for good is not judged by those from before.
	s := &shop{undersell: 10}
	s.first = func(string, string) Answer {
		if time.Since(s.begin) > time.Second {
			return Answer{Said: "away"}
		}
		return Answer{}
	}
	if v, err := judge(t, s, Trial{}); v != nil || err == nil {
		t.Errorf("no decisions any more: %v, %+v", err, v)
	}
}

// broken is a shop that fails early.
type broken struct {
	shop
	at string
}

func (b *broken) Start(context.Context) error {
	if b.at == "start" {
		return errors.New("start")
	}
	return nil
}

func (b *broken) Reset(context.Context, int) error { return errors.New(b.at) }

// Faults happen one after the other, each once; an equal seed repeats buyers, keys
// and moments.
func TestASeedRepeatsTheRun(t *testing.T) {
	run := func(seed uint64) (*Verdict, []string) {
		var log, keys []string
		s := &shop{first: func(buyer, key string) Answer {
			keys = append(keys, buyer+" "+key)
			return Answer{}
		}}
		var faults []Fault
		for i := range 4 {
			note := func(what string) func(context.Context) error {
				return func(context.Context) error {
					log = append(log, what)
					return nil
				}
			}
			faults = append(faults, Fault{fmt.Sprint("part-", i), note(fmt.Sprint("break ", i)), note(fmt.Sprint("mend ", i))})
		}
		v, err := judge(t, s, Trial{Seed: seed, Faults: faults, Down: time.Second, Lost: 0.1, Again: 0.1})
		if err != nil || !v.Clean() || len(v.Faults) != 4 {
			t.Fatalf("%v, %+v", err, v)
		}
		for i := 0; i < 8; i += 2 {
			if log[i][len("break "):] != log[i+1][len("mend "):] {
				t.Errorf("not one after the other: %q", log)
			}
		}
		slices.Sort(keys)
		return v, slices.Compact(keys)
	}
	v, keys := run(1)
	w, again := run(1)
	if !slices.Equal(v.Faults, w.Faults) || !slices.Equal(keys, again) {
		t.Errorf("%v\n%v", v.Faults, w.Faults)
	}
	if w, other := run(2); slices.Equal(v.Faults, w.Faults) || slices.Equal(keys, other) {
		t.Errorf("two seeds, one run: %v", w.Faults)
	}
}
