package httpapi_test

import (
	"crypto/tls"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/httpapi"
)

// Every answer says that it is what it says it is, and over TLS that browsers
// come by TLS from then on.
func TestSecurityHeaders(t *testing.T) {
	handler := bare(t, httpapi.Options{Store: &forgetful{}})
	for _, path := range []string{"/healthz", "/v1/orders", "/v1/time", "/nowhere", "/v1/admin/sales"} {
		for _, secure := range []bool{false, true} {
			r := httptest.NewRequest("GET", path, nil)
			want := ""
			if secure {
				r.TLS, want = &tls.ConnectionState{}, "max-age=31536000"
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("%s: X-Content-Type-Options: %q", path, got)
			}
			if got := w.Header().Get("Strict-Transport-Security"); got != want {
				t.Errorf("%s, TLS %v: Strict-Transport-Security: %q, want %q", path, secure, got, want)
			}
		}
	}
}

// The reference is a page that any browser reads, with a policy to match.
func TestReferenceIsServed(t *testing.T) {
	s := open(t)
	page := s.must(s.do("GET", "/docs", ""), 200)
	if page.header.Get("Content-Type") != "text/html; charset=utf-8" ||
		!strings.HasPrefix(page.header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("header: %v", page.header)
	}
	if packed := s.do("GET", "/docs", "", "Accept-Encoding: gzip"); packed.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("compressed: %v", packed.header)
	}
}
