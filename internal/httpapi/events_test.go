package httpapi

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
)

// soon is how long a test waits for what will happen; generous, since machines
// are busy.
const soon = 30 * time.Second

// stage is a server whose board the test writes itself.
type stage struct {
	*Server
	views atomic.Pointer[map[sluice.SaleID]*admission.View]
	http  *httptest.Server
}

// newStage starts a server with generous timeouts, unless told otherwise.
func newStage(t *testing.T, o EventsOptions, secure bool, timeouts ...time.Duration) *stage {
	t.Helper()
	timeout := soon
	if len(timeouts) > 0 {
		timeout = timeouts[0]
	}
	st := &stage{Server: New(Options{Board: admission.NewBoard(nil, nil, admission.BoardOptions{})})}
	st.events = newFan(o, func(id sluice.SaleID) *admission.View { return (*st.views.Load())[id] }, time.Now)
	st.set(10, sluice.StateOpen)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/sales/{sale}/events", func(w http.ResponseWriter, r *http.Request) {
		st.stream(w, r, (*st.views.Load())["phone"])
	})
	st.http = httptest.NewUnstartedServer(mux)
	st.http.Config.WriteTimeout = timeout // no stream must mind
	st.http.Config.ReadTimeout = timeout
	st.http.Config.RegisterOnShutdown(st.CloseStreams)
	if secure {
		st.http.EnableHTTP2 = true
		st.http.StartTLS()
	} else {
		st.http.Start()
	}
	t.Cleanup(func() {
		st.CloseStreams()
		st.http.Close()
	})
	return st
}

// set changes the board.
func (st *stage) set(available int64, state sluice.State) {
	sale := api.Sale{ID: "phone", Available: &available, State: state}
	text, err := json.Marshal(sale)
	if err != nil {
		panic(err)
	}
	view := &admission.View{Sale: sluice.Sale{ID: "phone"}, Body: &saleBody{sale: sale, json: text}}
	st.views.Store(&map[sluice.SaleID]*admission.View{"phone": view})
}

func (st *stage) url() string { return st.http.URL + "/v1/sales/phone/events" }

// listener is one reader of a stream.
type listener struct {
	t      *testing.T
	answer *http.Response
	lines  *bufio.Reader
}

func (st *stage) listen(t *testing.T, headers ...string) *listener {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	t.Cleanup(cancel)
	request := must.Get(http.NewRequestWithContext(ctx, "GET", st.url(), nil))(t)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	answer := must.Get(st.http.Client().Do(request))(t)
	t.Cleanup(func() { answer.Body.Close() })
	return &listener{t: t, answer: answer, lines: bufio.NewReader(answer.Body)}
}

// next returns the next block of the stream, without its empty line.
func (l *listener) next() (string, error) {
	block := ""
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return block, err
		}
		if line == "\n" {
			return block, nil
		}
		block += line
	}
}

// until reads on to the state and number given.
func (l *listener) until(available int64, state sluice.State) {
	l.t.Helper()
	for {
		block, err := l.next()
		if err != nil {
			l.t.Fatalf("the stream ended before %d %s: %v", available, state, err)
		}
		text, found := strings.CutPrefix(block, "data: ")
		if !found {
			continue
		}
		var sale api.Sale
		if err := json.Unmarshal([]byte(text), &sale); err != nil {
			l.t.Fatalf("event %q: %v", text, err)
		}
		if *sale.Available == available && sale.State == state {
			return
		}
	}
}

// quick makes tests quick; no test depends on how quick.
var quick = EventsOptions{Look: time.Millisecond, Pace: time.Millisecond}

// The server's write timeout, and the patience, are over long before the test
// goes on.
func TestEventStreamOutlivesTimeouts(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		o := quick
		o.Patience = time.Second
		st := newStage(t, o, secure, o.Patience)
		l := st.listen(t)
		l.until(10, sluice.StateOpen)
		<-time.After(2 * o.Patience)
		st.set(9, sluice.StateOpen)
		l.until(9, sluice.StateOpen)
	}
}

