// Package handler measures what the handler of a server costs and allocates per answer, and
// what a claim that waits keeps in memory.
package handler

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// What Sluice's handler costs and allocates per answer, without the network
// and without net/http's own reading and writing:
//
//	go test -C lab ./handler -run '^$' -bench Handler -benchmem

const (
	sale       = "singles-day-phone"
	salePath   = "/v1/sales/" + sale
	ordersPath = salePath + "/orders"
	manyUnits  = 1_000_000_000
	waiting    = 256 // buyers at a time
	tokenLife  = time.Hour
)

// attempt returns the n-th buyer and their key.
func attempt(n int64) (sluice.BuyerID, string) {
	return sluice.BuyerID(fmt.Sprintf("user-%010d", n)), fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
}

// BenchmarkHandlerSoldOut is a buyer who comes again to a sale that this
// server knows to be sold out.
func BenchmarkHandlerSoldOut(b *testing.B) {
	e := openEngine(b, 0)
	benchHandler(b, e.Handler(), http.StatusConflict, prepare(b, e.BuyerSecret(), 0, 1000), 1)
}

// BenchmarkHandlerSoldOutNew is the same for buyers who come for the first
// time: their tokens are verified.
func BenchmarkHandlerSoldOutNew(b *testing.B) {
	e := openEngine(b, 0)
	benchHandler(b, e.Handler(), http.StatusConflict, prepare(b, e.BuyerSecret(), 0, b.N), 1)
}

// BenchmarkHandlerAccepted is an order that is durable when it is answered,
// and that the pipeline stores meanwhile: ns/op and allocations are those of
// all of it. 256 buyers wait at a time.
func BenchmarkHandlerAccepted(b *testing.B) {
	e := openEngine(b, manyUnits)
	benchHandler(b, e.Handler(), http.StatusAccepted, prepare(b, e.BuyerSecret(), 0, b.N), waiting)
}

// BenchmarkHandlerAcceptedAgain is a buyer whose token is known already, with
// a new key: the difference to the one before is what a new token costs.
func BenchmarkHandlerAcceptedAgain(b *testing.B) {
	e := openEngine(b, manyUnits)
	p := prepare(b, e.BuyerSecret(), 0, b.N)
	for i := range p.tokens {
		p.tokens[i] = p.tokens[i%waiting]
	}
	benchHandler(b, e.Handler(), http.StatusAccepted, p, waiting)
}

// openEngine returns an engine, embedded unless told otherwise, with the sale of the
// benchmark, without a limit per buyer.
func openEngine(tb testing.TB, total int64, with ...func(*engine.Config)) *engine.Engine {
	tb.Helper()
	config := engine.Config{DataDir: tb.TempDir(), Log: slog.New(slog.DiscardHandler)}
	for _, change := range with {
		change(&config)
	}
	e := must.Get(engine.Open(tb.Context(), config))(tb)
	tb.Cleanup(func() { _ = e.Close(context.Background()) })
	body := fmt.Sprintf(`{"id":%q,"sku":"PHONE-1","title":"A phone","price":{"amount":1,"currency":"CNY"},
		"total":%d,"max_per_buyer":null,"max_orders_per_buyer":null,"opens_at":"2024-11-11T00:00:00Z","closes_at":null}`,
		sale, total)
	r := newRequest("POST", "/v1/admin/sales", e.AdminKey(), "", body)
	w := &answer{header: http.Header{}}
	e.Handler().ServeHTTP(w, r)
	if w.status != http.StatusCreated {
		tb.Fatalf("the sale was not created: %d", w.status)
	}
	return e
}

// prepared is orders of distinct buyers.
type prepared struct{ tokens, keys []string }

func prepare(tb testing.TB, secret string, from int64, n int) prepared {
	tb.Helper()
	var p prepared
	now := time.Now()
	for i := range int64(n) {
		buyer, key := attempt(from + i)
		token := must.Get(loadgen.Mint([]byte(secret), buyer, now, tokenLife))(tb)
		p.tokens, p.keys = append(p.tokens, token), append(p.keys, key)
	}
	return p
}

// benchHandler sends b.N orders from as many goroutines as given. A goroutine
// uses one request and one answer over and over.
func benchHandler(b *testing.B, h http.Handler, want int, orders prepared, goroutines int) {
	var next atomic.Int64
	var wrong atomic.Int64
	done := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	for range goroutines {
		go func() {
			defer func() { done <- struct{}{} }()
			body := strings.NewReader("")
			r := newRequest("POST", ordersPath, "x", "x", "")
			r.Body = io.NopCloser(body)
			w := &answer{header: http.Header{}}
			authorization, key := make([]string, 1), make([]string, 1)
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				at := i % int64(len(orders.tokens))
				authorization[0], key[0] = "Bearer "+orders.tokens[at], orders.keys[at]
				r.Header["Authorization"], r.Header["Idempotency-Key"] = authorization, key
				body.Reset(`{"quantity":1}`)
				clear(w.header)
				h.ServeHTTP(w, r)
				if w.status != want {
					wrong.Add(1)
				}
			}
		}()
	}
	for range goroutines {
		<-done
	}
	b.StopTimer()
	if n := wrong.Load(); n > 0 {
		b.Fatalf("%d of %d answers were not %d", n, b.N, want)
	}
}

func newRequest(method, path, token, key, body string) *http.Request {
	r, err := http.NewRequest(method, "http://shop.example"+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.RequestURI, r.RemoteAddr = path, "192.0.2.1:40000"
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// answer is a ResponseWriter that keeps the status alone.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkHandlerRead is a sale that is read, BenchmarkHandlerReadAgain the
// same with its ETag: 304.
func BenchmarkHandlerRead(b *testing.B)      { benchRead(b, "", http.StatusOK) }
func BenchmarkHandlerReadAgain(b *testing.B) { benchRead(b, "*", http.StatusNotModified) }

func benchRead(b *testing.B, match string, want int) {
	h := openEngine(b, manyUnits).Handler()
	r := newRequest("GET", salePath, "x", "x", "")
	r.Header = http.Header{}
	if match != "" {
		r.Header["If-None-Match"] = []string{match}
	}
	w := &answer{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		w.status = http.StatusOK
		h.ServeHTTP(w, r)
		if w.status != want {
			b.Fatalf("answer %d, want %d", w.status, want)
		}
	}
}
