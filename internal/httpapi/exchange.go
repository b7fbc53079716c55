package httpapi

import (
	"errors"
	"io"
	"math"
	"net/http"
	"time"
)

const (
	// notIdle is later than any age: the server works for the connection.
	notIdle = time.Duration(math.MaxInt64)
	// takes is how long a client may take to make room for an answer before its
	// connection is idle. For what fits into the system's buffers it takes less.
	takes = 20 * time.Millisecond
	// buffered is how much of an answer net/http keeps, at least, until its handler returns:
	// so much is written without waiting for the client.
	buffered = 2048
	// lingers is how long the server takes what is left of a body that it does not
	// want: were the connection closed at once, the client might lose the answer.
	lingers = time.Second
)

// started is when ages begin.
var started = time.Now()

// age is the time by which connections are idle and answers are timed. No step of a clock
// changes it, and it costs half of time.Now, which reads two clocks.
func age() time.Duration { return time.Since(started) }

// works adds to the requests on a connection that the server works on. With none the
// connection is idle from an age on.
func (held *connection) works(n int, from time.Duration) {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.working += n
	held.rests(from)
}

// rests keeps since when the connection is idle, if the server works on no request of it. The
// caller holds mu.
func (held *connection) rests(from time.Duration) {
	if held.working > 0 {
		from = notIdle
	}
	held.idle = from
}

// exchange is a request and its answer. The server works on it, but for the times in
// which it waits for the client: to send the whole body, and to make room for the
// answer. It is for one goroutine.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	body    io.ReadCloser // of the request
	held    *connection   // nil: it is not limited
	came    time.Duration // when, as age
	rest    bool          // of the body, is not read yet
	working bool
	begun   bool // the answer
	status  int  // of it; 0: none yet
	written int  // bytes of it
}

// exchanges is an http.Handler that keeps which connections are idle while another one
// answers. The server has one around whatever it serves, and the API for its own requests: a
// program that embeds Sluice may give the server another handler.
type exchanges struct{ handler http.Handler }

func (x *exchanges) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, counted := w.(*exchange); counted {
		x.handler.ServeHTTP(w, r)
		return
	}
	e := &exchange{ResponseWriter: w, request: r, body: r.Body, held: connectionOf(r), came: age()}
	if e.held != nil {
		if e.rest = r.ContentLength != 0; e.rest {
			r.Body = e
		}
		if e.rest {
			e.held.works(0, e.came)
		} else {
			e.works()
			e.lift()
		}
	}
	defer func() {
		e.begin(0)
		e.waits()
	}()
	x.handler.ServeHTTP(e, r)
}

// works says that the server works on an exchange, waits that it waits for the client to make
// room for the answer.
func (e *exchange) works() {
	if e.held != nil && !e.rest && !e.working {
		e.working = true
		e.held.works(1, 0)
	}
}

// lift ends the time for reading: net/http would cancel the context of a request that is worked on longer.
func (e *exchange) lift() {
	if e.request.ProtoMajor == 1 {
		_ = http.NewResponseController(e.ResponseWriter).SetReadDeadline(time.Time{})
	}
}

func (e *exchange) waits() {
	if e.working {
		e.working = false
		e.held.works(-1, age()+takes)
	}
}

// Read reads the body.
func (e *exchange) Read(p []byte) (int, error) {
	n, err := e.body.Read(p)
	switch {
	case err != nil: // the end, in general
		e.rest = false
		if errors.Is(err, io.EOF) {
			e.lift()
		}
		e.works()
	case n >= 512: // more than a drip
		e.held.works(0, age())
	}
	return n, err
}

func (e *exchange) Close() error { return e.body.Close() }

// begin is the beginning of an answer. If the body is not all there, the connection
// ends with the answer: else net/http would wait for the rest before it sends any. Status is
// 0 if the handler gave none.
func (e *exchange) begin(status int) {
	if e.status == 0 && status >= http.StatusOK { // before it others may be sent, of 1xx
		e.status = status
	}
	if e.begun {
		return
	}
	e.begun, e.request.Body = true, e.body // net/http looks at its own
	if !e.rest || e.request.ProtoMajor != 1 {
		return
	}
	control := http.NewResponseController(e.ResponseWriter)
	if _, ours := e.held.all.known.Load(e.held.conn); !ours { // a stream has taken it over
		return
	}
	if e.request.ContentLength > 0 && e.request.Header["Expect"] == nil { // else reading would ask for the body
		_ = control.SetReadDeadline(time.Unix(1, 0)) // what is there can be read all the same; of chunks, once
		if _, err := io.Copy(io.Discard, e.body); err == nil {
			e.rest = false
			e.works()
			return
		}
	}
	e.Header()["Connection"] = []string{"close"}
	_ = control.SetReadDeadline(time.Now().Add(lingers))
}

func (e *exchange) WriteHeader(status int) {
	e.begin(status)
	e.ResponseWriter.WriteHeader(status)
}

func (e *exchange) Write(p []byte) (int, error) {
	e.begin(http.StatusOK) // as net/http says for the handler
	if e.written += len(p); e.written > buffered {
		e.waits()
		defer e.works()
	}
	return e.ResponseWriter.Write(p)
}

// FlushError is called by http.ResponseController, as Unwrap is.
func (e *exchange) FlushError() error {
	e.begin(http.StatusOK)
	e.waits()
	defer e.works()
	return http.NewResponseController(e.ResponseWriter).Flush()
}

func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }
