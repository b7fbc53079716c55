package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = []byte("0123456789abcdef0123456789abcdef")

// shop is a correct little server: stock units, one per buyer, and the same
// answer to the same key. Trouble may come before it decides or after.
type shop struct {
	t     *testing.T
	stock int

	mu      sync.Mutex
	orders  map[string]sluice.OrderID // by buyer and key
	buyers  map[string]int            // units
	tries   map[string]int            // requests by buyer and key
	trouble func(n int, w http.ResponseWriter) (done bool)
	after   func(n int, w http.ResponseWriter) (done bool)
}

func newShop(t *testing.T, stock int) *shop {
	return &shop{
		t: t, stock: stock, orders: map[string]sluice.OrderID{}, buyers: map[string]int{},
		tries: map[string]int{},
	}
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var claims jwt.RegisteredClaims
	_, err := jwt.ParseWithClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), &claims,
		func(*jwt.Token) (any, error) { return secret, nil }, jwt.WithValidMethods([]string{"HS256"}),
		jwt.WithExpirationRequired())
	if err != nil {
		refuse(w, 401, api.CodeUnauthenticated)
		return
	}
	body, _ := io.ReadAll(r.Body)
	key := r.Header.Get("Idempotency-Key")
	if r.Method != "POST" || r.URL.Path != "/base/v1/sales/s1/orders" || string(body) != `{"quantity":1}` ||
		sluice.Key(key).Validate() != nil {
		s.t.Errorf("request %s %s %q key %q", r.Method, r.URL, body, key)
	}
	id := claims.Subject + "/" + key
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[id]++
	n := s.tries[id]
	if s.trouble != nil && s.trouble(n, w) {
		return
	}
	order, replay := s.orders[id]
	switch {
	case replay:
	case s.buyers[claims.Subject] > 0:
		refuse(w, 409, "buyer_limit")
		return
	case len(s.orders) == s.stock:
		refuse(w, 409, "sold_out")
		return
	default:
		order = sluice.SaleID("s1").Order(fmt.Sprintf("%032x", len(s.orders)))
		s.orders[id] = order
		s.buyers[claims.Subject]++
	}
	if s.after != nil && s.after(n, w) {
		return
	}
	if replay {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(202)
	_, _ = w.Write(placed("s1", order))
}

// placed is the answer to an accepted claim.
func placed(sale sluice.SaleID, order sluice.OrderID) []byte {
	body, _ := json.Marshal(api.Placed{OrderID: order, SaleID: sale, Quantity: 1, Status: sluice.Queued})
	return body
}

// hang never answers. A server sees that its client has left only after it has
// read the body.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Title: "T", Status: status, Code: code})
}

func rush(t *testing.T, h http.Handler, edit func(*Options)) (*Outcome, *Crowd) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	o := Options{URL: srv.URL + "/base/", Sale: "s1", Buyers: 300, Again: 0.1, Connections: 8, Seed: 7, Secret: secret}
	if edit != nil {
		edit(&o)
	}
	c := must.Get(New(o))(t)
	out := must.Get(c.Rush(t.Context()))(t)
	return out, c
}

// checkPromises holds the crowd's promises against what the shop has.
func checkPromises(t *testing.T, out *Outcome, s *shop) {
	t.Helper()
	if len(out.Promises) != len(s.orders) {
		t.Errorf("%d promises, %d orders", len(out.Promises), len(s.orders))
	}
	for _, p := range out.Promises {
		if id := string(BuyerName(p.Buyer)) + "/" + string(p.Key); s.orders[id] != p.Order {
			t.Errorf("%s: promised %s, has %s", id, p.Order, s.orders[id])
		}
	}
}

func TestRush(t *testing.T) {
	s := newShop(t, 100)
	out, c := rush(t, s, nil)
	sum := out.Decisions[sluice.Accepted] + out.Decisions[sluice.SoldOut] + out.Decisions[sluice.BuyerLimit]
	if out.Decisions[sluice.Accepted] != 100 || sum != 330 || out.Errors != 0 || out.Requests != 330 ||
		len(s.buyers) != 100 {
		t.Errorf("%+v with %d buyers", out.Result, len(s.buyers))
	}
	if l := out.LatencyMS; !(0 < l.P50 && l.P50 <= l.P95 && l.P95 <= l.P99 && l.P99 <= l.Max) {
		t.Errorf("latency %+v", l)
	}
	checkPromises(t, out, s)
	if broken := c.Repeat(t.Context(), out.Promises); len(broken) != 0 {
		t.Errorf("repeated: %v", broken)
	}
	// A repeat that gets another order, or none, is seen.
	s.mu.Lock()
	clear(s.orders)
	s.mu.Unlock()
	if broken := c.Repeat(t.Context(), out.Promises[:3]); len(broken) != 3 {
		t.Errorf("the shop forgot its orders, and the crowd says only %v", broken)
	}
}

