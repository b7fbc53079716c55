package pipeline

import (
	"strings"
	"time"
)

// sayEvery is how often the same trouble of a sale is logged.
const sayEvery = 5 * time.Second

// maxSaid bounds the causes that are told apart.
const maxSaid = 16

// said is what a worker has logged of late, by message and cause. Causes that
// differ in numbers only, such as those of orders, are one.
type said struct {
	at   map[string]time.Time
	kept int // lines that were not written since the last one
}

// warn logs trouble, unless the same was logged a moment ago: entries that are
// tried one by one must not fill the disk.
func (w *worker) warn(message string, err error, args ...any) {
	key := message + ": " + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'f' { // also those of order ids
			return -1
		}
		return r
	}, err.Error())
	s, now := &w.said, time.Now()
	if at, known := s.at[key]; known && now.Sub(at) < sayEvery || !known && len(s.at) >= maxSaid && now.Sub(s.newest()) < sayEvery {
		s.kept++
		return
	}
	if s.at == nil || len(s.at) >= maxSaid {
		s.at = map[string]time.Time{}
	}
	s.at[key] = now
	if s.kept > 0 {
		args = append(args, "not_logged", s.kept)
	}
	s.kept = 0
	w.p.opts.Log.Warn(message, append([]any{"sale", w.sale, "error", err}, args...)...)
}

func (s *said) newest() (at time.Time) {
	for _, t := range s.at {
		if t.After(at) {
			at = t
		}
	}
	return at
}
