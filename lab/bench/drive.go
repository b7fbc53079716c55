package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/lab/internal/machine"
)

// work does some units and says how many.
type work func() (int, error)

// counter is one worker's, on a cache line of its own.
type counter struct {
	n atomic.Int64
	_ [56]byte
}

// drive has workers do their work over and over. The units done between the
// end of the warm-up and the end of the round, divided by the time between,
// are the figure; all that were ever done are the total, which the round's
// check compares with what the other side has on record.
//
// Pids are the processes whose processor time is measured too.
func (r *round) drive(ctx context.Context, workers []work, pids map[string]int) (f figure, total int64, err error) {
	counters := make([]counter, len(workers))
	sum := func() (n int64) {
		for i := range counters {
			n += counters[i].n.Load()
		}
		return n
	}
	var stop atomic.Bool
	failed := make(chan error, len(workers))
	var group sync.WaitGroup
	runtime.GC() // what earlier rounds left is not this one's
	for i, do := range workers {
		group.Go(func() {
			for !stop.Load() {
				n, err := do()
				if err != nil {
					failed <- err
					return
				}
				counters[i].n.Add(int64(n))
			}
		})
	}
	pause := func(d time.Duration) error {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	err = pause(r.warm)
	meter := startMeter(pids)
	from, start := sum(), time.Now()
	if err == nil {
		err = pause(r.long)
	}
	for err == nil && sum() == from && time.Since(start) < 10*r.long { // a busy machine, a short round
		err = pause(10 * time.Millisecond)
	}
	done, took := sum()-from, time.Since(start)
	f = figure{perSecond: float64(done) / took.Seconds(), also: map[string]float64{}}
	meter.stop(f.also, done)
	stop.Store(true)
	group.Wait()
	if err == nil && len(failed) > 0 {
		err = <-failed
	}
	if err == nil && done == 0 {
		err = fmt.Errorf("nothing was done in %s", took)
	}
	return f, sum(), err
}

// cpuMeter measures the processor time of processes, by a name for each.
type cpuMeter struct {
	pids map[string]int
	from map[string]time.Duration
}

func startMeter(pids map[string]int) *cpuMeter {
	m := &cpuMeter{pids: pids, from: map[string]time.Duration{}}
	for name, pid := range pids {
		m.from[name] = used(name, pid)
	}
	return m
}

// used is a process' processor time; PostgreSQL's with that of its connections.
func used(name string, pid int) time.Duration {
	if name == postgres {
		return machine.FamilyCPUTime(pid)
	}
	return machine.CPUTime(pid)
}

// stop adds the microseconds of processor time per unit to what a figure says.
func (m *cpuMeter) stop(also map[string]float64, units int64) {
	for name, pid := range m.pids {
		if spent := used(name, pid) - m.from[name]; spent > 0 && units > 0 {
			also[name+"_cpu_us"] = float64(spent.Microseconds()) / float64(units)
		}
	}
}

// total is what stop adds, of all processes together; false: not all of them say it.
func (m *cpuMeter) total(units int64) (sum float64, ok bool) {
	each := map[string]float64{}
	m.stop(each, units)
	for _, us := range each {
		sum += us
	}
	return sum, len(each) == len(m.pids)
}
