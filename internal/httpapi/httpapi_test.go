package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// shop is a running engine with its HTTP API on a real socket.
type shop struct {
	t      *testing.T
	engine *engine.Engine
	url    string
	dir    string // of its data
}

func open(t *testing.T) *shop {
	dir := t.TempDir()
	e := must.Get(engine.Open(t.Context(), engine.Config{DataDir: dir, RefreshInterval: 20 * time.Millisecond}))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &shop{t: t, engine: e, url: server.URL, dir: dir}
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
	fields map[string]any // of a JSON object
}

func (a answer) code() string { s, _ := a.fields["code"].(string); return s }
func (a answer) text(field string) string {
	return fmt.Sprint(a.fields[field])
}

// do sends a request; headers are "Name: value".
func (s *shop) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	request := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body)))(s.t)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	response := must.Get(http.DefaultClient.Do(request))(s.t)
	defer response.Body.Close()
	content := must.Get(io.ReadAll(response.Body))(s.t)
	a := answer{status: response.StatusCode, header: response.Header, body: string(content)}
	_ = json.Unmarshal(content, &a.fields)
	return a
}

func (s *shop) admin(method, path, body string) answer {
	s.t.Helper()
	return s.do(method, path, body, "Authorization: Bearer "+s.engine.AdminKey())
}

// token signs a token with the shop's secret.
func (s *shop) token(claims jwt.MapClaims) string {
	s.t.Helper()
	signed := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(s.engine.BuyerSecret())))(s.t)
	return signed
}

func (s *shop) auth(buyer string) string {
	return "Authorization: Bearer " + s.token(jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(time.Hour).Unix()})
}

// claim sends a claim of one unit, or of the body given.
func (s *shop) claim(sale, buyer, key string, body ...string) answer {
	s.t.Helper()
	content := `{"quantity":1}`
	if len(body) > 0 {
		content = body[0]
	}
	return s.do("POST", "/v1/sales/"+sale+"/orders", content, s.auth(buyer), "Idempotency-Key: "+key)
}

// create makes a sale; the fields given replace those of a good one.
func (s *shop) create(id string, fields ...string) answer {
	s.t.Helper()
	return s.admin("POST", "/v1/admin/sales", saleJSON(id, fields...))
}

func saleJSON(id string, fields ...string) string {
	sale := map[string]json.RawMessage{
		"id": json.RawMessage(`"` + id + `"`), "sku": json.RawMessage(`"SKU"`), "title": json.RawMessage(`"Title"`),
		"price": json.RawMessage(`{"amount":100,"currency":"CNY"}`), "total": json.RawMessage(`10`),
		"max_per_buyer": json.RawMessage(`1`), "opens_at": json.RawMessage(`"2026-01-01T00:00:00Z"`),
		"closes_at": json.RawMessage(`null`),
	}
	for _, f := range fields {
		name, value, _ := strings.Cut(f, "=")
		if value == "" {
			delete(sale, name)
			continue
		}
		sale[name] = json.RawMessage(value)
	}
	body, err := json.Marshal(sale)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// must fails the test unless the answer has the status and, if given, the code.
func (s *shop) must(a answer, status int, code ...string) answer {
	s.t.Helper()
	if a.status != status || len(code) > 0 && a.code() != code[0] {
		s.t.Fatalf("answer %d %s, want %d %v", a.status, a.body, status, code)
	}
	return a
}

func TestAClaimBecomesAnOrder(t *testing.T) {
	s := open(t)
	s.must(s.create("phone"), 201)
	placed := s.must(s.claim("phone", "alice", "attempt-1", `{"quantity":1,"meta":{"size": "XL"}}`), 202)
	if placed.text("status") != "queued" || placed.text("sale_id") != "phone" ||
		placed.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("placed: %s", placed.body)
	}
	id := placed.text("order_id")
	if !strings.HasPrefix(id, "phone.") {
		t.Errorf("order id %q does not carry its sale", id)
	}

	again := s.must(s.claim("phone", "alice", "attempt-1", `{"meta":{"size":"XL"},"quantity":1}`), 202)
	if again.body != placed.body || again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a repeat: %s, replayed %q; want the same body and true (I4)", again.body,
			again.header.Get("Idempotent-Replayed"))
	}
	s.must(s.claim("phone", "alice", "attempt-1", `{"quantity":2}`), 422, "idempotency_key_reused")
	s.must(s.claim("phone", "alice", "attempt-1"), 422, "idempotency_key_reused") // no meta
	limit := s.must(s.claim("phone", "alice", "attempt-2"), 409, "buyer_limit")
	if limit.text("order_ids") != "["+id+"]" || limit.text("detail") != "at most 1 per buyer" {
		t.Errorf("buyer_limit carries %v and says %q, want the live order %s and the limit", limit.fields["order_ids"],
			limit.text("detail"), id)
	}
	if much := s.must(s.claim("phone", "carol", "attempt-1", `{"quantity":2}`), 409, "buyer_limit"); much.text("detail") !=
		"at most 1 per buyer" {
		t.Errorf("more than the limit at once: %s", much.body)
	}
	if other := s.must(s.claim("phone", "bob", "attempt-1"), 202); other.text("order_id") == id {
		t.Error("equal keys of two buyers are one claim")
	}

	order := s.must(s.do("GET", "/v1/orders/"+id, "", s.auth("alice")), 200)
	for deadline := time.Now().Add(10 * time.Second); order.text("status") == "queued" && time.Now().Before(deadline); {
		order = s.must(s.do("GET", "/v1/orders/"+id, "", s.auth("alice")), 200)
	}
	if order.text("status") != "pending" || order.text("meta") != "map[size:XL]" || order.text("expires_at") == "<nil>" {
		t.Errorf("order: %s", order.body)
	}
	if _, leaked := order.fields["buyer_id"]; leaked {
		t.Error("the buyer's view has the merchant's fields")
	}
	s.must(s.do("GET", "/v1/orders/"+id, "", s.auth("bob")), 404, "order_not_found")
	s.must(s.do("GET", "/v1/orders/phone."+strings.Repeat("0", 32), "", s.auth("alice")), 404, "order_not_found")
	s.must(s.do("GET", "/v1/orders/nonsense", "", s.auth("alice")), 404, "order_not_found")
	s.must(s.do("GET", "/v1/orders/other."+strings.Repeat("0", 32), "", s.auth("alice")), 404, "order_not_found")
	if list := s.must(s.do("GET", "/v1/orders", "", s.auth("alice")), 200); strings.Count(list.body, "order_id") != 1 {
		t.Errorf("alice's orders: %s", list.body)
	}
	if shown := s.must(s.admin("GET", "/v1/admin/orders/"+id, ""), 200); shown.text("buyer_id") != "alice" {
		t.Errorf("the merchant's view: %s", shown.body)
	}
	report := s.must(s.admin("GET", "/v1/admin/sales/phone/audit", ""), 200)
	if report.text("ok") != "true" {
		t.Errorf("audit: %s", report.body)
	}
}

