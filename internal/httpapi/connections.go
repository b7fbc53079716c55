package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice/internal/admission"
)

// Connections bounds the connections of a listener, so that descriptors are left
// for the databases and for other clients. As long as there are enough, no client
// notices. When free ones are scarce (less than an eighth), an address may hold at most as
// many as are free (of IPv6: a /64; a /56 twice, a /48 four times as many), so with n greedy
// addresses about one part of n+1 stays free for others; and those that have been idle
// longest are closed. When next to none is free (a sixteenth) they are closed at once,
// however short they have been idle, so that many addresses with a connection each
// keep no client out. Idle is a connection
// that keeps the server waiting: for its next request, for the whole of a header or
// body, or for room to send an answer. Trusted proxies carry many clients and are
// bound by the limit in all alone. Connections with event streams, which have no end,
// may be half of all: the other half is for orders. It is safe for concurrent use.
type Connections struct {
	most    int
	proxies Proxies
	log     *slog.Logger
	known   sync.Map // net.Conn -> *connection, while net/http has it

	mu       sync.Mutex // guards all below
	open     int
	streams  int           // of them, with event streams
	from     networkCounts // but for trusted proxies
	scarce   bool          // a timer runs while it is
	counts   ConnectionCounts
	patience time.Duration // how long a connection may be idle while they are scarce
	busy     time.Duration // until when there is no use in looking for idle ones, as age
}

// ConnectionCounts are what has happened to connections.
type ConnectionCounts struct {
	Total, Address int64 // refused by the limit in all, and for an address
	Idle           int64 // closed early, since connections were scarce
	Errors         int64 // that the system could not accept
}

// shortIdle is how long a connection may be idle while they are scarce. It is
// longer than a handshake over a bad line takes.
const shortIdle = 3 * time.Second

// connection is one that is open.
type connection struct {
	all    *Connections
	conn   net.Conn
	from   admission.Network
	exempt bool // of a trusted proxy
	left   atomic.Bool

	mu      sync.Mutex    // guards all below but streams
	asked   bool          // since it was last free of requests
	working int           // requests on it that the server works on
	idle    time.Duration // since when, as age; notIdle: it is not

	streams int // on it; of HTTP/1 one takes it over, and gives its place back. Guarded by all.mu
}

// NewConnections returns a limit of most connections.
func NewConnections(most int, proxies Proxies, log *slog.Logger) *Connections {
	return &Connections{
		most: most, proxies: proxies, log: log, from: networkCounts{}, patience: shortIdle,
	}
}

// Counts returns how many connections are open, and what has happened so far.
func (c *Connections) Counts() (open int, counts ConnectionCounts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open, c.counts
}

// MostConnections returns how many connections a listener for the public may have,
// and one for the merchant beside it: what the system lets the process have open
// (ulimit -n) without the descriptors that are kept for databases and files.
func MostConnections() (public, admin int) {
	all := descriptors()
	if all == 0 {
		all = 1 << 16
	}
	kept := min(128+all/16, all*3/4)
	return all - kept, kept / 4
}

type connectionKey struct{}

// connectionOf is the connection of a request, nil if it is not limited.
func connectionOf(r *http.Request) *connection {
	held, _ := r.Context().Value(connectionKey{}).(*connection)
	return held
}

// context counts a connection that was accepted, or closes it. It is for http.Server.ConnContext.
func (c *Connections) context(ctx context.Context, conn net.Conn) context.Context {
	address := peer(conn.RemoteAddr().String())
	held := &connection{
		all: c, conn: conn, from: admission.NetworkOf(address), exempt: c.proxies.trusts(address), idle: age(),
	}
	c.makeRoom()
	c.known.Store(conn, held)
	if !c.enter(held) {
		if tcp, ok := bottom(conn).(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // the system keeps nothing of it
		}
		_ = conn.Close() // net/http finds it closed, and reports that
	}
	return context.WithValue(ctx, connectionKey{}, held)
}

// enter counts a connection if there is room for it, and reports whether there is.
func (c *Connections) enter(held *connection) (room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := c.most - c.open
	if free < c.most/8 && !c.scarce {
		c.scarce = true
		c.log.Warn("connections are scarce: idle ones are closed, and an address may hold as many as are free; if it is a "+
			"proxy of yours, name it in trusted_proxies",
			"open", c.open, "most", c.most, "of_this_address", c.from[held.from], "address",
			addressText(peer(held.conn.RemoteAddr().String())))
		time.AfterFunc(c.patience, c.relieve)
	}
	switch {
	case free <= 0:
		c.counts.Total++
	case c.scarce && !held.exempt && c.from.full(held.from, free):
		c.counts.Address++
	default:
		if c.open++; !held.exempt {
			c.from.add(held.from, 1)
		}
		return true
	}
	held.left.Store(true) // it has no place to give back
	return false
}

// keep counts an event stream on a connection, until drop or leave. It reports false,
// and counts nothing, if connections with streams are as many as may be.
func (held *connection) keep() bool {
	if held == nil {
		return true
	}
	c := held.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if held.streams == 0 {
		if c.streams >= c.most/2 {
			return false
		}
		c.streams++
	}
	held.streams++
	return true
}