// An event that a reader was given is measured; what a stream begins with is not.
func TestStreamLagIsMeasured(t *testing.T) {
	o := quick
	streamed := make(chan time.Duration, 10)
	o.Streamed = func(took time.Duration) { streamed <- took }
	st := newStage(t, o, false)
	l := st.listen(t)
	l.until(10, sluice.StateOpen)
	st.set(9, sluice.StateOpen)
	l.until(9, sluice.StateOpen)
	if took := <-streamed; took < 0 || took > soon || len(streamed) > 0 {
		t.Errorf("%v, and %d more", took, len(streamed))
	}
}

func TestEventStream(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1", true: "HTTP/2"}[secure], func(t *testing.T) {
			st := newStage(t, quick, secure)
			l := st.listen(t, "Last-Event-ID: nonsense")
			if want := map[bool]int{false: 1, true: 2}[secure]; l.answer.ProtoMajor != want {
				t.Fatalf("HTTP/%d, want %d", l.answer.ProtoMajor, want)
			}
			for name, want := range map[string]string{
				"Content-Type": "text/event-stream", "Cache-Control": "no-store",
				"X-Accel-Buffering": "no",
			} {
				if got := l.answer.Header.Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if l.answer.StatusCode != 200 || l.answer.Header.Get("Date") == "" || l.answer.ContentLength != -1 {
				t.Errorf("answer: %v", l.answer)
			}
			if first, err := l.next(); err != nil || !strings.HasPrefix(first, "retry: ") {
				t.Errorf("the first block is %q, %v; want retry", first, err)
			}
			l.until(10, sluice.StateOpen)
			st.set(9, sluice.StateOpen)
			l.until(9, sluice.StateOpen)
			st.set(0, sluice.StateSoldOut)
			l.until(0, sluice.StateSoldOut)
			if n := st.Streams(); n != 1 {
				t.Errorf("%d streams are open, want 1", n)
			}
		})
	}
}

// Shutdown ends streams at once, and no more come in.
func TestEventStreamsEndAtShutdown(t *testing.T) {
	for _, secure := range []bool{false, true} {
		st := newStage(t, quick, secure)
		l := st.listen(t)
		l.until(10, sluice.StateOpen)
		if err := st.http.Config.Shutdown(t.Context()); err != nil { // waits for streams of HTTP/2
			t.Fatal(err)
		}
		for {
			if _, err := l.next(); err != nil {
				break
			}
		}
		await(t, "no stream is left", func() bool { return st.Streams() == 0 })
		if st.events.enter(admission.Network{}, nil) == noLimit {
			t.Error("a stream was let in after shutdown")
		}
	}
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// Beyond the limit: 503 with Retry-After; a place that is left can be had again.
func TestEventStreamLimit(t *testing.T) {
	o := quick
	o.Streams, o.Heartbeat = 2, 5*time.Millisecond
	st := newStage(t, o, false)
	first, second := st.listen(t), st.listen(t)
	first.until(10, sluice.StateOpen)
	second.until(10, sluice.StateOpen)
	refused := st.listen(t)
	body, _ := io.ReadAll(refused.answer.Body)
	if refused.answer.StatusCode != 503 || !strings.Contains(string(body), `"code":"overloaded"`) ||
		refused.answer.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("the third of two: %d %s", refused.answer.StatusCode, body)
	}
	var seconds int
	if _, err := fmt.Sscan(refused.answer.Header.Get("Retry-After"), &seconds); err != nil || seconds < 5 || seconds > 15 {
		t.Errorf("Retry-After %q, want 5 to 15", refused.answer.Header.Get("Retry-After"))
	}
	first.answer.Body.Close() // heartbeats find out
	await(t, "a place is free", func() bool { return st.Streams() == 1 })
	st.listen(t).until(10, sluice.StateOpen)
	await(t, "two streams are open again", func() bool { return st.Streams() == 2 })

	none := newStage(t, EventsOptions{Streams: -1}, false)
	if l := none.listen(t); l.answer.StatusCode != 503 {
		t.Errorf("streams are forbidden, and the answer is %d", l.answer.StatusCode)
	}
}

func TestEventStreamHeartbeat(t *testing.T) {
	o := quick
	o.Heartbeat = 2 * time.Millisecond
	st := newStage(t, o, false)
	l := st.listen(t)
	for beats := 0; beats < 3; {
		block := must.Get(l.next())(t)
		if block == ":\n" {
			beats++
		}
	}
}

