package main

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// clockTick is the unit of /proc/PID/stat on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuTime is the processor time that a process has used, in user and kernel
// mode; 0 where /proc does not tell. It says more than the wall clock does about
// what a claim costs, and less depends on what else the machine is doing.
func cpuTime(pid int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// pid (name, which may hold anything) state ppid ...: utime and stime are
	// the 14th and 15th field of all, and so the 12th and 13th after the name.
	_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}

// cpuMeter measures the processor time of processes, by a name for each.
type cpuMeter struct {
	pids map[string]int
	from map[string]time.Duration
}

func startMeter(pids map[string]int) *cpuMeter {
	m := &cpuMeter{pids: pids, from: map[string]time.Duration{}}
	for name, pid := range pids {
		m.from[name] = cpuTime(pid)
	}
	return m
}

// stop adds the microseconds of processor time per unit to what a figure says.
func (m *cpuMeter) stop(also map[string]float64, units int64) {
	for name, pid := range m.pids {
		if used := cpuTime(pid) - m.from[name]; used > 0 && units > 0 {
			also[name+"_cpu_us"] = float64(used.Microseconds()) / float64(units)
		}
	}
}
