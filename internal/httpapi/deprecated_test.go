package httpapi

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"
)

// A route that the document marks as deprecated says so with each answer, a refusal as
// well, and no other route does.
func TestDeprecatedRoutesSaySo(t *testing.T) {
	document := openAPIText
	t.Cleanup(func() { openAPIText = document })
	const marks = `"deprecated":true,"x-deprecated":"2026-12-01","x-sunset":"2027-06-30",`
	for _, path := range []string{`"/v1/time":{"get":{`, `"/v1/orders":{"get":{`} {
		if bytes.Count(openAPIText, []byte(path)) != 1 {
			t.Fatalf("%s is %d times in the document", path, bytes.Count(openAPIText, []byte(path)))
		}
		openAPIText = bytes.Replace(openAPIText, []byte(path), []byte(path+marks), 1)
	}
	handler := new(Server).side(func(Route) bool { return true })
	for path, want := range map[string]bool{"/v1/orders": true, "/healthz": false, "/v1/buyer": false} {
		w := httptest.NewRecorder()
		handler.mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		h := w.Header()
		if got := h.Get("Deprecation") == "@1796083200" && h.Get("Sunset") == "Wed, 30 Jun 2027 00:00:00 GMT" &&
			h.Get("Link") == `<`+deprecationPolicy+`>; rel="deprecation"; type="text/html"`; got != want {
			t.Errorf("%s: %d %v", path, w.Code, h)
		}
	}
	if n := len(deprecated(openAPIText)); n != 2 {
		t.Errorf("%d routes are deprecated, want 2", n)
	}
}

// What is deprecated is a route, and works for six months at least (docs/releases.md).
func TestDeprecatedRoutesHaveDates(t *testing.T) {
	routes := map[string]bool{}
	for _, r := range Routes() {
		routes[r.Pattern] = true
	}
	for pattern, headers := range deprecated(openAPIText) {
		sunset, err := time.Parse(time.RFC1123, headers.Get("Sunset"))
		var since int64
		_, bad := fmt.Sscanf(headers.Get("Deprecation"), "@%d", &since)
		if err != nil || bad != nil || since <= 0 || sunset.Before(time.Unix(since, 0).AddDate(0, 6, 0)) || !routes[pattern] {
			t.Errorf("%s: %v, want x-deprecated and x-sunset, YYYY-MM-DD, six months apart, of a route", pattern, headers)
		}
	}
}
