package httpapi

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/must"
)

// A reader who leaves an event stream, in whatever way, gives the place, the
// connection and its descriptor back at once: long before anything is sent. A reader
// who goes on talking has left, too.
func TestReadersWhoLeaveAreNoticed(t *testing.T) {
	const request = "GET /v1/sales/phone/events HTTP/1.1\r\nHost: shop.example\r\n\r\n"
	for name, leave := range map[string]func(conn net.Conn, socket *net.TCPConn) error{
		"goodbye": func(conn net.Conn, _ *net.TCPConn) error { return conn.Close() },
		"FIN":     func(_ net.Conn, socket *net.TCPConn) error { return socket.CloseWrite() },
		"RST": func(_ net.Conn, socket *net.TCPConn) error {
			_ = socket.SetLinger(0)
			return socket.Close()
		},
		"another request": func(conn net.Conn, _ *net.TCPConn) error {
			_, err := io.WriteString(conn, request)
			return err
		},
		"garbage": func(_ net.Conn, socket *net.TCPConn) error {
			_, err := io.WriteString(socket, strings.Repeat("garbage", 1000))
			return err
		},
	} {
		for _, secure := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", TLS"}[secure], func(t *testing.T) {
				limit := NewConnections(1000, Proxies{}, slog.New(slog.DiscardHandler))
				o := quick
				o.Heartbeat = time.Hour
				st := newDeadStage(t, o, secure, func(h http.Handler) *http.Server { return NewServer(h, limit) })
				socket := must.Get(net.Dial("tcp", st.http.Listener.Addr().String()))(t)
				defer socket.Close()
				conn := socket
				if secure {
					conn = tls.Client(socket, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				}
				_ = conn.SetDeadline(time.Now().Add(soon))
				must.Get(io.WriteString(conn, request))(t)
				if _, err := bufio.NewReader(conn).ReadString('}'); err != nil { // the event
					t.Fatal(err)
				}
				must.Succeed(t, leave(conn, socket.(*net.TCPConn)))
				await(t, "the place is free", func() bool {
					open, _ := limit.Counts()
					return st.Streams() == 0 && open == 0
				})
				if err := (<-st.accepted).SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
					t.Errorf("the descriptor is open: %v", err)
				}
			})
		}
	}
}
