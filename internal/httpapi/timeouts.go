package httpapi

import (
	"cmp"
	"net/http"
	"time"
)

// http.Server sets a deadline anew for each header, answer and pause of a connection, which is
// a fifteenth of what a small answer costs. For a server without
// TLS that has the handler it was made with, Connections keep them instead: they know since
// when a connection does what, and look at all of them several times in the shortest timeout.
// What is due ends at the next look. The header of a connection's first request has the timeout
// for reading, since the connection was made; that of a later one the timeout of a pause, since
// the answer before: a connection that is idle may wait as long.

// timeouts are those of an http.Server; 0: none.
type timeouts struct{ read, write, idle time.Duration }

// take takes them from a server that has no connection yet, as it means them.
func (t *timeouts) take(server *http.Server) {
	*t = timeouts{server.ReadTimeout, server.WriteTimeout, cmp.Or(server.IdleTimeout, server.ReadTimeout)}
	server.ReadTimeout, server.WriteTimeout, server.IdleTimeout = 0, 0, -1
}

// every is how often to look; 0: there is nothing to look for.
func (t *timeouts) every() (often time.Duration) {
	for _, d := range []time.Duration{t.read, t.write, t.idle} {
		if d > 0 && (often == 0 || d/4 < often) {
			often = d / 4
		}
	}
	return often
}

// passed is a deadline for what has taken too long.
var passed = time.Unix(1, 0)

// watch keeps the timeouts of all connections, as long as there are any.
func (c *Connections) watch() {
	c.mu.Lock()
	if c.watching = c.open > 0; c.watching {
		time.AfterFunc(c.every, c.watch)
	}
	c.mu.Unlock()
	now := age()
	c.known.Range(func(_, value any) bool {
		value.(*connection).enforce(now)
		return true
	})
}

// enforce ends what net/http or a handler has waited for too long, as a deadline of theirs
// would: it fails, net/http closes the connection, and a handler may say why.
func (held *connection) enforce(now time.Duration) {
	held.mu.Lock()
	defer held.mu.Unlock()
	late := func(since, limit time.Duration) bool { return limit > 0 && since <= now-limit }
	limits := &held.limits
	pause := limits.idle
	if held.fresh {
		pause = limits.read
	}
	switch {
	case held.several: // each request has deadlines of its own
	case !held.asked && late(held.idle, pause), held.asked && held.reads && late(held.came, limits.read):
		held.cut = true
		_ = held.conn.SetReadDeadline(passed)
	}
	if held.asked && !held.several && !held.bounded && late(held.came, limits.write) {
		held.cut = true
		_ = held.conn.SetWriteDeadline(passed)
	}
}

// limit keeps the timeouts of a request of HTTP/2, which shares its connection, of a server
// that serves without TLS as well: the timeouts of others are net/http's.
func (e *exchange) limit() {
	control, now := http.NewResponseController(e.ResponseWriter), time.Now()
	if read := e.held.limits.read; read > 0 {
		_ = control.SetReadDeadline(now.Add(read))
	}
	if write := e.held.limits.write; write > 0 {
		_ = control.SetWriteDeadline(now.Add(write))
	}
}

// SetReadDeadline and SetWriteDeadline are for http.ResponseController: a handler's own
// deadlines take the place of the server's.
func (e *exchange) SetReadDeadline(until time.Time) error {
	if e.held != nil {
		e.held.mu.Lock()
		e.held.reads = false
		e.held.mu.Unlock()
	}
	return http.NewResponseController(e.ResponseWriter).SetReadDeadline(until)
}

func (e *exchange) SetWriteDeadline(until time.Time) error {
	if e.held != nil {
		e.held.mu.Lock()
		e.held.bounded = true
		e.held.mu.Unlock()
	}
	return http.NewResponseController(e.ResponseWriter).SetWriteDeadline(until)
}
