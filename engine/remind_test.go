package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// remindedStore is a store with one server's lease, and pages of orders without end
// until it is done.
type remindedStore struct {
	sluice.Store
	held  bool
	done  bool
	calls []remindCall
}

type remindCall struct {
	sales int
	from  sluice.Due
}

func (s *remindedStore) Lease(context.Context, string, string, int64, time.Duration) (int64, error) {
	return map[bool]int64{false: 1}[s.held], nil
}

func (s *remindedStore) Remind(
	_ context.Context, notices map[sluice.SaleID]sluice.Notice, from sluice.Due,
) (sluice.Reminded, error) {
	s.calls = append(s.calls, remindCall{len(notices), from})
	next := sluice.Due{KeepUntil: from.KeepUntil, Position: from.Position + 1}
	if s.done {
		longest := time.Duration(0)
		for _, n := range notices {
			longest = max(longest, n.Ahead+n.Grace)
		}
		next = sluice.Due{KeepUntil: time.Now().Add(longest)}
	}
	return sluice.Reminded{Now: time.Now(), Next: next, Done: s.done}, nil
}

// A look reads a bounded part, goes on where the last one ended, and begins with all
// of them again every minute, and when another server has looked before.
func TestReminderLooksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &remindedStore{}
		r := &reminders{store: store}
		notices := map[sluice.SaleID]sluice.Notice{
			"phones": {Ahead: 24 * time.Hour}, "tablets": {Ahead: time.Minute}, "radios": {Ahead: time.Minute},
		}
		pass := func() []remindCall {
			t.Helper()
			store.calls = nil
			if err := r.once(t.Context(), notices); err != nil {
				t.Fatal(err)
			}
			time.Sleep(remindEvery)
			return store.calls
		}
		if all := pass(); len(all) != remindParts || all[0] != (remindCall{sales: 3}) {
			t.Errorf("the first look: %+v", all)
		}
		next := pass() // both notices, and all of them go on
		if len(next) != 3*remindParts || next[len(next)-1].from.Position != 2*remindParts-1 {
			t.Errorf("the second look: %+v", next)
		}
		store.done = true
		began := time.Now()
		if last := pass(); len(last) != 3 {
			t.Errorf("the look that ends: %+v", last)
		}
		again := 0
		for range 12 { // a minute
			calls := pass()
			if len(calls) == 3 {
				again++
				calls = calls[:2]
			}
			for _, c := range calls {
				if reach := map[int]time.Duration{1: 24 * time.Hour, 2: time.Minute}[c.sales]; len(calls) != 2 ||
					c.from.KeepUntil.Before(began.Add(reach)) {
					t.Errorf("%+v of %+v, want two from where the last ones ended", c, calls)
				}
			}
		}
		if again != 1 {
			t.Errorf("%d looks at all of them in a minute, want 1", again)
		}
		store.held = true
		if calls := pass(); len(calls) != 0 {
			t.Errorf("while another server looks: %+v", calls)
		}
		store.held = false
		if calls := pass(); len(calls) != 1 || calls[0] != (remindCall{sales: 3}) {
			t.Errorf("after another server has looked: %+v", calls)
		}
	})
}
