package world

import (
	"flag"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "run the world of this seed alone")
	count = flag.Int("worlds", 100, "how many worlds to run")
)

func once(t *testing.T, p Plan) (r Result) {
	dir, err := os.MkdirTemp(memory(), "world")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(*testing.T) { r = Run(dir, p) })
	return r
}

// memory is a folder in memory, if the machine has one.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func TestWorlds(t *testing.T) {
	if *seed > 0 {
		r := once(t, NewPlan(*seed))
		t.Log("\n" + strings.Join(r.Story, "\n"))
		for _, wrong := range r.Wrong {
			t.Error(wrong)
		}
		return
	}
	var next, claims, calls atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(*count) {
					return
				}
				began := time.Now()
				r := once(t, NewPlan(uint64(n)))
				claims.Add(int64(r.Claims))
				calls.Add(int64(r.Calls))
				for _, wrong := range r.Wrong {
					t.Errorf("seed %d: %s", n, wrong)
				}
				if testing.Verbose() {
					t.Logf("seed %d: %v, %d claims, %d calls, %d wrong", n, time.Since(began), r.Claims, r.Calls, len(r.Wrong))
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d worlds, %d claims, %d calls", *count, claims.Load(), calls.Load())
}