// Refusals by the gate and by the ledger read the same, and neither breaks I4.
func TestRefusals(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", "total=2", "max_per_buyer=5"), 201)
	first := s.must(s.claim("phone", "alice", "attempt-1"), 202)
	s.must(s.claim("phone", "bob", "attempt-1", `{"quantity":2}`), 409, "insufficient")
	s.must(s.claim("phone", "bob", "attempt-2"), 202)
	for range 200 { // first the ledger, then the gate
		s.must(s.claim("phone", "carol", "attempt-1"), 409, "sold_out")
	}
	s.must(s.claim("phone", "carol", "attempt-1", `{"quantity":6}`), 409, "buyer_limit")
	s.must(s.claim("phone", "alice", "attempt-1"), 202)

	s.must(s.admin("POST", "/v1/admin/sales/phone/pause", ""), 200)
	s.must(s.claim("phone", "carol", "attempt-1"), 409, "paused")
	s.must(s.admin("POST", "/v1/admin/sales/phone/resume", ""), 200)
	s.must(s.claim("phone", "carol", "attempt-1"), 409, "sold_out")
	if p := s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"total":3}`), 200); p.text("available") != "1" {
		t.Errorf("after raising the total: %s", p.body)
	}
	s.must(s.claim("phone", "carol", "attempt-1"), 202)
	s.must(s.admin("POST", "/v1/admin/sales/phone/close", ""), 200)
	s.must(s.claim("phone", "dave", "attempt-1"), 409, "closed")
	s.must(s.admin("POST", "/v1/admin/sales/phone/close", ""), 200) // idempotent
	s.must(s.admin("POST", "/v1/admin/sales/phone/open", ""), 409, "sale_state")
	s.must(s.admin("POST", "/v1/admin/sales/phone/pause", ""), 409, "sale_state")
	if again := s.must(s.claim("phone", "alice", "attempt-1"), 202); again.body != first.body {
		t.Errorf("a repeat after the sale has closed: %s, want %s (I4)", again.body, first.body)
	}

	opens := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
	s.must(s.create("later", `opens_at="`+opens+`"`), 201)
	for range 50 {
		early := s.must(s.claim("later", "alice", "attempt-1"), 409, "not_open")
		if early.text("opens_at") != opens {
			t.Fatalf("not_open carries opens_at %s, want %s", early.text("opens_at"), opens)
		}
	}
	s.must(s.admin("POST", "/v1/admin/sales/later/open", ""), 200)
	s.must(s.claim("later", "alice", "attempt-1"), 202)
	s.must(s.admin("PATCH", "/v1/admin/sales/later", `{"total":5}`), 409, "sale_state")
	s.must(s.admin("PATCH", "/v1/admin/sales/later", `{"max_per_buyer":5}`), 409, "sale_state")

	s.must(s.create("none", "total=0"), 201)
	s.must(s.claim("none", "alice", "attempt-1"), 409, "sold_out")
	s.must(s.claim("unknown", "alice", "attempt-1"), 404, "sale_not_found")
	s.must(s.claim("UNKNOWN", "alice", "attempt-1"), 404, "sale_not_found")
	for _, id := range []string{"phone", "later", "none"} {
		if report := s.must(s.admin("GET", "/v1/admin/sales/"+id+"/audit", ""), 200); report.text("ok") != "true" {
			t.Errorf("audit of %s: %s", id, report.body)
		}
	}
}

// A buyer who holds nothing any more, and has had as many orders as allowed,
// gets that limit as the reason.
func TestTheLimitOfOrdersIsNamed(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", "max_orders_per_buyer=1"), 201)
	id := s.must(s.claim("phone", "alice", "attempt-1"), 202).text("order_id")
	s.stored(id)
	s.must(s.do("POST", "/v1/orders/"+id+"/cancel", "", s.auth("alice")), 200)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		a := s.must(s.claim("phone", "alice", "attempt-2"), 409, "buyer_limit")
		if a.text("detail") ==
			"orders per buyer, ended ones too: at most 1; after 2 that expired or that the buyer cancelled: none" {
			return
		}
		if time.Now().After(deadline) { // the unit has come back by now
			t.Fatalf("told: %s", a.body)
		}
	}
}

// A buyer who takes units again and again and does not pay is refused for the
// rest of the sale, on a ledger that was loaded again too. The merchant's own
// endings do not count, nor against others, and null lifts the limit.
func TestHoldingWithoutPayingComesToAnEnd(t *testing.T) {
	t.Parallel()
	s := open(t)
	if sale := s.must(s.create("phone"), 201); sale.fields["max_unpaid_per_buyer"] != 2.0 {
		t.Errorf("max_unpaid_per_buyer %v, want 2", sale.fields["max_unpaid_per_buyer"])
	}
	attempt := 0
	claim := func(code int, detail string) string { // when the unit has come back
		t.Helper()
		attempt++
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			a := s.claim("phone", "alice", fmt.Sprintf("attempt-%d", attempt))
			if a.status == code && (detail == "" || a.text("detail") == detail) {
				return a.text("order_id")
			}
			if time.Now().After(deadline) {
				t.Fatalf("attempt %d: %s", attempt, a.body)
			}
		}
	}
	ended := func(cancel func(id string)) {
		t.Helper()
		id := claim(202, "")
		s.stored(id)
		cancel(id)
	}
	byMerchant := func(id string) { s.must(s.admin("POST", "/v1/admin/orders/"+id+"/cancel", ""), 200) }
	byBuyer := func(id string) { s.must(s.do("POST", "/v1/orders/"+id+"/cancel", "", s.auth("alice")), 200) }
	ended(byMerchant)
	ended(byBuyer)
	ended(byMerchant)
	ended(byBuyer)
	const detail = "orders per buyer, ended ones too: at most 10; after 2 that expired or that the buyer cancelled: none"
	claim(409, detail)
	s.must(s.claim("phone", "bob", "attempt-1"), 202)
	s.must(s.claim("phone", "alice", "attempt-2"), 202) // a repeat (I4)
	if report := s.must(s.admin("GET", "/v1/admin/sales/phone/audit", ""), 200); report.text("ok") != "true" {
		t.Errorf("audit: %s", report.body)
	}
	if sale := s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"max_unpaid_per_buyer":null}`),
		200); sale.fields["max_unpaid_per_buyer"] != nil {
		t.Errorf("lifted: %s", sale.body)
	}
	claim(202, "")
}

