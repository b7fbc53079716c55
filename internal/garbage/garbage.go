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
	"time"
)

const (
	// apart is how far apart collections are to be.
	apart = 4 * time.Second
	// most is the garbage that may lie about for that, in bytes. Where more is in use, the
	// heap doubles, as without this package.
	most = 128 << 20
)

// Pace begins, for the rest of the process. At rest it changes nothing, and who has set
// GOGC has decided. GOMEMLIMIT holds as ever.
func Pace() {
	if os.Getenv("GOGC") == "" {
		p := &pacer{at: time.Now(), percent: 100}
		p.await()
	}
}

// pacer changes the percentage of GOGC after a collection. It waits for nothing in between.
type pacer struct {
	at        time.Time // of the last collection
	allocated uint64    // until then, in bytes
	percent   int
}

// await calls collected when the next collection has found that nobody has the mark.
func (p *pacer) await() {
	mark := new(pacer)
	runtime.AddCleanup(mark, (*pacer).collected, p)
}

func (p *pacer) collected() {
	read := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	now, allocated, live := time.Now(), read[0].Value.Uint64(), read[1].Value.Uint64()
	if want := percent(allocated-p.allocated, now.Sub(p.at), live); want != p.percent {
		p.percent = want
		debug.SetGCPercent(want)
	}
	p.at, p.allocated = now, allocated
	p.await()
}

// smallest is what Go takes for in use where less is: at 100% it collects beyond that.
const smallest = 4 << 20

// percent is how much of live, in hundredths, may be allocated until the next collection,
// where as much was allocated since the last one as this. Steps of 100 keep it from
// changing each time, since that stops the process for a moment.
func percent(allocated uint64, since time.Duration, live uint64) int {
	garbage := min(float64(allocated)*float64(apart)/float64(max(since, time.Millisecond)), most)
	return max(100, int(garbage/float64(max(live, smallest)))*100)
}
