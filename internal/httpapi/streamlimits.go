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
	from   map[admission.Network]int // how many of them, only where there are some
	wide   map[network]int           // the same for wider networks of IPv6
	denied [2]int64                  // by limit
}

// limit is what keeps a reader from a place.
type limit int

const (
	limitTotal limit = iota
	limitAddress
	noLimit limit = -1
)

func newStreamLimits(most, perAddress int) *streamLimits {
	return &streamLimits{most: most, perAddress: perAddress, from: map[admission.Network]int{}, wide: map[network]int{}}
}

// network is what an origin of IPv6 is in.
type network struct {
	origin admission.Network
	bits   int
}

// wider are the networks that have a limit together, since who has one has all of
// its /64: so many times that of an address.
var wider = []struct{ bits, times int }{{56, 2}, {48, 4}}

// crowded reports whether a network that the origin is in has no place left. The
// caller holds mu.
func (p *streamLimits) crowded(o admission.Network) bool {
	for _, w := range wider {
		if in, ok := o.Wider(w.bits); ok && p.wide[network{in, w.bits}] >= w.times*p.perAddress {
			return true
		}
	}
	return false
}

// count adds to what the networks that the origin is in have. The caller holds mu.
func (p *streamLimits) count(o admission.Network, n int) {
	for _, w := range wider {
		in, ok := o.Wider(w.bits)
		if !ok {
			return
		}
		key := network{in, w.bits}
		if p.wide[key] += n; p.wide[key] <= 0 {
			delete(p.wide, key)
		}
	}
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
	case p.perAddress >= 0 && (p.from[o] >= p.perAddress || p.crowded(o)):
		p.denied[limitAddress]++
		return limitAddress
	case !held.keep():
		p.denied[limitTotal]++
		return limitTotal
	}
	p.taken++
	p.from[o]++
	p.count(o, 1)
	return noLimit
}

// leave gives a place back.
func (p *streamLimits) leave(o admission.Network) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.from[o]--; p.from[o] <= 0 {
		delete(p.from, o)
	}
	p.count(o, -1)
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
