package port

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

func TestReadingState(t *testing.T) {
	at := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	good := Reading{Loaded: true, Taken: 5, Terms: sluice.Terms{Total: 10, OpensAt: at, ClosesAt: at.Add(time.Hour)}}
	for _, c := range []struct {
		name   string
		change func(*Reading)
		after  time.Duration
		want   sluice.State
	}{
		{"open", func(*Reading) {}, 0, sluice.StateOpen},
		{"upcoming", func(*Reading) {}, -1, sluice.StateUpcoming},
		{"closed", func(*Reading) {}, time.Hour, sluice.StateClosed},
		{"sold out", func(r *Reading) { r.Taken = 10 }, 0, sluice.StateSoldOut},
		{
			"no total is never sold out", func(r *Reading) { r.Taken, r.Terms.Total = 1e9, sluice.Unlimited }, 0,
			sluice.StateOpen,
		},
		{"closed outranks sold out", func(r *Reading) { r.Taken = 10 }, time.Hour, sluice.StateClosed},
		{"paused", func(r *Reading) { r.Terms.Paused = true }, 0, sluice.StatePaused},
		{"a missing sale is not a full one", func(r *Reading) { *r = Reading{} }, 0, sluice.StateUnavailable},
		{"fenced", func(r *Reading) { r.Fence = FenceLost }, 0, sluice.StateUnavailable},
	} {
		r := good
		c.change(&r)
		if got := r.State(at.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
