package sluice

import (
	"fmt"
	"testing"
)

// The state machine as a table: what each action does to each status.
func TestSteps(t *testing.T) {
	const none = "-"
	for _, c := range []struct {
		from                                                     Status
		pay, payLate, cancel, expire, expireLate, reject, refund string
	}{
		{Queued, none, none, none, none, none, none, none},
		{Pending, "paid", "refund_due*", "cancelled*", none, "expired*", "rejected*", none},
		{Paid, "=paid", "=paid", none, none, none, none, "refunded*"},
		{Cancelled, "refund_due", "refund_due", "=cancelled", none, none, none, none},
		{Expired, "refund_due", "refund_due", none, "=expired", "=expired", none, none},
		{Rejected, "refund_due", "refund_due", none, none, none, "=rejected", none},
		{Refunded, "=refunded", "=refunded", none, none, none, none, "=refunded"},
		{RefundDue, "=refund_due", "=refund_due", none, none, none, none, "refunded"},
	} {
		for _, a := range []struct {
			action Action
			late   bool
			want   string
		}{
			{Pay, false, c.pay},
			{Pay, true, c.payLate},
			{Cancel, false, c.cancel},
			{Cancel, true, c.cancel},
			{Expire, false, c.expire},
			{Expire, true, c.expireLate},
			{Reject, false, c.reject},
			{Reject, true, c.reject},
			{Refund, false, c.refund},
			{Refund, true, c.refund},
		} {
			got := none
			if step, ok := c.from.Step(a.action, a.late); ok {
				got = string(step.To)
				if step.Releases {
					got += "*"
				}
				if step.Repeat {
					got = "=" + got
				}
			}
			if got != a.want {
				t.Errorf("%s, %s, late %v: %s, want %s", c.from, a.action, a.late, got, a.want)
			}
		}
	}
}

// I6: whatever happens in whatever order, an order's units return at most
// once, and exactly when it stops being live.
func TestUnitsReturnOnce(t *testing.T) {
	type node struct {
		status   Status
		released int
	}
	seen := map[node]bool{}
	var walk func(n node, path string)
	walk = func(n node, path string) {
		if n.released > 1 {
			t.Fatalf("units return %d times:%s", n.released, path)
		}
		if n.status.Live() != (n.released == 0) {
			t.Fatalf("%s with units returned %d times:%s", n.status, n.released, path)
		}
		if seen[n] {
			return
		}
		seen[n] = true
		for _, action := range []Action{Pay, Cancel, Expire, Reject, Refund} {
			for _, late := range []bool{false, true} {
				step, ok := n.status.Step(action, late)
				if !ok {
					continue
				}
				next := node{step.To, n.released}
				if step.Releases {
					next.released++
				}
				if step.Repeat && next != n {
					t.Fatalf("a repeat changes something: %s, %s", n.status, action)
				}
				walk(next, path+fmt.Sprintf(" %s(late %v)", action, late))
			}
		}
	}
	walk(node{Pending, 0}, "")
	if len(seen) != 7 {
		t.Errorf("%d statuses can be reached, want all 7 of a stored order", len(seen))
	}
}