func TestEveryBuyerOnceSomeTwice(t *testing.T) {
	s := newShop(t, 1000)
	out, _ := rush(t, s, func(o *Options) { o.Again = 1 })
	if out.Decisions[sluice.Accepted] != 300 || out.Decisions[sluice.BuyerLimit] != 300 || len(s.tries) != 600 {
		t.Errorf("%+v, %d keys", out.Result, len(s.tries))
	}
}

func TestEqualSeedEqualKeys(t *testing.T) {
	s := newShop(t, 100)
	first, _ := rush(t, s, nil)
	again, _ := rush(t, s, nil)
	if again.Replayed != 100 || again.Decisions[sluice.Accepted] != 100 || first.Replayed != 0 {
		t.Errorf("first %+v\nagain %+v", first.Result, again.Result)
	}
	other, _ := rush(t, s, func(o *Options) { o.Seed = 8 })
	if other.Replayed != 0 || other.Decisions[sluice.Accepted] != 0 {
		t.Errorf("other %+v", other.Result)
	}
}

// A crowd that waits for the opening has its connections before, and its tries are
// timed from when they should have begun.
func TestConnectionsAreOpenBeforeTheStart(t *testing.T) {
	s := newShop(t, 1000)
	var mu sync.Mutex
	pages := map[string]bool{}
	var early, strange int
	start := time.Now().Add(time.Second)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Method == http.MethodGet {
			pages[r.RemoteAddr+r.URL.Path] = true
			mu.Unlock()
			return
		}
		if time.Now().Before(start) || len(pages) != 8 {
			early++
		}
		if !pages[r.RemoteAddr+"/base/v1/sales/s1"] {
			strange++
		}
		mu.Unlock()
		s.ServeHTTP(w, r)
	})
	var begins []time.Duration
	out, _ := rush(t, handler, func(o *Options) {
		o.Start, o.Rate, o.Again = start, 10_000, 0
		o.Ended = func(begin, took time.Duration, code sluice.Code) {
			if begins = append(begins, begin); took <= 0 || code != sluice.Accepted {
				t.Errorf("%v after %v: %v", code, begin, took)
			}
		}
	})
	slices.Sort(begins)
	if early > 0 || strange > 0 || out.Decisions[sluice.Accepted] != 300 || out.Requests != 300 || len(begins) != 300 {
		t.Errorf("%d claims too early, %d over new connections, %d reported: %+v", early, strange, len(begins), out.Result)
	}
	for i, begin := range begins {
		if want := time.Duration(i) * 100 * time.Microsecond; (begin - want).Abs() > time.Microsecond {
			t.Fatalf("try %d began at %v, want %v", i, begin, want)
		}
	}
}

// Whatever happens to the first requests of a try, the try ends with its
// decision, and no promise is counted twice.
func TestTroubleIsRetriedWithTheSameKey(t *testing.T) {
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	for _, tc := range []struct {
		name          string
		trouble       func(http.ResponseWriter)
		after, closes bool
	}{
		{name: "reply lost", trouble: drop, after: true},
		{name: "request lost", trouble: drop},
		{name: "overloaded", trouble: func(w http.ResponseWriter) { refuse(w, 503, "overloaded") }},
		{name: "unavailable", trouble: func(w http.ResponseWriter) { refuse(w, 503, "unavailable") }},
		{name: "outcome unknown", trouble: func(w http.ResponseWriter) { refuse(w, 503, "outcome_unknown") }, after: true},
		{name: "bad gateway", trouble: func(w http.ResponseWriter) {
			http.Error(w, "<h1>502</h1>", http.StatusBadGateway)
		}, after: true},
		{name: "empty 202", trouble: func(w http.ResponseWriter) { w.WriteHeader(202) }},
		{name: "another buyer's order", trouble: func(w http.ResponseWriter) {
			w.WriteHeader(202)
			_, _ = w.Write(placed("s2", sluice.SaleID("s2").Order(strings.Repeat("0", 32))))
		}},
		{name: "cheerful lie", trouble: func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"code":"accepted"}`)) }},
		{name: "cut off", trouble: func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(202)
			_, _ = w.Write([]byte(`{"order_id":"s1.0000`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShop(t, 40)
			hook := func(n int, w http.ResponseWriter) bool {
				if n > 1 {
					return false
				}
				tc.trouble(w)
				return true
			}
			if tc.after {
				s.after = hook
			} else {
				s.trouble = hook
			}
			out, _ := rush(t, s, func(o *Options) { o.Buyers, o.Connections = 60, 16 })
			if out.Decisions[sluice.Accepted] != 40 || out.Errors != 0 || out.Requests <= 66 {
				t.Errorf("%+v", out.Result)
			}
			checkPromises(t, out, s)
		})
	}
}

