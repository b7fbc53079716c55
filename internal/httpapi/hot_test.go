package httpapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sluicehq/sluice"
)

// Whatever is found without the mux is what the mux would have found.
func TestHotRoutesAreTheMuxs(t *testing.T) {
	var hot hotRoutes
	mux := http.NewServeMux()
	for _, r := range new(Server).routes() {
		hot.add(r)
		mux.Handle(r.Pattern, r.handler)
	}
	if hot.read == nil || hot.claim == nil {
		t.Fatal("the table has no hot routes")
	}
	for _, test := range []struct {
		method, path string
		found        string // "": left to the mux
		sale         sluice.SaleID
	}{
		{"GET", "/v1/sales/phone", readPattern, "phone"},
		{"POST", "/v1/sales/phone/orders", ClaimPattern, "phone"},
		{"GET", "/v1/sales/orders", readPattern, "orders"},
		{"POST", "/v1/sales/orders/orders", ClaimPattern, "orders"},
		{"GET", "/v1/sales/a_b-9?x=y", readPattern, "a_b-9"},
		{"HEAD", "/v1/sales/phone", "", "phone"},
		{"POST", "/v1/sales/phone", "", ""},
		{"GET", "/v1/sales/phone/orders", "", ""},
		{"GET", "/v1/sales/phone/", "", ""},
		{"GET", "/v1/sales/Phone", "", ""},
		{"GET", "/v1/sales/ph%6Fne", "", ""},
		{"GET", "/v1/sales/pho%2Fne", "", ""},
		{"GET", "/v1/sales/%2e%2e", "", ""},
		{"GET", "/v1/sales//phone", "", ""},
		{"GET", "/v1/sales/", "", ""},
		{"GET", "/v1/sales/phone/events", "", ""},
		{"POST", "/v1/sales/phone/orders/", "", ""},
		{"POST", "/v1/sales//orders", "", ""},
		{"POST", "/v1/sales/x/../phone/orders", "", ""},
		{"GET", "/v1/sales/phone.", "", ""},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		_, pattern := mux.Handler(r)
		found := ""
		if hot.find(r) != nil {
			found = ClaimPattern
			if r.Method == http.MethodGet {
				found = readPattern
			}
			if found != pattern {
				t.Errorf("%s %s: found as %s, by the mux %s", test.method, test.path, found, pattern)
			}
			if sale := pathSale(r); sale != test.sale {
				t.Errorf("%s %s: sale %q, want %q", test.method, test.path, sale, test.sale)
			}
		}
		if found != test.found {
			t.Errorf("%s %s: found %q, want %q", test.method, test.path, found, test.found)
		}
	}
}
