package httpapi_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// checked is a shop of which every request and answer is judged by the API's
// own document.
type checked struct {
	*shop
	router routers.Router
}

func openChecked(t *testing.T) *checked {
	t.Helper()
	s := open(t)
	document := s.must(s.do("GET", "/openapi.json", ""), 200)
	if document.header.Get("ETag") == "" || document.header.Get("Content-Type") != "application/json" {
		t.Errorf("/openapi.json: %v", document.header)
	}
	if same := s.do("GET", "/openapi.json", "", "If-None-Match: "+document.header.Get("ETag")); same.status != 304 {
		t.Errorf("/openapi.json with its own ETag: %d", same.status)
	}
	doc, err := openapi3.NewLoader().LoadFromData([]byte(document.body))
	if err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("the document is of OpenAPI %s", doc.OpenAPI)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatalf("the document is not valid: %v", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return &checked{shop: s, router: router}
}

// call sends a request and judges the answer; the request too, unless it is
// meant to be wrong.
func (c *checked) call(wantStatus int, wrong bool, method, path, body string, headers ...string) answer {
	c.t.Helper()
	if body != "" {
		headers = append(headers, "Content-Type: application/json")
	}
	a := c.must(c.do(method, path, body, headers...), wantStatus)
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	route, params, err := c.router.FindRoute(request)
	if err != nil {
		c.t.Fatalf("%s %s: the document does not have it: %v", method, path, err)
	}
	options := &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	input := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route, Options: options}
	if err := openapi3filter.ValidateRequest(c.t.Context(), input); (err != nil) != wrong {
		c.t.Errorf("%s %s %s: by the document the request is right: %v; want %v (%v)", method, path, body, err == nil, !wrong, err)
	}
	err = openapi3filter.ValidateResponse(c.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewBufferString(a.body)), Options: options,
	})
	if err != nil {
		c.t.Errorf("%s %s: answer %d %s: %v", method, path, a.status, a.body, err)
	}
	return a
}

