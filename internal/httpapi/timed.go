package httpapi

import (
	"net/http"
	"sync"
	"time"
)

// Timer counts how long answers took.
type Timer interface {
	Answered(route string, status int, took time.Duration)
}

// Patterns are the routes that answers are counted by.
func Patterns() (all []string) {
	for _, r := range Routes() {
		if r.Pattern != "/" && r.Pattern != streamPattern {
			all = append(all, r.Pattern)
		}
	}
	return all
}

// timed is an http.ResponseWriter that knows its status.
type timed struct {
	http.ResponseWriter
	status int
}

// started makes times of less than time.Now's cost, which reads two clocks.
var started = time.Now()

var timeds = sync.Pool{New: func() any { return new(timed) }}

// ServeHTTP answers a request.
func (d *side) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.counted.ServeHTTP(w, r) }

// timed answers a request, and counts how long that took. An event stream is no
// answer: it lasts as long as its reader.
func (d *side) timed(w http.ResponseWriter, r *http.Request) {
	if d.server.Timer == nil {
		d.serve(w, r)
		return
	}
	begun := time.Since(started)
	t := timeds.Get().(*timed)
	t.ResponseWriter, t.status = w, 0
	d.serve(t, r)
	status := t.status
	t.ResponseWriter = nil
	timeds.Put(t)
	if status == 0 {
		status = http.StatusOK // as net/http says for the handler
	}
	if r.Pattern != streamPattern {
		d.server.Timer.Answered(r.Pattern, status, time.Since(started)-begun)
	}
}

func (t *timed) WriteHeader(status int) {
	if t.status == 0 && status >= http.StatusOK {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *timed) Write(p []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	return t.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }
