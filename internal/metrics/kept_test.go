package metrics

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many ask, the metrics are rendered once a second at most, and never
// twice at the same time; all who ask get the same text in the form they want.
func TestMetricsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var renderings, atOnce atomic.Int64
		h := newKept(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if atOnce.Add(1) > 1 || len(r.Header) > 0 {
				t.Error("rendered twice at the same time, or for one client")
			}
			time.Sleep(100 * time.Millisecond)
			atOnce.Add(-1)
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "rendering "+string(rune('0'+renderings.Add(1))))
		}))
		crowd := func(want string) {
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					r := httptest.NewRequest("GET", "/metrics", nil)
					if i%2 == 1 {
						r.Header.Set("Accept-Encoding", "gzip")
					}
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					text := io.Reader(w.Body)
					if w.Header().Get("Content-Encoding") == "gzip" != (i%2 == 1) {
						t.Errorf("headers %v", w.Header())
					}
					if i%2 == 1 {
						var err error
						if text, err = gzip.NewReader(text); err != nil {
							t.Error(err)
							return
						}
					}
					if got, _ := io.ReadAll(text); string(got) != want || w.Code != 200 ||
						w.Header().Get("Content-Type") != "text/plain" {
						t.Errorf("%d %q, want %q", w.Code, got, want)
					}
				})
			}
			wg.Wait()
		}
		crowd("rendering 1")
		time.Sleep(keepFor - time.Millisecond)
		crowd("rendering 1")
		time.Sleep(time.Millisecond)
		crowd("rendering 2")
	})
}
