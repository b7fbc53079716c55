package sluice

import (
	"testing"
	"time"
)

// choices walks through all combinations of numbered alternatives.
type choices struct {
	counts []int // of alternatives, in the order of the questions
	chosen []int
	asked  int
}

// pick returns one of the alternatives.
func pick[T any](c *choices, from ...T) T {
	if c.asked == len(c.chosen) {
		c.chosen, c.counts = append(c.chosen, 0), append(c.counts, len(from))
	}
	c.asked++
	return from[c.chosen[c.asked-1]]
}

// next goes on to another combination, and reports false after the last.
func (c *choices) next() bool {
	c.asked = 0
	for i := range c.chosen {
		if c.chosen[i]++; c.chosen[i] < c.counts[i] {
			return true
		}
		c.chosen[i] = 0
	}
	return false
}

var ruleTime = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// Every rule at its boundary with every other: of all refusals that apply, the first in
// precedence is the answer.
func TestDecide(t *testing.T) {
	now, seen, c := ruleTime, map[Code]int{}, &choices{}
	type moment struct {
		cooldown Cooldown
		counted  map[string]int64
	}
	moments := []moment{{}, {counted: map[string]int64{"a:1": 1}}, {counted: map[string]int64{"b:1": 1}}}
	for _, code := range []Code{NotOpen, Paused, SoldOut} {
		for _, left := range []time.Duration{0, time.Millisecond, RefusalLease, RefusalLease + time.Millisecond} {
			moments = append(moments, moment{cooldown: Cooldown{Code: code, Until: now.Add(left)}})
		}
	}
	for more := true; more; more = c.next() {
		have := Account{Units: pick(c, int64(0), 1, 2), Orders: pick(c, int64(0), 1, 2), Unpaid: pick(c, int64(0), 2)}
		terms := Terms{
			Total: pick(c, Unlimited, 0, 2, 3), MaxPerBuyer: pick(c, Unlimited, 2, 3), MaxOrders: pick(c, Unlimited, 1, 2),
			MaxUnpaid: pick(c, int64(0), 1, 2, 3), Paused: pick(c, false, true),
		}
		terms.OpensAt = now.Add(pick(c, -time.Hour, 0, time.Millisecond))
		if closes := pick(c, -time.Minute, 0, time.Millisecond, time.Hour); closes != time.Hour {
			terms.ClosesAt = now.Add(closes)
		}
		at := pick(c, moments...)
		cooldown, counted := at.cooldown, at.counted
		taken, quantity := pick(c, int64(0), 1, 2, 3), pick(c, int64(1), 2)
		claim, full := Claim{Quantity: quantity}, ""
		for name := range counted { // the only one
			if claim.Counters = "a:1=2 b:1=2"; quantity == 2 {
				full = name
			}
		}

		var want Code
		refuse := func(code Code, applies bool) {
			if applies && (want == 0 || code < want) {
				want = code
			}
		}
		refuse(NotOpen, now.Before(terms.OpensAt))
		refuse(Closed, !terms.ClosesAt.IsZero() && !now.Before(terms.ClosesAt))
		refuse(Paused, terms.Paused)
		lasts := cooldown.Until.Sub(now)
		refuse(cooldown.Code, cooldown.Code != 0 && lasts > 0 && lasts <= RefusalLease)
		refuse(BuyerLimit, terms.MaxPerBuyer > 0 && have.Units+quantity > terms.MaxPerBuyer)
		refuse(BuyerLimit, terms.MaxOrders > 0 && have.Orders+1 > terms.MaxOrders)
		refuse(BuyerLimit, terms.MaxUnpaid > 0 && have.Unpaid+1 > terms.MaxUnpaid)
		own := want == BuyerLimit
		refuse(BuyerLimit, full != "")
		if terms.Total != Unlimited {
			refuse(SoldOut, taken >= terms.Total)
			refuse(Insufficient, taken+quantity > terms.Total)
		}
		v := terms.Verdict(now, cooldown)
		got := v.Decide(have, counted, taken, &claim)
		if seen[got.Code]++; got.Code != want {
			t.Fatalf("%+v, %+v, %+v, %d taken, %d asked: %s, want %s", terms, cooldown, have, taken, quantity, got.Code, want)
		}
		if own || got.Code != BuyerLimit {
			full = "" // its buyer's limits come first
		}
		if got.Counter != full {
			t.Fatalf("%+v, %+v, counted %v, %d asked: the full counter is %q, want %q", terms, have, counted, quantity,
				got.Counter, full)
		}
		if got.Code == NotOpen && !got.OpensAt.Equal(terms.OpensAt) {
			t.Fatalf("opens at %v, want %v", got.OpensAt, terms.OpensAt)
		}
	}
	for _, code := range []Code{0, NotOpen, Closed, Paused, BuyerLimit, SoldOut, Insufficient} {
		if seen[code] == 0 {
			t.Errorf("nothing was answered %s", code)
		}
	}
}

// A server repeats a refusal that it has read for RefusalLease. Whatever terms take the place of
// others, nothing is accepted meanwhile that it would refuse (I4). It knows by itself when a sale
// opens.
func TestReopens(t *testing.T) {
	now, reopened := ruleTime, 0
	for c := (&choices{}); ; {
		some := func(version int64) Terms {
			terms := Terms{
				Version: version, Total: pick(c, Unlimited, 0, 2, 3), MaxPerBuyer: Unlimited, MaxOrders: Unlimited,
				OpensAt: now.Add(pick(c, -time.Hour, 0, time.Millisecond, RefusalLease, time.Hour)), Paused: pick(c, false, true),
			}
			if closes := pick(c, 0, time.Millisecond, time.Hour); closes != time.Hour {
				terms.ClosesAt = now.Add(closes)
			}
			return terms
		}
		before, after := some(1), some(2)
		taken := pick(c, int64(0), 2)
		cooldown := Cooldown{Code: before.Reopens(&after, taken, now), Until: now.Add(RefusalLease)}
		refused := before.Refusal(now)
		if refused == 0 && before.Available(taken) == 0 {
			refused = SoldOut
		}
		for _, later := range []time.Duration{0, time.Millisecond, RefusalLease - time.Millisecond} {
			at := now.Add(later)
			if refused == 0 || refused == NotOpen && !at.Before(before.OpensAt) {
				continue
			}
			v := after.Verdict(at, cooldown)
			if v.Decide(Account{}, nil, taken, &Claim{Quantity: 1}).Code == 0 {
				t.Fatalf("%+v, then %+v with %d taken: accepted %v after others have read %s", before, after, taken, later,
					refused)
			}
		}
		if cooldown.Code != 0 {
			reopened++
			if refused == 0 {
				t.Fatalf("%+v, then %+v with %d taken: a cooldown where nothing was refused", before, after, taken)
			}
		}
		if !c.next() {
			break
		}
	}
	if reopened == 0 {
		t.Error("nothing reopened")
	}
}
