package garbage

import (
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// What was reserved is used for the first time in huge pages, where the system has them.
func TestReserve(t *testing.T) {
	mode, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || strings.Contains(string(mode), "[never]") {
		t.Skipf("without huge pages: %s %v", mode, err)
	}
	reserve()
	debug.FreeOSMemory()
	before := inHugePages(t)
	sink = make([]byte, most/2)
	defer func() { sink = nil }()
	for i := 0; i < len(sink); i += os.Getpagesize() {
		sink[i] = 1
	}
	if got := inHugePages(t) - before; got < most/4 {
		t.Errorf("%d bytes of %d are in huge pages", got, most/2)
	}
}

func inHugePages(t *testing.T) int {
	t.Helper()
	memory, err := os.ReadFile("/proc/self/smaps_rollup")
	found := regexp.MustCompile(`AnonHugePages: *(\d+) kB`).FindSubmatch(memory)
	if err != nil || found == nil {
		t.Fatalf("%v\n%s", err, memory)
	}
	kb, _ := strconv.Atoi(string(found[1]))
	return kb << 10
}
