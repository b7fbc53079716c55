package httpapi_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
)

func openTo(t *testing.T, origins ...string) *shop {
	t.Helper()
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: t.TempDir(), RefreshInterval: 20 * time.Millisecond,
		CORSOrigins: origins,
	}))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &shop{t: t, engine: e, url: server.URL}
}

const (
	ours   = "https://shop.example"
	others = "https://shop.example.evil.example"
)

// corsHeaders are the headers of an answer that open it to pages.
func corsHeaders(a answer) string {
	var all []string
	for name := range a.header {
		if strings.HasPrefix(name, "Access-Control-") {
			all = append(all, name)
		}
	}
	return strings.Join(all, " ")
}

func TestCORS(t *testing.T) {
	s := openTo(t, ours, "http://localhost:3000")
	s.must(s.create("phone"), 201)

	// Every kind of answer can be read by our pages: good, refused, unknown.
	claim := s.do("POST", "/v1/sales/phone/orders", `{"quantity":1}`, s.auth("alice"), "Idempotency-Key: attempt-1",
		"Origin: "+ours)
	s.must(claim, 202)
	for what, a := range map[string]answer{
		"a claim":      claim,
		"a sale":       s.must(s.do("GET", "/v1/sales/phone", "", "Origin: "+ours), 200),
		"the list":     s.must(s.do("GET", "/v1/sales", "", "Origin: "+ours), 200),
		"no token":     s.must(s.do("GET", "/v1/orders", "", "Origin: "+ours), 401),
		"no such sale": s.must(s.do("GET", "/v1/sales/nothing", "", "Origin: "+ours), 404),
	} {
		if a.header.Get("Access-Control-Allow-Origin") != ours ||
			a.header.Get("Access-Control-Expose-Headers") !=
				"Deprecation, ETag, Idempotent-Replayed, Link, Location, Retry-After, Sunset" ||
			!strings.Contains(a.header.Get("Vary"), "Origin") || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %v", what, a.header)
		}
	}
	if a := s.must(s.do("GET", "/v1/time", "", "Origin: http://localhost:3000"),
		200); a.header.Get("Access-Control-Allow-Origin") != "http://localhost:3000" {
		t.Errorf("the second origin: %v", a.header)
	}

	preflight := s.do("OPTIONS", "/v1/sales/phone/orders", "", "Origin: "+ours, "Access-Control-Request-Method: POST",
		"Access-Control-Request-Headers: authorization,idempotency-key")
	if preflight.status != 204 || preflight.header.Get("Access-Control-Allow-Origin") != ours ||
		!strings.Contains(preflight.header.Get("Access-Control-Allow-Methods"), "POST") ||
		preflight.header.Get("Access-Control-Max-Age") == "" ||
		preflight.header.Get("Access-Control-Allow-Headers") !=
			"Authorization, Content-Type, Idempotency-Key, If-None-Match, Sluice-Ticket" {
		t.Errorf("preflight: %d %v", preflight.status, preflight.header)
	}

	// What a page must be able to read is there, and can be asked for again.
	if claim.header.Get("Location") != "/v1/orders/"+claim.text("order_id") {
		t.Errorf("a claim: %v", claim.header)
	}
	etag := s.do("GET", "/v1/sales/phone", "", "Origin: "+ours).header.Get("ETag")
	s.must(s.eventually(func() answer { // the claim changes the sale once more
		again := s.do("GET", "/v1/sales/phone", "", "Origin: "+ours, "If-None-Match: "+etag)
		if again.status == 200 {
			etag = again.header.Get("ETag")
		}
		return again
	}, 304), 304)

	// No other site's pages, and never the admins' half.
	for _, origin := range []string{
		others, "https://SHOP.example", "http://shop.example", "https://shop.example:8443",
		"null", "https://x.shop.example", "",
	} {
		a := s.must(s.do("GET", "/v1/sales/phone", "", "Origin: "+origin), 200)
		if opened := corsHeaders(a); opened != "" || a.header.Get("Vary") != "Origin" {
			t.Errorf("origin %q: %s, Vary %q", origin, opened, a.header.Get("Vary"))
		}
	}
	s.must(s.do("OPTIONS", "/v1/sales/phone/orders", "", "Origin: "+others, "Access-Control-Request-Method: POST"), 403,
		"forbidden")
	for _, path := range []string{"/v1/admin/sales", "/v1/admin/sales/phone", "/v1/%61dmin/sales", "/v1/admin"} {
		a := s.do("OPTIONS", path, "", "Origin: "+ours, "Access-Control-Request-Method: POST")
		b := s.do("GET", path, "", "Origin: "+ours, "Authorization: Bearer "+s.engine.AdminKey())
		if a.status < 400 || corsHeaders(a)+corsHeaders(b) != "" {
			t.Errorf("%s is open to pages: %d %v %v", path, a.status, a.header, b.header)
		}
	}
	s.must(s.do("OPTIONS", "/v1/sales/phone", ""), 405) // no preflight
}

func TestNoCORSUnlessSet(t *testing.T) {
	s := openTo(t)
	a := s.must(s.do("GET", "/v1/sales", "", "Origin: "+ours), 200)
	b := s.must(s.do("OPTIONS", "/v1/sales", "", "Origin: "+ours, "Access-Control-Request-Method: GET"), 405)
	if opened := corsHeaders(a) + corsHeaders(b); opened != "" || a.header.Get("Vary") != "" {
		t.Errorf("no origin is allowed, and there is %s, Vary %q", opened, a.header.Get("Vary"))
	}
}

func TestNoWildcardOrigins(t *testing.T) {
	if _, err := engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), CORSOrigins: []string{"*"}}); err == nil {
		t.Error("an engine opened with a wildcard")
	}
}

func TestCheckOrigins(t *testing.T) {
	for _, good := range []string{
		"https://shop.example", "http://localhost:3000", "https://shop.example:8443",
		"http://[::1]:3000",
	} {
		if err := httpapi.CheckOrigins([]string{good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, why := range map[string]string{
		"*": "exact", "https://*.shop.example": "exact", "shop.example": "scheme", "null": "scheme", "": "scheme",
		"ftp://x":               "scheme",
		"https://shop.example/": "alone, in lower case: https://shop.example", "https://u@shop.example": "alone",
		"https://shop.example?x": "alone",
		"https://Shop.example":   "lower case", "https://shop.example:443": "no port", "http://shop.example:80": "no port",
		"https://": "scheme",
	} {
		err := httpapi.CheckOrigins([]string{"https://good.example", bad})
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want a word on %q", bad, err, why)
		}
	}
}
