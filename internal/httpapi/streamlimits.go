package httpapi

import (
	"sync"

	"github.com/sluicehq/sluice/internal/admission"
)

// defaultPerAddress is how many event streams one address may hold at a time
// on one server. Offices and mobile carriers have thousands of readers behind
// one IPv4 address; a program with one connection each should still not have
// all places.
const defaultPerAddress = 1000

// streamLimits counts the places for event streams of a server, in all and for each
// address. A stream that has taken one gives it back once.
type streamLimits struct {
	most, perAddress int // perAddress below 0: no such limit

	mu     sync.Mutex // guards all below
	taken  int
	from   networkCounts
	denied [2]int64 // by limit
}

// limit is what keeps a reader from a place.
type limit int

const (
	limitTotal limit = iota
	limitAddress
	noLimit limit = -1
)

func newStreamLimits(most, perAddress int) *streamLimits {
	return &streamLimits{most: most, perAddress: perAddress, from: networkCounts{}}
}

// networkCounts is how many of something each network has, those included that it is in; only where
// there are some.
type networkCounts map[admission.Network]int

// add adds n to a network and those that it is in.
func (c networkCounts) add(in admission.Network, n int) {
	for ok := true; ok; in, ok = in.Wider() {
		if c[in] += n; c[in] <= 0 {
			delete(c, in)
		}
	}
}

// full reports whether a network, or one that it is in, has as many as it may, where an address may have
// most.
func (c networkCounts) full(in admission.Network, most int) bool {
	for ok := true; ok; in, ok = in.Wider() {
		if c[in] >= most*in.Times() {
			return true
		}
	}
	return false
}

// enter takes a place, and counts the stream on its connection (nil: it has none),
// unless a limit is in the way.
func (p *streamLimits) enter(o admission.Network, held *connection) limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.taken >= p.most:
		p.denied[limitTotal]++
		return limitTotal
	case p.perAddress >= 0 && p.from.full(o, p.perAddress):
		p.denied[limitAddress]++
		return limitAddress
	case !held.keep():
		p.denied[limitTotal]++
		return limitTotal
	}
	p.taken++
	p.from.add(o, 1)
	return noLimit
}

// leave gives a place back.
func (p *streamLimits) leave(o admission.Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	p.from.add(o, -1)
}

func (p *streamLimits) open() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(p.taken)
}

// StreamsRefused is how many event streams found no place: on the server, and
// for their address.
func (s *Server) StreamsRefused() (total, address int64) {
	p := s.events.limits
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.denied[limitTotal], p.denied[limitAddress]
}
