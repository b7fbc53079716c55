package machine

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/PID/stat on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// CPUTime is the processor time that a process has used, in user and kernel
// mode; 0 where /proc does not tell. It says more than the wall clock does about
// what a claim costs, and less depends on what else the machine is doing.
func CPUTime(pid int) time.Duration { return ticks(pid, 11) }

// FamilyCPUTime returns the CPU time of a process and of its children, those included that have
// ended.
func FamilyCPUTime(pid int) time.Duration {
	sum := CPUTime(pid) + ticks(pid, 13)
	processes, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, status := range processes {
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(status)))
		if Parent(child) == pid {
			sum += CPUTime(child)
		}
	}
	return sum
}

// Parent is the process that started a process; 0 where /proc does not say.
func Parent(pid int) int {
	n, _ := strconv.Atoi(field("/proc/"+strconv.Itoa(pid)+"/status", "PPid"))
	return n
}

// Resident is the memory that a process has, in bytes; 0 where /proc does not say.
func Resident(pid int) float64 {
	kb, _ := strconv.ParseFloat(strings.TrimSuffix(field("/proc/"+strconv.Itoa(pid)+"/status", "VmRSS"), " kB"), 64)
	return kb * 1024
}

// ticks adds two fields of /proc/PID/stat, counted from behind the name.
func ticks(pid, first int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// pid (name, which may hold anything) state ppid ...: utime and stime are
	// the 14th and 15th field of all, and so the 12th and 13th after the name;
	// those of ended children follow.
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < first+2 {
		return 0
	}
	var sum int64
	for _, f := range fields[first : first+2] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0
		}
		sum += n
	}
	return time.Duration(sum) * clockTick
}
