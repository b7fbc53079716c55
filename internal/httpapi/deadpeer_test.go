package httpapi

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
)

// meter is a listener that shows the connections it accepts, with a small
// buffer for what is sent.
type meter struct {
	net.Listener
	accepted chan *net.TCPConn
}

func (m *meter) Accept() (net.Conn, error) {
	conn, err := m.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_ = conn.(*net.TCPConn).SetWriteBuffer(4096)
	m.accepted <- conn.(*net.TCPConn)
	return conn, nil
}

// deadStage is a stage on a server given, whose streams the test waits for.
type deadStage struct {
	*stage
	accepted chan *net.TCPConn
	begun    chan struct{} // gets a value when a reader has asked for a stream
	left     chan struct{} // and one when its handler is done
}

func newDeadStage(t *testing.T, o EventsOptions, secure bool, server func(http.Handler) *http.Server) *deadStage {
	t.Helper()
	st := &deadStage{
		stage:    &stage{Server: New(Options{Board: admission.NewBoard(nil, nil, admission.BoardOptions{})})},
		accepted: make(chan *net.TCPConn, 10), begun: make(chan struct{}, 10), left: make(chan struct{}, 10),
	}
	st.events = newFan(o, func(id sluice.SaleID) *admission.View { return (*st.views.Load())[id] }, time.Now)
	st.set(10, sluice.StateOpen)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sales/phone/events", func(w http.ResponseWriter, r *http.Request) {
		st.begun <- struct{}{}
		defer func() { st.left <- struct{}{} }()
		st.stream(w, r, (*st.views.Load())["phone"])
	})
	mux.HandleFunc("GET /ordinary", func(http.ResponseWriter, *http.Request) {})
	st.http = httptest.NewUnstartedServer(nil)
	st.http.Config = server(mux)
	st.http.Listener = &meter{Listener: st.http.Listener, accepted: st.accepted}
	if secure {
		st.http.EnableHTTP2 = true
		st.http.StartTLS()
	} else {
		st.http.Start()
	}
	t.Cleanup(func() {
		st.CloseStreams()
		st.http.Close()
	})
	return st
}

func ours(handler http.Handler) *http.Server {
	return NewServer(handler, NewConnections(1000, Proxies{}, slog.New(slog.DiscardHandler)))
}

// bareServer has no limits of its own.
func bareServer(handler http.Handler) *http.Server { return &http.Server{Handler: handler} }

// setLarge changes the board to something that takes many bytes to say.
func (st *deadStage) setLarge(available int64) {
	text := append([]byte(`{"title":"`), bytes.Repeat([]byte("x"), 16<<10)...)
	text = append(text, `"}`...)
	view := &admission.View{
		Sale: sluice.Sale{ID: "phone"},
		Body: &saleBody{sale: api.Sale{Available: &available}, json: text},
	}
	st.views.Store(&map[sluice.SaleID]*admission.View{"phone": view})
}

// A setting of HTTP/2, by its number.
type h2Setting struct {
	id    uint16
	value uint32
}

const initialWindowSize = 4

// mute asks for a stream by HTTP/2, and then neither reads nor says anything: it
// does not answer PINGs, and makes no room for more than the settings do. The
// window is that of the connection.
func (st *deadStage) mute(t *testing.T, window uint32, settings ...h2Setting) {
	t.Helper()
	raw := must.Get(net.Dial("tcp", st.http.Listener.Addr().String()))(t)
	t.Cleanup(func() { raw.Close() })
	_ = raw.(*net.TCPConn).SetReadBuffer(4096)
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	must.Succeed(t, conn.SetDeadline(time.Now().Add(soon)))
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		f := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
		f = append(f, flags)
		return append(binary.BigEndian.AppendUint32(f, stream), payload...)
	}
	const kindHeaders, kindSettings, kindWindowUpdate, endStreamAndHeaders = 1, 4, 8, 0x1 | 0x4
	var chosen []byte
	for _, s := range settings {
		chosen = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(chosen, s.id), s.value)
	}
	const path = "/v1/sales/phone/events"
	headers := append([]byte{0x82, 0x87, 0x04, byte(len(path))}, path...) // GET, https, :path
	headers = append(headers, 0x01, 1, 'x')                               // :authority
	hello := append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frame(kindSettings, 0, 0, chosen)...)
	if window > 0 {
		hello = append(hello, frame(kindWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, window))...)
	}
	must.Get(conn.Write(append(hello, frame(kindHeaders, endStreamAndHeaders, 1, headers)...)))(t)
	select {
	case <-st.begun:
	case <-time.After(soon):
		t.Fatal("the server did not see the request")
	}
}

