package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/internal/httpapi"
)

// A path or a query longer than any that has an answer is not taken apart.
func TestLongPathsCostLittle(t *testing.T) {
	handler := bare(t, httpapi.Options{})
	cost := func(path string) float64 {
		r := httptest.NewRequest("GET", path, nil)
		return testing.AllocsPerRun(10, func() {
			w := httptest.NewRecorder()
			if handler.ServeHTTP(w, r); w.Code != 404 || !strings.Contains(w.Body.String(), "no such path") {
				t.Errorf("%.20s...: %d %s", path, w.Code, w.Body)
			}
		})
	}
	short := cost("/v1/nothing/here")
	for _, path := range []string{
		strings.Repeat("/a", 3500), strings.Repeat("/%2e", 3500), "/v1/sales/" + strings.Repeat("a", 7000),
		"/s/" + strings.Repeat("a/", 3500), "/v1/orders/" + strings.Repeat("%41", 2300),
	} {
		if long := cost(path); long > short {
			t.Errorf("%.20s... of %d bytes: %v allocations, a short path %v", path, len(path), long, short)
		}
	}
	long := httptest.NewRequest("GET", "/v1/admin/sales?"+strings.Repeat("a&", 2500), nil)
	long.Header.Set("Authorization", "Bearer "+viewerKey)
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, long); w.Code != 400 || !strings.Contains(w.Body.String(), "at most 4096 bytes") {
		t.Errorf("a query of 5,000 bytes: %d %s", w.Code, w.Body)
	}
}
