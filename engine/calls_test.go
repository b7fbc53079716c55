package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// opened is an engine that is closed at the end of the test.
func opened(t *testing.T, cfg engine.Config) *engine.Engine {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = e.Close(context.Background()) })
	return e
}

// onEachLedger runs a test on every kind of ledger.
func onEachLedger(t *testing.T, test func(t *testing.T, cfg engine.Config)) {
	t.Parallel()
	for name, servers := range map[string]func() (ledger, store string){
		"embedded": func() (ledger, store string) { return "", "" },
		"redis":    func() (ledger, store string) { return servertest.StartRedis(t).URL(), servertest.Postgres(t) },
		"store":    func() (ledger, store string) { return "store", servertest.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := engine.Config{DataDir: t.TempDir()}
			cfg.Ledger, cfg.Store = servers()
			test(t, cfg)
		})
	}
}

// onSale creates a sale that is open.
func onSale(t *testing.T, e *engine.Engine, id sluice.SaleID, total int64, with ...func(*sluice.Sale)) {
	t.Helper()
	sale := sluice.NewSale(total, 1)
	sale.ID, sale.SKU, sale.Title, sale.Price = id, "SKU-1", "A phone", sluice.Money{Amount: 99900, Currency: "CNY"}
	sale.OpensAt = time.Now().Add(-time.Hour)
	for _, change := range with {
		change(&sale)
	}
	must.Get(e.Control().Create(t.Context(), sale))(t)
}

// A program that embeds Sluice claims in process, by the rules that HTTP has: the same
// key gives the same order, the limit holds, what is wrong is an error and decides nothing.
func TestClaimsInProcess(t *testing.T) { onEachLedger(t, claimsInProcess) }

