// Package otlp sends the spans of orders to a receiver of OpenTelemetry: OTLP over HTTP,
// in protobuf. It has the protocol's own messages, and not OpenTelemetry's SDK, whose
// exporter brings gRPC with it: spans come here finished, with ids that are known.
package otlp

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/loop"
)

const (
	atOnce   = 512             // spans in one message
	most     = 2048            // that wait; more are dropped
	every    = time.Second     // how long a message waits for more spans
	attempts = 3               // at one message
	answered = 5 * time.Second // at the latest
	patience = 2 * time.Second // of Close
)

// Exporter is an engine.Tracer that sends what it is given.
type Exporter struct {
	url     string
	shown   string // without a password
	service *resource.Resource
	client  *http.Client
	log     *slog.Logger

	queue   chan engine.Span
	dropped atomic.Int64
	ctx     context.Context // of requests
	stop    context.CancelFunc
	closing chan struct{}
	close   sync.Once
	done    chan struct{}
}

// New returns an exporter to the receiver at an address, http or https; without a path the
// protocol's own is taken, /v1/traces. Close it after the engine.
func New(endpoint, version string, log *slog.Logger) (*Exporter, error) {
	to, err := url.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("trace_endpoint: %w", err)
	}
	if strings.Trim(to.Path, "/") == "" {
		to.Path = "/v1/traces"
	}
	e := &Exporter{
		url: to.String(), shown: to.Redacted(), log: log,
		service: &resource.Resource{Attributes: []*common.KeyValue{
			text("service.name", "sluice"), text("service.version", version),
		}},
		client: &http.Client{
			Timeout: answered,
			// A POST that is redirected becomes a GET: better an error that names the status.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		queue: make(chan engine.Span, most), closing: make(chan struct{}), done: make(chan struct{}),
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// Trace takes a span, or drops it if too many wait.
func (e *Exporter) Trace(span engine.Span) {
	select {
	case e.queue <- span:
	default:
		e.dropped.Add(1)
	}
}

// Dropped is how many spans were dropped, or could not be sent.
func (e *Exporter) Dropped() int64 { return e.dropped.Load() }

// Close sends what waits, for two seconds at most. It is idempotent.
func (e *Exporter) Close() {
	e.close.Do(func() {
		defer time.AfterFunc(patience, e.stop).Stop()
		close(e.closing)
		<-e.done
		e.stop()
		e.client.CloseIdleConnections()
	})
}

func (e *Exporter) run() {
	defer close(e.done)
	trouble := loop.Trouble{Log: e.log, Begins: "traces cannot be sent", Ceases: "traces are sent again"}
	for {
		batch, last := e.gather()
		if len(batch) > 0 {
			err := e.send(batch)
			if err != nil {
				e.dropped.Add(int64(len(batch)))
			}
			trouble.Note(err, "to", e.shown)
		}
		if last {
			return
		}
	}
}

// gather waits for spans, and a while for more of them; last: there will be no others.
func (e *Exporter) gather() (batch []*trace.Span, last bool) {
	var enough <-chan time.Time
	for len(batch) < atOnce {
		select {
		case span := <-e.queue:
			if batch = append(batch, message(&span)); enough == nil {
				enough = time.After(every)
			}
		case <-enough:
			return batch, false
		case <-e.closing:
			for len(batch) < atOnce {
				select {
				case span := <-e.queue:
					batch = append(batch, message(&span))
				default:
					return batch, true
				}
			}
		}
	}
	return batch, false
}

// send posts a message, again if the receiver may take it later. A server that stops does
// not wait for that.
func (e *Exporter) send(batch []*trace.Span) error {
	// The same bytes as an ExportTraceServiceRequest, whose package imports gRPC.
	body, err := proto.Marshal(&trace.TracesData{ResourceSpans: []*trace.ResourceSpans{{
		Resource:   e.service,
		ScopeSpans: []*trace.ScopeSpans{{Scope: &common.InstrumentationScope{Name: "sluice"}, Spans: batch}},
	}}})
	if err != nil {
		return err
	}
	pause := time.Second
	for attempt := 1; ; attempt++ {
		again, wait, err := e.post(body)
		if err == nil || !again || attempt == attempts {
			return err
		}
		select {
		case <-time.After(max(pause, wait)):
		case <-e.closing:
			return err
		}
		pause *= 2
	}
}

// post is one attempt; again: another may succeed, after a while.
func (e *Exporter) post(body []byte) (again bool, wait time.Duration, err error) {
	request, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	answer, err := e.client.Do(request)
	if err != nil {
		return true, 0, err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<16) // so that the connection is used again
	switch answer.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return false, 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
	wait = min(time.Duration(max(seconds, 0))*time.Second, 30*time.Second)
	return again, wait, fmt.Errorf("the receiver answers %s", answer.Status)
}

// message is a span as the protocol has it. The root's id is made of the order's, so that
// the server that stores the order, which may be another, knows it.
func message(s *engine.Span) *trace.Span {
	_, suffix, _ := strings.Cut(string(s.Order), ".")
	id, _ := hex.DecodeString(suffix)
	if len(id) != 16 {
		id = make([]byte, 16) // receivers refuse it; no order has such an id
	}
	root := id[8:] // never all zero: a UUID has its variant there
	m := &trace.Span{
		TraceId: id, SpanId: root, Name: s.Stage, Kind: trace.Span_SPAN_KIND_SERVER, Flags: 1, // sampled
		StartTimeUnixNano: uint64(s.Begin.UnixNano()), EndTimeUnixNano: uint64(max(s.End.UnixNano(), s.Begin.UnixNano())),
		Attributes: []*common.KeyValue{text("sluice.order", string(s.Order)), text("sluice.node", s.Node)},
	}
	if s.Stage != "claim" {
		m.ParentSpanId, m.SpanId = root, binary.BigEndian.AppendUint64(nil, rand.Uint64()|1)
		m.Kind = trace.Span_SPAN_KIND_INTERNAL
	}
	if sale, ok := s.Order.Sale(); ok {
		m.Attributes = append(m.Attributes, text("sluice.sale", string(sale)))
	}
	if s.Claims > 0 {
		value := &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: int64(s.Claims)}}
		m.Attributes = append(m.Attributes, &common.KeyValue{Key: "sluice.claims", Value: value})
	}
	if s.Err != nil {
		m.Status = &trace.Status{Code: trace.Status_STATUS_CODE_ERROR, Message: strings.ToValidUTF8(s.Err.Error(), "")}
	}
	return m
}

// text is an attribute. Protobuf refuses what is not UTF-8.
func text(key, value string) *common.KeyValue {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}
