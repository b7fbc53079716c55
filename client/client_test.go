package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// script answers the n-th request with the n-th step, the last one for ever,
// and remembers what was asked.
type script struct {
	mu    sync.Mutex
	seen  []*http.Request
	body  []string
	steps []http.HandlerFunc
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	n := min(len(s.seen), len(s.steps)-1)
	s.seen = append(s.seen, r)
	s.body = append(s.body, string(body))
	s.mu.Unlock()
	s.steps[n](w, r)
}

func serve(t *testing.T, o Options, steps ...http.HandlerFunc) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	c := must.Get(New(srv.URL+"/", o))(t)
	t.Cleanup(c.http.CloseIdleConnections)
	return c, s
}

func problem(status int, code, header, value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		if header != "" {
			w.Header().Set(header, value)
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(api.Problem{Title: "T", Status: status, Code: code})
	}
}

func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

const order1 = sluice.OrderID("s1.0123456789abcdef0123456789abcdef")

func accept(replayed bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(api.Placed{OrderID: order1, SaleID: "s1", Quantity: 1, Status: sluice.Queued})
	}
}

func TestPlaceKeepsItsKey(t *testing.T) {
	html := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>bad gateway</h1>", http.StatusBadGateway)
	}
	c, s := serve(
		t, Options{Token: "tok"},
		drop, problem(503, "outcome_unknown", "", ""), problem(503, "overloaded", "Retry-After", "0"),
		problem(429, "rate_limited", "", ""), html, accept(true),
	)
	got := must.Get(c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1}))(t)
	want := Placed{
		Placed: api.Placed{OrderID: order1, SaleID: "s1", Quantity: 1, Status: sluice.Queued}, Replayed: true,
		Attempts: 6,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for i, r := range s.seen {
		if r.Header.Get("Idempotency-Key") != "key-0001" || r.Header.Get("Authorization") != "Bearer tok" ||
			s.body[i] != `{"quantity":1}` || r.URL.Path != "/v1/sales/s1/orders" {
			t.Errorf("try %d: %s %s %v %q", i+1, r.Method, r.URL, r.Header, s.body[i])
		}
	}
}

// A redirect would take the key, ticket and body elsewhere, or over a network in the clear, and what comes
// back would not be the server's answer. The caller's HTTP client is not asked.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var followed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		followed.Add(1)
		accept(false)(w, r)
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		to := func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+r.URL.Path+"?secret=1", status)
		}
		for name, o := range map[string]Options{"its own": {}, "the caller's": {HTTPClient: &http.Client{}}} {
			o.Token, o.AdminKey, o.PlaceAttempts = "tok", "key", 1
			c, _ := serve(t, o, to)
			_, placing := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
			_, paying := c.PayOrder(t.Context(), order1, "p1")
			_, reading := c.Sale(t.Context(), "s1")
			var following error
			for _, following = range c.FollowSale(t.Context(), "s1") {
				break
			}
			for call, err := range map[string]error{
				"place": placing, "pay": paying, "read": reading, "follow": following,
			} {
				if _, lost := errors.AsType[*NetworkError](err); !lost || !strings.Contains(err.Error(), elsewhere.URL) ||
					strings.Contains(err.Error(), "secret") {
					t.Errorf("%d, %s client, %s: %v", status, name, call, err)
				}
			}
			if o.HTTPClient != nil && o.HTTPClient.CheckRedirect != nil {
				t.Error("the caller's client is changed")
			}
		}
	}
	if n := followed.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestPlaceStopsAtADecision(t *testing.T) {
	for _, code := range []string{
		"sold_out", "buyer_limit", "closed", "idempotency_key_reused", "rate_limited",
		"bad_request", "unauthenticated",
	} {
		c, s := serve(t, Options{}, problem(409, code, "", ""))
		_, err := c.Place(t.Context(), "s1", NewKey(), api.PlaceOrder{Quantity: 1})
		if CodeOf(err) != code || len(s.seen) != 1 {
			t.Errorf("%s: %v after %d requests", code, err, len(s.seen))
		}
		_, parse := sluice.ParseCode(code)
		if want := parse == nil && code != "rate_limited"; IsDecision(err) != want {
			t.Errorf("IsDecision(%s) = %v", code, !want)
		}
	}
}

