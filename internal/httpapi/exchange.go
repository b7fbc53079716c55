package httpapi

import (
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

// works adds to the requests on a connection that the server works on. With none the
// connection is idle, after a while.
func (held *connection) works(n int, while time.Duration) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.working += n; held.working > 0 {
		held.idle = notIdle
	} else {
		held.idle = held.all.age() + while
	}
}

// exchange is a request and its answer. The server works on it, but for the times in
// which it waits for the client: to send the whole body, and to make room for the
// answer. It is for one goroutine.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	body    io.ReadCloser // of the request
	held    *connection
	rest    bool // of the body, is not read yet
	working bool
	begun   bool // the answer
	written int  // bytes of it
}

// exchanges keeps which connections are idle while requests are answered. The server does so
// for whatever it serves, and the API for its own requests: a program that embeds Sluice may
// give the server another handler.
func exchanges(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := connectionOf(r)
		if _, counted := w.(*exchange); counted || held == nil {
			handler.ServeHTTP(w, r)
			return
		}
		e := &exchange{ResponseWriter: w, request: r, body: r.Body, held: held, rest: r.ContentLength != 0}
		if e.rest {
			held.works(0, 0)
			r.Body = e
		}
		e.works(true)
		defer func() {
			e.begin()
			e.works(false)
		}()
		handler.ServeHTTP(e, r)
	})
}

// works says whether the server works on an exchange.
func (e *exchange) works(working bool) {
	if e.rest || e.working == working {
		return
	}
	if e.working = working; working {
		e.held.works(1, 0)
	} else {
		e.held.works(-1, takes)
	}
}

// Read reads the body.
func (e *exchange) Read(p []byte) (int, error) {
	n, err := e.body.Read(p)
	switch {
	case err != nil: // the end, in general
		e.rest = false
		e.works(true)
	case n >= 512: // more than a drip
		e.held.works(0, 0)
	}
	return n, err
}

func (e *exchange) Close() error { return e.body.Close() }

// begin is the beginning of an answer. If the body is not all there, the connection
// ends with the answer: else net/http would wait for the rest before it sends any.
func (e *exchange) begin() {
	if e.begun {
		return
	}
	e.begun, e.request.Body = true, e.body // net/http looks at its own
	if !e.rest || e.request.ProtoMajor != 1 {
		return
	}
	if _, ours := e.held.all.known.Load(e.held.conn); !ours { // a stream has taken it over
		return
	}
	control := http.NewResponseController(e.ResponseWriter)
	if e.request.ContentLength > 0 && e.request.Header["Expect"] == nil { // else reading would ask for the body
		_ = control.SetReadDeadline(time.Unix(1, 0)) // what is there can be read all the same; of chunks, once
		if _, err := io.Copy(io.Discard, e.body); err == nil {
			return
		}
	}
	e.Header()["Connection"] = []string{"close"}
	_ = control.SetReadDeadline(time.Now().Add(lingers))
}

func (e *exchange) WriteHeader(status int) {
	e.begin()
	e.ResponseWriter.WriteHeader(status)
}

func (e *exchange) Write(p []byte) (int, error) {
	e.begin()
	if e.written += len(p); e.written > buffered {
		e.works(false)
		defer e.works(true)
	}
	return e.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController, as Unwrap is.
func (e *exchange) FlushError() error {
	e.begin()
	e.works(false)
	defer e.works(true)
	return http.NewResponseController(e.ResponseWriter).Flush()
}

func (e *exchange) Unwrap() http.ResponseWriter { return e.ResponseWriter }
