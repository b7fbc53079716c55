package loglimit

import (
	"sync"
	"testing"
	"time"
)

// One passes at once, then one a minute with the number of those before it.
func TestSample(t *testing.T) {
	var s Sample
	start := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		after time.Duration
		want  int64
	}{{0, 1}, {time.Second, 0}, {59 * time.Second, 0}, {time.Minute, 3}, {119 * time.Second, 0}, {time.Hour, 2}} {
		if got := s.Take(start.Add(c.after)); got != c.want {
			t.Errorf("after %s: %d, want %d", c.after, got, c.want)
		}
	}
}

// However many come at once, one passes.
func TestSampleOfManyAtOnce(t *testing.T) {
	var s Sample
	var passed sync.Map
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if s.Take(time.Unix(1_800_000_000, 0)) > 0 {
				passed.Store(i, true)
			}
		})
	}
	all.Wait()
	n := 0
	passed.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d passed", n)
	}
}
