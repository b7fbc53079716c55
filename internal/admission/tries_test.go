package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// ask makes one try at what comes before a claim, and says how it ended.
func ask(g *Gate, kind string, buyer sluice.BuyerID) string {
	wait, err := g.Try(context.Background(), kind, g.board.View("sale"), buyer, home)
	switch {
	case errors.Is(err, ErrUnanswered):
		return "unanswered"
	case errors.Is(err, ErrOverloaded):
		return "overloaded"
	case err != nil:
		return err.Error()
	case wait != 0:
		return wait.String()
	}
	return "ok"
}

// A shared rate holds over all servers for what comes before a claim, too: of
// each kind by itself, and without touching what the claim has.
func TestTriesOverAllServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &sharedLimiter{}
		rules := sharedRules // 2 in 10 s
		rules.AddressRate = sluice.AddressRate{Requests: 4, PerS: 40}
		var gates []*Gate
		for range 3 {
			gates = append(gates, gateBefore(&slowLedger{}, open(rules), BatcherOptions{Limiter: limiter}))
		}
		one, two, three := gates[0], gates[1], gates[2]
		step := func(g *Gate, kind string, buyer sluice.BuyerID, want string) {
			t.Helper()
			if got := ask(g, kind, buyer); got != want {
				t.Errorf("%s for %s: %s, want %s", kind, buyer, got, want)
			}
		}
		step(one, "ticket", "ann", "ok")
		step(two, "ticket", "ann", "ok")
		writes := limiter.writes
		step(three, "ticket", "ann", "5s")
		calls := len(limiter.calls)
		time.Sleep(time.Second)
		step(three, "ticket", "ann", "4s") // what was learned is enough
		if len(limiter.calls) != calls || limiter.writes != writes {
			t.Errorf("%d calls and %d writes for a buyer who has to wait, want none", len(limiter.calls)-calls,
				limiter.writes-writes)
		}
		step(one, "challenge", "ann", "ok")
		if got := try(one, "ann", home); got != "accepted" {
			t.Errorf("the claim: %s", got)
		}
		time.Sleep(4 * time.Second)
		step(one, "ticket", "ann", "ok")
		step(two, "ticket", "ann", "5s")

		// What is denied over all servers cost the address nothing.
		for _, buyer := range []sluice.BuyerID{"bob", "eve", "joe", "sue"} {
			step(three, "ticket", buyer, "ok")
		}
		step(three, "ticket", "tom", "10s")
	})
}

// A rate that is not shared is this server's only.
func TestTriesOfOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &sharedLimiter{}
		rules := sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 1, PerS: 10}}
		for range 2 {
			g := gateBefore(&slowLedger{}, open(rules), BatcherOptions{Limiter: limiter})
			if first, second := ask(g, "ticket", "ann"), ask(g, "ticket", "ann"); first != "ok" || second != "10s" {
				t.Errorf("%s, then %s", first, second)
			}
		}
		if len(limiter.calls) != 0 {
			t.Error("the limiter is asked about a rate that is not shared")
		}
	})
}

// What cannot be counted does not pass, and is no reason to wait afterwards.
func TestTriesThatNobodyCounts(t *testing.T) {
	for name, opts := range map[string]BatcherOptions{
		"an error":             {Limiter: &sharedLimiter{fail: errors.New("no answer")}},
		"an answer too few":    {Limiter: &sharedLimiter{short: true}},
		"a ledger that cannot": {},
	} {
		synctest.Test(t, func(t *testing.T) {
			var failed atomic.Int64
			opts.Failed = func(sluice.SaleID, error) { failed.Add(1) }
			g := gateBefore(&slowLedger{}, open(sharedRules), opts)
			if got := ask(g, "ticket", "ann"); got != "unanswered" || failed.Load() != 1 {
				t.Errorf("%s: %s, %d failures are reported; want unanswered, and one", name, got, failed.Load())
			}
			if limiter, ok := opts.Limiter.(*sharedLimiter); ok {
				synctest.Wait() // those who wait when a call fails are refused with it
				limiter.fail, limiter.short = nil, false
				if got := ask(g, "ticket", "ann"); got != "ok" {
					t.Errorf("%s, when it is over: %s, want ok", name, got)
				}
			}
		})
	}
}

// A crowd is counted in a few calls, one at a time, and what does not fit into
// the queue is refused at once. A caller who leaves delays no other.
func TestTriesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := &sharedLimiter{takes: time.Second}
		g := gateBefore(&slowLedger{}, open(sharedRules), BatcherOptions{Limiter: limiter, MaxBatch: 4, MaxQueue: 10})
		var mu sync.Mutex
		told := map[string]int{}
		crowd := func(name string, n int) (all *sync.WaitGroup) {
			all = new(sync.WaitGroup)
			for i := range n {
				all.Go(func() {
					got := ask(g, "ticket", sluice.BuyerID(fmt.Sprint(name, i)))
					mu.Lock()
					told[got]++
					mu.Unlock()
				})
			}
			synctest.Wait()
			return all
		}
		heard := func() string {
			mu.Lock()
			defer mu.Unlock()
			defer clear(told)
			return fmt.Sprint(told)
		}
		first := crowd("a", 1)
		hasty, leave := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := g.Try(hasty, "ticket", g.board.View("sale"), "hasty", home)
			gone <- err
		}()
		synctest.Wait()
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who left gets %v", err)
		}
		second := crowd("b", 12)
		if got := heard(); got != "map[overloaded:3]" { // 9 and one who left wait
			t.Errorf("told at once: %s, want 3 overloaded", got)
		}
		first.Wait()
		second.Wait()
		if got := heard(); !slices.Equal(limiter.calls, []int{1, 4, 4, 2}) || got != "map[ok:10]" {
			t.Errorf("calls of %v tries, told %s", limiter.calls, got)
		}
		// One call has failed: those who wait learn it now, not one call later each.
		limiter.fail = errors.New("no answer")
		begun := time.Now()
		first, second = crowd("c", 1), crowd("d", 9)
		first.Wait()
		second.Wait()
		if took, got := time.Since(begun), heard(); took != time.Second || got != "map[unanswered:10]" {
			t.Errorf("told %s after %v", got, took)
		}
		synctest.Wait()
		g.batcher.tries.mu.Lock()
		defer g.batcher.tries.mu.Unlock()
		if len(g.batcher.tries.waiting) != 0 {
			t.Error("something is kept of those who have their answers")
		}
	})
}
