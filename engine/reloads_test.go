package engine

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// A sale that is lost again and again is loaded less and less often, until a load
// has held.
func TestReloads(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var r reloads
	wait := func() time.Duration {
		r.note(now)
		begun := now
		for !r.due(now) {
			now = now.Add(10 * time.Millisecond)
		}
		return now.Sub(begun)
	}
	for i, want := range []time.Duration{0, 200, 400, 800, 1600, 3200, 5000, 5000} {
		if got := wait(); got != want*time.Millisecond {
			t.Errorf("after load %d: %v, want %d ms", i+1, got, want)
		}
	}
	now = now.Add(reloadHeld + time.Second)
	if got := wait(); got != 0 {
		t.Errorf("after one that held: %v", got)
	}
}

// A rebuild that fails is repeated less and less often, though the sale is gathered
// again, with success, before each attempt.
func TestARebuildThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &followed{}
		f := newFollower(&follower{log: slog.New(slog.DiscardHandler)})
		f.seen["s"] = s
		failed := errors.New("by a test")
		for i, want := range []time.Duration{100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			f.finished(t.Context(), &outcome{sale: "s", task: gathering, ready: true})
			f.finished(t.Context(), &outcome{sale: "s", task: loading, err: failed})
			if rest := time.Until(s.rest); rest != want*time.Millisecond {
				t.Errorf("after attempt %d: %v, want %d ms", i+1, rest, want)
			}
		}
		f.finished(t.Context(), &outcome{sale: "s", task: loading, changed: true})
		if s.failed != 0 {
			t.Errorf("%d failures after a rebuild", s.failed)
		}
	})
}

// Whatever fences a sale after each load, its rebuilds are few; the first two wait
// for nothing.
func TestASaleThatIsLostAgainAndAgain(t *testing.T) {
	none := func(context.Context, sluice.SaleID) error { return nil }
	ledger := &faultyLedger{load: func(context.Context, sluice.LoadImage) error { return nil }, apply: none}
	r := newFollowRig(t, ledger, "s")
	begun := time.Now()
	epoch := int64(1)
	for ; time.Since(begun) < 2*time.Second; time.Sleep(time.Millisecond) {
		sale, err := r.store.Sale(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if epoch = sale.LoadedEpoch; sale.Fence == "" && sale.LoadedEpoch == sale.Epoch {
			if err := r.store.FenceSale(t.Context(), "s", epoch, "lost: by a test"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if epoch > 6 { // 0, 0, 200, 400, 800 and 1600 ms
		t.Errorf("loaded %d times in two seconds", epoch)
	}
}
