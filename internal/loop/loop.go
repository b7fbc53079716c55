// Package loop has helpers for background loops.
package loop

import (
	"context"
	"log/slog"
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

// Wait pauses, for less if the bell rings (nil: there is none). False: the context has ended.
func Wait(ctx context.Context, d time.Duration, bell Bell) bool {
	enough := time.NewTimer(d)
	defer enough.Stop()
	select {
	case <-ctx.Done():
	case <-enough.C:
	case <-bell:
	}
	return ctx.Err() == nil
}

// Every yields at once, and then after each interval, until the context ends.
func Every(ctx context.Context, every time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for yield() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}
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