func claimsInProcess(t *testing.T, cfg engine.Config) {
	e := opened(t, cfg)
	onSale(t, e, "phone", 2)
	claim := func(buyer, key, meta string) (sluice.Decision, error) {
		return e.Claim(t.Context(), "phone",
			sluice.Claim{Buyer: sluice.BuyerID(buyer), Key: sluice.Key(key), Quantity: 1, Meta: meta}, sluice.Caller{})
	}
	first, err := claim("ann", "first-attempt", `{"colour":"red"}`)
	if err != nil || first.Code != sluice.Accepted {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := claim("ann", "first-attempt", `{"colour":"red"}`)
	if err != nil || again.Order != first.Order || !again.Replayed {
		t.Errorf("a repeat: %+v, %v, want the order %s", again, err, first.Order)
	}
	if more, err := claim("ann", "second-attempt", ""); err != nil || more.Code != sluice.BuyerLimit {
		t.Errorf("beyond the limit: %+v, %v", more, err)
	}
	for _, bad := range []struct{ buyer, key, meta string }{
		{"", "first-attempt", ""},
		{"bob", "", ""},
		{"bob", "first-attempt", "no object"},
		{"bob", "first-attempt", "{"},
	} {
		if d, err := claim(bad.buyer, bad.key, bad.meta); err == nil {
			t.Errorf("%+v: decided %+v, want an error", bad, d)
		}
	}
	if none, err := e.Claim(t.Context(), "radio", sluice.Claim{Buyer: "bob", Key: "first-attempt", Quantity: 1},
		sluice.Caller{}); err != nil || none.Code != sluice.SaleNotFound {
		t.Errorf("no such sale: %+v, %v", none, err)
	}
	counted := metricsOf(t, e)
	for _, want := range []string{
		`sluice_claims_total{code="accepted",sale="phone"} 2`, `sluice_claims_total{code="buyer_limit",sale="phone"} 1`,
		`sluice_claims_total{code="sale_not_found",sale="other"} 1`,
	} {
		if !strings.Contains(counted, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
	must.Succeed(t, e.Close(t.Context()))
	if d, err := claim("bob", "first-attempt", ""); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("of a closed engine: %+v, %v", d, err)
	}
}

func metricsOf(t *testing.T, e *engine.Engine) string {
	t.Helper()
	w := httptest.NewRecorder()
	e.AdminHandler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// Who is not invited is counted too.
func TestRefusedInProcess(t *testing.T) {
	t.Parallel()
	e := opened(t, engine.Config{DataDir: t.TempDir()})
	onSale(t, e, "phone", 2, func(s *sluice.Sale) { s.Rules.Eligibility = sluice.EligibleToken })
	_, err := e.Claim(t.Context(), "phone", sluice.Claim{Buyer: "ann", Key: "first-attempt", Quantity: 1}, sluice.Caller{})
	refused := &sluice.RefusedError{}
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
	counted := metricsOf(t, e)
	for _, want := range []string{
		`sluice_claims_total{code="forbidden",sale="phone"} 1`,
		fmt.Sprintf(`sluice_claims_refused_total{reason="%s",sale="phone"} 1`, refused.Reason),
	} {
		if !strings.Contains(counted, want+"\n") {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// A loop over events ends with the engine.
func TestEventsEndWithTheEngine(t *testing.T) {
	t.Parallel()
	e := opened(t, engine.Config{DataDir: t.TempDir()})
	must.Succeed(t, e.Close(t.Context()))
	var all []error
	for _, err := range e.Events(t.Context(), "") {
		all = append(all, err)
	}
	if len(all) != 1 || !errors.Is(all[0], sluice.ErrClosed) {
		t.Error(all)
	}
}

// What a configuration says and an engine cannot do is an error, not left out.
func TestConfigurationThatHasNoEffect(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]engine.Config{
		"client_address_header": {ClientAddressHeader: "X-Real-IP"},
		"want x-forwarded-for":  {ClientAddressHeader: "Forwarded"},
		"abandoned after 1s":    {AbandonedAfter: time.Second},
		"wait_replicas":         {WaitReplicas: 2},
	} {
		cfg.DataDir = t.TempDir()
		if e, err := engine.Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			_ = e.Close(t.Context())
		}
	}
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	e := opened(t, engine.Config{DataDir: t.TempDir(), AdminKey: "the key of a test", Verbosity: level})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/v1/admin/log-level", strings.NewReader(`{"level":"debug"}`))
	r.Header.Set("Authorization", "Bearer the key of a test")
	w := httptest.NewRecorder()
	if e.AdminHandler().ServeHTTP(w, r); w.Code != http.StatusOK || level.Level() != slog.LevelDebug {
		t.Errorf("%d %s, and the level is %v", w.Code, w.Body, level.Level())
	}
}

// Events come in order, those of before as well as those that are still to come, and
// after a restart the loop goes on where it was.
func TestEventsInProcess(t *testing.T) { onEachLedger(t, eventsInProcess) }

func eventsInProcess(t *testing.T, cfg engine.Config) {
	e := opened(t, cfg)
	onSale(t, e, "phone", 100)
	after, seen := "", map[sluice.OrderID]bool{}
	listen := func(e *engine.Engine, want int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for event, err := range e.Events(ctx, after) {
			if err != nil {
				t.Fatal(err)
			}
			after = event.ID()
			if event.Type != sluice.EventOrderCreated {
				continue
			}
			if seen[event.Order.ID] {
				t.Errorf("%s twice", event.Order.ID)
			}
			if seen[event.Order.ID] = true; len(seen) == want {
				return
			}
		}
		t.Fatalf("%d of %d orders", len(seen), want)
	}
	claims := func(e *engine.Engine, buyers string) {
		for _, buyer := range strings.Fields(buyers) {
			d, err := e.Claim(t.Context(), "phone", sluice.Claim{Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1},
				sluice.Caller{})
			if err != nil || d.Code != sluice.Accepted {
				t.Errorf("%s: %+v, %v", buyer, d, err)
			}
		}
	}
	claims(e, "ann bob")
	listen(e, 2)
	go claims(e, "cid dan")
	listen(e, 4)
	must.Succeed(t, e.Close(t.Context()))
	e = opened(t, cfg)
	claims(e, "eve")
	listen(e, 5)
	for _, err := range e.Events(t.Context(), "evt_1_00000000") {
		if !errors.Is(err, sluice.ErrBadCursor) {
			t.Errorf("after an event of another store: %v", err)
		}
	}
}

// A shop's sessions are buyers: without a token, not for pages of other sites, and not
// while the shop cannot say who asks.
func TestSessionsOfAShop(t *testing.T) {
	t.Parallel()
	identify := func(r *http.Request) (sluice.BuyerID, error) {
		cookie, err := r.Cookie("session")
		switch {
		case err != nil:
			return "", nil
		case cookie.Value == "broken":
			return "", errors.New("the sessions are out of reach")
		case cookie.Value == "hung":
			<-r.Context().Done()
			return "", r.Context().Err()
		}
		return sluice.BuyerID(cookie.Value), nil
	}
	e := opened(t, engine.Config{DataDir: t.TempDir(), BuyerID: "casefold", Identify: identify})
	onSale(t, e, "phone", 10)
	ask := func(session, site string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/sales/phone/orders",
			strings.NewReader(`{"quantity":1}`))
		r.Header.Set("Idempotency-Key", "attempt-1")
		r.Header.Set("Sec-Fetch-Site", site)
		if session != "" {
			r.AddCookie(&http.Cookie{Name: "session", Value: session})
		}
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w.Code, w.Header().Get("Location")
	}
	status, order := ask("Ann", "same-origin")
	if status != http.StatusAccepted {
		t.Fatalf("a session: %d", status)
	}
	if status, again := ask("ann", "none"); status != http.StatusAccepted || again != order {
		t.Errorf("the same buyer in another spelling: %d, %s, want %s", status, again, order)
	}
	for _, c := range []struct {
		session, site string
		want          int
	}{
		{"", "same-origin", http.StatusUnauthorized},
		{"bob", "cross-site", http.StatusForbidden},
		{"broken", "same-origin", http.StatusServiceUnavailable},
		{"hung", "same-origin", http.StatusServiceUnavailable},
		{" ", "same-origin", http.StatusUnauthorized},
	} {
		if status, _ := ask(c.session, c.site); status != c.want {
			t.Errorf("session %q from %s: %d, want %d", c.session, c.site, status, c.want)
		}
	}
}

// A shop serves Sluice under a path of its own: what answers and pages link to is there,
// and requests are answered whether the shop's mux takes the path off or not.
func TestUnderAPathOfTheShop(t *testing.T) {
	t.Parallel()
	if _, err := engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), BasePath: "flash/"}); err == nil ||
		!strings.Contains(err.Error(), "/flash") {
		t.Errorf("a path that is none: %v", err)
	}
	e := opened(t, engine.Config{
		DataDir: t.TempDir(), BasePath: "/flash",
		Identify: func(*http.Request) (sluice.BuyerID, error) { return "ann", nil },
	})
	onSale(t, e, "phone", 10)
	shop := http.NewServeMux()
	shop.Handle("/flash/", e.PublicHandler())
	shop.Handle("/api/", http.StripPrefix("/api", e.BuyerHandler()))
	shop.Handle("/pages/", http.StripPrefix("/pages", e.PageHandler()))
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"quantity":1}`))
		r.Header.Set("Idempotency-Key", "attempt-1")
		w := httptest.NewRecorder()
		shop.ServeHTTP(w, r)
		return w
	}
	for path, want := range map[string]int{
		"/flash": 301, "/flash/": 200, "/flash/v1/buyer": 200, "/flash/docs": 200, "/flash/s/phone": 200,
		"/flash/metrics": 404, "/flash/v1/admin/sales": 404,
		"/api/v1/sales": 200, "/api/s/phone": 404, "/api/metrics": 404, "/api/v1/admin/sales": 404,
		"/pages/s/phone": 200, "/pages/v1/sales": 404, "/pages/metrics": 404, "/v1/sales": 404,
	} {
		if w := ask(http.MethodGet, path); w.Code != want && !(path == "/flash" && w.Code/100 == 3) {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	at := ask(http.MethodPost, "/flash/v1/sales/phone/orders").Header().Get("Location")
	if !strings.HasPrefix(at, "/flash/v1/orders/phone.") {
		t.Errorf("Location: %q", at)
	}
	for from, to := range map[string]string{
		"/flash?a=b": "/flash/?a=b", "/flash//v1/sales?a=b": "/flash/v1/sales?a=b", "/flash/./v1/sales": "/flash/v1/sales",
		"/flash/v1/../metrics": "/flash/metrics", "/flash//s/": "/flash/s/",
	} {
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, from, nil))
		if got := w.Header().Get("Location"); w.Code != http.StatusTemporaryRedirect || got != to {
			t.Errorf("%s: %d to %q, want %q", from, w.Code, got, to)
		}
	}
	text := ask(http.MethodGet, "/flash/openapi.json").Body.String()
	if !strings.Contains(text, `"servers":[{"url":"/flash"}]`) {
		t.Error("the document does not have the path")
	}
	page := ask(http.MethodGet, "/flash/s/phone").Body.String()
	if strings.Contains(page, `="/s/`) || strings.Contains(page, `="/assets`) || strings.Contains(page, `href="/"`) {
		t.Error("the page has links outside the path")
	}
	if !strings.Contains(page, "data-session") || !strings.Contains(page, `src="/flash/assets/`) {
		t.Error("the page does not say where it is, and that there are sessions")
	}
}

