package world

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

var (
	seed  = flag.Uint64("seed", 0, "run the world of this seed alone, and tell its story with -v")
	acts  = flag.String("acts", "", "only these acts of the seed's plan: their numbers, separated by commas")
	on    = flag.Int("servers", 0, "on so many servers; 0: as the plan has it")
	first = flag.Uint64("first", 1, "the first seed")
	count = flag.Int("worlds", 100, "how many worlds to run")
	small = flag.Duration("shrink", time.Minute, "how long to make a world smaller that goes wrong")
)

// TestWorlds runs worlds on all processors, and shrinks the first that goes wrong.
func TestWorlds(t *testing.T) {
	if *seed > 0 {
		p := NewPlan(*seed)
		if *acts != "" {
			p = p.only(numbers(t, *acts))
		}
		if *on > 0 {
			p = p.on(*on)
		}
		cryptotest.SetGlobalRandom(t, *seed)
		report(t, p, once(t, p))
		return
	}
	var next, claims, calls, faults atomic.Int64
	var wrong atomic.Pointer[failure]
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for wrong.Load() == nil {
				n := next.Add(1)
				if n > int64(*count) {
					return
				}
				p := NewPlan(*first + uint64(n) - 1)
				r := once(t, p)
				claims.Add(int64(r.Claims))
				calls.Add(int64(r.Calls))
				faults.Add(int64(p.faulty()))
				if len(r.Wrong) > 0 {
					wrong.CompareAndSwap(nil, &failure{p, r})
				} else if n%100 == 0 && testing.Verbose() {
					t.Logf("%d worlds", n)
				}
			}
		})
	}
	all.Wait()
	if f := wrong.Load(); f != nil {
		least := f.shrunk(t, *small)
		report(t, least.plan, least.result)
		return
	}
	t.Logf("%d worlds, %d claims, %d faults, %d calls of ports", *count, claims.Load(), faults.Load(), calls.Load())
}

// TestSeedsRepeat: a seed tells the same story in another process, but for the moments of polls, which is all
// that a log line or the next try of a webhook may change. Not all do: the runtime wakes goroutines of one moment in
// any order.
func TestSeedsRepeat(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it runs eight worlds in processes of their own")
	}
	program := must.Get(os.Executable())(t)
	tell := func(seed int) (story []string) {
		told, err := exec.Command(program, "-test.run=^TestWorlds$", "-test.v", fmt.Sprint("-seed=", seed)).Output()
		if err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, told)
		}
		for line := range strings.Lines(string(told)) {
			if strings.HasPrefix(line, "     ") && !strings.Contains(line, " logs: ") {
				story = append(story, line)
			}
		}
		return story
	}
	const seeds = 4
	var same atomic.Int64
	var all sync.WaitGroup
	for seed := range seeds {
		all.Go(func() {
			if first := tell(seed + 1); len(first) > 100 && slices.Equal(first, tell(seed+1)) {
				same.Add(1)
			}
		})
	}
	if all.Wait(); same.Load() < seeds/2 {
		t.Errorf("%d of %d seeds tell the same story again", same.Load(), seeds)
	}
}

// once runs a world in a bubble of its own.
func once(t *testing.T, p Plan) (r Result) {
	t.Helper()
	dir := must.Get(os.MkdirTemp(memory(), "world"))(t)
	defer os.RemoveAll(dir)
	receiver := new(Receiver)
	server := httptest.NewServer(receiver)
	defer server.Close()
	receiver.URL = server.URL
	// In a world in which something goes round and round no time passes.
	defer time.AfterFunc(5*time.Minute, func() { panic(fmt.Sprintf("the world of seed %d does not end", p.Seed)) }).Stop()
	synctest.Test(t, func(*testing.T) { r = Run(dir, p, receiver) })
	return r
}

// memory is a folder in memory, if the machine has one.
func memory() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// report tells a world's story, and what is wrong with it.
func report(t *testing.T, p Plan, r Result) {
	t.Helper()
	if testing.Verbose() || len(r.Wrong) > 0 {
		t.Logf("seed %d, %d servers, %d acts:\n%s\n%s", p.Seed, p.Servers, len(p.Acts), p.lines(),
			strings.Join(r.Story, "\n"))
	}
	for _, wrong := range r.Wrong {
		t.Errorf("seed %d: %s", p.Seed, wrong)
	}
	if len(r.Wrong) > 0 {
		t.Logf("again: go test ./internal/world -run Worlds -v -seed %d -servers %d -acts %s", p.Seed, p.Servers, p.kept())
	}
}

// failure is a world that went wrong.
type failure struct {
	plan   Plan
	result Result
}

// shrunk takes servers and acts away from a world as long as it stays wrong.
func (f failure) shrunk(t *testing.T, patience time.Duration) failure {
	t.Helper()
	end := time.Now().Add(patience)
	fails := func(p Plan) bool {
		r := once(t, p)
		if len(r.Wrong) > 0 {
			f = failure{p, r}
		}
		return len(r.Wrong) > 0
	}
	for n := 1; n < f.plan.Servers && time.Now().Before(end); n++ {
		if fails(f.plan.on(n)) {
			break
		}
	}
	for size := len(f.plan.Acts) / 2; size > 0; size /= 2 {
		for from := 0; from < len(f.plan.Acts) && time.Now().Before(end); {
			if !fails(f.plan.without(from, min(from+size, len(f.plan.Acts)))) {
				from += size
			}
		}
	}
	return f
}

func numbers(t *testing.T, list string) (all []int) {
	t.Helper()
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("-acts: %v", fmt.Errorf("%q: want numbers separated by commas", text))
		}
		all = append(all, n)
	}
	return all
}
