package metrics

import (
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A time is in the bucket whose bounds are around it, the upper one included.
func TestBuckets(t *testing.T) {
	for _, took := range []time.Duration{
		0, 1, time.Microsecond, 954, 1000, time.Millisecond, time.Second / 2, time.Second/2 + 1,
		time.Second, time.Second + 1, 4 * time.Second, time.Hour, 36 * time.Hour,
	} {
		i := bucketOf(took)
		upper, lower := math.Exp2(lowest+float64(i)/finest), math.Exp2(lowest+float64(i-1)/finest)
		if s := took.Seconds(); s > upper || i > 0 && s <= lower {
			t.Errorf("%v is in bucket %d, (%v, %v]", took, i, lower, upper)
		}
	}
	var h histogram
	h.observe(-time.Hour, 1)
	h.observe(1000*time.Hour, 1)
	if h.counts[0].Load() != 1 || h.counts[len(h.counts)-1].Load() != 1 || h.nanos.Load() != int64(1000*time.Hour) {
		t.Error("a time before the zero one, or a very long one, is lost")
	}
}

// family is a metric as a client gets it that takes native histograms.
func family(t *testing.T, m *Metrics, name string) *dto.MetricFamily {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,"+
		"text/plain;version=0.0.4;q=0.2")
	m.Handler().ServeHTTP(w, r)
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	for {
		var f dto.MetricFamily
		switch err := decoder.Decode(&f); {
		case errors.Is(err, io.EOF):
			t.Fatalf("no %s", name)
		case err != nil:
			t.Fatal(err)
		case f.GetName() == name:
			return &f
		}
	}
}