// A shop's own server shuts down at once while event streams are open, also over HTTP/2
// and behind a middleware that lets no handler take over a connection.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"plain": func(h http.Handler) http.Handler { return h },
		"behind a middleware": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(flusher{w}, r) })
		},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", HTTP/2: ", http2), func(t *testing.T) {
				t.Parallel()
				e := opened(t, engine.Config{DataDir: t.TempDir()})
				onSale(t, e, "phone", 10)
				shop := httptest.NewUnstartedServer(wrap(e.Handler()))
				shop.EnableHTTP2 = http2
				shop.Config.RegisterOnShutdown(e.Drain)
				shop.StartTLS()
				defer shop.Close()
				const readers = 100
				ended := make(chan error, readers)
				for range readers {
					response, err := shop.Client().Get(shop.URL + "/v1/sales/phone/events")
					if err != nil || response.StatusCode != http.StatusOK || (response.ProtoMajor == 2) != http2 {
						t.Fatal(response, err)
					}
					go func() {
						_, err := io.Copy(io.Discard, response.Body)
						_ = response.Body.Close()
						ended <- err
					}()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if err := shop.Config.Shutdown(ctx); err != nil {
					t.Error(err)
				}
				for range readers {
					select {
					case <-ended:
					case <-ctx.Done():
						t.Fatal("a stream is still open")
					}
				}
			})
		}
	}
}

// flusher hides everything of a ResponseWriter but that it can flush.
type flusher struct{ w http.ResponseWriter }

func (f flusher) Header() http.Header            { return f.w.Header() }
func (f flusher) Write(text []byte) (int, error) { return f.w.Write(text) }
func (f flusher) WriteHeader(status int)         { f.w.WriteHeader(status) }
func (f flusher) Flush()                         { f.w.(http.Flusher).Flush() }
