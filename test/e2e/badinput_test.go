package e2e

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/must"
)

// call is one request as some client sends it, and the answer it must get.
type call struct {
	name   string
	path   string // after the server's URL; "" places an order
	bearer string // "-" sends none
	key    string // "-" sends none
	body   string
	status int
	code   string
}

// Bad input gets the right status and code, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]func(*testing.T) backends{
		"sqlite":             func(*testing.T) backends { return backends{} },
		"redis and postgres": sharedBackends,
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, on(t))
			sale := createSale(t, s, 100, 10)
			token := mint(t, "alice", time.Hour)
			before := must.Get(s.merchant().AdminSales(t.Context()))(t)
			for _, c := range append(badOrders(t, token), badSales()...) {
				if c.path == "" {
					c.path = "/v1/sales/" + string(sale) + "/orders"
				}
				if c.bearer == "" {
					c.bearer = token
				}
				if c.key == "" {
					c.key = "attempt-0001"
				}
				if status, code := send(t, s.url, c); status != c.status || code != c.code {
					t.Errorf("%s: %d %s, want %d %s", c.name, status, code, c.status, c.code)
				}
			}
			after := must.Get(s.merchant().AdminSales(t.Context()))(t)
			for i := range after {
				after[i].ServerTime, after[i].AsOf = before[i].ServerTime, before[i].AsOf
			}
			if d := cmp.Diff(before, after); d != "" {
				t.Errorf("the sales have changed:\n%s", d)
			}
			if orders := storedOrders(t, s, sale); len(orders) > 0 {
				t.Errorf("there are orders: %+v", orders)
			}
			alice := buyer(t, s.url, "alice", client.Options{})
			if _, err := alice.Place(t.Context(), sale, "attempt-0001", api.PlaceOrder{Quantity: 1}); err != nil {
				t.Errorf("after all that, a good claim: %v", err)
			}
		})
	}
}

