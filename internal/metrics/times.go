package metrics

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Times are counted here and not by the client library, whose native histograms cost
// three times as much and cannot count a batch at once. The buckets follow
// native histograms of schema 3: eight for each doubling, so that a quantile is
// right to 9 %. The classic buckets are sums of them.

const (
	schema = 3
	finest = 1 << schema // buckets for each doubling
	lowest = -20         // times up to 2^lowest seconds, a microsecond, are zero
	most   = 17          // and those above 2^most seconds, 36 hours, are as long
)

// fractions are the upper bounds of the buckets between ½ and 1, but 1.
var fractions = func() (bounds [finest]float64) {
	for i := range bounds {
		bounds[i] = math.Exp2(float64(i)/finest - 1)
	}
	return bounds
}()

// histogram counts times. Its users do not wait for each other.
type histogram struct {
	labels []*dto.LabelPair
	nanos  atomic.Int64
	counts [1 + (most-lowest)*finest]atomic.Int64 // the first one: zero
}

// observe counts n that took as long.
func (h *histogram) observe(took time.Duration, n int) {
	took = max(took, 0) // less than 0: by clocks that differ
	h.counts[bucketOf(took)].Add(int64(n))
	h.nanos.Add(int64(took) * int64(n))
}

func bucketOf(took time.Duration) int {
	if took <= 0 {
		return 0
	}
	fraction, exponent := math.Frexp(float64(took) / 1e9)
	i := 0
	for i < finest && fractions[i] < fraction {
		i++
	}
	return min(max((exponent-1-lowest)*finest+i, 0), (most-lowest)*finest)
}

// times is a metric with a histogram for each of the values of its labels.
type times struct {
	*prometheus.Desc
	classic []int // exponents of the bounds in seconds, ascending

	mu  sync.Mutex
	all []*histogram
}

// Bounds of classic buckets: of answers, 0.1 ms to 16 s; and of what may wait for long,
// 8 ms to 9 hours.
var (
	ofAnswers = powers(-13, 4, 1)
	ofWaiting = powers(-7, 15, 2)
)

func powers(from, to, step int) (all []int) {
	for e := from; e <= to; e += step {
		all = append(all, e)
	}
	return all
}

func (m *Metrics) times(name string, classic []int) *times {
	t := &times{Desc: defined(name, aHistogram).desc(), classic: classic}
	m.registry.MustRegister(t)
	return t
}

// with makes the histogram for these values of the labels, which has to be new.
func (t *times) with(values ...string) *histogram {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.make(values...)
}

// make is with for a caller who holds mu.
func (t *times) make(values ...string) *histogram {
	h := &histogram{labels: prometheus.MakeLabelPairs(t.Desc, values)}
	t.all = append(t.all, h)
	return h
}

// Describe implements prometheus.Collector.
func (t *times) Describe(ch chan<- *prometheus.Desc) { ch <- t.Desc }

// Collect implements prometheus.Collector.
func (t *times) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	all := slices.Clone(t.all)
	t.mu.Unlock()
	for _, h := range all {
		ch <- reported{t, h}
	}
}

// reported is a histogram as Prometheus wants it, classic and native in one.
type reported struct {
	of *times
	*histogram
}

// Desc implements prometheus.Metric.
func (r reported) Desc() *prometheus.Desc { return r.of.Desc }

// Write implements prometheus.Metric.
func (r reported) Write(m *dto.Metric) error {
	seconds := float64(r.nanos.Load()) / 1e9
	out := &dto.Histogram{
		SampleSum: &seconds, Schema: new(int32(schema)), ZeroThreshold: new(math.Exp2(lowest)),
	}
	var all, last uint64 // last: of the native buckets, which are written as differences
	next := 0            // the index from which the next span's offset counts
	classic := r.of.classic
	for i := range r.counts {
		n, index := uint64(r.counts[i].Load()), lowest*finest+i
		all += n
		switch {
		case i == 0:
			out.ZeroCount = new(n)
		case n > 0:
			if gap := index - next; gap != 0 || len(out.PositiveSpan) == 0 {
				out.PositiveSpan = append(out.PositiveSpan, &dto.BucketSpan{Offset: new(int32(gap)), Length: new(uint32(0))})
			}
			*out.PositiveSpan[len(out.PositiveSpan)-1].Length++
			out.PositiveDelta = append(out.PositiveDelta, int64(n)-int64(last))
			next, last = index+1, n
		}
		if len(classic) > 0 && index == classic[0]*finest {
			out.Bucket = append(out.Bucket, &dto.Bucket{
				UpperBound: new(math.Exp2(float64(classic[0]))), CumulativeCount: new(all),
			})
			classic = classic[1:]
		}
	}
	if len(out.PositiveSpan) == 0 { // says that the histogram is native, too
		out.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
	}
	out.SampleCount = &all
	m.Label, m.Histogram = r.labels, out
	return nil
}