func TestPlaceGivesUp(t *testing.T) {
	t.Run("nothing was decided", func(t *testing.T) {
		c, s := serve(t, Options{PlaceAttempts: 3}, problem(503, "unavailable", "", ""))
		_, err := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
		var unknown *OutcomeUnknownError
		if CodeOf(err) != "unavailable" || errors.As(err, &unknown) || len(s.seen) != 3 {
			t.Errorf("%v after %d requests", err, len(s.seen))
		}
	})
	t.Run("a try may have been accepted", func(t *testing.T) {
		c, s := serve(t, Options{PlaceAttempts: 2}, drop, problem(503, "unavailable", "", ""))
		_, err := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
		var unknown *OutcomeUnknownError
		if !errors.As(err, &unknown) || unknown.Key != "key-0001" || unknown.Attempts != 2 || len(s.seen) != 2 {
			t.Errorf("%v after %d requests", err, len(s.seen))
		}
	})
	t.Run("a proxy, or a server to an expired token, knows nothing of earlier tries", func(t *testing.T) {
		for _, second := range []http.HandlerFunc{problem(403, "", "", ""), problem(401, "unauthenticated", "", "")} {
			c, s := serve(t, Options{}, drop, second)
			_, err := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
			if unknown, ok := errors.AsType[*OutcomeUnknownError](err); !ok || unknown.Attempts != 2 || len(s.seen) != 2 {
				t.Errorf("%v after %d requests", err, len(s.seen))
			}
		}
	})
	t.Run("no listener", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		c, _ := New("http://"+l.Addr().String(), Options{PlaceAttempts: 2})
		_, err = c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
		var network *NetworkError
		var unknown *OutcomeUnknownError
		if !errors.As(err, &network) || errors.As(err, &unknown) || !strings.Contains(err.Error(), "refused") {
			t.Error(err)
		}
	})
	t.Run("an answer that is none", func(t *testing.T) {
		lie := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"order_id":"x"}`)) }
		c, _ := serve(t, Options{PlaceAttempts: 1}, lie)
		_, err := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
		var unknown *OutcomeUnknownError
		if !errors.As(err, &unknown) {
			t.Error(err)
		}
	})
	t.Run("a key that the server would refuse", func(t *testing.T) {
		c, s := serve(t, Options{}, accept(false))
		if _, err := c.Place(t.Context(), "s1", "short", api.PlaceOrder{Quantity: 1}); err == nil || len(s.seen) != 0 {
			t.Error(err)
		}
	})
}

// The server asks for an hour; the caller has a second. Waiting would be in
// vain, so the answer comes at once.
func TestPlaceHonoursRetryAfterWithinTheDeadline(t *testing.T) {
	c, s := serve(t, Options{}, problem(503, "overloaded", "Retry-After", "3600"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour/2)
	defer cancel()
	_, err := c.Place(ctx, "s1", "key-0001", api.PlaceOrder{Quantity: 1})
	var e *Error
	if !errors.As(err, &e) || e.Code != "overloaded" || e.RetryAfter != time.Hour || len(s.seen) != 1 {
		t.Errorf("%v after %d requests", err, len(s.seen))
	}

	ctx, cancel = context.WithCancel(t.Context())
	c, _ = serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		problem(503, "overloaded", "Retry-After", "3600")(w, r)
		time.AfterFunc(10*time.Millisecond, cancel)
	})
	if _, err := c.Place(ctx, "s1", "key-0001", api.PlaceOrder{Quantity: 1}); err == nil {
		t.Error("placed after the context was cancelled")
	}
}

func TestPlaceWaitsAsLongAsAsked(t *testing.T) {
	c, _ := serve(t, Options{}, problem(503, "overloaded", "Retry-After", "1"), accept(false))
	start := time.Now()
	if _, err := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1}); err != nil ||
		time.Since(start) < time.Second {
		t.Errorf("%v after %s", err, time.Since(start))
	}
}

func TestErrorCarriesTheExtensions(t *testing.T) {
	opens := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	c, _ := serve(t, Options{PlaceAttempts: 1}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(409)
		_, _ = w.Write(
			[]byte(`{"title":"T","status":409,"code":"not_open","detail":"D","opens_at":"2026-11-11T12:00:00.000Z","order_ids":["a.b"],"more":1}`))
	})
	_, err := c.Place(t.Context(), "s1", "key-0001", api.PlaceOrder{Quantity: 1})
	want := &Error{
		Code: "not_open", Status: 409, Title: "T", Detail: "D", RetryAfter: 7 * time.Second, OpensAt: opens,
		OrderIDs: []sluice.OrderID{"a.b"},
	}
	if d := cmp.Diff(error(want), err); d != "" {
		t.Error(d)
	}
	for text, err := range map[string]error{
		"D (not_open, opens at 2026-11-11T12:00:00.000Z)": err,
		"T (sale_not_found)":                              &Error{Code: "sale_not_found", Status: 404, Title: "T"},
		"Bad Gateway (HTTP 502)":                          &Error{Status: 502}, // of a proxy
	} {
		if err.Error() != text {
			t.Errorf("%s, want %s", err, text)
		}
	}
}

func TestCalls(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }
	c, s := serve(t, Options{Token: "tok", AdminKey: "adm"}, ok)
	ctx := t.Context()
	filter := sluice.OrderFilter{Sale: "s1", Buyer: "b &", Status: sluice.Pending, Limit: 5, Cursor: "c="}
	for _, call := range []struct {
		want string
		do   func() error
	}{
		{"GET /v1/sales  ", func() error { _, err := c.Sales(ctx); return err }},
		{"GET /v1/sales/s1  ", func() error { _, err := c.Sale(ctx, "s1"); return err }},
		{"GET /v1/time  ", func() error { _, err := c.Time(ctx); return err }},
		{"GET /healthz  ", func() error { return c.Health(ctx) }},
		{"GET /readyz  ", func() error { _, err := c.Ready(ctx); return err }},
		{"GET /v1/orders/s1.0 Bearer tok ", func() error { _, err := c.Order(ctx, "s1.0"); return err }},
		{"GET /v1/orders?limit=5 Bearer tok ", func() error {
			_, err := c.Orders(ctx, sluice.OrderFilter{Limit: 5})
			return err
		}},
		{"POST /v1/orders/s1.0/cancel Bearer tok ", func() error { _, err := c.CancelOrder(ctx, "s1.0"); return err }},
		{`POST /v1/admin/sales Bearer adm {"sku":"K","title":"T","total":null}`, func() error {
			_, err := c.CreateSale(ctx, api.CreateSale{SKU: "K", Title: "T", Total: api.Null[int64]()})
			return err
		}},
		{"GET /v1/admin/sales Bearer adm ", func() error { _, err := c.AdminSales(ctx); return err }},
		{"GET /v1/admin/sales/s1 Bearer adm ", func() error { _, err := c.AdminSale(ctx, "s1"); return err }},
		{`PATCH /v1/admin/sales/s1 Bearer adm {"closes_at":null}`, func() error {
			_, err := c.PatchSale(ctx, "s1", api.PatchSale{ClosesAt: api.Null[api.Time]()})
			return err
		}},
		{"POST /v1/admin/sales/s1/open Bearer adm ", func() error { _, err := c.OpenSale(ctx, "s1"); return err }},
		{"POST /v1/admin/sales/s1/pause Bearer adm ", func() error { _, err := c.PauseSale(ctx, "s1"); return err }},
		{"POST /v1/admin/sales/s1/resume Bearer adm ", func() error { _, err := c.ResumeSale(ctx, "s1"); return err }},
		{"POST /v1/admin/sales/s1/close Bearer adm ", func() error { _, err := c.CloseSale(ctx, "s1"); return err }},
		{"GET /v1/admin/orders?buyer=b+%26&cursor=c%3D&limit=5&sale=s1&status=pending Bearer adm ", func() error {
			_, err := c.AdminOrders(ctx, filter)
			return err
		}},
		{"GET /v1/admin/orders/s1.0 Bearer adm ", func() error { _, err := c.AdminOrder(ctx, "s1.0"); return err }},
		{`POST /v1/admin/orders/s1.0/pay Bearer adm {"payment_id":"p-1"}`, func() error {
			_, err := c.PayOrder(ctx, "s1.0", "p-1")
			return err
		}},
		{"POST /v1/admin/orders/s1.0/refund Bearer adm ", func() error { _, err := c.RefundOrder(ctx, "s1.0"); return err }},
		{"POST /v1/admin/orders/s1.0/cancel Bearer adm ", func() error {
			_, err := c.AdminCancelOrder(ctx, "s1.0")
			return err
		}},
		{`POST /v1/admin/orders/s1.0/reject Bearer adm {"reason":"no stock"}`, func() error {
			_, err := c.RejectOrder(ctx, "s1.0", "no stock")
			return err
		}},
		{"GET /v1/admin/orders/s1.0/history Bearer adm ", func() error { _, err := c.OrderHistory(ctx, "s1.0"); return err }},
		{"GET /v1/admin/dead-letters Bearer adm ", func() error { _, err := c.DeadLetters(ctx, ""); return err }},
		{"GET /v1/admin/dead-letters?sale=s1 Bearer adm ", func() error { _, err := c.DeadLetters(ctx, "s1"); return err }},
		{"GET /v1/admin/dead-letters/7 Bearer adm ", func() error { _, err := c.DeadLetter(ctx, 7); return err }},
		{"POST /v1/admin/dead-letters/7/replay Bearer adm ", func() error {
			_, err := c.ReplayDeadLetter(ctx, 7)
			return err
		}},
		{`POST /v1/admin/sales/s1/restock Bearer adm {"id":"r-1","delta":-5}`, func() error {
			_, err := c.RestockSale(ctx, "s1", "r-1", -5)
			return err
		}},
		{`POST /v1/admin/sales/s1/recover Bearer adm {"apply":true}`, func() error {
			_, err := c.RecoverSale(ctx, "s1", true)
			return err
		}},
		{"GET /v1/admin/sales/s1/audit Bearer adm ", func() error { _, err := c.Audit(ctx, "s1"); return err }},
	} {
		if err := call.do(); err != nil {
			t.Errorf("%s: %v", call.want, err)
			continue
		}
		last := len(s.seen) - 1
		r := s.seen[last]
		if got := r.Method + " " + r.URL.RequestURI() + " " + r.Header.Get("Authorization") + " " +
			s.body[last]; got != call.want {
			t.Errorf("got  %s\nwant %s", got, call.want)
		}
	}
}

func TestNewRefusesWhatIsNoServer(t *testing.T) {
	for _, bad := range []string{
		"", "localhost:8080", "ftp://h", "http://", "http://u:p@h", "http://h?x=1", "http://h#f",
		"://",
	} {
		if _, err := New(bad, Options{}); err == nil {
			t.Errorf("%q is taken", bad)
		} else if strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: the error shows the password: %v", bad, err)
		}
	}
}

func TestNewKeyIsValidAndNew(t *testing.T) {
	a, b := NewKey(), NewKey()
	if a.Validate() != nil || a == b {
		t.Errorf("%q %q", a, b)
	}
}
