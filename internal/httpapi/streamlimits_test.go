package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
)

// behindProxy has the test's own address believed in what it says of others.
func behindProxy(st *stage) {
	st.Proxies = Proxies{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

// held is how many places are taken, and by how many origins.
func (p *streamLimits) held() (taken, origins int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n := range p.from {
		if n.Times() == 1 { // the others are what addresses are in
			origins++
		}
	}
	return p.taken, origins
}

func wantHeld(t *testing.T, st *stage, taken, origins int) {
	t.Helper()
	await(t, "the places are as wanted", func() bool {
		have, from := st.events.limits.held()
		return have == taken && from == origins
	})
}

// No address has more than its share, whatever it says of itself; others get in.
func TestEventStreamsPerAddress(t *testing.T) {
	for _, secure := range []bool{false, true} {
		o := quick
		o.PerAddress = 2
		st := newStage(t, o, secure)
		var log bytes.Buffer
		st.Log = slog.New(slog.NewTextHandler(&log, nil))
		behindProxy(st)
		refused := int64(0)
		for _, step := range []struct {
			from string
			in   bool
		}{
			{"203.0.113.1", true},
			{"203.0.113.1", true},
			{"203.0.113.1", false},
			{"198.51.100.7, 203.0.113.1", false}, // what a client says of itself
			{"::ffff:203.0.113.1", false},
			{"203.0.113.2", true},
			{"2001:db8:1:2::1", true},
			{"2001:db8:1:2:ffff::9", true},
			{"2001:db8:1:2::3", false}, // the same /64
			{"2001:db8:1:3::1", true},
			{"", true}, // the proxy itself
			{"unknown", true},
			{"nonsense", false}, // it is the proxy's again
		} {
			l := st.listen(t, "X-Forwarded-For: "+step.from)
			if step.in {
				l.until(10, sluice.StateOpen)
				continue
			}
			refused++
			if l.answer.StatusCode != 503 {
				t.Fatalf("%s: %d, want 503", step.from, l.answer.StatusCode)
			}
			body, _ := io.ReadAll(l.answer.Body)
			if !strings.Contains(string(body), `"code":"overloaded"`) || !strings.Contains(string(body), "for this address") ||
				l.answer.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %v %s", step.from, l.answer.Header, body)
			}
		}
		wantHeld(t, st, 8, 5)
		if total, address := st.StreamsRefused(); total != 0 || address != refused {
			t.Errorf("%d and %d refused, want 0 and %d", total, address, refused)
		}
		if n := strings.Count(log.String(), "trusted_proxies"); n != 1 ||
			!strings.Contains(log.String(), "address=203.0.113.1") {
			t.Errorf("warned %d times: %s", n, log.String())
		}
	}
}

// A place that is left can be had again, once, however the stream ended.
func TestAPlaceIsGivenBackOnce(t *testing.T) {
	for _, secure := range []bool{false, true} {
		o := quick
		o.PerAddress = 1
		o.Heartbeat = o.Look
		st := newStage(t, o, secure)
		behindProxy(st)
		for range 3 {
			l := st.listen(t, "X-Forwarded-For: 203.0.113.1")
			l.until(10, sluice.StateOpen)
			if second := st.listen(t, "X-Forwarded-For: 203.0.113.1"); second.answer.StatusCode != 503 {
				t.Errorf("the second of one: %d", second.answer.StatusCode)
			}
			wantHeld(t, st, 1, 1)
			l.answer.Body.Close() // noticed by HTTP/2, or by the next heartbeat
			wantHeld(t, st, 0, 0)
		}
		for _, from := range []string{"203.0.113.1", "203.0.113.2", "2001:db8::1"} {
			st.listen(t, "X-Forwarded-For: "+from).until(10, sluice.StateOpen)
		}
		wantHeld(t, st, 3, 3)
		st.CloseStreams()
		wantHeld(t, st, 0, 0)
		if late := st.listen(t, "X-Forwarded-For: 203.0.113.3"); late.answer.StatusCode != 503 {
			t.Errorf("after the end: %d", late.answer.StatusCode)
		}
		wantHeld(t, st, 0, 0)
	}
}

// broken is a connection that fails before the stream begins.
type broken struct {
	http.ResponseWriter
	hijack func() (net.Conn, error)
}

func (b *broken) Hijack() (conn net.Conn, _ *bufio.ReadWriter, err error) {
	conn, err = b.hijack()
	return conn, nil, err
}

func (b *broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestAPlaceOfAStreamThatNeverBeganIsGivenBack(t *testing.T) {
	for name, hijack := range map[string]func() (net.Conn, error){
		"the head cannot be sent": func() (net.Conn, error) {
			one, other := net.Pipe()
			other.Close()
			return one, nil
		},
		"no stream can be written": func() (net.Conn, error) { return nil, http.ErrNotSupported },
		"a bug":                    func() (net.Conn, error) { panic("a bug") },
	} {
		t.Run(name, func(t *testing.T) {
			st := newStage(t, quick, false)
			func() {
				defer func() { _ = recover() }()
				st.stream(&broken{httptest.NewRecorder(), hijack}, httptest.NewRequest("GET", "/", nil),
					(*st.views.Load())["phone"])
			}()
			if taken, origins := st.events.limits.held(); taken != 0 || origins != 0 {
				t.Errorf("%d places of %d origins are taken for ever", taken, origins)
			}
		})
	}
}

func TestEventStreamsWithoutALimitPerAddress(t *testing.T) {
	p := newStreamLimits(3, -1)
	one := admission.NetworkOf(netip.MustParseAddr("203.0.113.1"))
	for n := range 4 {
		if got, want := p.enter(one, nil), map[bool]limit{true: noLimit, false: limitTotal}[n < 3]; got != want {
			t.Errorf("stream %d: %v, want %v", n, got, want)
		}
	}
}

// Who has a /56 or a /48 of IPv6 has many /64: all of it has twice, and four
// times, what an address has.
func TestEventStreamsPerNetwork(t *testing.T) {
	p := newStreamLimits(1000, 2)
	enter := func(address string) bool {
		return p.enter(admission.NetworkOf(netip.MustParseAddr(address)), nil) == noLimit
	}
	taken := map[string]int{}
	for _, home := range []string{"2001:db8:1:10", "2001:db8:1:20", "2001:db8:1:30"} {
		for _, net := range []string{"1", "2", "3", "4"} {
			for range 3 {
				if address := home + net + "::1"; enter(address) {
					taken[home]++
				}
			}
		}
	}
	if taken["2001:db8:1:10"] != 4 || taken["2001:db8:1:20"] != 4 || taken["2001:db8:1:30"] != 0 {
		t.Errorf("taken by /56: %v, want 4, 4 and 0: a /48 has 8", taken)
	}
	if !enter("2001:db8:2::1") || !enter("203.0.113.1") {
		t.Error("others find no place")
	}
	for _, address := range []string{"2001:db8:1:101::1", "2001:db8:2::1", "203.0.113.1"} {
		p.leave(admission.NetworkOf(netip.MustParseAddr(address)))
	}
	if enter("2001:db8:1:201::1") || !enter("2001:db8:1:101::1") || enter("2001:db8:1:101::1") {
		t.Error("one has left the /56 and the /48, so one may come to it")
	}
	if len(p.from) != 4+3 { // four /64, two /56 and their /48; of the others all have left
		t.Errorf("networks are remembered: %v", p.from)
	}
}
