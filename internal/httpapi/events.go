package httpapi

import (
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
)

// DefaultStreams is how many event streams one server holds at a time.
const DefaultStreams = 10_000

// EventsOptions are the settings of GET /v1/sales/{sale}/events. Zero values
// mean the defaults.
type EventsOptions struct {
	// Streams bounds the streams open at a time; default DefaultStreams,
	// negative: none is allowed. A request beyond it gets 503 with Retry-After.
	Streams int

	// PerAddress bounds those of one client address (of IPv6: one /64), as
	// Options.Proxies determine it; default DefaultPerAddress, negative: no such
	// limit. A request beyond it gets the same answer.
	PerAddress int

	// Look is how often the board is looked at, default 100 ms; Pace the least
	// time between two events of a sale whose state is the same, default 500 ms.
	Look, Pace time.Duration
	// Heartbeat is the longest silence on a stream, default 15 s: proxies keep
	// it open, and readers who are gone are noticed.
	Heartbeat time.Duration
	// Patience is how long a reader may take to make room for an event before
	// it is dropped; default 5 s.
	Patience time.Duration
}

func (o EventsOptions) withDefaults() EventsOptions {
	if o.Streams == 0 {
		o.Streams = DefaultStreams
	}
	if o.PerAddress == 0 {
		o.PerAddress = DefaultPerAddress
	}
	for _, d := range []struct {
		value  *time.Duration
		preset time.Duration
	}{
		{&o.Look, 100 * time.Millisecond},
		{&o.Pace, 500 * time.Millisecond},
		{&o.Heartbeat, 15 * time.Second},
		{&o.Patience, 5 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.preset
		}
	}
	return o
}

// fan hands what the board knows of a sale to all who listen. An event is
// encoded once, as one immutable value; a stream that is still busy with an
// older one skips what came between. Without listeners nothing runs.
type fan struct {
	EventsOptions
	board func(sluice.SaleID) *admission.View
	now   func() time.Time

	places *places
	closed chan struct{} // closed by close
	once   sync.Once
	warn   sync.Once // of an address that holds all that it may

	mu      sync.Mutex
	topics  map[sluice.SaleID]*topic // of sales with listeners
	running bool                     // run is
}

// topic is what listeners of one sale share.
type topic struct {
	current atomic.Pointer[event]

	// Guarded by fan.mu.
	listeners int
	body      *saleBody // of current
	at        time.Time // when current was made
}

// event is a state of a sale, as it stands on the stream.
type event struct {
	text []byte
	next chan struct{} // closed when there is a newer one
}

func newFan(o EventsOptions, board func(sluice.SaleID) *admission.View, now func() time.Time) *fan {
	o = o.withDefaults()
	return &fan{
		EventsOptions: o, board: board, now: now, places: newPlaces(max(o.Streams, 0), o.PerAddress),
		closed: make(chan struct{}), topics: map[sluice.SaleID]*topic{},
	}
}

// close ends all streams, soon, and lets no more in. It is idempotent.
func (f *fan) close() { f.once.Do(func() { close(f.closed) }) }

// enter takes a place, if there is one, and the connection's; places.leave gives the
// former back, and connection.leave the latter.
func (f *fan) enter(o admission.Origin, place *connection) limit {
	select {
	case <-f.closed:
		return limitTotal
	default:
		return f.places.enter(o, place)
	}
}

// join makes a stream a listener of a sale.
func (f *fan) join(v *admission.View) *topic {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topics[v.Sale.ID]
	if t == nil {
		t = &topic{}
		f.tell(t, v.Body.(*saleBody))
		if !f.running {
			f.running = true
			go f.run()
		}
		f.topics[v.Sale.ID] = t
	}
	t.listeners++
	return t
}

func (f *fan) part(sale sluice.SaleID, t *topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.listeners--; t.listeners == 0 {
		delete(f.topics, sale)
	}
}