func TestLimitsMayBeAbsent(t *testing.T) {
	s := open(t)
	s.must(s.create("free", "total=null", "max_per_buyer=null", "closes_at="), 201)
	for i := range 20 {
		s.must(s.claim("free", "alice", fmt.Sprintf("attempt-%d", i), `{"quantity":7}`), 202)
	}
	sale := s.must(s.do("GET", "/v1/sales/free", ""), 200)
	for _, field := range []string{"total", "available", "max_per_buyer", "closes_at", "list_price"} {
		if v, ok := sale.fields[field]; !ok || v != nil {
			t.Errorf("%s = %v, %v; want null", field, v, ok)
		}
	}
}

func TestBadClaimsChangeNothing(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", "max_per_buyer=5"), 201)
	alice := s.auth("alice")
	good := "Idempotency-Key: attempt-1"
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		code       string
	}{
		{"broken JSON", `{"quantity":`, []string{alice, good}, 400, "bad_request"},
		{"empty", ``, []string{alice, good}, 400, "bad_request"},
		{"an array", `[1]`, []string{alice, good}, 400, "bad_request"},
		{"unknown field", `{"quantity":1,"price":0}`, []string{alice, good}, 400, "bad_request"},
		{"other spelling", `{"Quantity":1}`, []string{alice, good}, 400, "bad_request"},
		{"twice", `{"quantity":1,"quantity":2}`, []string{alice, good}, 400, "bad_request"},
		{"trailing", `{"quantity":1}{}`, []string{alice, good}, 400, "bad_request"},
		{"no quantity", `{}`, []string{alice, good}, 400, "bad_request"},
		{"null", `{"quantity":null}`, []string{alice, good}, 400, "bad_request"},
		{"zero", `{"quantity":0}`, []string{alice, good}, 400, "bad_request"},
		{"negative", `{"quantity":-1}`, []string{alice, good}, 400, "bad_request"},
		{"huge", `{"quantity":99999999999999999999}`, []string{alice, good}, 400, "bad_request"},
		{"fractional", `{"quantity":1.5}`, []string{alice, good}, 400, "bad_request"},
		{"exponent", `{"quantity":1e0}`, []string{alice, good}, 400, "bad_request"},
		{"a string", `{"quantity":"1"}`, []string{alice, good}, 400, "bad_request"},
		{"meta no object", `{"quantity":1,"meta":"x"}`, []string{alice, good}, 400, "bad_request"},
		{
			"meta too large", `{"quantity":1,"meta":{"x":"` + strings.Repeat("y", 600) + `"}}`,
			[]string{alice, good},
			400,
			"bad_request",
		},
		{"meta too deep", `{"quantity":1,"meta":` + deep + `}`, []string{alice, good}, 400, "bad_request"},
		{"not UTF-8", "{\"quantity\":1,\"meta\":{\"x\":\"\xff\"}}", []string{alice, good}, 400, "bad_request"},
		{
			"10 MB", `{"quantity":1,"meta":{"x":"` + strings.Repeat("y", 10<<20) + `"}}`,
			[]string{alice, good},
			413,
			"too_large",
		},
		{"no key", `{"quantity":1}`, []string{alice}, 400, "bad_request"},
		{"two keys", `{"quantity":1}`, []string{alice, good, good}, 400, "bad_request"},
		{"short key", `{"quantity":1}`, []string{alice, "Idempotency-Key: 1234567"}, 400, "bad_request"},
		{"long key", `{"quantity":1}`, []string{alice, "Idempotency-Key: " + strings.Repeat("x", 65)}, 400, "bad_request"},
		{"exotic key", `{"quantity":1}`, []string{alice, "Idempotency-Key: attempt 1"}, 400, "bad_request"},
		{"key with a tab", `{"quantity":1}`, []string{alice, "Idempotency-Key: attempt\t1"}, 400, "bad_request"},
		{"Chinese key", `{"quantity":1}`, []string{alice, "Idempotency-Key: 抢购请求抢购"}, 400, "bad_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shop{t: t, engine: s.engine, url: s.url}
			a := s.must(s.do("POST", "/v1/sales/phone/orders", c.body, c.headers...), c.status, c.code)
			if ct := a.header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("Content-Type %q", ct)
			}
			if a.text("status") != fmt.Sprint(c.status) || a.text("title") == "" || a.text("detail") == "<nil>" {
				t.Errorf("problem without status, title or detail: %s", a.body)
			}
		})
	}
	if sale := s.admin("GET", "/v1/admin/sales/phone", ""); sale.text("taken") != "0" || sale.text("seq") != "0" {
		t.Errorf("bad claims changed the sale: %s", sale.body)
	}
}

