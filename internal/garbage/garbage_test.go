package garbage

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// GOGC and GOMEMLIMIT are the operator's, where they are set.
func TestTune(t *testing.T) {
	percentBefore, limitBefore := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	defer func() { debug.SetGCPercent(percentBefore); debug.SetMemoryLimit(limitBefore) }()
	set := func() (percent int, limit int64) {
		percent, limit = debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
		debug.SetMemoryLimit(math.MaxInt64)
		return percent, limit
	}
	t.Setenv("GOGC", "50")
	t.Setenv("GOMEMLIMIT", "1GiB")
	Tune()
	if percent, limit := set(); percent != 100 || limit != math.MaxInt64 {
		t.Errorf("set by the environment, and now %d%%, %d bytes", percent, limit)
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	Tune()
	got, limit := set()
	if got != percent || runtime.GOOS == "linux" && (limit < 1<<26 || limit > 1<<44) {
		t.Errorf("%d%%, %d bytes", got, limit)
	}
}