// drop is the end of an event stream.
func (held *connection) drop() {
	if held == nil {
		return
	}
	c := held.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if held.streams == 0 {
		return // the connection has left
	}
	if held.streams--; held.streams == 0 {
		c.streams--
	}
}

// leave gives a connection's place back, once.
func (held *connection) leave() {
	if held == nil || held.left.Swap(true) {
		return
	}
	c := held.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if held.streams > 0 {
		c.streams--
		held.streams = 0
	}
	if c.open--; held.exempt {
		return
	}
	c.from.add(held.from, -1)
}

// streaming reports whether an event stream has the connection.
func (held *connection) streaming() bool {
	held.all.mu.Lock()
	defer held.all.mu.Unlock()
	return held.streams > 0
}

// since says from when on a connection is idle, and whether it has requests.
func (held *connection) since(idle time.Duration, asked bool) {
	held.mu.Lock()
	defer held.mu.Unlock()
	held.idle, held.asked = idle, asked
}

// changed keeps what a connection does. It is for http.Server.ConnState.
func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	known, ok := c.known.Load(conn)
	if !ok {
		return
	}
	held := known.(*connection)
	switch state {
	case http.StateNew: // as it was counted
	case http.StateActive: // the header of a request is complete
		held.since(notIdle, true)
	case http.StateIdle: // with HTTP/2 the client may have given a request up that is worked on
		held.since(age(), false)
	case http.StateHijacked:
		c.known.Delete(conn)
		if !held.streaming() { // a handler beside the API: nothing says when it is done
			held.leave()
		}
	case http.StateClosed:
		c.known.Delete(conn)
		held.leave()
	}
}

// relieve closes connections that have been idle for long, until there are enough
// again; and comes back while there are not.
func (c *Connections) relieve() {
	c.mu.Lock()
	want := c.most/8 - (c.most - c.open)
	if want <= 0 {
		c.scarce = false
		c.log.Info("connections are no longer scarce", "open", c.open, "most", c.most)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.shed(want, age()-c.patience)
	time.AfterFunc(time.Second, c.relieve)
}

// makeRoom closes idle connections when next to none is free. A look at all of them
// makes room for many; one that finds too few is not soon repeated.
func (c *Connections) makeRoom() {
	c.mu.Lock()
	free, now := c.most-c.open, age()
	if free > c.most/16 || now < c.busy {
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	if want := max(c.most/8-free, 1); c.shed(want, now) < want {
		c.mu.Lock()
		c.busy = now + 16*(age()-now)
		c.mu.Unlock()
	}
}

// shed closes connections that have been idle since before, those first that have
// been longest, and returns how many: want at most. Their places are free at once.
func (c *Connections) shed(want int, before time.Duration) int {
	type candidate struct {
		held *connection
		idle time.Duration
	}
	var all []candidate
	c.known.Range(func(_, value any) bool {
		held := value.(*connection)
		held.mu.Lock()
		idle := held.idle
		held.mu.Unlock()
		if idle <= before && !held.exempt && !held.left.Load() {
			all = append(all, candidate{held, idle})
		}
		return true
	})
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.idle, b.idle) })
	closed := 0
	for _, one := range all {
		if closed == want {
			break
		}
		if one.held.closeIf(one.idle) {
			closed++
		}
	}
	c.mu.Lock()
	c.counts.Idle += int64(closed)
	c.mu.Unlock()
	return closed
}

// closeIf closes a connection and gives its place back, unless it has done something
// since it was idle.
func (held *connection) closeIf(idle time.Duration) bool {
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.idle != idle {
		return false
	}
	held.idle = notIdle
	socket := bottom(held.conn)
	if tcp, ok := socket.(*net.TCPConn); ok && held.asked {
		_ = tcp.SetLinger(0) // the system keeps no answer that is not taken
	}
	_ = socket.Close()
	held.leave()
	return true
}

// drainAfter is how long a connection may keep a server waiting that shuts down.
const drainAfter = 500 * time.Millisecond

// drain closes what has kept the server waiting, for the rest of a request or for room to
// send an answer, until no connection is left: http.Server.Shutdown would wait for each of
// them, as long as a client wants. It is for http.Server.RegisterOnShutdown.
func (c *Connections) drain() {
	for begun := age(); age()-begun < time.Minute; time.Sleep(drainAfter / 4) {
		left := false
		c.known.Range(func(_, value any) bool {
			left = true
			held := value.(*connection)
			held.mu.Lock()
			idle := held.idle
			held.mu.Unlock()
			if idle <= age()-drainAfter {
				held.closeIf(idle)
			}
			return true
		})
		if !left {
			return
		}
	}
}

// Write takes a line of net/http's own log: what could not be accepted is worth a
// warning and is counted, the rest is about single clients.
func (c *Connections) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if !strings.Contains(text, "Accept error") {
		c.log.Debug(text)
		return len(line), nil
	}
	c.mu.Lock()
	c.counts.Errors++
	open := c.open
	c.mu.Unlock()
	c.log.Warn("connections cannot be accepted", "error", text, "open", open, "most", c.most)
	return len(line), nil
}
