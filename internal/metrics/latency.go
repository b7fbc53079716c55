package metrics

import (
	"cmp"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/port"
)

// statuses are the answers that are counted apart; 0 stands for all others.
var statuses = [...]int{
	0, http.StatusOK, http.StatusCreated, http.StatusAccepted, http.StatusNoContent, http.StatusNotModified,
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
	http.StatusMethodNotAllowed, http.StatusConflict, http.StatusGone, http.StatusPreconditionFailed,
	http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
	http.StatusInternalServerError, http.StatusServiceUnavailable,
}

// statusIndex is the index of each status in statuses.
var statusIndex = func() (indexes [600]uint8) {
	for i, status := range statuses {
		indexes[status] = uint8(i)
	}
	return indexes
}()

// Requests counts how long answers took, by route and status. For a route and a status
// that there have been it takes no lock and no memory.
type Requests struct {
	times  *times
	routes map[string]*[len(statuses)]atomic.Pointer[histogram]
	rest   [len(statuses)]atomic.Pointer[histogram]
}

// Requests adds histograms for these routes, and one for all else. Call it once.
func (m *Metrics) Requests(routes []string) *Requests {
	r := &Requests{
		times:  m.times("sluice_http_request_seconds", ofAnswers),
		routes: map[string]*[len(statuses)]atomic.Pointer[histogram]{},
	}
	for _, route := range routes {
		r.routes[route] = new([len(statuses)]atomic.Pointer[histogram])
	}
	return r
}

// Answered counts an answer.
func (r *Requests) Answered(route string, status int, took time.Duration) {
	all, ok := r.routes[route]
	if !ok {
		all, route = &r.rest, other
	}
	index := uint8(0)
	if status > 0 && status < len(statusIndex) {
		index = statusIndex[status]
	}
	h := all[index].Load()
	if h == nil {
		h = r.first(&all[index], route, statuses[index])
	}
	h.observe(took, 1)
}

func (r *Requests) first(at *atomic.Pointer[histogram], route string, status int) *histogram {
	code := other
	if status != 0 {
		code = strconv.Itoa(status)
	}
	r.times.mu.Lock()
	defer r.times.mu.Unlock()
	if h := at.Load(); h != nil {
		return h
	}
	h := r.times.make(route, code)
	at.Store(h)
	return h
}

// Took adds to classes how many answers of a route took as long: up to 2^first seconds, and each class up to twice as
// long as the one before; the last has all that is longer.
func (r *Requests) Took(route string, first int, classes []int64) {
	for i := range r.routes[route] {
		h := r.routes[route][i].Load()
		if h == nil {
			continue
		}
		for j := range h.counts {
			class := lowest + (j+finest-1)/finest - first
			classes[min(max(class, 0), len(classes)-1)] += h.counts[j].Load()
		}
	}
}

// Way counts how long claims and orders take on their way.
type Way struct {
	stages           []*histogram
	called, broken   *histogram // calls of the ledger
	stored, unstored *histogram // transactions of the store
	lag, streams     *histogram
}

// Way adds the histograms of the way of a claim, whose stages have these names. Call it once.
func (m *Metrics) Way(stages []string) *Way {
	w := &Way{}
	stage := m.times("sluice_claim_stage_seconds", ofAnswers)
	for _, name := range stages {
		w.stages = append(w.stages, stage.with(name))
	}
	calls := m.times("sluice_ledger_call_seconds", ofAnswers)
	w.called, w.broken = calls.with("ok"), calls.with("failed")
	stores := m.times("sluice_store_transaction_seconds", ofAnswers)
	w.stored, w.unstored = stores.with("ok"), stores.with("failed")
	w.lag = m.times("sluice_accepted_to_stored_seconds", ofWaiting).with()
	w.streams = m.times("sluice_event_stream_lag_seconds", ofAnswers).with()
	return w
}

// Stage counts claims that took as long in a stage, by its index among the names.
func (w *Way) Stage(stage int, took time.Duration, claims int) { w.stages[stage].observe(took, claims) }

// CallTook counts one call of the ledger.
func (w *Way) CallTook(took time.Duration, err error) {
	if err != nil {
		w.broken.observe(took, 1)
		return
	}
	w.called.observe(took, 1)
}

// Transaction counts one transaction of the pipeline, which ended at a time of the
// ledger's clock. Of claims that came again it is not known when they were stored.
func (w *Way) Transaction(entries []port.Entry, stored *port.Stored, took time.Duration, at time.Time, err error) {
	if err != nil {
		w.unstored.observe(took, 1)
		return
	}
	w.stored.observe(took, 1)
	if stored.Redelivered > 0 {
		return
	}
	for i := range entries {
		w.lag.observe(at.Sub(entries[i].At), len(entries[i].Claims))
	}
}

// Streamed counts an event that a reader was given.
func (w *Way) Streamed(took time.Duration) { w.streams.observe(took, 1) }

var spansDropped = counter("sluice_spans_dropped_total")

// Traces adds how many spans of traces were dropped.
func (m *Metrics) Traces(dropped func() int64) {
	m.read(func(value values) { value(spansDropped, float64(dropped())) })
}

var buildInfo = gauge("sluice_build_info")

// module is what a program's list of modules calls Sluice.
const module = "github.com/sluicehq/sluice"

// Build reports what runs. Without a version it is what the program's list of modules says.
func (m *Metrics) Build(version string) {
	revision := ""
	if build, ok := debug.ReadBuildInfo(); ok {
		if build.Main.Path == module {
			version = cmp.Or(version, build.Main.Version)
			for _, s := range build.Settings {
				if s.Key == "vcs.revision" {
					revision = s.Value
				}
			}
		}
		for _, dep := range build.Deps {
			if dep.Path == module {
				version = cmp.Or(version, dep.Version)
			}
		}
	}
	m.read(func(value values) { value(buildInfo, 1, version, revision, runtime.Version()) })
}