// A reader who does not read is dropped; the others do not notice.
func TestEventStreamDropsSlowReaders(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		o := quick
		o.Patience, o.PerAddress = time.Second, 2
		st := newStage(t, o, secure)
		var d net.Dialer
		conn := must.Get(d.DialContext(t.Context(), "tcp", st.http.Listener.Addr().String()))(t)
		defer conn.Close()
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		if secure { // HTTP/1 over TLS
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		}
		must.Get(io.WriteString(conn, "GET /v1/sales/phone/events HTTP/1.1\r\nHost: shop.example\r\n\r\n"))(t)
		await(t, "the slow reader is in", func() bool { return st.Streams() == 1 })
		reader := st.listen(t)
		reader.until(10, sluice.StateOpen)
		n := int64(1000)
		await(t, "the slow reader is out", func() bool {
			n++
			st.set(n, sluice.StateOpen)
			reader.until(n, sluice.StateOpen) // so each event is sent
			return st.Streams() == 1
		})
		// Its place is free, once.
		st.listen(t).until(n, sluice.StateOpen)
		if third := st.listen(t); third.answer.StatusCode != 503 {
			t.Errorf("the third of two after one was dropped: %d", third.answer.StatusCode)
		}
	}
}

// An availability that changes all the time is sent at the pace, a new state
// at once; what comes between is skipped.
func TestEventPace(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	st := &stage{Server: New(Options{Board: admission.NewBoard(nil, nil, admission.BoardOptions{})})}
	f := newFan(EventsOptions{Pace: time.Second}, func(id sluice.SaleID) *admission.View {
		return (*st.views.Load())[id]
	}, func() time.Time { return now })
	st.set(10, sluice.StateOpen)
	f.running = true // the test looks itself
	reader := &stream{fan: f, out: &httpOutlet{woken: make(chan struct{}, 1)}}
	f.join(reader, (*st.views.Load())["phone"])
	topic := reader.topic
	step := func(available int64, state sluice.State, later time.Duration, told bool) {
		t.Helper()
		before := topic.current.Load()
		now = now.Add(later)
		st.set(available, state)
		f.look()
		after := topic.current.Load()
		if (after != before) != told {
			t.Errorf("%d %s: told %v, want %v", available, state, after != before, told)
		}
		if told && !strings.Contains(string(after.text), fmt.Sprintf(`"available":%d,`, available)) {
			t.Errorf("told %q, want %d", after.text, available)
		}
	}
	step(9, sluice.StateOpen, 500*time.Millisecond, false)
	step(8, sluice.StateOpen, 500*time.Millisecond, true)
	step(7, sluice.StateOpen, 999*time.Millisecond, false)
	step(0, sluice.StateSoldOut, 0, true)
	step(1, sluice.StateOpen, 0, true)
	same := *st.views.Load()
	now = now.Add(time.Hour)
	before := topic.current.Load()
	if f.look(); !st.views.CompareAndSwap(st.views.Load(), &same) || topic.current.Load() != before {
		t.Error("nothing has changed, and an event was sent")
	}
	f.part(reader)
	if f.look() || f.running {
		t.Error("no listeners, and it goes on looking")
	}
}

// Every one of some hundred listeners gets the last of some updates, however close
// they come: none is asleep with an older one.
func TestEventsReachAll(t *testing.T) {
	o := quick
	o.Heartbeat = time.Hour
	st := newStage(t, o, false)
	const many, rounds = 300, 20
	heard, all := make(chan struct{}, many), time.After(soon)
	for range many {
		l := st.listen(t)
		go func() {
			l.until(10, sluice.StateOpen)
			heard <- struct{}{}
			for n := range int64(rounds) {
				l.until(1001+n, sluice.StateOpen)
				heard <- struct{}{}
			}
		}()
	}
	for n := range int64(rounds + 1) {
		for left := range many {
			select {
			case <-heard:
			case <-all:
				t.Fatalf("%d of %d have not heard update %d", many-left, many, n)
			}
		}
		for i := range int64(5) { // the last of them counts
			st.set(100+i, sluice.StateOpen)
			time.Sleep(time.Duration(i) * o.Look / 4)
		}
		st.set(1001+n, sluice.StateOpen)
	}
	st.events.mu.Lock()
	defer st.events.mu.Unlock()
	if topics := len(st.events.topics); topics != 1 {
		t.Errorf("%d topics for one sale", topics)
	}
}
