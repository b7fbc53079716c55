package otlp_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/otlp"
	"github.com/sluicehq/sluice/internal/servertest"
	_ "github.com/sluicehq/sluice/ledger/redisledger"
	_ "github.com/sluicehq/sluice/store/pgstore"
)

var silent = slog.New(slog.DiscardHandler)

// receiver is one of OTLP that keeps what it gets.
type receiver struct {
	mu     sync.Mutex
	traces map[string]map[string]*trace.Span // by the trace's id, and by name
	twice  []string
}

func receive(t *testing.T) (r *receiver, address string) {
	r = &receiver{traces: map[string]map[string]*trace.Span{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		data := &trace.TracesData{}
		if err != nil || request.URL.Path != "/v1/traces" ||
			request.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, data) != nil {
			t.Errorf("%s %s, %v", request.URL, request.Header, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, span := range scope.Spans {
					id := hex.EncodeToString(span.TraceId)
					if r.traces[id] == nil {
						r.traces[id] = map[string]*trace.Span{}
					}
					if r.traces[id][span.Name] != nil {
						r.twice = append(r.twice, id+" "+span.Name)
					}
					r.traces[id][span.Name] = span
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return r, server.URL
}

func (r *receiver) get(order sluice.OrderID) map[string]*trace.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, id, _ := strings.Cut(string(order), ".")
	all := map[string]*trace.Span{}
	for name, span := range r.traces[id] {
		all[name] = span
	}
	return all
}

func node(span *trace.Span) string {
	for _, a := range span.Attributes {
		if a.Key == "sluice.node" {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

func until(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited a minute for " + what)
		}
	}
}

// open starts a server that traces all orders, and ends with the test.
func open(t *testing.T, cfg engine.Config, tracer engine.Tracer) *engine.Engine {
	t.Helper()
	cfg.DataDir, cfg.Tracer, cfg.TraceRatio = t.TempDir(), tracer, 1
	cfg.WebhookKey, cfg.AbandonedAfter = strings.Repeat("k", 32), 15*time.Second
	e := must.Get(engine.Open(t.Context(), cfg))(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = e.Close(ctx)
	})
	return e
}

func openSale(t *testing.T, e *engine.Engine, total int64) {
	t.Helper()
	sale := sluice.NewSale(total, sluice.Unlimited)
	sale.ID, sale.SKU, sale.Title, sale.Price = "phone", "sku", "title", sluice.Money{Amount: 1, Currency: "CNY"}
	sale.OpensAt = time.Now().Add(-time.Hour)
	must.Get(e.Control().Create(t.Context(), sale))(t)
}

// claim tries until the sale is loaded.
func claim(t *testing.T, e *engine.Engine, buyer string) sluice.Decision {
	t.Helper()
	var decision sluice.Decision
	until(t, "a claim to be accepted", func() (ok bool) {
		var err error
		decision, err = e.Claim(t.Context(), "phone",
			sluice.Claim{Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1}, sluice.Caller{})
		return err == nil && decision.Code == sluice.Accepted
	})
	return decision
}

func newExporter(t *testing.T, address string) *otlp.Exporter {
	t.Helper()
	e := must.Get(otlp.New(address, "test", silent))(t)
	t.Cleanup(e.Close)
	return e
}

// One server takes the claim and another stores the order: they send one trace, and no
// server knew more of it than the order's id.
func TestOneTraceFromClaimToStore(t *testing.T) {
	for name, stages := range map[string][]string{
		"redis": {"admission", "claim", "journal", "ledger", "store", "wait"},
		"store": {"admission", "claim", "ledger", "wait"}, // the call of the ledger stores the order
	} {
		t.Run(name, func(t *testing.T) {
			received, address := receive(t)
			ledger := "store"
			if name == "redis" {
				ledger = servertest.StartRedis(t).URL()
			}
			store := must.Get(url.Parse(servertest.Postgres(t)))(t)
			var cut atomic.Bool
			database := store.Host
			behind := *store
			behind.Host = servertest.StartProxy(t, func(net.Conn) (string, func() bool) { return database, cut.Load })
			tracers := []*otlp.Exporter{newExporter(t, address), newExporter(t, address)}
			b := open(t, engine.Config{Node: "b", Ledger: ledger, Store: store.String()}, tracers[0])
			a := open(t, engine.Config{Node: "a", Ledger: ledger, Store: behind.String()}, tracers[1])
			openSale(t, b, 10)
			first := claim(t, a, "first")
			cut.Store(name == "redis") // a cannot store what it accepts
			defer cut.Store(false)
			order := claim(t, a, "second").Order
			var spans map[string]*trace.Span
			until(t, "the whole trace", func() bool { spans = received.get(order); return len(spans) == len(stages) })
			names := make([]string, 0, len(spans))
			root := spans["claim"]
			for name, span := range spans {
				names = append(names, name)
				if span.StartTimeUnixNano > span.EndTimeUnixNano || span.StartTimeUnixNano+uint64(time.Hour) <
					uint64(time.Now().UnixNano()) {
					t.Errorf("times: %v", span)
				}
				server := "a"
				if name == "journal" || name == "store" {
					server = "b"
				}
				if node(span) != server {
					t.Errorf("%s by server %s, want %s", name, node(span), server)
				}
				if name != "claim" && string(span.ParentSpanId) != string(root.SpanId) || len(span.SpanId) != 8 {
					t.Errorf("%s: %x, parent %x, root %x", name, span.SpanId, span.ParentSpanId, root.SpanId)
				}
			}
			if slices.Sort(names); !slices.Equal(names, stages) || len(root.ParentSpanId) != 0 {
				t.Errorf("%v, root %v", names, root)
			}
			if cut.Store(false); name == "redis" {
				until(t, "the first order's", func() bool { return received.get(first.Order)["store"] != nil })
			}
			// A repeat is no way of an order.
			if again := claim(t, b, "second"); again.Order != order || !again.Replayed {
				t.Errorf("again: %+v", again)
			}
			for _, tracer := range tracers {
				tracer.Close()
				if n := tracer.Dropped(); n > 0 {
					t.Errorf("%d dropped", n)
				}
			}
			received.mu.Lock()
			defer received.mu.Unlock()
			if len(received.twice) > 0 || len(received.traces) != 2 {
				t.Errorf("%d traces, twice: %v", len(received.traces), received.twice)
			}
		})
	}
}

// A receiver that hangs, refuses or is not there holds up neither claims nor the end. What
// does not fit into the queue is dropped, and counted.
func TestTheReceiverFails(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		},
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"is busy": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/login" {
				return
			}
			w.Header().Set("Location", "/login") // which would answer 200
			w.WriteHeader(http.StatusFound)
		},
		"is gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			address := server.URL
			if answer == nil {
				server.Close()
			} else {
				t.Cleanup(server.Close)
			}
			exporter := newExporter(t, address)
			e := open(t, engine.Config{}, exporter)
			openSale(t, e, 1000)
			const claims = 600 // of six spans each: more than the queue takes
			var wait sync.WaitGroup
			for i := range claims {
				wait.Go(func() { claim(t, e, fmt.Sprint("buyer-", i)) })
			}
			wait.Wait()
			until(t, "the orders", func() bool { return e.Backlog() == 0 })
			if err := e.Close(t.Context()); err != nil {
				t.Error(err)
			}
			exporter.Close()
			if n := exporter.Dropped(); n < 4*claims || n > 6*claims { // what is redelivered has no span of a store
				t.Errorf("%d dropped, of %d", n, 6*claims)
			}
		})
	}
}

// What waits is sent at the end, and a receiver that was busy gets it once more.
func TestCloseSends(t *testing.T) {
	var calls atomic.Int64
	received, address := receive(t)
	to, _ := url.Parse(address)
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = to.Scheme, to.Host, ""
		if answer, err := http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
		}
	}))
	t.Cleanup(busy.Close)
	exporter := newExporter(t, busy.URL+"/")
	orders := []sluice.OrderID{"phone." + sluice.OrderID(strings.Repeat("a", 32)), "phone." +
		sluice.OrderID(strings.Repeat("b", 32))}
	span := engine.Span{Order: orders[0], Stage: "claim", Begin: time.Now(), End: time.Now(), Node: "\xff"}
	exporter.Trace(span)
	until(t, "the span of the second attempt", func() bool { return len(received.get(orders[0])) == 1 })
	span.Order = orders[1]
	exporter.Trace(span)
	exporter.Close()
	exporter.Close()
	if len(received.get(orders[1])) != 1 || exporter.Dropped() != 0 {
		t.Errorf("%v, dropped %d", received.traces, exporter.Dropped())
	}
}
