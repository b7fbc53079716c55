package curve

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Longest is how long a stretch is at most.
const Longest = longest * time.Second

// FlushEvery is how often Flush is to be called.
const FlushEvery = 2 * time.Second

const (
	// longest is how many seconds a stretch may have.
	longest = 60
	// cold is how many seconds without a claim end a stretch.
	cold = 10
	// most is how many seconds of a sale a server keeps since it started: those of its first day with claims.
	most = 24 * 3600
	// A stretch begins with a claim that was neither refused nor too early or late, or with a crowd within a second:
	// strangers who send one now and then begin none.
	crowd = 10
	// waiting is how many stretches wait at most for a store that does not answer; beyond that the oldest are dropped,
	// and are a gap.
	waiting = 1000
)

// Recorder counts what one server answers, for the store. Tick and Flush may run at the same time.
type Recorder struct {
	node  string
	store func(context.Context, []port.Stretch) error

	mu     sync.Mutex
	before *Totals                    // a second ago
	now    map[sluice.SaleID]*stretch // of sales that claims come to
	kept   map[sluice.SaleID]int      // seconds of each sale
	unsent []port.Stretch             // that are over and not stored, the oldest first
}

// stretch is one that grows.
type stretch struct {
	port.Stretch
	seconds, stored, quiet int
}

// NewRecorder returns a Recorder of the server of this name, which has just started. Store is called with what is to
// be kept.
func NewRecorder(node string, store func(context.Context, []port.Stretch) error) *Recorder {
	return &Recorder{
		node: node, store: store, before: &Totals{}, now: map[sluice.SaleID]*stretch{}, kept: map[sluice.SaleID]int{},
	}
}

// Totals are what a server has counted since its start.
type Totals struct {
	Answers  map[sluice.SaleID][Kinds]int64
	Took     [Buckets]int64
	InFlight int64
}

// Tick takes the totals at the end of a second. They are the Recorder's from then on.
func (r *Recorder) Tick(at time.Time, t *Totals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.before
	r.before = t
	for id, totals := range t.Answers {
		s := Second{InFlight: t.InFlight}
		for kind, n := range totals {
			s.Answers[kind] = max(n-before.Answers[id][kind], 0)
		}
		for i, n := range t.Took {
			s.Took[i] = max(n-before.Took[i], 0)
		}
		r.add(id, at.UTC().Truncate(time.Second), &s)
	}
	for id := range r.now {
		if _, counted := t.Answers[id]; !counted {
			r.end(id)
		}
	}
}

// add puts a second to the stretch of a sale, and begins one, with a claim or a crowd.
func (r *Recorder) add(id sluice.SaleID, at time.Time, s *Second) {
	claims, quiet := s.claims(), 0
	grows := r.now[id]
	switch {
	case grows == nil:
	case !at.Equal(grows.From.Add(time.Duration(grows.seconds) * time.Second)): // a tick was missed, or the clock was set
		grows.Ended = true
		r.end(id)
		grows = nil
	case grows.seconds == longest: // the next one goes on
		quiet = grows.quiet
		r.end(id)
		grows = r.begin(id, at)
	}
	switch {
	case r.kept[id] >= most:
		if grows != nil {
			grows.Ended = true
			r.end(id)
		}
		return
	case grows == nil && claims-s.Answers[Refused]-s.Answers[NotNow] == 0 && claims < crowd:
		return
	case grows == nil:
		grows = r.begin(id, at)
	}
	if grows.quiet = max(grows.quiet, quiet) + 1; claims > 0 {
		grows.quiet = 0
	}
	grows.Figures = s.encode(grows.Figures)
	grows.seconds++
	if r.kept[id]++; grows.quiet >= cold {
		grows.Ended = true
		r.end(id)
	}
}

func (r *Recorder) begin(id sluice.SaleID, at time.Time) *stretch {
	r.now[id] = &stretch{Stretch: port.Stretch{Sale: id, Node: r.node, From: at}}
	return r.now[id]
}

// end lets a stretch go: it does not grow any more.
func (r *Recorder) end(id sluice.SaleID) {
	r.unsent = append(r.unsent, r.now[id].Stretch)
	delete(r.now, id)
}

// End lets all stretches end, for a server that stops: its silence is no gap.
func (r *Recorder) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.now {
		s.Ended = true
		r.end(id)
	}
}

// Flush stores what is new. What the store does not take is tried again the next time.
func (r *Recorder) Flush(ctx context.Context) error {
	r.mu.Lock()
	send := slices.Clone(r.unsent)
	over, grown := len(send), map[*stretch]int{}
	for _, s := range r.now {
		if s.seconds > s.stored {
			send, grown[s] = append(send, s.Stretch), s.seconds
		}
	}
	r.mu.Unlock()
	if len(send) == 0 {
		return nil
	}
	err := r.store(ctx, send)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.unsent = r.unsent[max(len(r.unsent)-waiting, 0):]
		return err
	}
	r.unsent = slices.Clone(r.unsent[over:])
	for s, seconds := range grown {
		s.stored = seconds
	}
	return nil
}