func TestTokens(t *testing.T) {
	s := open(t)
	s.must(s.create("phone"), 201)
	hour := time.Now().Add(time.Hour).Unix()
	forged := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": "eve", "exp": hour}).SignedString([]byte("another secret")))(t)
	none := must.Get(jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "eve", "exp": hour}).SignedString(
		jwt.UnsafeAllowNoneSignatureType))(t)
	longer := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS512,
		jwt.MapClaims{"sub": "eve", "exp": hour}).SignedString([]byte(s.engine.BuyerSecret())))(t)
	good := s.token(jwt.MapClaims{"sub": "eve", "exp": hour})
	for _, c := range []struct {
		name, header string
		code         string
	}{
		{"none", "X: y", "unauthenticated"},
		{"another scheme", "Authorization: Basic ZXZlOng=", "unauthenticated"},
		{"not a JWT", "Authorization: Bearer abc", "unauthenticated"},
		{"expired", "Authorization: Bearer " +
			s.token(jwt.MapClaims{"sub": "eve", "exp": time.Now().Add(-time.Minute).Unix()}), "unauthenticated"},
		{"no exp", "Authorization: Bearer " + s.token(jwt.MapClaims{"sub": "eve"}), "unauthenticated"},
		{
			"not yet", "Authorization: Bearer " + s.token(jwt.MapClaims{"sub": "eve", "exp": hour, "nbf": hour - 60}),
			"unauthenticated",
		},
		{"no sub", "Authorization: Bearer " + s.token(jwt.MapClaims{"exp": hour}), "unauthenticated"},
		{
			"sub with a control character", "Authorization: Bearer " + s.token(jwt.MapClaims{"sub": "e\tve", "exp": hour}),
			"unauthenticated",
		},
		{
			"sub too long", "Authorization: Bearer " + s.token(jwt.MapClaims{"sub": strings.Repeat("e", 129), "exp": hour}),
			"unauthenticated",
		},
		{"forged", "Authorization: Bearer " + forged, "unauthenticated"},
		{"alg none", "Authorization: Bearer " + none, "unauthenticated"},
		{"another alg", "Authorization: Bearer " + longer, "unauthenticated"},
		{"changed", "Authorization: Bearer " + good[:len(good)-2] + "xx", "unauthenticated"},
		{"too long", "Authorization: Bearer " + strings.Repeat("x", 9000), "unauthenticated"},
		{"the admin key", "Authorization: Bearer " + s.engine.AdminKey(), "forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shop{t: t, engine: s.engine, url: s.url}
			status := map[string]int{"unauthenticated": 401, "forbidden": 403}[c.code]
			for range 2 { // the second time a remembered token would answer
				s.must(s.do("POST", "/v1/sales/phone/orders", `{"quantity":1}`, c.header, "Idempotency-Key: attempt-1"), status,
					c.code)
			}
		})
	}
	s.must(s.do("GET", "/v1/admin/sales", ""), 401, "unauthenticated")
	s.must(s.do("GET", "/v1/admin/sales", "", "Authorization: Bearer wrong"), 401, "unauthenticated")
	s.must(s.do("GET", "/v1/admin/sales", "", s.auth("alice")), 403, "forbidden")
	if sale := s.admin("GET", "/v1/admin/sales/phone", ""); sale.text("seq") != "0" {
		t.Errorf("a claim without identity was decided: %s", sale.body)
	}
}

