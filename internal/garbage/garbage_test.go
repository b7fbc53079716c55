package garbage

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	const mb = 1 << 20
	for name, c := range map[string]struct {
		allocated uint64
		since     time.Duration
		inUse     uint64
		want      int
	}{
		"at rest":                  {10 * mb, 2 * time.Minute, 10 * mb, 100},
		"at rest, nothing in use":  {mb, 2 * time.Minute, 0, 100},
		"at rest, much in use":     {20 * mb, 10 * time.Second, 10 * mb, 100},
		"no more":                  {20 * mb, 8 * time.Second, 10 * mb, 200},
		"a rush":                   {20 * mb, time.Second, 20 * mb, 800},
		"a rush, all that may lie": {100 * mb, time.Second, 20 * mb, 1280},
		"a rush, much in use":      {1000 * mb, time.Second, 1000 * mb, 100},
		"a rush, as much in use":   {1000 * mb, time.Second, 200 * mb, 128},
		"at once":                  {mb, 0, mb, 6400},
	} {
		if got := percent(c.allocated, c.since, c.inUse); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A rush that fades ends with a collection that Go has begun: what the rush has left is given
// back all the same.
func TestARushFades(t *testing.T) {
	p := newPacer(func() {})
	p.last.at, p.percent = time.Now().Add(-time.Minute), 300
	p.collected()
	if p.percent != 100 || !p.over.Stop() {
		t.Errorf("%d%%; or nothing will be given back", p.percent)
	}
}

// A rush that goes on more slowly, so that Go will collect later than expected, is not
// collected by force; when it is over what it has left is given back.
func TestARushSlowsDown(t *testing.T) {
	freed := 0
	p := newPacer(nil)
	p.percent, p.free = 300, func() { freed++ }
	for range 3 {
		p.seen, _ = now()
		p.seen.at = p.seen.at.Add(-2 * apart)
		for range 2 * most / 7 / (64 << 10) { // more than an eighth of what it was, however long this takes
			sink = make([]byte, 64<<10)
		}
		if p.look(); freed != 0 || !p.over.Stop() {
			t.Fatal("while it goes on, memory is given back; or nothing will be given back after it")
		}
	}
	p.seen.at = p.seen.at.Add(-apart)
	if p.look(); freed != 1 {
		t.Error("after a rush nothing is given back")
	}
	if p.collected(); p.percent != 100 || p.over.Stop() {
		t.Errorf("%d%% after a rush; or what it has left will be given back once more", p.percent)
	}
	p.look() // beside a collection: what is allocated in no time says nothing
	if freed != 1 || !p.over.Stop() {
		t.Error("memory is given back right after a collection")
	}
}

var sink []byte

// What Pace does, it does to a whole process: this test, run again as another one, makes
// two gigabytes of garbage. It is collected some twenty times instead of 500, unless GOGC
// is set; half a minute later all is as before, and the memory is given back, which Go alone
// would do after minutes.
func TestPace(t *testing.T) {
	const child = "SLUICE_TEST_PACE"
	if os.Getenv(child) == "" {
		collections := map[string]int{}
		for _, gogc := range []string{"", "100"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPace$", "-test.v")
			cmd.Env = append(os.Environ(), child+"=1", "GOGC="+gogc)
			out, err := cmd.CombinedOutput()
			found := regexp.MustCompile(`(\d+) collections`).FindSubmatch(out)
			if err != nil || found == nil {
				t.Fatalf("%v\n%s", err, out)
			}
			collections[gogc], _ = strconv.Atoi(string(found[1]))
		}
		if collections[""]*3 > collections["100"] {
			t.Errorf("%d collections, and %d with GOGC", collections[""], collections["100"])
		}
		return
	}
	Pace()
	t.Logf("%d collections", rush())
	inUse := make([]byte, 64<<20)
	defer runtime.KeepAlive(inUse)
	rush()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		read := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/memory/classes/heap/free:bytes"}}
		metrics.Read(read)
		percent, kept := read[0].Value.Uint64(), read[1].Value.Uint64()
		if percent == 100 && (kept < 32<<20 || os.Getenv("GOGC") != "") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("at rest the percentage stays %d, and %d bytes that nothing uses are kept", percent, kept)
		}
	}
}

// rush makes two gigabytes of garbage, and says how often it was collected.
func rush() uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 2 << 30 / (64 << 10) {
		sink = make([]byte, 64<<10)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}
