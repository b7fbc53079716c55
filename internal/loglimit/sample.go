package loglimit

import (
	"sync/atomic"
	"time"
)

// SampleEvery is how often a Sample lets something through.
const SampleEvery = time.Minute

// Sample lets one of many through at once, and then one per SampleEvery: for what
// strangers cause as often as they like. It takes no lock. The zero value is ready.
type Sample struct {
	next atomic.Int64 // when, in Unix nanoseconds
	n    atomic.Int64 // since the last one
}

// Take counts one. If it may pass, it returns how many there were since the last
// one that did, this one included; 0 otherwise.
func (s *Sample) Take(now time.Time) int64 {
	s.n.Add(1)
	next := s.next.Load()
	if now.UnixNano() < next || !s.next.CompareAndSwap(next, now.Add(SampleEvery).UnixNano()) {
		return 0
	}
	return s.n.Swap(0)
}
