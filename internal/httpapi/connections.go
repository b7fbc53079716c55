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
// many as are free, so with n greedy addresses about one part of n+1 stays free for
// others; and those that have been idle longest are closed. Trusted proxies carry
// many clients and are bound by the limit in all alone. Event streams, which have no
// end, may take over half of all connections: the other half is for orders. It is
// safe for concurrent use.
type Connections struct {
	most    int
	proxies Proxies
	log     *slog.Logger
	known   sync.Map // net.Conn -> *connection, while net/http has it

	mu       sync.Mutex // guards all below
	open     int
	streams  int                      // of them, taken over by event streams
	from     map[admission.Origin]int // how many of them, but for trusted proxies
	scarce   bool                     // a timer runs while it is
	counts   ConnectionCounts
	patience time.Duration // how long a connection may be idle while they are scarce
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
	from   admission.Origin
	exempt bool         // of a trusted proxy
	idle   atomic.Int64 // since when, in ns of Unix time; 0: it is used
	stream atomic.Bool  // an event stream takes it over, and gives the place back when it ends
	left   atomic.Bool
}

// NewConnections returns a limit of most connections.
func NewConnections(most int, proxies Proxies, log *slog.Logger) *Connections {
	return &Connections{most: most, proxies: proxies, log: log, from: map[admission.Origin]int{}, patience: shortIdle}
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

// context counts a connection that was accepted, or closes it. It is for
// http.Server.ConnContext.
func (c *Connections) context(ctx context.Context, conn net.Conn) context.Context {
	address := peer(conn.RemoteAddr().String())
	held := &connection{all: c, conn: conn, from: admission.OriginOf(address), exempt: c.proxies.trusts(address)}
	held.idle.Store(time.Now().UnixNano())
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
	case c.scarce && !held.exempt && c.from[held.from] >= free:
		c.counts.Address++
	default:
		if c.open++; !held.exempt {
			c.from[held.from]++
		}
		return true
	}
	held.left.Store(true) // it has no place to give back
	return false
}

// keep leaves the place to an event stream, which takes the connection over, until
// leave. It reports false, and keeps nothing, if the streams have their share.
func (held *connection) keep() bool {
	if held == nil {
		return true
	}
	c := held.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if held.stream.Load() {
		return true // it could not be taken over before
	}
	if c.streams >= c.most/2 {
		return false
	}
	c.streams++
	held.stream.Store(true)
	return true
}

// leave gives a connection's place back, once.
func (held *connection) leave() {
	if held == nil || held.left.Swap(true) {
		return
	}
	c := held.all
	c.mu.Lock()
	defer c.mu.Unlock()
	if held.stream.Load() {
		c.streams--
	}
	if c.open--; held.exempt {
		return
	}
	if c.from[held.from]--; c.from[held.from] <= 0 {
		delete(c.from, held.from)
	}
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
	case http.StateActive:
		held.idle.Store(0)
	case http.StateIdle:
		held.idle.Store(time.Now().UnixNano())
	case http.StateHijacked:
		c.known.Delete(conn)
		if !held.stream.Load() { // a handler beside the API: nothing says when it is done
			held.leave()
		}
	case http.StateClosed:
		c.known.Delete(conn)
		held.leave()
	}
}

// relieve closes connections that are idle, those first that have been longest,
// until there are enough again; and comes back while there are not.
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

	type candidate struct {
		held  *connection
		since int64
	}
	var idle []candidate
	before := time.Now().Add(-c.patience).UnixNano()
	c.known.Range(func(_, value any) bool {
		held := value.(*connection)
		if since := held.idle.Load(); since != 0 && since <= before && !held.exempt {
			idle = append(idle, candidate{held, since})
		}
		return true
	})
	slices.SortFunc(idle, func(a, b candidate) int { return cmp.Compare(a.since, b.since) })
	idle = idle[:min(want, len(idle))]
	for _, i := range idle {
		_ = bottom(i.held.conn).Close()
	}
	c.mu.Lock()
	c.counts.Idle += int64(len(idle))
	c.mu.Unlock()
	time.AfterFunc(time.Second, c.relieve)
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
