// Package loop has helpers for background loops.
package loop

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Bell wakes a loop: however often it rings meanwhile, the loop wakes once.
type Bell chan struct{}

// NewBell returns a bell that does not ring.
func NewBell() Bell { return make(Bell, 1) }

// Ring does not block.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// Loops of one process come at the same moments where their intervals allow it: to wake an
// idle server costs more than most of what it is woken for. In a rush each takes pauses of its
// own instead: all of them at once would keep buyers' answers from a processor.

// phase shifts these moments.
var phase atomic.Int64

// Spread gives this process moments of its own, so that servers, whose clocks agree, do not
// all ask the database at once. It does so once: engines of one process share them.
func Spread() { phase.CompareAndSwap(0, 1+rand.Int64N(int64(time.Hour))) }

// stirred is when claims last went to a ledger, in Unix nanoseconds.
var stirred atomic.Int64

// Stir says that claims go to a ledger now. That is a rush, for a second.
func Stir(now time.Time) { stirred.Store(now.UnixNano()) }

// Moment returns the first moment, from t on, at which the clock, shifted by phase, shows a
// multiple of every.
func Moment(t time.Time, every time.Duration) time.Time {
	return t.Add(every - 1 - time.Duration(t.UnixNano()+phase.Load()-1)%every)
}

// Until returns the pause of a loop that comes every so often, give or take half of that (in a
// rush a quarter).
func Until(every time.Duration) time.Duration {
	now := time.Now()
	if ago := now.UnixNano() - stirred.Load(); 0 <= ago && ago < int64(time.Second) {
		return every*3/4 + rand.N(every/2+1)
	}
	return time.Until(Moment(now.Add(every/2), every))
}

// Sleep pauses. False: the context has ended.
func Sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Ticks yields about after each interval (Until), and whenever the bell rings (nil: there is
// none), until the context ends.
func Ticks(ctx context.Context, every time.Duration, bell Bell) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTimer(Until(every))
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-bell:
			}
			tick.Reset(Until(every)) // here, so that what takes long skips no turn
			if !yield() {
				return
			}
		}
	}
}

// Every yields at once, and then as Ticks does.
func Every(ctx context.Context, every time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		if yield() {
			Ticks(ctx, every, nil)(yield)
		}
	}
}

// Rest is the pause of a loop that looks for work: Every after a look that found some, twice
// the last pause after one that did not, and at most calm times Every; all give or take half
// of Every (Until).
type Rest struct {
	Every time.Duration
	pause time.Duration
}

const calm = 3

// Wait pauses, for less if the bell rings (nil: there is none). False: the context
// has ended.
func (r *Rest) Wait(ctx context.Context, found bool, bell Bell) bool {
	r.pause = min(2*r.pause, calm*r.Every)
	if found || r.pause == 0 {
		r.pause = r.Every
	}
	enough := time.NewTimer(r.pause - r.Every + Until(r.Every))
	defer enough.Stop()
	select {
	case <-ctx.Done():
	case <-enough.C:
	case <-bell:
	}
	return ctx.Err() == nil
}

// Trouble logs when something begins to fail, and when it no longer does.
type Trouble struct {
	Log            *slog.Logger
	Begins, Ceases string // Ceases is empty: that is not logged
	failing        bool
}

// Note takes what the last attempt has returned.
func (t *Trouble) Note(err error, args ...any) {
	failed := err != nil
	if failed && !t.failing {
		t.Log.Warn(t.Begins, append(args, "error", err)...)
	} else if !failed && t.failing && t.Ceases != "" {
		t.Log.Info(t.Ceases, args...)
	}
	t.failing = failed
}
