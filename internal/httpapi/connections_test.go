package httpapi

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
)

// crowded is a server with room for a few connections; get asks it from an
// address of this machine, over a connection that stays open.
type crowded struct {
	t     *testing.T
	limit *Connections
	at    string
	slow  chan struct{} // gets a value when /slow is asked for, which takes one to answer
	held  atomic.Int64  // requests for /body and /large so far
}

func newCrowded(t *testing.T, most int, patience time.Duration, trusted ...netip.Prefix) *crowded {
	return newCrowdedOn(t, (*httptest.Server).Start, most, patience, trusted...)
}

func newCrowdedOn(t *testing.T, start func(*httptest.Server), most int, patience time.Duration,
	trusted ...netip.Prefix,
) *crowded {
	c := &crowded{
		t: t, limit: NewConnections(most, Proxies{Trusted: trusted}, slog.New(slog.DiscardHandler)),
		slow: make(chan struct{}),
	}
	c.limit.patience = patience
	config := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large": // 32 MB are more than the system keeps for a client who does not read
			c.held.Add(1)
			var err error
			for piece, n := make([]byte, 64<<10), 0; n < 512 && err == nil; n++ {
				_, err = w.Write(piece)
			}
		case "/body":
			c.held.Add(1)
			_, _ = io.Copy(io.Discard, r.Body)
		case "/hijacked":
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		case "/slow":
			c.slow <- struct{}{}
			<-c.slow
		}
	}), c.limit)
	config.ReadTimeout, config.WriteTimeout = 0, 0 // so that they make no room
	server := httptest.NewUnstartedServer(nil)
	server.Config, server.EnableHTTP2 = config, true
	start(server)
	c.at = server.Listener.Addr().String()
	t.Cleanup(func() { _ = config.Close() })
	return c
}

// dial connects from an address; nil: the connection was refused.
func (c *crowded) dial(from string) net.Conn {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	conn, err := dialer.Dial("tcp", c.at)
	if err != nil {
		return nil
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(soon))
	return conn
}

// isAnswered reports whether a request on a connection is.
func isAnswered(conn net.Conn) bool {
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	return err == nil && answer.StatusCode == http.StatusOK && answer.Body.Close() == nil
}

// get reports whether a new connection from an address is answered. With request
// false it connects and says nothing.
func (c *crowded) get(from string, request bool) bool {
	conn := c.dial(from)
	return conn != nil && (!request || isAnswered(conn))
}

// await waits until the server has seen what the test did.
func (c *crowded) await(what string, holds func(open int, counts ConnectionCounts) bool) {
	c.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		open, counts := c.limit.Counts()
		if holds(open, counts) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("never: %s; open %d, %+v", what, open, counts)
		}
	}
}

// An address that holds nearly all connections gets no more; others do, and get
// those that it leaves idle.
func TestConnectionsAreShared(t *testing.T) {
	const most = 80
	c := newCrowded(t, most, 100*time.Millisecond)
	for range most + 20 {
		c.get("127.0.0.1", false) // and says nothing
	}
	c.await("refused for the address", func(open int, n ConnectionCounts) bool {
		return n.Address > 0 && n.Total == 0 && open < most
	})
	if !c.get("127.0.0.2", true) {
		t.Error("another address got no connection beside a greedy one")
	}
	if c.get("127.0.0.1", true) {
		t.Error("the greedy address got one more")
	}
	c.await("idle ones closed until there are enough", func(open int, n ConnectionCounts) bool {
		return n.Idle > 0 && most-open >= most/8
	})
	if !c.get("127.0.0.3", true) {
		t.Error("no connection when there are enough again")
	}
}

