package garbage

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		allocated uint64
		since     time.Duration
		live      uint64
		want      int
	}{
		"at rest":                  {10 * mb, 2 * time.Minute, 10 * mb, 100},
		"at rest, nothing in use":  {mb, 2 * time.Minute, 0, 100},
		"a rush":                   {20 * mb, time.Second, 20 * mb, 400},
		"a rush, all that may lie": {100 * mb, time.Second, 20 * mb, 600},
		"a rush, much in use":      {1000 * mb, time.Second, 1000 * mb, 100},
		"at once":                  {mb, 0, mb, 3200},
	} {
		if got := percent(c.allocated, c.since, c.live); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

var sink []byte

// collections is how many two gigabytes of garbage cause.
func collections() uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 << 30 / (64 << 10) {
		sink = make([]byte, 64<<10)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

// Garbage is collected some twenty times instead of 500, unless GOGC is set; and at rest
// the next collection changes that back.
func TestPace(t *testing.T) {
	t.Cleanup(func() { debug.SetGCPercent(100) })
	t.Setenv("GOGC", "100")
	Pace()
	if n := collections(); n < 200 {
		t.Errorf("%d collections with GOGC", n)
	}
	t.Setenv("GOGC", "")
	Pace()
	if n := collections(); n > 100 {
		t.Errorf("%d collections", n)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		runtime.GC()
		now := debug.SetGCPercent(100)
		if now == 100 {
			return
		}
		debug.SetGCPercent(now)
		if time.Now().After(end) {
			t.Fatalf("at rest the percentage stays %d", now)
		}
	}
}