// Refusals that name orders, which no two have alike, take no room from those that all get.
func TestRefusalsAreDecodedOnce(t *testing.T) {
	w := &worker{c: &Crowd{known: verdicts{of: map[string]verdict{}}}}
	for i := range 100 {
		body := fmt.Appendf(nil, `{"status":409,"code":"buyer_limit","order_ids":["sale.%032d"]}`, i)
		if got, final := w.refused(answer{status: 409, body: body}); got.code != sluice.BuyerLimit || !final {
			t.Fatalf("%v", got)
		}
	}
	body := []byte(`{"status":409,"code":"sold_out"}`)
	if got, final := w.refused(answer{status: 409, body: body}); got.code != sluice.SoldOut || !final {
		t.Fatalf("%v", got)
	}
	if got, ok := w.c.known.get(body); !ok || got.code != sluice.SoldOut {
		t.Error("it is not known, and decoded again")
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	s := newShop(t, 1)
	s.trouble = func(n int, w http.ResponseWriter) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		refuse(w, 503, "overloaded")
		return true
	}
	out, _ := rush(t, s, func(o *Options) { o.Buyers, o.Again = 1, 0 })
	if out.LatencyMS.Max < 1000 || out.Decisions[sluice.Accepted] != 1 || out.Requests != 2 {
		t.Errorf("%+v", out.Result)
	}
}

func TestErrorsAreTriesWithoutADecision(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		handler      http.HandlerFunc
		requests     int64 // 0: more than the tries
	}{
		{"always down", "unavailable", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "unavailable") }, 0},
		{"silent", "no answer in time", hang, 0},
		{"wrong secret", "unauthenticated", func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, 401, "unauthenticated")
		}, 5},
		{"not ours", "HTTP 404 without a code", http.NotFound, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, _ := rush(t, tc.handler, func(o *Options) {
				o.Buyers, o.Again, o.RetryFor, o.Timeout = 5, 0, 300*time.Millisecond, 100*time.Millisecond
			})
			if out.Errors != 5 || out.ErrorReasons[tc.reason] != 5 || len(out.Decisions) != 0 {
				t.Errorf("%+v", out.Result)
			}
			if tc.requests > 0 && out.Requests != tc.requests || tc.requests == 0 && out.Requests <= 5 {
				t.Errorf("%d requests", out.Requests)
			}
		})
	}
	t.Run("no listener", func(t *testing.T) {
		srv := httptest.NewServer(nil)
		srv.Close()
		c := must.Get(New(Options{URL: srv.URL, Sale: "s1", Buyers: 3, Secret: secret, RetryFor: 50 * time.Millisecond}))(t)
		out, _ := c.Rush(t.Context())
		if out.Errors != 3 || out.ErrorReasons["no connection: connection refused"] != 3 {
			t.Errorf("%+v", out.Result)
		}
	})
}

// A server that takes 50 ms for each of 20 tries, one at a time, cannot hide
// behind a crowd that should have come at 100 a second: the last try should
// have started at 190 ms and is answered at 1,000 ms.
func TestOpenLoopCountsFromTheIntendedStart(t *testing.T) {
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond)
		refuse(w, 409, "sold_out")
	})
	out, _ := rush(t, slow, func(o *Options) { o.Buyers, o.Again, o.Connections, o.Rate = 20, 0, 1, 100 })
	if out.LatencyMS.Max < 700 || out.DurationS < 1 {
		t.Errorf("%+v", out.Result)
	}
}

func TestDurationGoesRound(t *testing.T) {
	for _, rate := range []float64{0, 200} {
		s := newShop(t, 4)
		out, _ := rush(t, s, func(o *Options) { o.Buyers, o.Again, o.Duration, o.Rate = 4, 0.5, 200*time.Millisecond, rate })
		if out.Requests <= 12 || int64(len(s.tries)) != out.Requests || out.DurationS < 0.19 {
			t.Errorf("rate %v: %d requests with %d keys: %+v", rate, out.Requests, len(s.tries), out.Result)
		}
		if rate > 0 && out.Requests > 40 {
			t.Errorf("%d requests in 0.2 s at 200 a second", out.Requests)
		}
	}
}