func TestBadSales(t *testing.T) {
	s := open(t)
	for _, c := range []struct{ name, field, want string }{
		{"negative price", `price={"amount":-1,"currency":"CNY"}`, "price"},
		{"no price", `price=`, "price"},
		{"exotic currency", `price={"amount":1,"currency":"yuan"}`, "currency"},
		{"closing before opening", `closes_at="2025-01-01T00:00:00Z"`, "closes_at: want"},
		{
			"closed before it exists", `closes_at="2026-01-02T00:00:00Z"`,
			"closes_at: 2026-01-02T00:00:00.000Z is already past",
		},
		{"negative total", `total=-1`, "total"},
		{"no word of the total", `total=`, "total"},
		{"limit 0", `max_per_buyer=0`, "max_per_buyer"},
		{"orders 0", `max_orders_per_buyer=0`, "max_orders_per_buyer"},
		{"unpaid 0", `max_unpaid_per_buyer=0`, "max_unpaid_per_buyer 0: want 1 to 1000000000000, or null for no limit"},
		{"fractional total", `total=1.5`, "total"},
		{"no time", `opens_at="tomorrow"`, "opens_at"},
		{"no title", `title=""`, "title"},
		{"NUL in the title", `title="a\u0000b"`, "title"},
		{"no sku", `sku=`, "sku"},
		{"exotic id", `id="A B"`, "sale id"},
		{"unknown field", `stock=1`, "stock"},
		{"payment window 0", `payment_window_s=0`, "payment_window_s"},
		{"list price in another currency", `list_price={"amount":1,"currency":"USD"}`, "list_price"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &shop{t: t, engine: s.engine, url: s.url}
			a := s.must(s.create("bad", c.field), 400, "bad_request")
			if !strings.Contains(a.text("detail"), c.want) {
				t.Errorf("detail %q does not say that it is about %q", a.text("detail"), c.want)
			}
		})
	}
	if list := s.admin("GET", "/v1/admin/sales", ""); list.body != `{"sales":[],"next_cursor":""}`+"\n" {
		t.Errorf("bad sales were created: %s", list.body)
	}
	s.must(s.create("good"), 201)
	s.must(s.create("good"), 409, "sale_state")
	if made := s.must(s.create("", "id="), 201); !strings.HasPrefix(made.text("id"), "sale-") {
		t.Errorf("a sale without id got %q", made.text("id"))
	}
	s.must(s.admin("PATCH", "/v1/admin/sales/good", `{"total":-5}`), 400, "bad_request")
	s.must(s.admin("PATCH", "/v1/admin/sales/good", `{"id":"x"}`), 400, "bad_request")
	s.must(s.admin("PATCH", "/v1/admin/sales/unknown", `{"total":5}`), 404, "sale_not_found")
	s.must(s.admin("POST", "/v1/admin/sales/unknown/open", ""), 404, "sale_not_found")
	s.must(s.admin("POST", "/v1/admin/sales/good/pause", `{"why":"x"}`), 400, "bad_request")
	s.must(s.admin("GET", "/v1/admin/sales/unknown/audit", ""), 404, "sale_not_found")
}