// Text has the classic buckets of a histogram; Prometheus' own format the native ones, too.
// Both are sums of what was observed.
func TestHistograms(t *testing.T) {
	m := New(func() []Sale { return nil })
	w := m.Way([]string{"admission", "wait"})
	took := map[time.Duration]int{0: 1, time.Millisecond: 3, 2 * time.Millisecond: 200, time.Second: 5, time.Hour: 2}
	for d, n := range took {
		w.Stage(1, d, n)
	}
	text := rendered(m)
	for _, want := range []string{
		`_bucket{stage="wait",le="0.0009765625"} 1`, `_bucket{stage="wait",le="0.001953125"} 4`,
		`_bucket{stage="wait",le="0.00390625"} 204`, `_bucket{stage="wait",le="1"} 209`,
		`_bucket{stage="wait",le="16"} 209`, `_bucket{stage="wait",le="+Inf"} 211`, `_count{stage="wait"} 211`,
		`_sum{stage="wait"} 7205.403`, `_count{stage="admission"} 0`,
	} {
		if !strings.Contains(text, "sluice_claim_stage_seconds"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for _, metric := range family(t, m, "sluice_claim_stage_seconds").Metric {
		native := map[float64]int{} // by upper bounds
		h := metric.Histogram
		index, count, next := 0, int64(0), 0
		for _, span := range h.PositiveSpan {
			index += int(span.GetOffset())
			for range span.GetLength() {
				count += h.PositiveDelta[next]
				native[math.Exp2(float64(index)/finest)] = int(count)
				next, index = next+1, index+1
			}
		}
		if h.GetSchema() != 3 || len(h.PositiveSpan) == 0 || next != len(h.PositiveDelta) {
			t.Errorf("not a native histogram: %v", h)
		}
		if metric.Label[0].GetValue() == "admission" {
			continue
		}
		total := int(h.GetZeroCount())
		for d, n := range took {
			upper := math.Exp2(math.Ceil(math.Log2(d.Seconds())*finest) / finest)
			if d > 0 && native[upper] != n {
				t.Errorf("%v: %d up to %v, want %d; all: %v", d, native[upper], upper, n, native)
			}
		}
		for _, n := range native {
			total += n
		}
		if total != 211 || h.GetSampleCount() != 211 || h.GetZeroCount() != 1 {
			t.Errorf("%d and %d in all: %v", total, h.GetSampleCount(), h)
		}
	}
}

// Labels are bounded: routes and statuses that are not known are counted together.
func TestRequestsAreCountedByRoute(t *testing.T) {
	m := New(func() []Sale { return nil })
	r := m.Requests([]string{"GET /v1/sales/{sale}"})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				r.Answered("GET /v1/sales/{sale}", 200, time.Millisecond)
				r.Answered("GET /made/up/"+string(rune('a'+i%26)), 404, time.Millisecond)
				r.Answered("", 299+i, time.Millisecond)
			}
		})
	}
	wg.Wait()
	r.Answered("GET /v1/sales/{sale}", -1, time.Millisecond)
	r.Answered("GET /v1/sales/{sale}", 1000, time.Millisecond)
	text := rendered(m)
	for _, want := range []string{
		`_count{code="200",route="GET /v1/sales/{sale}"} 800`, `_count{code="other",route="GET /v1/sales/{sale}"} 2`,
		`_count{code="404",route="other"} 800`, `_count{code="304",route="other"} 8`,
	} {
		if !strings.Contains(text, "sluice_http_request_seconds"+want+"\n") {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// A transaction is counted once, its claims by how long they took; not those that came again.
func TestWay(t *testing.T) {
	m := New(func() []Sale { return nil })
	m.Build("v9.9.9")
	w := m.Way(nil)
	at := time.Unix(1000, 0)
	entries := []port.Entry{
		{At: at, Claims: make([]sluice.Claim, 3)}, {At: at.Add(time.Second), Claims: make([]sluice.Claim, 2)},
	}
	w.Transaction(entries, &port.Stored{Inserted: 5}, time.Millisecond, at.Add(2*time.Second), nil)
	w.Transaction(entries, &port.Stored{Redelivered: 5}, time.Millisecond, at.Add(2*time.Hour), nil)
	w.Transaction(entries, &port.Stored{}, time.Millisecond, at.Add(2*time.Hour), io.EOF)
	w.CallTook(time.Millisecond, nil)
	w.CallTook(time.Millisecond, io.EOF)
	w.Streamed(time.Millisecond)
	text := rendered(m)
	for _, want := range []string{
		"sluice_accepted_to_stored_seconds_count 5", "sluice_accepted_to_stored_seconds_sum 8",
		`sluice_store_transaction_seconds_count{result="ok"} 2`, `sluice_store_transaction_seconds_count{result="failed"} 1`,
		`sluice_ledger_call_seconds_count{result="ok"} 1`, `sluice_ledger_call_seconds_count{result="failed"} 1`,
		"sluice_event_stream_lag_seconds_count 1",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if !strings.Contains(text, `sluice_build_info{go_version="go`) || !strings.Contains(text, `version="v9.9.9"} 1`) {
		t.Error("no sluice_build_info")
	}
}

// Counting an answer takes no memory.
func TestAnsweredTakesNoMemory(t *testing.T) {
	r := New(func() []Sale { return nil }).Requests([]string{"GET /v1/sales/{sale}"})
	r.Answered("GET /v1/sales/{sale}", 200, time.Millisecond)
	if n := testing.AllocsPerRun(100, func() { r.Answered("GET /v1/sales/{sale}", 200, time.Millisecond) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAnswered(b *testing.B) {
	r := New(func() []Sale { return nil }).Requests([]string{"GET /v1/sales/{sale}"})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			r.Answered("GET /v1/sales/{sale}", 200, time.Duration(i)*time.Microsecond)
		}
	})
}

func BenchmarkStage(b *testing.B) {
	w := New(func() []Sale { return nil }).Way([]string{"wait"})
	b.ReportAllocs()
	for i := range b.N {
		w.Stage(0, time.Duration(i)*time.Microsecond, 1)
	}
}
