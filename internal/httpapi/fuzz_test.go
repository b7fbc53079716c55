package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
)

// Whatever stands in Authorization headers, only the keys and tokens that are
// good let anybody in.
func FuzzAuthorization(f *testing.F) {
	admins := must.Get(auth.NewAdmins("", testAdmins))(f)
	handler := httpapi.New(httpapi.Options{
		Admins: admins, Buyers: auth.NewVerifier(auth.Options{Secret: []byte("the shop's secret, long enough")}),
		Store: &forgetful{},
	})
	for _, value := range []string{
		"", "Bearer", "Bearer ", "bearer x", "BEARER " + viewerKey, "Bearer  " + ownerKey, "Basic " + ownerKey,
		"Bearer " + ownerKey + ",Bearer x", "Bearer a.b.c",
		"Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.", "Bearer \x00", "Bearer 张三",
		strings.Repeat("Bearer ", 100),
	} {
		f.Add(value, "")
		f.Add(value, "Bearer "+ownerKey)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		for _, target := range []string{"GET /v1/admin/sales", "POST /v1/admin/sales", "GET /v1/orders"} {
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequest(method, path, strings.NewReader("{}"))
			r.Header["Authorization"] = []string{first}
			if second != "" {
				r.Header["Authorization"] = append(r.Header["Authorization"], second)
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			scheme, key, _ := strings.Cut(first, " ")
			known := second == "" && strings.EqualFold(scheme, "Bearer") &&
				(key == viewerKey || key == operatorKey || key == ownerKey)
			if let := w.Code != http.StatusUnauthorized; let != known {
				t.Errorf("%s with %q, %q: status %d", target, first, second, w.Code)
			}
		}
	})
}

// No body of an admin's request makes the server fail, and every answer is
// JSON of a status that is meant.
func FuzzAdminBodies(f *testing.F) {
	e, err := engine.Open(context.Background(), engine.Config{
		DataDir: f.TempDir(), AdminKeys: testAdmins, ReconcileInterval: -1,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = e.Close(context.Background()) })
	send := func(pattern, body string) *httptest.ResponseRecorder {
		method, path, _ := strings.Cut(pattern, " ")
		r := httptest.NewRequest(method, wildcard.ReplaceAllStringFunc(path, func(name string) string {
			return map[string]string{
				"{sale}": "phone", "{order}": "phone.0123456789abcdef0123456789abcdef", "{list}": "deny",
				"{id}": "1",
			}[name]
		}), strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+ownerKey)
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w
	}
	if w := send("POST /v1/admin/sales", saleJSON("phone", "total=1000000")); w.Code != http.StatusCreated {
		f.Fatal(w.Body)
	}
	var patterns []string
	for _, r := range httpapi.Routes() {
		// Not webhooks: they would be delivered.
		if r.Access.Role() != 0 && !strings.HasPrefix(r.Pattern, "GET ") && !strings.Contains(r.Pattern, "/webhooks") {
			patterns = append(patterns, r.Pattern)
		}
	}
	for i := range patterns {
		for _, body := range []string{
			"", "{}", "null", "[]", `{"id":"a","delta":1}`, `{"id":"a","delta":1e300}`, `{"payment_id":"p"}`, `{"reason":"r"}`,
			`{"apply":true}`,
			saleJSON("tv"), `{"total":5,"title":"x"}`, `{"total":null}`, `{"buyer_rate":{"requests":1,"per_s":1,"shared":true}}`,
			`{"unknown":1}`, `{"a":{"a":{"a":[[[]]]}}}`,
			"\xff", `{"title":"\u0000"}`, `{"opens_at":"0000-01-01T00:00:00Z"}`, "alice\nbob\n", `["alice"]`,
			strings.Repeat("[", 10_000),
		} {
			f.Add(uint8(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body string) {
		pattern := patterns[int(which)%len(patterns)]
		began := time.Now()
		w := send(pattern, body)
		var answer any
		if w.Body.Len() > 0 && json.Unmarshal(w.Body.Bytes(), &answer) != nil {
			t.Errorf("%s with %.100q: the answer is no JSON: %.100q", pattern, body, w.Body)
		}
		if problem, ok := answer.(map[string]any); ok && w.Code >= 500 && problem["code"] == api.CodeOutcomeUnknown ||
			w.Code == http.StatusUnauthorized || w.Code == http.StatusForbidden {
			t.Errorf("%s with %.100q: status %d %s", pattern, body, w.Code, w.Body)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s with %.100q took %v", pattern, body, took)
		}
	})
}
