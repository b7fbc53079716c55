package engine

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

type spans struct{ all []Span }

func (s *spans) Trace(span Span) { s.all = append(s.all, span) }
func (s *spans) Dropped() int64  { return 0 }

func traced(t testing.TB, ratio float64) (*tracing, *spans) {
	t.Helper()
	to := new(spans)
	made := must.Get(newTracing(&Config{Tracer: to, TraceRatio: ratio}, "node", func(now time.Time) time.Time {
		return now.Add(time.Hour) // the ledger's clock is ahead
	}))(t)
	return made, to
}

// The random end of the id alone decides, so the ratio holds, every server takes the same
// orders, and those of a lower ratio are among those of a higher one.
func TestSampling(t *testing.T) {
	some, _ := traced(t, 0.1)
	more, _ := traced(t, 0.5)
	all, _ := traced(t, 1)
	const orders = 20_000
	count, half := 0, 0
	for range orders {
		order := admission.NewOrderID("phone")
		if some.sampled(order) {
			count++
			if !more.sampled(order) {
				t.Errorf("%s is sampled of 0.1, and not of 0.5", order)
			}
		}
		if more.sampled(order) {
			half++
		}
		if !all.sampled(order) {
			t.Errorf("%s is not sampled", order)
		}
	}
	if math.Abs(float64(count)-0.1*orders) > 300 || math.Abs(float64(half)-0.5*orders) > 500 { // some 7 sigma
		t.Errorf("of %d orders %d and %d", orders, count, half)
	}
	for _, bad := range []sluice.OrderID{"", "phone.", "phone.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"} {
		if all.sampled(bad) {
			t.Errorf("%q is sampled", bad)
		}
	}
	for _, ratio := range []float64{-1, 1.01, math.NaN(), math.Inf(1)} {
		if _, err := newTracing(&Config{Tracer: new(spans), TraceRatio: ratio}, "", nil); err == nil {
			t.Errorf("ratio %v is accepted", ratio)
		}
	}
}

// Claims and orders that are not sampled take no memory.
func TestOrdersThatAreNotSampledTakeNoMemory(t *testing.T) {
	few, to := traced(t, 1e-12)
	now := time.Now()
	way := admission.Way{Order: admission.NewOrderID("phone"), Began: now, Queued: now, Left: now, Ended: now}
	entries := []port.Entry{{At: now}}
	for range 100 {
		entries[0].Claims = append(entries[0].Claims, sluice.Claim{Order: admission.NewOrderID("phone")})
	}
	stored := &port.Stored{}
	if n := testing.AllocsPerRun(1000, func() { few.decided(way); few.stored(entries, stored, time.Second, nil) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if len(to.all) > 0 {
		t.Errorf("%v", to.all)
	}
}

// The journal's time is the ledger's, and becomes the server's own. What failed, or came
// again, has no time at which it was stored.
func TestSpansOfATransaction(t *testing.T) {
	all, to := traced(t, 1)
	order := admission.NewOrderID("phone")
	written := time.Now().Add(time.Hour - 5*time.Second)
	entries := []port.Entry{{At: written, Claims: []sluice.Claim{{Order: order}}}}
	all.stored(entries, &port.Stored{}, time.Second, errors.New("down"))
	all.stored(entries, &port.Stored{Redelivered: 1}, time.Second, nil)
	if len(to.all) > 0 {
		t.Errorf("%v", to.all)
	}
	all.stored(entries, &port.Stored{}, time.Second, nil)
	if len(to.all) != 2 || to.all[0].Stage != "journal" || to.all[1].Stage != "store" || to.all[1].Claims != 1 {
		t.Fatalf("%v", to.all)
	}
	waited, took := to.all[0].End.Sub(to.all[0].Begin), to.all[1].End.Sub(to.all[1].Begin)
	if waited < 3*time.Second || took != time.Second || !to.all[0].End.Equal(to.all[1].Begin) {
		t.Errorf("waited %s, stored in %s", waited, took)
	}
	to.all = nil
	entries[0].At = written.Add(time.Hour) // a clock that jumped
	if all.stored(entries, &port.Stored{}, time.Second, nil); to.all[0].Begin.After(to.all[0].End) {
		t.Errorf("%v", to.all[0])
	}
	to.all = nil
	unknown := fmt.Errorf("no answer")
	all.decided(admission.Way{Order: order, Err: unknown, Queued: written, Left: written, Ended: written})
	if len(to.all) != 4 || to.all[0].Err != unknown || to.all[0].Begin.IsZero() {
		t.Errorf("%v", to.all)
	}
}