// What a live server answers is what its document says, on the main routes.
func TestAnswersFitTheDocument(t *testing.T) {
	c := openChecked(t)
	key := "Authorization: Bearer " + c.engine.AdminKey()
	admin := func(status int, method, path, body string) answer {
		t.Helper()
		return c.call(status, false, method, path, body, key)
	}
	claim := func(status int, wrong bool, buyer, attempt, body string) answer {
		t.Helper()
		return c.call(status, wrong, "POST", "/v1/sales/phone/orders", body, c.auth(buyer), "Idempotency-Key: "+attempt)
	}
	one := `{"quantity":1}`

	admin(201, "POST", "/v1/admin/sales", saleJSON("phone", "total=2"))
	admin(409, "POST", "/v1/admin/sales", saleJSON("phone"))
	c.call(400, true, "POST", "/v1/admin/sales", `{"id":"x","colour":"red"}`, key)
	admin(201, "POST", "/v1/admin/sales", saleJSON("later", `opens_at="2099-01-01T00:00:00Z"`, "total=null", "max_per_buyer=null", `list_price={"amount":300,"currency":"CNY"}`,
		`buyer_rate={"requests":10,"per_s":1,"shared":false}`))
	admin(200, "GET", "/v1/admin/sales", "")
	admin(200, "GET", "/v1/admin/sales/later", "")
	admin(200, "PATCH", "/v1/admin/sales/later", `{"title":"Later","closes_at":"2099-02-01T00:00:00Z"}`)
	c.call(200, false, "GET", "/v1/sales", "")
	c.call(200, false, "GET", "/v1/sales/phone", "")
	c.call(200, false, "GET", "/v1/sales/later", "")
	c.call(404, false, "GET", "/v1/sales/nothing", "")
	c.call(200, false, "GET", "/v1/time", "")

	placed := claim(202, false, "alice", "attempt-1", `{"quantity":1,"meta":{"size":"XL"}}`)
	claim(202, false, "alice", "attempt-1", `{"quantity":1,"meta":{"size":"XL"}}`)
	claim(422, false, "alice", "attempt-1", one)
	claim(409, false, "alice", "attempt-2", one) // buyer_limit
	claim(202, false, "bob", "attempt-1", one)
	claim(409, false, "carol", "attempt-1", one) // sold_out
	claim(400, true, "carol", "attempt-1", `{"quantity":"1"}`)
	claim(400, true, "carol", "a", one)
	c.call(409, false, "POST", "/v1/sales/later/orders", one, c.auth("alice"), "Idempotency-Key: attempt-1") // not_open
	c.call(401, false, "POST", "/v1/sales/phone/orders", one, "Idempotency-Key: attempt-1")
	c.call(403, false, "POST", "/v1/sales/phone/orders", one, key, "Idempotency-Key: attempt-1")
	c.call(401, false, "GET", "/v1/admin/sales", "")

	id := placed.text("order_id")
	order := "/v1/orders/" + id
	for deadline := time.Now().Add(30 * time.Second); ; {
		got := c.call(200, false, "GET", order, "", c.auth("alice"))
		if got.text("status") == "pending" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the order is not stored")
		}
	}
	c.call(200, false, "GET", "/v1/orders?limit=10&sale=phone", "", c.auth("alice"))
	c.call(404, false, "GET", order, "", c.auth("bob"))
	admin(200, "GET", "/v1/admin/orders?limit=10", "")
	c.call(400, true, "GET", "/v1/admin/orders?limit=0", "", key)
	admin(200, "GET", "/v1/admin"+order[len("/v1"):], "")
	admin(200, "POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"pay-1"}`)
	admin(409, "POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"pay-2"}`)
	admin(200, "GET", "/v1/admin/orders/"+id+"/history", "")
	c.call(409, false, "POST", order+"/cancel", "", c.auth("alice"))
	admin(200, "POST", "/v1/admin/orders/"+id+"/refund", "")
	admin(200, "POST", "/v1/admin/sales/phone/restock", `{"id":"delivery","delta":5}`)
	admin(200, "POST", "/v1/admin/sales/phone/pause", "")
	admin(200, "POST", "/v1/admin/sales/phone/resume", "")
	admin(200, "GET", "/v1/admin/sales/phone/audit", "")
	admin(200, "POST", "/v1/admin/sales/phone/reconcile", `{"apply":false}`)
	admin(200, "GET", "/v1/admin/actions", "")
	admin(200, "GET", "/v1/admin/events?limit=5", "")
	hook := admin(201, "POST", "/v1/admin/webhooks", `{"url":"http://127.0.0.1:9/hook"}`).text("id")
	admin(200, "GET", "/v1/admin/webhooks", "")
	admin(200, "GET", "/v1/admin/webhooks/"+hook, "")
	admin(200, "GET", "/v1/admin/webhooks/"+hook+"/deliveries?state=failed&limit=5", "")
	admin(200, "POST", "/v1/admin/webhooks/"+hook+"/replay", `{"failed":true}`)
	admin(200, "POST", "/v1/admin/webhooks/"+hook+"/disable", "")
	admin(200, "DELETE", "/v1/admin/webhooks/"+hook, "")
	admin(404, "GET", "/v1/admin/webhooks/"+hook, "")
	admin(200, "GET", "/v1/admin/dead-letters", "")
	admin(404, "GET", "/v1/admin/dead-letters/1", "")
	c.call(200, false, "GET", "/readyz", "")
	c.call(200, false, "GET", "/healthz", "")
}

// The reference is a page that any browser reads, with a policy to match.
func TestReferenceIsServed(t *testing.T) {
	s := open(t)
	page := s.must(s.do("GET", "/docs", ""), 200)
	if page.header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasPrefix(page.header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("header: %v", page.header)
	}
	if packed := s.do("GET", "/docs", "", "Accept-Encoding: gzip"); packed.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("compressed: %v", packed.header)
	}
}