func TestReading(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", `title="手机 <b>"`, `list_price={"amount":200,"currency":"CNY"}`), 201)
	sale := s.must(s.do("GET", "/v1/sales/phone", ""), 200)
	if sale.text("title") != "手机 <b>" || sale.text("state") != "open" || sale.text("available") != "10" {
		t.Errorf("sale: %s", sale.body)
	}
	if !strings.HasPrefix(sale.header.Get("Cache-Control"), "public") {
		t.Errorf("Cache-Control %q", sale.header.Get("Cache-Control"))
	}
	etag := sale.header.Get("Etag")
	if same := s.do("GET", "/v1/sales/phone", "", "If-None-Match: "+etag); same.status != 304 || same.body != "" {
		t.Errorf("with its own ETag: %d %s", same.status, same.body)
	}
	s.must(s.do("GET", "/v1/sales/phone", "", `If-None-Match: "another"`), 200)
	if head := s.do("HEAD", "/v1/sales/phone", ""); head.status != 200 || head.body != "" {
		t.Errorf("HEAD: %d %q", head.status, head.body)
	}
	s.must(s.claim("phone", "alice", "attempt-1"), 202)
	for deadline := time.Now().Add(10 * time.Second); ; {
		if changed := s.do("GET", "/v1/sales/phone", "", "If-None-Match: "+etag); changed.status == 200 &&
			changed.text("available") == "9" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("readers do not see the unit that was taken")
		}
	}
	s.must(s.do("GET", "/v1/sales/unknown", ""), 404, "sale_not_found")
	if list := s.must(s.do("GET", "/v1/sales", ""), 200); strings.Count(list.body, `"id"`) != 1 {
		t.Errorf("sales: %s", list.body)
	}
	if now := s.must(s.do("GET", "/v1/time", ""), 200); len(now.text("server_time")) != len("2026-11-11T12:00:00.000Z") ||
		now.header.Get("Cache-Control") != "no-store" {
		t.Errorf("time: %s, %s", now.body, now.header.Get("Cache-Control"))
	}
	s.must(s.do("GET", "/healthz", ""), 200)
	s.must(s.do("GET", "/readyz", ""), 200)
	s.must(s.do("GET", "/v1/sales/unknown/events", ""), 404) // a stream is no answer that is timed
	metrics := s.must(s.do("GET", "/metrics", ""), 200)
	if strings.Contains(metrics.body, `route="other"`) || strings.Contains(metrics.body, "/events\"}") {
		t.Error("event streams are timed")
	}
	for _, want := range []string{
		`sluice_claims_total{code="accepted",sale="phone"} 1`,
		`sluice_sale_taken_units{sale="phone"} 1`,
		`sluice_http_request_seconds_count{code="202",route="POST /v1/sales/{sale}/orders"} 1`,
		`sluice_http_request_seconds_count{code="404",route="GET /v1/sales/{sale}"} 1`,
		`sluice_http_request_seconds_count{code="200",route="GET /healthz"} 1`,
		`sluice_claim_stage_seconds_count{stage="admission"} 1`,
		`sluice_claim_stage_seconds_count{stage="wait"} 1`,
		`sluice_claim_stage_seconds_count{stage="ledger"} 1`,
		`sluice_ledger_call_seconds_count{result="ok"} 1`,
	} {
		if !strings.Contains(metrics.body, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	s.must(s.do("GET", "/nowhere", ""), 404, "not_found")
	if wrong := s.must(s.do("DELETE", "/v1/sales/phone", ""), 405, "method_not_allowed"); wrong.header.Get("Allow") == "" {
		t.Error("405 without Allow")
	}
}

func TestListsOfOrders(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", "total=null"), 201)
	for i := range 25 {
		s.must(s.claim("phone", fmt.Sprintf("buyer-%02d", i), "attempt-1"), 202)
	}
	for deadline := time.Now().Add(10 * time.Second); strings.Count(s.admin("GET", "/v1/admin/orders?sale=phone", "").body,
		"order_id") < 25; {
		if time.Now().After(deadline) {
			t.Fatal("the orders are not stored")
		}
	}
	seen, cursor := 0, ""
	for pages := 0; pages < 10; pages++ {
		page := s.must(s.admin("GET", "/v1/admin/orders?sale=phone&limit=10&cursor="+cursor, ""), 200)
		for _, o := range page.fields["orders"].([]any) {
			if buyer := o.(map[string]any)["buyer_id"]; buyer != fmt.Sprintf("buyer-%02d", seen) {
				t.Errorf("order %d is of %v: not oldest first", seen, buyer)
			}
			seen++
		}
		if cursor = page.text("next_cursor"); cursor == "" {
			break
		}
	}
	if seen != 25 {
		t.Errorf("%d orders over all pages, want 25", seen)
	}
	if one := s.must(s.admin("GET", "/v1/admin/orders?buyer=buyer-07&status=pending", ""), 200); strings.Count(one.body,
		"order_id") != 1 {
		t.Errorf("by buyer: %s", one.body)
	}
	for _, query := range []string{
		"limit=0", "limit=1001", "limit=x", "status=sold", "cursor=nonsense", "colour=red",
		"sale=A%20B", "limit=1&limit=2", "%zz",
	} {
		s.must(s.admin("GET", "/v1/admin/orders?"+query, ""), 400, "bad_request")
	}
	s.must(s.admin("GET", "/v1/admin/dead-letters", ""), 200)
}

// stored waits until the order is stored and returns it as the merchant sees it.
func (s *shop) stored(id string) answer {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; {
		a := s.must(s.admin("GET", "/v1/admin/orders/"+id, ""), 200)
		if a.text("status") != "queued" {
			return a
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("order %s is still queued", id)
		}
	}
}

// The life of an order over HTTP: every ending gives its unit back to the
// crowd, and every action can be repeated.
func TestUnitsComeBack(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.must(s.create("phone", "total=1", "max_per_buyer=1"), 201)
	buy := func(buyer string) string {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			a := s.claim("phone", buyer, "attempt-1")
			if a.status == 202 {
				id := a.text("order_id")
				s.stored(id)
				return id
			}
			s.must(a, 409, "sold_out")
			if time.Now().After(deadline) {
				t.Fatalf("the unit does not come back to %s", buyer)
			}
		}
	}
	admin := func(id, action, body string) answer {
		t.Helper()
		return s.admin("POST", "/v1/admin/orders/"+id+"/"+action, body)
	}

	a := buy("alice")
	s.must(s.do("POST", "/v1/orders/"+a+"/cancel", "", s.auth("bob")), 404, "order_not_found")
	for range 2 {
		if c := s.must(s.do("POST", "/v1/orders/"+a+"/cancel", "", s.auth("alice")), 200); c.text("status") != "cancelled" {
			t.Errorf("cancelled: %s", c.body)
		}
	}
	if again := s.must(s.claim("phone", "alice", "attempt-1"), 202); again.text("order_id") != a {
		t.Errorf("a repeat after the order has ended: %s (I4)", again.body)
	}
	b := buy("bob")
	for range 2 {
		if r := s.must(admin(b, "reject", `{"reason":"no address"}`), 200); r.text("status") != "rejected" ||
			r.text("reason") != "no address" {
			t.Errorf("rejected: %s", r.body)
		}
	}
	if p := s.must(admin(b, "pay", `{"payment_id":"p-1"}`), 200); p.text("status") != "refund_due" {
		t.Errorf("a payment for a rejected order: %s", p.body)
	}
	if r := s.must(admin(b, "refund", ``), 200); r.text("status") != "refunded" {
		t.Errorf("refunded: %s", r.body)
	}
	c := buy("carol")
	for range 2 {
		if p := s.must(admin(c, "pay", `{"payment_id":"p-2"}`), 200); p.text("status") != "paid" ||
			p.text("payment_id") != "p-2" {
			t.Errorf("paid: %s", p.body)
		}
	}
	s.must(admin(c, "pay", `{"payment_id":"p-3"}`), 409, "payment_conflict")
	s.must(admin(c, "cancel", ``), 409, "order_ended")
	s.must(s.claim("phone", "dave", "attempt-1"), 409, "sold_out")
	if r := s.must(admin(c, "refund", ``), 200); r.text("status") != "refunded" {
		t.Errorf("refunded: %s", r.body)
	}
	d := buy("dave")
	// Money that is not this order's: the order stays as it is, and can be paid.
	s.must(admin(d, "pay", `{"payment_id":"p-2"}`), 409, "payment_conflict")
	small := s.must(admin(d, "pay", `{"payment_id":"p-4","amount":1,"currency":"cny"}`), 400, "bad_request")
	if !strings.Contains(small.body, "did you mean CNY?") {
		t.Errorf("a currency in small letters: %s", small.body)
	}
	// An order that is not paid has not ended, and the answer does not say so.
	early := s.must(admin(d, "refund", ``), 409, "order_ended")
	if strings.Contains(early.body, "The order has ended") ||
		!strings.Contains(early.body, "pending; refund is not possible") {
		t.Errorf("the refund of a pending order: %s", early.body)
	}
	wrong := s.must(admin(d, "pay", `{"payment_id":"p-4","amount":1,"currency":"CNY"}`), 409, "payment_amount")
	if !strings.Contains(wrong.body, "1 CNY was paid") {
		t.Errorf("another amount: %s", wrong.body)
	}
	for _, bad := range []string{
		`{"payment_id":"p-4","amount":1}`, `{"payment_id":"p-4","currency":"CNY"}`,
		`{"payment_id":"p-4","amount":"1","currency":"CNY"}`,
		``, `{}`, `{"payment_id":""}`, `{"payment_id":"` + strings.Repeat("p", 129) + `"}`,
		`{"payment":"p"}`,
	} {
		s.must(admin(d, "pay", bad), 400, "bad_request")
	}
	s.must(admin(d, "reject", `{"reason":""}`), 400, "bad_request")
	tomorrow := time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)
	// More time: for one who pays at a provider whose session is longer than the window.
	for range 2 {
		later := s.must(admin(d, "extend", `{"expires_at":"`+tomorrow+`"}`), 200)
		if at, err := time.Parse(time.RFC3339, later.text("expires_at")); err != nil || time.Until(at) < 23*time.Hour {
			t.Errorf("extended: %s", later.body)
		}
	}
	for _, bad := range []string{
		`{}`, `{"expires_at":null}`, `{"expires_at":"soon"}`, `{"expires_at":"0001-01-01T00:00:00Z"}`,
		`{"expires_at":"` + time.Now().Add(31*24*time.Hour).UTC().Format(time.RFC3339) + `"}`,
	} {
		s.must(admin(d, "extend", bad), 400, "bad_request")
	}
	s.must(admin(b, "extend", `{"expires_at":"2030-01-01T00:00:00Z"}`), 409, "order_ended")
	now := s.must(s.admin("GET", "/v1/admin/orders/"+d, ""), 200)
	exact := fmt.Sprintf(`{"payment_id":"p-4","amount":%s,"currency":%q}`, now.text("amount"), now.text("currency"))
	if paid := s.must(admin(d, "pay", exact), 200); paid.text("status") != "paid" {
		t.Errorf("paid: %s", paid.body)
	}
	s.must(admin("phone."+strings.Repeat("0", 32), "pay", `{"payment_id":"p"}`), 404, "order_not_found")

	history := s.must(s.admin("GET", "/v1/admin/orders/"+c+"/history", ""), 200)
	var steps []string
	for _, change := range history.fields["changes"].([]any) {
		steps = append(steps, fmt.Sprint(change.(map[string]any)["to"]))
	}
	if got := strings.Join(steps, " "); got != "pending paid paid refunded" {
		t.Errorf("the history is %q, want pending paid paid (a refused payment) refunded", got)
	}
	report := s.must(s.admin("GET", "/v1/admin/sales/phone/audit", ""), 200)
	if report.text("ok") != "true" {
		t.Errorf("audit: %s", report.body)
	}
}

