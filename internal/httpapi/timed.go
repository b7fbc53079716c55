package httpapi

import (
	"cmp"
	"net/http"
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

// ServeHTTP answers a request.
func (d *side) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.counted.ServeHTTP(w, r) }

// timed answers the request of an exchange, and counts how long that took. An event stream
// is no answer: it lasts as long as its reader.
func (d *side) timed(w http.ResponseWriter, r *http.Request) {
	e := w.(*exchange)
	d.serve(e, r)
	if d.server.Timer != nil && r.Pattern != streamPattern {
		d.server.Timer.Answered(r.Pattern, cmp.Or(e.status, http.StatusOK), age()-e.came)
	}
}