// run looks for news as long as there are listeners.
func (f *fan) run() {
	tick := time.NewTicker(f.Look)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-f.closed:
			return
		}
		if !f.look() {
			return
		}
	}
}

// look sends listeners what is new. It reports whether there are any. A change
// of state is sent at once, one of numbers alone at the pace.
func (f *fan) look() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for sale, t := range f.topics {
		view := f.board(sale)
		if view == nil {
			continue
		}
		view.Watch()
		body := view.Body.(*saleBody)
		if body == t.body || body.sale.State == t.body.sale.State && f.now().Sub(t.at) < f.Pace {
			continue
		}
		f.tell(t, body)
	}
	f.running = len(f.topics) > 0
	return f.running
}

// tell makes an event the current one and wakes all listeners. The caller holds mu.
func (f *fan) tell(t *topic, body *saleBody) {
	text := make([]byte, 0, len(body.json)+8)
	text = append(text, "data: "...) // JSON has no line feeds
	text = append(text, body.json...)
	text = append(text, "\n\n"...)
	t.body, t.at = body, f.now()
	old := t.current.Swap(&event{text: text, next: make(chan struct{})})
	if old != nil {
		close(old.next)
	}
}

// outlet is where a stream's bytes go. An error is the end.
type outlet interface {
	send(text []byte) error
	gone() <-chan struct{} // closed when the reader has left; nil if only send notices
	close()
}

var heartbeat = []byte(":\n\n")

// stream is one reader's. What it needs lies here and not in its goroutine,
// whose stack would otherwise be a page larger.
type stream struct {
	fan   *fan
	out   outlet
	from  admission.Origin
	sale  sluice.SaleID
	topic *topic
	beat  *time.Timer
}

// serve is the life of a stream: the current event, each newer one, and
// heartbeats in between. It gives the place back.
func (st *stream) serve() {
	defer st.end()
	// Not all at the same time.
	st.beat = time.NewTimer(st.fan.Heartbeat/2 + rand.N(st.fan.Heartbeat/2+1))
	for {
		e := st.topic.current.Load()
		if st.out.send(e.text) != nil {
			return
		}
		for fresh := false; !fresh; {
			select {
			case <-e.next:
				fresh = true
			case <-st.beat.C:
				if st.out.send(heartbeat) != nil {
					return
				}
				st.beat.Reset(st.fan.Heartbeat)
			case <-st.out.gone():
				return
			case <-st.fan.closed:
				return
			}
		}
	}
}

func (st *stream) end() {
	st.beat.Stop()
	st.out.close()
	st.fan.part(st.sale, st.topic)
	st.fan.places.leave(st.from)
}

var (
	streamType    = []string{"text/event-stream"}
	streamCaching = []string{"no-store"}
	noBuffering   = []string{"no"}
)

// saleEvents streams a sale's state and availability: the body of GET
// /v1/sales/{sale} whenever it changes. Last-Event-ID needs no answer: a stream
// starts with what holds now.
func (s *Server) saleEvents(w http.ResponseWriter, r *http.Request) {
	view, err := s.view(r)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	s.stream(w, r, view)
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, view *admission.View) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"], h["X-Accel-Buffering"] = streamType, streamCaching, noBuffering
	if r.Method == http.MethodHead {
		return
	}
	address := s.Proxies.client(r)
	from := admission.OriginOf(address)
	place := connectionOf(r)
	if r.ProtoMajor > 1 {
		place = nil // streams share the connection
	}
	if full := s.events.enter(from, place); full != noLimit {
		s.noStream(w, full, address)
		return
	}
	served := false // then serve gives the place back
	defer func() {
		if !served {
			s.events.places.leave(from)
		}
	}()
	out, err := s.events.openOutlet(w, r, place)
	if err != nil { // the reader has left
		return
	}
	l := &stream{fan: s.events, out: out, from: from, sale: view.Sale.ID, topic: s.events.join(view)}
	served = true
	if _, ok := out.(*rawOutlet); ok {
		// All that net/http keeps for a request is freed when this returns.
		go l.serve()
		return
	}
	l.serve()
}