// Many addresses, each with one connection that says nothing or does not come to the
// end of a header or body, keep no client out; they cost no client that is being answered its
// connection, nor a trusted proxy one of those that it keeps.
func TestManyAddressesThatDrip(t *testing.T) {
	const most = 64
	c := newCrowded(t, most, time.Hour, netip.MustParsePrefix("127.0.9.0/24"))
	proxy, slow := c.dial("127.0.9.1"), c.dial("127.0.8.1")
	if !isAnswered(proxy) {
		t.Fatal("no answer to a proxy")
	}
	must.Get(io.WriteString(slow, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	<-c.slow
	const body = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\n{"
	for n := range 3 * most {
		conn := c.dial(netip.AddrFrom4([4]byte{127, 0, byte(10 + n/200), byte(1 + n%200)}).String())
		if conn == nil {
			t.Fatalf("address %d found no room", n)
		}
		_, _ = io.WriteString(conn, []string{"", body, "G", body, "GET / HTTP/1.1\r\nHost: x\r\nX: ", body}[n%6])
		if n%10 == 0 && !c.get(netip.AddrFrom4([4]byte{127, 0, 7, byte(1 + n/10)}).String(), true) {
			t.Errorf("an honest client found no room beside %d that say nothing", n)
		}
	}
	if open, n := c.limit.Counts(); open > most-most/16 || n.Total > 0 || n.Address > 0 || n.Idle < most {
		t.Errorf("%d are open, %+v", open, n)
	}
	if !isAnswered(proxy) {
		t.Error("the proxy lost a connection")
	}
	c.slow <- struct{}{}
	if _, err := io.ReadFull(slow, make([]byte, len("HTTP/1.1 200"))); err != nil {
		t.Errorf("a client that waited for its answer: %v", err)
	}
}

// A connection that keeps the server waiting, for the rest of a body or for room to
// send an answer, counts as idle, although a request on it is not answered.
func TestConnectionsThatKeepTheServerWaiting(t *testing.T) {
	const most = 32
	for _, protocol := range []string{"http/1.1", "h2"} {
		for path, method := range map[string]string{"/body": http.MethodPost, "/large": http.MethodGet} {
			t.Run(protocol+path, func(t *testing.T) {
				t.Parallel()
				c := newCrowdedOn(t, (*httptest.Server).StartTLS, most, time.Hour)
				client := func(n int) *http.Client {
					dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 7, byte(1+n))}}
					transport := &http.Transport{
						DialContext: dialer.DialContext, ForceAttemptHTTP2: protocol == "h2",
						TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}},
						HTTP2:           &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
					}
					t.Cleanup(transport.CloseIdleConnections)
					return &http.Client{Transport: transport}
				}
				for n := range 2 * most {
					body := io.ReadCloser(http.NoBody)
					if method == http.MethodPost { // one that does not end
						unfinished, rest := io.Pipe()
						go func() { _, _ = rest.Write([]byte("x")) }()
						body = unfinished
					}
					go func() {
						request, err := http.NewRequestWithContext(t.Context(), method, "https://"+c.at+path, body)
						if err != nil {
							t.Error(err)
							return
						}
						if answer, err := client(n).Do(request); err == nil {
							<-t.Context().Done() // and nothing is read
							_ = answer.Body.Close()
						}
					}()
					c.await("the next one", func(_ int, counts ConnectionCounts) bool {
						return c.held.Load()+counts.Total > int64(n)
					})
				}
				honest := client(3 * most)
				honest.Timeout = soon
				answer := must.Get(honest.Get("https://" + c.at))(t)
				_ = answer.Body.Close()
			})
		}
	}
}

// from is a connection from an address, of which no server notices that it is closed.
type from struct {
	net.Conn
	addr net.TCPAddr
}

func (f *from) RemoteAddr() net.Addr { return &f.addr }

// The place of a connection that is closed to make room is free at once, and not when
// a busy server has noticed.
func TestRoomIsMadeAtOnce(t *testing.T) {
	limit := NewConnections(32, Proxies{}, slog.New(slog.DiscardHandler))
	for n := range 100 {
		one, other := net.Pipe()
		t.Cleanup(func() { one.Close(); other.Close() })
		limit.context(t.Context(), &from{one, net.TCPAddr{IP: net.IPv4(203, 0, 113, byte(n))}})
	}
	if open, n := limit.Counts(); open != 32-2 || n != (ConnectionCounts{Idle: 100 - 30}) {
		t.Errorf("%d are open, %+v", open, n)
	}
}

// However many addresses there are, some descriptors are kept.
func TestConnectionsInAll(t *testing.T) {
	const most = 16
	c := newCrowded(t, most, time.Hour, netip.MustParsePrefix("127.0.1.0/24"))
	for range most {
		if !c.get("127.0.1.1", true) {
			t.Fatal("a trusted proxy is limited like a client")
		}
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3", "127.0.1.1"} {
		if c.get(from, true) {
			t.Errorf("%s got a connection of those that are kept", from)
		}
	}
	if _, counts := c.limit.Counts(); counts.Total != 3 || counts.Address != 0 {
		t.Errorf("%+v", counts)
	}
}

