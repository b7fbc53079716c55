package servertest

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// StartProxy listens at a free port, until the test ends, and forwards each
// connection to the address that route returns for it; "": it is closed. While cut
// says so nothing passes in either direction, and neither side notices, as in a
// network that is down.
func StartProxy(t testing.TB, route func(from net.Conn) (to string, cut func() bool)) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go forward(t, from, route)
		}
	}()
	return l.Addr().String()
}

func forward(t testing.TB, from net.Conn, route func(net.Conn) (string, func() bool)) {
	defer from.Close()
	addr, cut := route(from)
	if addr == "" {
		return
	}
	for cut() && t.Context().Err() == nil {
		time.Sleep(cutPoll)
	}
	to, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return
	}
	stop := func() { from.Close(); to.Close() }
	defer stop()
	go func() {
		defer stop()
		pump(t, from, to, cut)
	}()
	pump(t, to, from, cut)
}

// cutPoll is how often a connection that is cut looks whether it still is.
const cutPoll = 10 * time.Millisecond

func pump(t testing.TB, to io.Writer, from io.Reader, cut func() bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		for cut() {
			if t.Context().Err() != nil {
				return
			}
			time.Sleep(cutPoll)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
