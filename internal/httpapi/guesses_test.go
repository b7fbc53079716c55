package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/internal/httpapi"
)

// Wrong keys of admins are limited by address, and apart on the routes of each listener.
// A right key always works for a merchant, whoever shares the address; strangers' routes
// do not tell a limited address a right key from a wrong one. Other addresses do not
// notice, nor those who use their keys; requests of this machine are only counted.
func TestGuessingAdminKeys(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	for name, route := range map[string]string{
		"of the merchant": "POST /v1/admin/sales/phone/pause",
		"of buyers":       "GET /v1/orders",
	} {
		t.Run(name, func(t *testing.T) {
			merchant := strings.Contains(route, "/admin/")
			var log strings.Builder
			counts := &counted{}
			handler := bare(t, httpapi.Options{Store: &forgetful{}, AdminDecided: counts, Now: func() time.Time {
				return now
			}, Log: textLog(&log)})
			ask := func(address, key string) (status int, body string) {
				return askWith(handler, route, address, key)
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
			if status, body := ask("192.0.2.2:2", "wrong-0123456789abcdef"); status != unknown ||
				merchant && !strings.Contains(body, "too many") {
				t.Errorf("try 21: %d %s", status, body)
			}
			right := unknown // to a stranger
			if merchant {
				right = known
			}
			if status, body := ask("192.0.2.2:2", viewerKey); status != right {
				t.Errorf("the right key after 21 wrong ones: %d %s", status, body)
			}
			if status, _ := ask("192.0.2.1:1", viewerKey); status != known {
				t.Errorf("another address: %d", status)
			}
			wrong := 22
			if merchant {
				wrong--
			}
			if counts.n["wrong_key"] != wrong || strings.Count(log.String(), "address=192.0.2.2") != wrong-20 {
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

// askWith asks for a route from an address, with a key.
func askWith(handler http.Handler, route, address, key string) (status int, body string) {
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = address
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// Strangers at the public listener, who may share an address with the merchant, and so many of them that no
// table has room for all, use up nothing of what the merchant's routes allow, nor of a newcomer's.
func TestStrangersLockNobodyOut(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	handler := bare(t, httpapi.Options{Store: &forgetful{}, Now: func() time.Time { return now }})
	const buyers, merchant = "GET /v1/buyer", "POST /v1/admin/sales/phone/pause"
	for range 25 {
		askWith(handler, buyers, "192.0.2.1:1", "wrong-0123456789abcdef")
	}
	if _, body := askWith(handler, merchant, "192.0.2.1:1", "wrong-0123456789abcdef"); strings.Contains(body, "too many") {
		t.Errorf("the merchant's first wrong key, after a stranger's: %s", body)
	}
	for i := range 41 { // a home with a /56 has twice as many tries as an address
		address := fmt.Sprintf("[2001:db8:1:1%02x::1]:1", i)
		_, body := askWith(handler, merchant, address, "wrong-0123456789abcdef")
		if strings.Contains(body, "too many") != (i == 40) {
			t.Errorf("try %d of a /56: %s", i, body)
		}
	}
	r, w := httptest.NewRequest("GET", "/v1/buyer", nil), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer wrong-0123456789abcdef")
	for i := range 80_000 {
		r.RemoteAddr = fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)
		handler.ServeHTTP(w, r)
	}
	for _, route := range []string{buyers, merchant} {
		for i := range 500 {
			address := fmt.Sprintf("172.16.%d.%d:1", i>>8, i&255)
			if status, body := askWith(handler, route, address, "wrong-0123456789abcdef"); strings.Contains(body, "too many") {
				t.Fatalf("%s: newcomer %d: %d %s", route, i, status, body)
			}
			if status, body := askWith(handler, route, address, viewerKey); status != http.StatusForbidden {
				t.Fatalf("%s: right key of newcomer %d: %d %s", route, i, status, body)
			}
		}
	}
}