// Event streams that have taken their connections over count until they end, and
// leave half of all connections to others.
func TestStreamsCountAsConnections(t *testing.T) {
	limit := NewConnections(4, Proxies{}, slog.New(slog.DiscardHandler))
	events := newFan(EventsOptions{}, nil, time.Now)
	streams := make(chan outlet, 1)
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := connectionOf(r)
		if events.enter(admission.Network{}, held) != noLimit {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		out, head := events.openOutlet(w, r, held)
		if err := out.send(head); err != nil {
			t.Error(err)
		}
		streams <- out
	}), limit)
	server.Start()
	defer server.Close()
	ask := func() int {
		t.Helper()
		response := must.Get(server.Client().Get(server.URL))(t)
		response.Body.Close()
		return response.StatusCode
	}
	var running []outlet
	for range 2 {
		if status := ask(); status != http.StatusOK {
			t.Fatal(status)
		}
		running = append(running, <-streams)
		if open, _ := limit.Counts(); open != len(running) {
			t.Errorf("%d open while %d streams run", open, len(running))
		}
	}
	for range 2 {
		if status := ask(); status != http.StatusServiceUnavailable {
			t.Errorf("beyond half of all connections a stream got %d", status)
		}
	}
	if total, _ := (&Server{events: events}).StreamsRefused(); total != 2 || events.limits.open() != 2 {
		t.Errorf("%d refused, %d open", total, events.limits.open())
	}
	for range 2 {
		running[0].close()
	}
	if status := ask(); status != http.StatusOK {
		t.Fatalf("after another has ended a stream got %d", status)
	}
	for _, out := range append(running, <-streams) {
		out.close()
	}
	if open, _ := limit.Counts(); open > 1 || limit.streams != 0 { // that of the refusals may be idle
		t.Errorf("%d open, %d of streams, after all have ended", open, limit.streams)
	}
}

// Streams of HTTP/2 share a connection, which counts once: those with streams, of
// whatever protocol, are half of all at most.
func TestConnectionsWithStreamsOfHTTP2(t *testing.T) {
	limit := NewConnections(4, Proxies{}, slog.New(slog.DiscardHandler))
	st := newDeadStage(t, quick, true, func(h http.Handler) *http.Server { return NewServer(h, limit) })
	client := func() *http.Client {
		transport := &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	ask := func(c *http.Client, want int) *http.Response {
		t.Helper()
		answer := must.Get(c.Get(st.url()))(t)
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode != want || answer.ProtoMajor != 2 {
			t.Fatalf("%s %s, want %d", answer.Proto, answer.Status, want)
		}
		return answer
	}
	one, two, three := client(), client(), client()
	first, second := ask(one, 200), ask(one, 200)
	ask(two, 200)
	ask(three, 503)
	_ = first.Body.Close()
	await(t, "one stream has ended", func() bool { return st.Streams() == 2 })
	ask(three, 503) // the other one is on the same connection
	_ = second.Body.Close()
	await(t, "both have", func() bool { return st.Streams() == 1 })
	ask(three, 200)
}

func TestAcceptErrorsAreCounted(t *testing.T) {
	limit := NewConnections(10, Proxies{}, slog.New(slog.DiscardHandler))
	server := NewServer(nil, limit)
	server.ErrorLog.Printf("http: Accept error: %v; retrying in %v", "accept tcp 127.0.0.1:1: too many open files",
		time.Second)
	server.ErrorLog.Printf("http: TLS handshake error from %s", "127.0.0.1:2")
	if _, counts := limit.Counts(); counts.Errors != 1 {
		t.Errorf("%+v", counts)
	}
}

// A handler of the shop's own, beside the API, may take a connection over: nothing
// says when it is done with it, so its place is free at once.
func TestConnectionsThatOthersTakeOver(t *testing.T) {
	c := newCrowded(t, 16, 100*time.Millisecond)
	if response, err := http.Get("http://" + c.at + "/hijacked"); err == nil {
		_ = response.Body.Close()
	}
	c.await("the place that was given back", func(open int, _ ConnectionCounts) bool { return open == 0 })
}

// While connections are scarce, a home with many /64 has no more of them than twice what is free.
func TestScarceConnectionsPerNetwork(t *testing.T) {
	c := NewConnections(100, Proxies{}, slog.New(slog.DiscardHandler))
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	enter := func(address string) bool {
		return c.enter(&connection{all: c, conn: conn, from: admission.NetworkOf(netip.MustParseAddr(address))})
	}
	for i := range 88 {
		if !enter(fmt.Sprintf("203.0.113.%d", i)) {
			t.Fatalf("connection %d finds no room", i)
		}
	}
	home := 0
	for i := range 100 {
		if enter(fmt.Sprintf("2001:db8:1:1%02x::1", i)) {
			home++
		}
	}
	if home != 8 || !enter("198.51.100.1") { // 8 is twice the 4 that are left of 12
		t.Errorf("a /56 holds %d, want 8, and then others find room", home)
	}
}