func badOrders(t *testing.T, token string) []call {
	parts := strings.Split(token, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
	forged := parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
	const bad = "bad_request"
	return []call{
		{name: "broken JSON", body: `{"quantity":1`, status: 400, code: bad},
		{name: "no JSON", body: `quantity=1`, status: 400, code: bad},
		{name: "nothing", body: ``, status: 400, code: bad},
		{name: "an array", body: `[1]`, status: 400, code: bad},
		{name: "two values", body: `{"quantity":1}{"quantity":1}`, status: 400, code: bad},
		{name: "an unknown field", body: `{"quantity":1,"price":0}`, status: 400, code: bad},
		{name: "a field twice", body: `{"quantity":1,"quantity":2}`, status: 400, code: bad},
		{name: "no quantity", body: `{}`, status: 400, code: bad},
		{name: "quantity 0", body: `{"quantity":0}`, status: 400, code: bad},
		{name: "quantity -1", body: `{"quantity":-1}`, status: 400, code: bad},
		{name: "quantity 1.5", body: `{"quantity":1.5}`, status: 400, code: bad},
		{name: "quantity 1e3", body: `{"quantity":1e3}`, status: 400, code: bad},
		{name: "quantity huge", body: `{"quantity":99999999999999999999}`, status: 400, code: bad},
		{name: "quantity above the most", body: `{"quantity":1000001}`, status: 400, code: bad},
		{name: "quantity a text", body: `{"quantity":"1"}`, status: 400, code: bad},
		{name: "quantity null", body: `{"quantity":null}`, status: 400, code: bad},
		{
			name: "meta of 600 bytes", body: `{"quantity":1,"meta":{"x":"` + strings.Repeat("x", 600) + `"}}`, status: 400,
			code: bad,
		},
		{name: "meta a text", body: `{"quantity":1,"meta":"x"}`, status: 400, code: bad},
		{
			name: "10 MB", body: `{"quantity":1,"meta":{"x":"` + strings.Repeat("x", 10<<20) + `"}}`, status: 413,
			code: "too_large",
		},
		{name: "no key", key: "-", body: `{"quantity":1}`, status: 400, code: bad},
		{name: "a short key", key: "short", body: `{"quantity":1}`, status: 400, code: bad},
		{name: "a long key", key: strings.Repeat("k", 65), body: `{"quantity":1}`, status: 400, code: bad},
		{name: "an exotic key", key: "attempt 1é", body: `{"quantity":1}`, status: 400, code: bad},
		{name: "no token", bearer: "-", body: `{"quantity":1}`, status: 401, code: "unauthenticated"},
		{name: "nonsense for a token", bearer: "nonsense", body: `{"quantity":1}`, status: 401, code: "unauthenticated"},
		{
			name: "an expired token", bearer: mint(t, "alice", -time.Hour), body: `{"quantity":1}`, status: 401,
			code: "unauthenticated",
		},
		{name: "a forged token", bearer: forged, body: `{"quantity":1}`, status: 401, code: "unauthenticated"},
		{name: "alg none", bearer: none, body: `{"quantity":1}`, status: 401, code: "unauthenticated"},
		{name: "the admin key", bearer: adminKey, body: `{"quantity":1}`, status: 403, code: "forbidden"},
		{
			name: "an unknown sale", path: "/v1/sales/toaster/orders", body: `{"quantity":1}`, status: 404,
			code: "sale_not_found",
		},
		{
			name: "no sale's id", path: "/v1/sales/No%20Sale/orders", body: `{"quantity":1}`, status: 404,
			code: "sale_not_found",
		},
	}
}

func badSales() []call {
	sale := func(change map[string]any) string {
		good := map[string]any{
			"id": "bad", "sku": "S", "title": "T", "price": map[string]any{"amount": 1, "currency": "CNY"}, "total": 1,
			"max_per_buyer": 1,
			"opens_at":      "2026-11-11T12:00:00.000Z", "closes_at": "2036-11-11T12:00:00.000Z",
		}
		for field, value := range change {
			good[field] = value
		}
		text, err := json.Marshal(good)
		if err != nil {
			panic(err) // texts and numbers only
		}
		return string(text)
	}
	var calls []call
	for name, change := range map[string]map[string]any{
		"a negative price":       {"price": map[string]any{"amount": -1, "currency": "CNY"}},
		"no currency":            {"price": map[string]any{"amount": 1}},
		"closing before opening": {"closes_at": "2026-11-11T11:00:00.000Z"},
		"a negative total":       {"total": -1},
		"a fractional total":     {"total": 1.5},
		"a limit of 0":           {"max_per_buyer": 0},
		"a negative limit":       {"max_per_buyer": -1},
		"a bad id":               {"id": "No Sale"},
		"no title":               {"title": ""},
		"an unknown field":       {"colour": "red"},
		"a time that is none":    {"opens_at": "tomorrow"},
	} {
		calls = append(calls, call{
			name: "a sale with " + name, path: "/v1/admin/sales", bearer: adminKey, body: sale(change),
			status: 400, code: "bad_request",
		})
	}
	return append(calls,
		call{
			name: "a sale of a stranger", path: "/v1/admin/sales", bearer: "wrong", body: sale(nil), status: 401,
			code: "unauthenticated",
		},
		call{
			name: "a sale of 10 MB", path: "/v1/admin/sales", bearer: adminKey,
			body: sale(map[string]any{"title": strings.Repeat("x", 10<<20)}), status: 413, code: "too_large",
		},
	)
}

// send posts the call and returns the answer's status and code.
func send(t testing.TB, url string, c call) (int, string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url+c.path, strings.NewReader(c.body)))(t)
	if c.bearer != "-" {
		request.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	if c.key != "-" {
		request.Header.Set("Idempotency-Key", c.key)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return 0, ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
	}
	var problem struct {
		Code   string `json:"code"`
		Status int    `json:"status"`
	}
	if err := json.Unmarshal(body, &problem); err != nil {
		t.Errorf("%s: %v: %s", c.name, err, body)
	}
	if answer.Header.Get("Content-Type") != "application/problem+json" || problem.Status != answer.StatusCode {
		t.Errorf("%s: not a problem: %s %s", c.name, answer.Header.Get("Content-Type"), body)
	}
	return answer.StatusCode, problem.Code
}
