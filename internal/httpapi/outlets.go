package httpapi

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// outlet is where a stream's bytes go. An error of send or wait is the end.
type outlet interface {
	send(text []byte) error
	// arm has the next wait return at a time, at the latest, or when wake is called
	// from now on; or with an error as soon as the reader has left.
	arm(until time.Time)
	wait() error
	wake()
	close()
}

// What the system keeps for a client who does not read, in bytes: of answers, and of
// streams. Of answers it would else be megabytes, and the time to make them.
const answerBuffer, socketBuffer = 64 << 10, 16 << 10

// openOutlet returns a stream's outlet, and what to send first. With HTTP/1 the
// connection is taken over: net/http's buffers and goroutines would be most of what
// a stream costs.
func (f *fan) openOutlet(w http.ResponseWriter, r *http.Request, held *connection) (_ outlet, head []byte) {
	// Readers come back at different times, should all be thrown out at once.
	first := "retry: " + strconv.Itoa(1000+rand.IntN(2000)) + "\n\n"
	control := http.NewResponseController(w)
	if r.ProtoMajor == 1 && w.Header()["Content-Encoding"] == nil { // else a middleware compresses what is written
		conn, _, err := control.Hijack()
		if err == nil {
			socket := bottom(conn)
			if c, ok := socket.(interface{ SetWriteBuffer(n int) error }); ok {
				_ = c.SetWriteBuffer(socketBuffer) // helps, where it can
			}
			if held == nil { // not from NewServer, which has done it
				limitSilence(socket)
			}
			return &rawOutlet{conn: conn, socket: socket, held: held, patience: f.Patience},
				streamHead(w.Header(), first, f.now())
		}
	}
	_ = control.SetReadDeadline(time.Time{}) // where it can: the request has been read
	return &httpOutlet{
		w: w, control: control, left: r.Context().Done(), patience: f.Patience,
		woken: make(chan struct{}, 1), beat: time.NewTimer(f.Heartbeat),
	}, []byte(first)
}

// bottom takes TLS off.
func bottom(conn net.Conn) net.Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return secure.NetConn()
	}
	return conn
}

// streamHead is the head of an answer that lasts until the connection ends.
func streamHead(h http.Header, first string, now time.Time) []byte {
	text := append(make([]byte, 0, 1024), "HTTP/1.1 200 OK\r\nConnection: close\r\nDate: "...)
	text = append(now.UTC().AppendFormat(text, http.TimeFormat), "\r\n"...)
	for name, values := range h {
		for _, value := range values {
			text = append(append(append(append(text, name...), ": "...), value...), "\r\n"...)
		}
	}
	return append(append(text, "\r\n"...), first...)
}

// rawOutlet is a connection that net/http has handed over.
type rawOutlet struct {
	conn     net.Conn
	socket   net.Conn    // below TLS
	held     *connection // among all connections; nil: they are not limited
	patience time.Duration
	said     [1]byte // by the reader
}

func (o *rawOutlet) send(text []byte) error {
	if err := o.conn.SetWriteDeadline(time.Now().Add(o.patience)); err != nil {
		return err
	}
	_, err := o.conn.Write(text)
	return err
}

func (o *rawOutlet) arm(until time.Time) { _ = o.socket.SetReadDeadline(until) }
func (o *rawOutlet) wake()               { _ = o.socket.SetReadDeadline(time.Unix(1, 0)) }

var errSpoke = errors.New("the reader of an event stream has sent something")

// wait reads. A reader has nothing to say after the request: a byte is the end of
// the stream as much as the end of the connection is, so that none can make the
// server read on and on. Under TLS it is most likely the goodbye.
func (o *rawOutlet) wait() error {
	n, err := o.socket.Read(o.said[:])
	switch {
	case n > 0:
		return errSpoke
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	}
	return err
}

func (o *rawOutlet) close() {
	_ = o.conn.Close()
	o.held.leave()
}

// httpOutlet is a stream of HTTP/2, or a ResponseWriter that cannot be taken over.
type httpOutlet struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	left     <-chan struct{}
	patience time.Duration
	woken    chan struct{} // holds a value when wake was called since the last wait
	beat     *time.Timer
}

func (o *httpOutlet) send(text []byte) error {
	_ = o.control.SetWriteDeadline(time.Now().Add(o.patience)) // instead of the server's, for the whole answer
	if _, err := o.w.Write(text); err != nil {
		return err
	}
	err := o.control.Flush()
	_ = o.control.SetWriteDeadline(time.Time{}) // HTTP/2 ends a stream whose deadline passes, busy or not
	return err
}

func (o *httpOutlet) arm(until time.Time) { o.beat.Reset(time.Until(until)) }

func (o *httpOutlet) wait() error {
	select {
	case <-o.woken:
	case <-o.beat.C:
	case <-o.left:
		return context.Canceled
	}
	return nil
}

func (o *httpOutlet) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

func (o *httpOutlet) close() { o.beat.Stop() }