// noStream answers a reader for whom there is no place.
func (s *Server) noStream(w http.ResponseWriter, full limit, address netip.Addr) {
	h := w.Header()
	delete(h, "X-Accel-Buffering")
	h["Retry-After"] = []string{strconv.Itoa(5 + rand.IntN(11))} // not all at the same time
	where := "on this server"
	if full == limitAddress {
		where = "for this address on this server"
		s.events.warn.Do(func() {
			s.Log.Warn("an address holds as many event streams as one may, and this is said once; if it is a proxy of yours, "+
				"name it in trusted_proxies",
				"address", addressText(address), "events_per_address", s.events.PerAddress)
		})
	}
	writeProblem(w, api.Problem{
		Code:   sluice.Overloaded.String(),
		Detail: "no more event streams " + where + "; ask GET /v1/sales/{sale} now and then",
	})
}

// CloseStreams ends all event streams, soon, and lets no more in: connections
// that http.Server.Shutdown does not know of any more. It is idempotent.
func (s *Server) CloseStreams() { s.events.close() }

// Streams is how many event streams are open.
func (s *Server) Streams() int64 { return s.events.places.open() }

// socketBuffer bounds what the system keeps for a reader who does not read, in
// bytes.
const socketBuffer = 16 << 10

// openOutlet answers the head of a stream. With HTTP/1 the connection is taken
// over: net/http's buffers and goroutines would be most of what a stream costs.
func (f *fan) openOutlet(w http.ResponseWriter, r *http.Request, place *connection) (outlet, error) {
	// Readers come back at different times, should all be thrown out at once.
	first := "retry: " + strconv.Itoa(1000+rand.IntN(2000)) + "\n\n"
	control := http.NewResponseController(w)
	if r.ProtoMajor == 1 {
		conn, _, err := control.Hijack()
		if err == nil {
			if c, ok := bottom(conn).(interface{ SetWriteBuffer(n int) error }); ok {
				_ = c.SetWriteBuffer(socketBuffer) // helps, where it can
			}
			limitSilence(bottom(conn)) // under any server; NewServer has done it
			out := &rawOutlet{conn: conn, place: place, patience: f.Patience}
			if err = out.send(streamHead(w.Header(), first, f.now())); err != nil {
				out.close()
			}
			return out, err
		}
	}
	out := &httpOutlet{w: w, control: control, left: r.Context().Done(), patience: f.Patience}
	_ = control.SetReadDeadline(time.Time{}) // where it can: the request has been read
	return out, out.send([]byte(first))
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
	h["Connection"] = []string{"close"}
	h["Date"] = []string{now.UTC().Format(http.TimeFormat)}
	text := []byte("HTTP/1.1 200 OK\r\n")
	for name, values := range h {
		for _, value := range values {
			text = append(text, name+": "+value+"\r\n"...)
		}
	}
	return append(text, "\r\n"+first...)
}

// rawOutlet is a connection that net/http has handed over.
type rawOutlet struct {
	conn     net.Conn
	place    *connection // among all connections; nil: they are not limited
	patience time.Duration
}

func (o *rawOutlet) send(text []byte) error {
	if err := o.conn.SetWriteDeadline(time.Now().Add(o.patience)); err != nil {
		return err
	}
	_, err := o.conn.Write(text)
	return err
}

func (o *rawOutlet) gone() <-chan struct{} { return nil }
func (o *rawOutlet) close() {
	_ = o.conn.Close()
	o.place.leave()
}

// httpOutlet is a stream of HTTP/2, or a ResponseWriter that cannot be taken over.
type httpOutlet struct {
	w        http.ResponseWriter
	control  *http.ResponseController
	left     <-chan struct{}
	patience time.Duration
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

func (o *httpOutlet) gone() <-chan struct{} { return o.left }
func (o *httpOutlet) close()                {}
