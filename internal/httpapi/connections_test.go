package httpapi

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/admission"
)

// crowded is a server with room for a few connections; get asks it from an
// address of this machine, over a connection that stays open.
type crowded struct {
	t     *testing.T
	limit *Connections
	at    string
}

func newCrowded(t *testing.T, most int, patience time.Duration, trusted ...netip.Prefix) *crowded {
	c := &crowded{t: t, limit: NewConnections(most, Proxies{Trusted: trusted}, slog.New(slog.DiscardHandler))}
	c.limit.patience = patience
	server := NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijacked" {
			if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_ = conn.Close()
			}
		}
	}), c.limit)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.at = l.Addr().String()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return c
}

// get reports whether a new connection from an address is answered. With request
// false it connects and says nothing.
func (c *crowded) get(from string, request bool) bool {
	c.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	conn, err := dialer.Dial("tcp", c.at)
	if err != nil {
		return false // refused while it was made
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	if !request {
		return true
	}
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err == nil {
		_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200")))
	}
	return err == nil
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
		place := connectionOf(r)
		if events.enter(admission.Origin{}, place) != noLimit {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		out, err := events.openOutlet(w, r, place)
		if err != nil {
			t.Error(err)
		}
		streams <- out
	}), limit)
	server.Start()
	defer server.Close()
	ask := func() int {
		t.Helper()
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
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
	if total, _ := (&Server{events: events}).StreamsRefused(); total != 2 || events.places.open() != 2 {
		t.Errorf("%d refused, %d open", total, events.places.open())
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
