package httpapi

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// The kernel is set to give up on peers that vanish: on each connection of
// NewServer, and on those of streams of any server.
func TestVanishedPeersAreShed(t *testing.T) {
	const stream, ordinary = "/v1/sales/phone/events", "/ordinary"
	for name, c := range map[string]struct {
		server   func(http.Handler) *http.Server
		path     string
		protocol string // of TLS; none: without
	}{
		"a request":                   {ours, ordinary, ""},
		"a request, TLS":              {ours, ordinary, "http/1.1"},
		"a request, HTTP/2":           {ours, ordinary, "h2"},
		"a stream":                    {ours, stream, ""},
		"a stream, TLS":               {ours, stream, "http/1.1"},
		"a stream, HTTP/2":            {ours, stream, "h2"},
		"a stream of any server":      {bareServer, stream, ""},
		"a stream of any server, TLS": {bareServer, stream, "http/1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			st := newDeadStage(t, quick, c.protocol != "", c.server)
			dial := &http.Transport{ForceAttemptHTTP2: c.protocol == "h2"}
			if c.protocol != "" {
				dial.TLSClientConfig = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{c.protocol}}
			}
			defer dial.CloseIdleConnections()
			client := http.Client{Transport: dial, Timeout: soon}
			answer := must.Get(client.Get(st.http.URL + c.path))(t)
			defer answer.Body.Close()
			if want := map[bool]int{false: 1, true: 2}[c.protocol == "h2"]; answer.StatusCode != 200 ||
				answer.ProtoMajor != want {
				t.Fatalf("%s, want HTTP/%d", answer.Proto+" "+answer.Status, want)
			}
			if c.path == stream {
				must.Get(io.ReadFull(answer.Body, make([]byte, 1)))(t)
			}
			conn := <-st.accepted
			const ms = time.Millisecond
			if got := time.Duration(option(t, conn, syscall.IPPROTO_TCP, tcpUserTimeout)) * ms; got != vanishedAfter {
				t.Errorf("the system gives up after %v, want %v", got, vanishedAfter)
			}
			idle, again := option(t, conn, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE), option(t, conn, syscall.IPPROTO_TCP,
				syscall.TCP_KEEPINTVL)
			if third := time.Duration(idle+2*again) * time.Second; third >= vanishedAfter {
				t.Errorf("the third probe comes after %v: a peer who is there may lose two", third)
			}
			const doubled = 2 * answerBuffer // by Linux
			if got := option(t, conn, syscall.SOL_SOCKET, syscall.SO_SNDBUF); c.path == ordinary && got != doubled {
				t.Errorf("the system keeps %d bytes for a peer who does not read", got)
			}
			if len(st.accepted) > 0 {
				t.Error("more than one connection")
			}
		})
	}
	if d := (EventsOptions{}).withDefaults(); vanishedAfter <= d.Heartbeat || vanishedAfter >= 2*d.Heartbeat {
		t.Errorf("%v is not between one heartbeat and two: %v", vanishedAfter, d.Heartbeat)
	}
}

// option is one of a socket.
func option(t *testing.T, conn *net.TCPConn, level, name int) (value int) {
	t.Helper()
	raw := must.Get(conn.SyscallConn())(t)
	var failed error
	if err := raw.Control(func(fd uintptr) {
		value, failed = syscall.GetsockoptInt(int(fd), level, name)
	}); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return value
}
