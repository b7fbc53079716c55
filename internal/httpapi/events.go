package httpapi

import (
	"cmp"
	"io"
	"math/rand/v2"
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

// defaultStreams is how many event streams one server holds at a time.
const defaultStreams = 10_000

// EventsOptions are the settings of GET /v1/sales/{sale}/events. Zero values
// mean the defaults.
type EventsOptions struct {
	// Streams bounds the streams open at a time; default defaultStreams,
	// negative: none is allowed. A request beyond it gets 503 with Retry-After.
	Streams int

	// PerAddress bounds those of one client address (of IPv6: one /64; a /56 may have
	// twice as many, a /48 four times), as Options.Proxies determine it; default defaultPerAddress, negative: no such
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
	// Streamed is called with how long an event took from its making to a reader; it
	// must not block.
	Streamed func(took time.Duration)
}

func (o EventsOptions) withDefaults() EventsOptions {
	o.Streams = cmp.Or(o.Streams, defaultStreams)
	o.PerAddress = cmp.Or(o.PerAddress, defaultPerAddress)
	o.Look = cmp.Or(max(o.Look, 0), 100*time.Millisecond)
	o.Pace = cmp.Or(max(o.Pace, 0), 500*time.Millisecond)
	o.Heartbeat = cmp.Or(max(o.Heartbeat, 0), 15*time.Second)
	o.Patience = cmp.Or(max(o.Patience, 0), 5*time.Second)
	if o.Streamed == nil {
		o.Streamed = func(time.Duration) {}
	}
	return o
}

// fan hands what the board knows of a sale to all who listen. An event is
// encoded once, as one immutable value; a stream that is still busy with an
// older one skips what came between. Without listeners nothing runs.
//
// A stream waits for its reader, not for events: so it notices at once that the
// reader has left. The fan interrupts it when there is an event (outlet.wake).
type fan struct {
	EventsOptions
	board func(sluice.SaleID) *admission.View
	now   func() time.Time

	limits *streamLimits
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
	listeners []*stream
	body      *saleBody // of current
	at        time.Time // when current was made
}

// event is a state of a sale, as the stream has it. One without text is the last:
// the sale has been deleted, or hidden from buyers.
type event struct {
	text []byte
	at   time.Time
}

func newFan(o EventsOptions, board func(sluice.SaleID) *admission.View, now func() time.Time) *fan {
	o = o.withDefaults()
	return &fan{
		EventsOptions: o, board: board, now: now, limits: newStreamLimits(max(o.Streams, 0), o.PerAddress),
		closed: make(chan struct{}), topics: map[sluice.SaleID]*topic{},
	}
}

// close ends all streams, soon, and lets no more in. It is idempotent.
func (f *fan) close() {
	f.once.Do(func() {
		close(f.closed)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, t := range f.topics {
			t.wake()
		}
	})
}

func (f *fan) ended() bool {
	select {
	case <-f.closed:
		return true
	default:
		return false
	}
}

// enter takes a place, if there is one, and the connection's; leave gives the
// former back.
func (f *fan) enter(o admission.Network, held *connection) limit {
	if f.ended() {
		return limitTotal
	}
	return f.limits.enter(o, held)
}

func (f *fan) leave(o admission.Network, held *connection) {
	f.limits.leave(o)
	held.drop()
}

// join makes a stream a listener of its sale.
func (f *fan) join(st *stream, v *admission.View) {
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
	st.sale, st.topic, st.at = v.Sale.ID, t, len(t.listeners)
	t.listeners = append(t.listeners, st)
}

func (f *fan) part(st *stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := st.topic
	last := len(t.listeners) - 1
	t.listeners[st.at] = t.listeners[last]
	t.listeners[st.at].at = st.at
	t.listeners[last] = nil
	if t.listeners = t.listeners[:last]; last == 0 {
		delete(f.topics, st.sale)
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
		if view != nil {
			view.Watch()
		}
		if view == nil || view.Hidden() {
			if t.body != nil {
				t.body = nil
				t.current.Store(&event{})
				t.wake()
			}
			continue
		}
		body := view.Body.(*saleBody)
		if t.body != nil && (body == t.body || body.sale.State == t.body.sale.State && f.now().Sub(t.at) < f.Pace) {
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
	t.current.Store(&event{text, t.at})
	t.wake()
}

// wake has all listeners look for an event. The caller holds fan.mu.
func (t *topic) wake() {
	for _, st := range t.listeners {
		st.out.wake()
	}
}

var heartbeat = []byte(":\n\n")

// stream is one reader's. What it needs lies here and not in its goroutine,
// whose stack would otherwise be a page larger.
type stream struct {
	fan   *fan
	out   outlet
	from  admission.Network
	held  *connection
	sale  sluice.SaleID
	topic *topic
	at    int       // among the topic's listeners; guarded by fan.mu
	sent  *event    // last
	beat  time.Time // of the next heartbeat
}

// begin sends what comes before all events, and the current one with it. It
// reports whether the stream goes on; if not, the place is given back.
func (st *stream) begin(head []byte) bool {
	st.beat = time.Now().Add(st.fan.Heartbeat/2 + rand.N(st.fan.Heartbeat/2+1)) // not all at the same time
	st.sent = st.topic.current.Load()
	if st.out.send(append(head, st.sent.text...)) != nil || st.sent.text == nil {
		st.end()
		return false
	}
	return true
}

// serve is the life of a stream after begin: each newer event, and heartbeats in
// between. It gives the place back.
func (st *stream) serve() {
	defer st.end()
	for !st.fan.ended() {
		var text []byte
		e := st.topic.current.Load()
		fresh := e != st.sent
		if fresh {
			if st.sent, text = e, e.text; text == nil {
				return
			}
		} else if now := time.Now(); !now.Before(st.beat) {
			st.beat, text = now.Add(st.fan.Heartbeat), heartbeat
		}
		if text != nil && st.out.send(text) != nil {
			return
		}
		if fresh {
			st.fan.Streamed(st.fan.now().Sub(e.at))
		}
		st.out.arm(st.beat) // before the look: a wake in between is not lost
		if st.topic.current.Load() == st.sent && !st.fan.ended() && st.out.wait() != nil {
			return
		}
	}
}

func (st *stream) end() {
	st.fan.part(st)
	st.out.close()
	st.fan.leave(st.from, st.held)
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
	st := &stream{fan: s.events, from: admission.NetworkOf(address), held: connectionOf(r)}
	if full := s.events.enter(st.from, st.held); full != noLimit {
		s.noStream(w, full, address)
		return
	}
	joined := false // then end gives the place back
	defer func() {
		if !joined {
			s.events.leave(st.from, st.held)
		}
	}()
	var head []byte
	st.out, head = s.events.openOutlet(w, r, st.held)
	s.events.join(st, view)
	joined = true
	if !st.begin(head) {
		return
	}
	if _, ok := st.out.(*rawOutlet); ok {
		// All that net/http keeps for a request is freed when this returns.
		go st.serve()
		return
	}
	st.serve()
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
	s.writeProblem(w, api.Problem{
		Code:   sluice.Overloaded.String(),
		Detail: "no more event streams " + where + "; ask GET /v1/sales/{sale} now and then",
	})
}

// CloseStreams ends all event streams, soon, and lets no more in: connections
// that http.Server.Shutdown does not know of any more. It is idempotent.
func (s *Server) CloseStreams() {
	s.events.close()
	if console, ok := s.Console.(io.Closer); ok {
		_ = console.Close()
	}
}

// Streams is how many event streams are open.
func (s *Server) Streams() int64 { return s.events.limits.open() }
