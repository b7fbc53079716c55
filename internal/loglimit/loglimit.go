// Package loglimit keeps a log readable while something fails again and again: it
// logs that a trouble begins, counts what repeats it, and logs that it is over.
package loglimit

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Handler passes records on to another handler. Of warnings with the same message
// about the same thing it passes the first at once, and then, once per interval,
// the latest with the attribute "repeated": how many there were. After an interval
// without one, of a warning that was repeated, an INFO record says so. Errors are
// passed as they are: each of them may be the only record of something lost.
type Handler struct {
	next slog.Handler
	what string // what the attributes of the logger add to a record's
	all  *troubles
}

// Interval is how often a warning is repeated in the log.
const Interval = 10 * time.Second

// most bounds the troubles that are kept apart. Above it, things are no longer
// distinguished, only messages, of which the program has a few dozen.
const most = 1000

// about are the attributes that say what a warning is about. An attribute that
// comes from a request, like its path, must not be one of them.
var about = []string{"sale", "epoch", "webhook", "setting", "from", "listener", "listen", "reason"}

// troubles is what all handlers that came from one share.
type troubles struct {
	mu     sync.Mutex // guards all below
	of     map[string]*trouble
	closed bool
}

type trouble struct {
	next     slog.Handler
	last     slog.Record
	repeated int // in this interval
	logged   bool
	timer    *time.Timer
}

// New returns a handler in front of next. Close it before next is of no more use.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, all: &troubles{of: map[string]*trouble{}}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	what := h.what
	for _, a := range attrs {
		what += thing(a)
	}
	return &Handler{next: h.next.WithAttrs(attrs), what: what, all: h.all}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name), what: h.what, all: h.all}
}

func thing(a slog.Attr) string {
	if slices.Contains(about, a.Key) {
		return "\x00" + a.Value.String()
	}
	return ""
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level != slog.LevelWarn || h.all.counts(h, r) {
		return h.next.Handle(ctx, r)
	}
	return nil
}

// counts takes a warning, and reports whether it is to be logged now.
func (t *troubles) counts(h *Handler, r slog.Record) (now bool) {
	key := r.Message + h.what
	r.Attrs(func(a slog.Attr) bool {
		key += thing(a)
		return true
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.of[key]; !known && len(t.of) >= most {
		key = r.Message
	}
	switch known := t.of[key]; {
	case t.closed:
		return true
	case known != nil:
		known.repeated++
		known.last, known.next = r.Clone(), h.next
		return false
	}
	begins := &trouble{next: h.next, last: r.Clone()}
	begins.timer = time.AfterFunc(Interval, func() { t.interval(key, begins) })
	t.of[key] = begins
	return true
}

// interval logs what has been counted, or forgets a trouble that is over.
func (t *troubles) interval(key string, of *trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
	case of.repeated > 0:
		of.tell()
		of.timer.Reset(Interval)
	default:
		delete(t.of, key)
		if of.logged {
			over := slog.NewRecord(time.Now(), slog.LevelInfo, "no longer: "+of.last.Message, 0)
			of.last.Attrs(func(a slog.Attr) bool {
				if thing(a) != "" {
					over.AddAttrs(a)
				}
				return true
			})
			of.log(over)
		}
	}
}

func (of *trouble) tell() {
	r := of.last.Clone()
	r.AddAttrs(slog.Int("repeated", of.repeated))
	of.log(r)
	of.repeated, of.logged = 0, true
}

func (of *trouble) log(r slog.Record) {
	if of.next.Enabled(context.Background(), r.Level) {
		_ = of.next.Handle(context.Background(), r)
	}
}

// Close logs what has been counted, and counts no more. It is idempotent.
func (h *Handler) Close() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.all.closed = true
	for key, of := range h.all.of {
		of.timer.Stop()
		if of.repeated > 0 {
			of.tell()
		}
		delete(h.all.of, key)
	}
}