func TestCancelEndsTheRush(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		hang(w, r)
	}))
	defer srv.Close()
	c := must.Get(New(Options{URL: srv.URL, Sale: "s1", Buyers: 10, Secret: secret}))(t)
	out, err := c.Rush(ctx)
	if err != context.Canceled || out.Errors != 0 || len(out.Decisions) != 0 {
		t.Errorf("%v, %+v", err, out.Result)
	}
}

func TestTLSAndChunks(t *testing.T) {
	chunked := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		body := placed("s1", sluice.SaleID("s1").Order(strings.Repeat("a", 32)))
		_, _ = w.Write(body[:20])
		_ = http.NewResponseController(w).Flush()
		_, _ = w.Write(body[20:])
	})
	srv := httptest.NewTLSServer(chunked)
	defer srv.Close()
	c := must.Get(New(Options{
		URL: srv.URL, Sale: "s1", Tokens: []string{"a", "b", "c"},
		TLS: srv.Client().Transport.(*http.Transport).TLSClientConfig,
	}))(t)
	out, err := c.Rush(t.Context())
	if err != nil || out.Decisions[sluice.Accepted] != 3 || out.Buyers != 3 {
		t.Errorf("%v, %+v", err, out.Result)
	}
}

func TestResultJSON(t *testing.T) {
	stock, stored, after := int64(2), int64(2), 0.25
	r := Result{
		SaleID: "s1", Ledger: "sqlite", Store: "sqlite", Buyers: 5, Stock: &stock, Seed: 1, DurationS: 1.5, Requests: 6,
		RequestsPerS: 4,
		Decisions:    Decisions{sluice.Accepted: 2, sluice.SoldOut: 4, sluice.RateLimited: 1},
		LatencyMS:    Latency{P50: 1, P95: 2, P99: 3, Max: 4}, OrdersStored: &stored, DistinctBuyers: &stored,
		StoredAfterS: &after,
		Audit: &sluice.AuditReport{OK: true, Checks: []sluice.AuditCheck{
			{ID: "I1", Name: "no oversell", OK: true, Detail: "2 <= 2"},
		}},
	}
	got, err := json.Marshal(r)
	want := `{"sale_id":"s1","ledger":"sqlite","store":"sqlite","buyers":5,"stock":2,"seed":1,"duration_s":1.5,"requests":6,"requests_per_s":4,` +
		`"decisions":{"accepted":2,"sold_out":4,"buyer_limit":0,"rate_limited":1},"errors":0,"latency_ms":{"p50":1,"p95":2,"p99":3,"max":4},` +
		`"orders_stored":2,"distinct_buyers":2,"stored_after_s":0.25,` +
		`"audit":{"ok":true,"checks":[{"id":"I1","name":"no oversell","ok":true,"detail":"2 \u003c= 2"}],"in_flight":0}}`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(got)))
	}
	var back Result
	if err := json.Unmarshal(got, &back); err != nil || !cmp.Equal(r, back) {
		t.Errorf("%v\n%s", err, cmp.Diff(r, back))
	}
	if err := json.Unmarshal([]byte(`{"decisions":{"nonsense":1}}`), &back); err == nil {
		t.Error("an unknown code is read")
	}
}

func TestNewRefuses(t *testing.T) {
	good := Options{URL: "http://h", Sale: "s1", Buyers: 1, Secret: secret}
	for name, edit := range map[string]func(*Options){
		"sale":     func(o *Options) { o.Sale = "No" },
		"buyers":   func(o *Options) { o.Buyers = -1 },
		"none":     func(o *Options) { o.Buyers = 0 },
		"again":    func(o *Options) { o.Again = 1.5 },
		"rate":     func(o *Options) { o.Rate = -1 },
		"duration": func(o *Options) { o.Duration = -1 },
		"secret":   func(o *Options) { o.Secret = nil },
		"tokens":   func(o *Options) { o.Buyers, o.Tokens = 2, []string{"a"} },
		"url":      func(o *Options) { o.URL = "h:80" },
	} {
		o := good
		edit(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// What the crowd itself costs: `go test -bench Rush`, against a handler that
// answers a constant.
func BenchmarkRush(b *testing.B) {
	body, _ := json.Marshal(api.Problem{Title: "Sold out", Status: 409, Code: "sold_out"})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(409)
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	c, err := New(Options{URL: srv.URL, Sale: "s1", Buyers: max(b.N, 1), Connections: 128, Secret: secret})
	if err == nil {
		err = c.Prepare(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	out, err := c.Rush(b.Context())
	if err != nil || out.Errors > 0 {
		b.Fatal(err, out)
	}
	b.ReportMetric(out.RequestsPerS, "requests/s")
}
