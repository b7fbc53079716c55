package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/httpapi"
)

// Guessing admins' keys finds nothing after some tries, on either side's routes:
// the right key is refused as well then. Other addresses do not notice, nor
// those who use their keys; requests of this machine are only counted.
func TestGuessingAdminKeys(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	for name, route := range map[string]string{
		"of the merchant": "POST /v1/admin/sales/phone/pause",
		"of buyers":       "GET /v1/orders",
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			counts := &counted{}
			handler := bare(t, httpapi.Options{Store: &forgetful{}, AdminDecided: counts, Now: func() time.Time {
				return now
			}, Log: textLog(&log)})
			ask := func(address, key string) (status int, body string) {
				method, path, _ := strings.Cut(route, " ")
				r := httptest.NewRequest(method, path, nil)
				r.RemoteAddr = address
				r.Header.Set("Authorization", "Bearer "+key)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				return w.Code, w.Body.String()
			}
			const known, unknown = 403, 401 // how a right key is answered that may not do this, and any other
			for range 100 {
				if status, _ := ask("192.0.2.1:1", viewerKey); status != known {
					t.Fatalf("the use of a right key counts as guessing: %d", status)
				}
			}
			for i := range 20 {
				if status, body := ask("192.0.2.2:1", "wrong-0123456789abcdef"); status != unknown ||
					strings.Contains(body, "too many") {
					t.Fatalf("try %d: %d %s", i, status, body)
				}
			}
			if status, body := ask("192.0.2.2:2", viewerKey); status != unknown {
				t.Errorf("the right key after 20 wrong ones: %d %s", status, body)
			}
			if status, _ := ask("192.0.2.1:1", viewerKey); status != known {
				t.Errorf("another address: %d", status)
			}
			if counts.n["wrong_key"] != 21 || strings.Count(log.String(), "address=192.0.2.2") != 1 {
				t.Errorf("counted %v, logged %s", counts.n, log.String())
			}
			for range 50 {
				ask("127.0.0.1:1", "wrong-0123456789abcdef")
			}
			if status, _ := ask("127.0.0.1:1", viewerKey); status != known {
				t.Errorf("this machine: %d", status)
			}
			now = now.Add(time.Minute)
			if status, _ := ask("192.0.2.2:2", viewerKey); status != known {
				t.Errorf("a minute later: %d", status)
			}
		})
	}
}