// gone waits until the reader has no place any more; meanwhile things happen.
func (st *deadStage) gone(t *testing.T, meanwhile func(n int64)) {
	t.Helper()
	n, deadline := int64(0), time.After(soon)
	for tick := time.Tick(time.Millisecond); ; n++ {
		select {
		case <-st.left:
			if open := st.Streams(); open != 0 {
				t.Errorf("the reader is out, and %d places are taken", open)
			}
			return
		case <-deadline:
			t.Fatal("the reader keeps its place")
		case <-tick:
			meanwhile(n)
		}
	}
}

// limitsOf shortens those of NewServer's limits that are not 0, after a look at
// what they are, to what a stalled machine does not meet by accident; it takes
// off all others, so that only those are tested.
func limitsOf(t *testing.T, ping, stuck time.Duration) func(http.Handler) *http.Server {
	return func(handler http.Handler) *http.Server {
		server := ours(handler)
		for name, limit := range map[string]time.Duration{
			"SendPingTimeout": server.HTTP2.SendPingTimeout, "PingTimeout": server.HTTP2.PingTimeout,
			"WriteByteTimeout": server.HTTP2.WriteByteTimeout,
		} {
			if limit <= 0 || limit > 20*time.Second {
				t.Errorf("%s is %v: a vanished reader keeps its place", name, limit)
			}
		}
		server.ConnContext, server.WriteTimeout, server.ReadTimeout = nil, 0, 0
		shorten := func(real, to time.Duration) time.Duration {
			if to == 0 {
				return 0
			}
			return min(real, to)
		}
		server.HTTP2.SendPingTimeout, server.HTTP2.PingTimeout = shorten(server.HTTP2.SendPingTimeout, ping),
			shorten(server.HTTP2.PingTimeout, ping)
		server.HTTP2.WriteByteTimeout = shorten(server.HTTP2.WriteByteTimeout, stuck)
		return server
	}
}

// An HTTP/2 peer that does not answer PINGs loses its place, although all that is
// sent to it fits into the socket's buffer.
func TestHTTP2PeerWithoutSignOfLife(t *testing.T) {
	t.Parallel()
	st := newDeadStage(t, EventsOptions{}, true, limitsOf(t, time.Second, 0))
	st.mute(t, 0)
	st.gone(t, func(int64) {})
}

// An HTTP/2 reader who grants no room for what is sent is dropped, whether there was
// none from the start or it is used up.
func TestHTTP2ReaderWhoTakesNothing(t *testing.T) {
	t.Parallel()
	for _, room := range []uint32{0, 1000} {
		o := quick
		o.Patience = 100 * time.Millisecond
		st := newDeadStage(t, o, true, limitsOf(t, 0, 0))
		st.mute(t, 0, h2Setting{initialWindowSize, room})
		st.gone(t, func(n int64) { st.set(n, sluice.StateOpen) })
	}
}

// A connection that takes nothing cannot even be told that a stream on it has
// ended.
func TestHTTP2ConnectionThatTakesNothing(t *testing.T) {
	t.Parallel()
	o := quick
	o.Patience = 100 * time.Millisecond
	st := newDeadStage(t, o, true, limitsOf(t, 0, time.Second))
	const all = 1<<31 - 1
	st.mute(t, all-65535, h2Setting{initialWindowSize, all})
	st.gone(t, st.setLarge)
}