// An unpaid order ends by itself, and its unit comes back.
func TestUnpaidOrdersExpire(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.must(s.create("phone", "total=1", "payment_window_s=1", "payment_grace_s=0"), 201)
	first := s.must(s.claim("phone", "alice", "attempt-1"), 202).text("order_id")
	for deadline := time.Now().Add(20 * time.Second); s.claim("phone", "bob", "attempt-1").status !=
		202; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the unit of an unpaid order does not come back")
		}
	}
	if o := s.stored(first); o.text("status") != "expired" {
		t.Errorf("the unpaid order is %s", o.text("status"))
	}
	if late := s.must(s.admin("POST", "/v1/admin/orders/"+first+"/pay", `{"payment_id":"late"}`),
		200); late.text("status") != "refund_due" {
		t.Errorf("a late payment: %s", late.body)
	}
	if due := s.must(s.admin("GET", "/v1/admin/orders?status=refund_due", ""), 200); !strings.Contains(due.body, first) {
		t.Errorf("the merchant's list of refunds due: %s", due.body)
	}
}

// A buyer's list holds that buyer's orders alone, whatever is asked for and
// with whichever cursor.
func TestAnotherBuyersOrdersAreNotListed(t *testing.T) {
	s := open(t)
	own := map[string]map[string]bool{"alice": {}, "eve": {}}
	for _, sale := range []string{"phone", "lamp"} {
		s.must(s.create(sale, "max_per_buyer=3"), 201)
		for buyer, orders := range own {
			for n := range 2 {
				id := s.must(s.claim(sale, buyer, fmt.Sprintf("attempt-%d", n)), 202).text("order_id")
				s.stored(id)
				orders[id] = true
			}
		}
	}
	page := s.must(s.do("GET", "/v1/orders?limit=1", "", s.auth("alice")), 200)
	cursor := page.text("next_cursor")
	if cursor == "" {
		t.Fatalf("no cursor: %s", page.body)
	}
	for query, want := range map[string]int{
		"": 4, "sale=phone": 2, "sale=lamp": 2, "sale=other": 0, "status=pending": 4, "status=paid": 0, "limit=1": 1,
		"limit=1000":                4,
		"sale=phone&status=pending": 2, "sale=lamp&limit=1": 1, "sale=lamp&status=pending&limit=1000": 2,
	} {
		a := s.must(s.do("GET", "/v1/orders?"+query, "", s.auth("eve")), 200)
		list, _ := a.fields["orders"].([]any)
		if len(list) != want {
			t.Errorf("%q: %d orders, want %d", query, len(list), want)
		}
		for _, o := range list {
			if id, _ := o.(map[string]any)["order_id"].(string); !own["eve"][id] {
				t.Errorf("%q shows order %s, which is alice's", query, id)
			}
		}
	}
	for _, query := range []string{"buyer=alice", "cursor=" + cursor, "sale=phone&cursor=" + cursor} {
		s.must(s.do("GET", "/v1/orders?"+query, "", s.auth("eve")), 400, "bad_request")
	}
}

