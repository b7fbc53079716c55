package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
)

// A session's buyer is as good as a token's: one whom no list and no person could name is none.
func TestIdentifiedBuyersCanBeSeen(t *testing.T) {
	t.Parallel()
	for buyer, want := range map[sluice.BuyerID]int{"alice": 200, "ali\u200bce": 401, "ali\u3164ce": 401, "\x00": 401} {
		handler := bare(t, httpapi.Options{Identify: func(*http.Request) (sluice.BuyerID, error) { return buyer, nil }})
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/buyer", http.NoBody))
		if w.Code != want {
			t.Errorf("%q: %d %s", buyer, w.Code, w.Body)
		}
	}
}

// A shop that does not say who asks holds requests for five seconds, and not all that come.
func TestIdentifyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handler := bare(t, httpapi.Options{Identify: func(r *http.Request) (sluice.BuyerID, error) {
			<-r.Context().Done()
			return "", context.Cause(r.Context())
		}})
		answers := make(chan int, 5000)
		for range cap(answers) {
			go func() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/orders", http.NoBody))
				answers <- w.Code
			}()
		}
		synctest.Wait()
		if n := len(answers); n != cap(answers)-4096 {
			t.Errorf("%d are answered at once", n)
		}
		for range cap(answers) {
			if status := <-answers; status != http.StatusServiceUnavailable {
				t.Errorf("answered %d", status)
			}
		}
	})
}
