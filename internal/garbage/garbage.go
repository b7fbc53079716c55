// Package garbage sets how often Go collects: claims wait during a collection, which takes most of two
// cores for ten or twenty milliseconds, and with Go's default a small server that sells has two a second.
package garbage

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// percent of what is in use may be allocated between two collections.
const percent = 800

// Tune sets the percentage and, so that a large heap does not take the machine's memory, a limit of three
// quarters of what the process may use. GOGC and GOMEMLIMIT decide instead, where they are set.
func Tune() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if memory := available(); memory > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory / 4 * 3)
	}
}

// available returns how many bytes the control group of the process may use, or else the machine has; 0 if
// neither is known.
func available() (bytes int64) {
	group, _ := os.ReadFile("/proc/self/cgroup")
	_, path, _ := strings.Cut(strings.TrimSpace(string(group)), "0::")
	most, _ := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "memory.max"))
	if bytes, err := strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64); err == nil {
		return bytes
	}
	machine, _ := os.ReadFile("/proc/meminfo")
	_, _ = fmt.Sscanf(string(machine), "MemTotal: %d kB", &bytes)
	return bytes << 10
}
