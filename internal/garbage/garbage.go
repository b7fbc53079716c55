// Package garbage lets Go's collector run less often while a process allocates much.
//
// A collection takes most of two cores for ten or twenty milliseconds, in which claims
// wait. Go starts one whenever the heap has doubled, so a server with a heap of 20 MB that
// sells 5,000 units a second has one twice a second, and its slowest hundredth of claims
// is those that met one.
package garbage

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// apart is how far apart collections are to be, where most allows it.
	apart = 8 * time.Second
	// most is about how much garbage may pile up meanwhile, in bytes; where more is in use
	// than that, the heap doubles, as without this package. Only GOMEMLIMIT is a bound.
	most = 256 << 20
	// smallest is Go's smallest heap at 100%: where less is in use it collects at this size.
	smallest = 4 << 20
)

// Pace begins, for the rest of the process: call it when the process is ready, since a
// start is no rush. Half a minute after a rush all is as before, and the next one uses its
// memory for the first time again, which takes some more of the processor. Whoever sets GOGC
// decides instead.
func Pace() {
	if os.Getenv("GOGC") == "" {
		newPacer(debug.FreeOSMemory).await()
	}
}

// pacer changes the percentage of GOGC after a collection.
type pacer struct {
	mu      sync.Mutex // guards all below
	last    allocated  // when Go last collected
	seen    allocated  // when the pacer last looked
	percent int
	over    *time.Timer // looks whether the rush is over
	free    func()      // collects what a rush has left, and gives it back: Go itself would in two minutes, and slowly
}

// allocated is how many bytes were ever allocated until a moment.
type allocated struct {
	at    time.Time
	bytes uint64
}

func newPacer(free func()) *pacer {
	p := &pacer{percent: 100, free: free}
	p.last, _ = now()
	p.over = time.AfterFunc(time.Hour, p.look)
	p.over.Stop()
	return p
}

// await lets Go call collected after each collection from now on: nothing refers to the
// mark, so that the next one finds it.
func (p *pacer) await() {
	mark := new(pacer)
	runtime.AddCleanup(mark, func(p *pacer) {
		p.collected()
		p.await()
	}, p)
}

func (p *pacer) collected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	found, inUse := now()
	before := p.percent
	p.percent = percent(found.bytes-p.last.bytes, found.at.Sub(p.last.at), inUse)
	debug.SetGCPercent(p.percent)
	if p.over.Stop(); max(before, p.percent) > 100 {
		p.over.Reset(2 * apart)
	}
	p.last, p.seen = found, found
}

// look ends a rush of which Go has collected nothing for a while, unless the rush only goes
// on more slowly: claims would wait for one more collection, and for memory that was given
// back. In what is left of the rush as much garbage may pile up as in it.
func (p *pacer) look() {
	p.mu.Lock()
	found, inUse := now()
	since := found.at.Sub(p.seen.at) // less than apart: Go has collected at this very moment
	on := since < apart || pace(found.bytes-p.seen.bytes, since) >= min(2*used(inUse), most/8)
	if on {
		p.seen = found
		p.over.Reset(apart)
	} else {
		p.last, p.percent = p.seen, 100 // free collects: what is allocated from here on is no rush
	}
	p.mu.Unlock()
	if !on {
		p.free()
	}
}

// now reads what was ever allocated, and what Go takes the percentage of.
func now() (found allocated, inUse uint64) {
	read := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(read)
	for _, sample := range read[1:] {
		inUse += sample.Value.Uint64()
	}
	return allocated{time.Now(), read[0].Value.Uint64()}, inUse
}

// percent is how much of what is in use, in hundredths, may be allocated until the next
// collection, where as much was allocated since the last one as this. It is no rush where
// Go's own collections are at least half of apart from each other: an idle server would only
// give memory back, to take it again.
func percent(allocated uint64, since time.Duration, inUse uint64) int {
	garbage, used := pace(allocated, since), used(inUse)
	if garbage < 2*used {
		return 100
	}
	return max(100, int(100*min(garbage, most)/used))
}

// pace is how much is allocated in the time of apart, in bytes.
func pace(allocated uint64, since time.Duration) float64 {
	return float64(allocated) * float64(apart) / float64(max(since, time.Millisecond))
}

func used(inUse uint64) float64 { return float64(max(inUse, smallest)) }