// Orders of a free sale are paid when they are stored, and their buyers may give them back. A price other than 0 is
// refused with it.
func TestFreeSales(t *testing.T) {
	s := open(t)
	zero := `price={"amount":0,"currency":"CNY"}`
	if bad := s.must(s.create("mug", "free=true"), 400, "bad_request"); !strings.Contains(bad.body,
		"free: want a price of 0") {
		t.Errorf("free, with a price: %s", bad.body)
	}
	s.must(s.create("mug", "free=true", zero, "total=2", "max_per_buyer=2"), 201)
	s.must(s.admin("PATCH", "/v1/admin/sales/mug", `{"price":{"amount":5,"currency":"CNY"}}`), 400, "bad_request")
	if sale := s.must(s.do("GET", "/v1/sales/mug", ""), 200); sale.text("free") != "true" {
		t.Errorf("the sale: %s", sale.body)
	}
	order := s.must(s.claim("mug", "ann", "attempt-1"), 202).text("order_id")
	status := func() string { return s.must(s.admin("GET", "/v1/admin/orders/"+order, ""), 200).text("status") }
	s.until("the order is stored", func() bool { return status() != "queued" })
	if got := status(); got != "paid" {
		t.Fatalf("the order is %s", got)
	}
	pay := s.must(s.admin("POST", "/v1/admin/orders/"+order+"/pay", `{"payment_id":"p-1"}`), 409, "payment_conflict")
	if !strings.Contains(pay.body, "nothing to pay") {
		t.Errorf("a payment: %s", pay.body)
	}
	given := s.must(s.do("POST", "/v1/orders/"+order+"/cancel", "", s.auth("ann")), 200)
	if got := given.text("status"); got != "refunded" {
		t.Errorf("a cancelled order is %s", got)
	}
	s.must(s.admin("POST", "/v1/admin/orders/"+order+"/refund", ""), 200)
	s.until("the unit is back", func() bool {
		return s.must(s.do("GET", "/v1/sales/mug", ""), 200).text("available") == "2"
	})
	if a := s.must(s.admin("GET", "/v1/admin/sales/mug/audit", ""), 200); a.text("ok") != "true" {
		t.Errorf("audit: %s", a.body)
	}
}
