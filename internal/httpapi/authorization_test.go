package httpapi_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
)

// The authorization matrix: every route, and who may ask for it. It is written
// down here a second time on purpose. A route that is missing here, or is not
// there any more, or has another access, fails TestAuthorization.
var matrix = map[string]httpapi.Access{
	"GET /v1/sales":                    httpapi.Anyone,
	"GET /v1/sales/{sale}":             httpapi.Anyone,
	"GET /v1/sales/{sale}/events":      httpapi.Anyone,
	"GET /v1/time":                     httpapi.Anyone,
	"GET /{$}":                         httpapi.Anyone,
	"GET /s/{sale}":                    httpapi.Anyone,
	"GET /s/{sale}/pictures/{picture}": httpapi.Anyone,
	"GET /s/{sale}/remind.ics":         httpapi.Anyone,
	"GET /orders":                      httpapi.Anyone,
	"GET /o/{order}":                   httpapi.Anyone, // the page; what it shows it asks for with the buyer's token
	"GET /assets/{build}/{file}":       httpapi.Anyone,
	"GET /docs":                        httpapi.Anyone,
	"GET /openapi.json":                httpapi.Anyone,
	"GET /healthz":                     httpapi.Anyone,
	"GET /readyz":                      httpapi.Anyone,
	"GET /metrics":                     httpapi.Anyone,
	"/":                                httpapi.Anyone,

	"POST /v1/sales/{sale}/orders":    httpapi.Buyers,
	"POST /v1/sales/{sale}/challenge": httpapi.Buyers,
	"POST /v1/sales/{sale}/ticket":    httpapi.Buyers,
	"GET /v1/buyer":                   httpapi.Buyers,
	"GET /v1/orders":                  httpapi.Buyers,
	"GET /v1/orders/{order}":          httpapi.Buyers,
	"POST /v1/orders/{order}/cancel":  httpapi.Buyers,

	"PUT /v1/admin/log-level":          httpapi.Owners,
	"GET /v1/admin/profiles/{profile}": httpapi.Owners,

	"GET /v1/admin/status":                    httpapi.Viewers,
	"GET /v1/admin/actions":                   httpapi.Viewers,
	"GET /v1/admin/sales":                     httpapi.Viewers,
	"GET /v1/admin/sales/{sale}":              httpapi.Viewers,
	"GET /v1/admin/sales/{sale}/audit":        httpapi.Viewers,
	"GET /v1/admin/sales/{sale}/curve":        httpapi.Viewers,
	"GET /v1/admin/sales/{sale}/check":        httpapi.Viewers,
	"GET /v1/admin/sales/{sale}/lists/{list}": httpapi.Viewers,
	"GET /v1/admin/orders":                    httpapi.Viewers,
	"GET /v1/admin/orders/{order}":            httpapi.Viewers,
	"GET /v1/admin/orders/{order}/history":    httpapi.Viewers,
	"GET /v1/admin/dead-letters":              httpapi.Viewers,
	"GET /v1/admin/dead-letters/{id}":         httpapi.Viewers,
	"GET /v1/admin/events":                    httpapi.Viewers,

	"GET /v1/admin/webhooks":                      httpapi.Viewers,
	"GET /v1/admin/webhooks/{webhook}":            httpapi.Viewers,
	"GET /v1/admin/webhooks/{webhook}/deliveries": httpapi.Viewers,
	"POST /v1/admin/webhooks/{webhook}/enable":    httpapi.Operators,
	"POST /v1/admin/webhooks/{webhook}/disable":   httpapi.Operators,
	"POST /v1/admin/webhooks/{webhook}/replay":    httpapi.Operators,
	"POST /v1/admin/webhooks/{webhook}/test":      httpapi.Operators,
	"POST /v1/admin/webhooks":                     httpapi.Owners,
	"DELETE /v1/admin/webhooks/{webhook}":         httpapi.Owners,

	"POST /v1/admin/sales/{sale}/open":           httpapi.Operators,
	"POST /v1/admin/sales/{sale}/pause":          httpapi.Operators,
	"POST /v1/admin/sales/{sale}/resume":         httpapi.Operators,
	"POST /v1/admin/sales/{sale}/close":          httpapi.Operators,
	"POST /v1/admin/sales/{sale}/restock":        httpapi.Operators,
	"POST /v1/admin/sales/{sale}/reconcile":      httpapi.Operators,
	"PUT /v1/admin/sales/{sale}/lists/{list}":    httpapi.Operators,
	"DELETE /v1/admin/sales/{sale}/lists/{list}": httpapi.Operators,
	"POST /v1/admin/orders/{order}/pay":          httpapi.Operators,
	"POST /v1/admin/orders/{order}/cancel":       httpapi.Operators,
	"POST /v1/admin/orders/{order}/refund":       httpapi.Operators,
	"POST /v1/admin/orders/{order}/reject":       httpapi.Operators,
	"POST /v1/admin/orders/{order}/extend":       httpapi.Operators,
	"POST /v1/admin/dead-letters/{id}/replay":    httpapi.Operators,

	"POST /v1/admin/buyers/erase":          httpapi.Owners,
	"POST /v1/admin/sales":                 httpapi.Owners,
	"DELETE /v1/admin/sales/{sale}":        httpapi.Owners,
	"PATCH /v1/admin/sales/{sale}":         httpapi.Operators, // its rates and ratio; TestOperatorsChangeRates
	"POST /v1/admin/sales/{sale}/recover":  httpapi.Owners,
	"POST /v1/admin/sales/{sale}/pictures": httpapi.Owners,
}

// Keys of admins in these tests.
const (
	viewerKey   = "viewer-0123456789abcdef"
	operatorKey = "operator-0123456789abcdef"
	ownerKey    = "owner-0123456789abcdef"
)

var testAdmins = []sluice.AdminKey{
	{Name: "vera", Role: sluice.Viewer, Key: viewerKey},
	{Name: "otto", Role: sluice.Operator, Key: operatorKey},
	{Name: "olga", Role: sluice.Owner, Key: ownerKey},
}

// openWith is open with more settings.
func openWith(t *testing.T, change func(*engine.Config)) *shop {
	t.Helper()
	cfg := engine.Config{
		DataDir: t.TempDir(), RefreshInterval: 20 * time.Millisecond,
		BuyerSecret: "the shop's secret, long enough", AdminKeys: testAdmins,
	}
	if change != nil {
		change(&cfg)
	}
	e := must.Get(engine.Open(t.Context(), cfg))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections() // streams do not end by themselves
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &shop{t: t, engine: e, url: server.URL}
}

// caller is one kind of caller. Rank is 0 without credentials, 1 for a buyer,
// and 2, 3, 4 for viewer, operator, owner.
type caller struct {
	name    string
	headers []string
	rank    int
}

var ranks = map[httpapi.Access]int{httpapi.Viewers: 2, httpapi.Operators: 3, httpapi.Owners: 4}

// refusal is the status that a caller gets for a route, or 0: it may ask.
func (c *caller) refusal(access httpapi.Access) int {
	switch {
	case access == httpapi.Anyone:
		return 0
	case c.rank == 0:
		return http.StatusUnauthorized
	case access == httpapi.Buyers && c.rank != 1:
		return http.StatusForbidden
	case access != httpapi.Buyers && c.rank < ranks[access]:
		return http.StatusForbidden
	}
	return 0
}

// docs/identity.md has each route of admins, with the weakest role that may ask for it, and no other; in Chinese, too.
func TestRolesAreDocumented(t *testing.T) {
	row, pattern := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| (`[A-Z]+ /.*)$"), regexp.MustCompile("`([A-Z]+) (/[^`]+)`")
	want := map[string]httpapi.Access{}
	for route, access := range matrix {
		if access != httpapi.Anyone && access != httpapi.Buyers {
			want[route] = access
		}
	}
	for _, page := range []string{"identity.md", "identity.zh-CN.md"} {
		documented := map[string]httpapi.Access{}
		for _, of := range row.FindAllStringSubmatch(string(must.Get(os.ReadFile("../../docs/"+page))(t)), -1) {
			for _, found := range pattern.FindAllStringSubmatch(of[2], -1) {
				documented[found[1]+" /v1/admin"+found[2]] = httpapi.Access(of[1])
			}
		}
		if diff := cmp.Diff(want, documented); diff != "" {
			t.Errorf("docs/%s (-routes +documented):\n%s", page, diff)
		}
	}
}

func TestAuthorization(t *testing.T) {
	for _, r := range httpapi.Routes() {
		access, ok := matrix[r.Pattern]
		switch {
		case !ok:
			t.Errorf("%q is not in the matrix: add it, with who may ask for it", r.Pattern)
		case access != r.Access:
			t.Errorf("%q is for %s, by the matrix for %s", r.Pattern, r.Access, access)
		}
	}
	for pattern := range matrix {
		if !hasRoute(pattern) {
			t.Errorf("%q is in the matrix, and there is no such route", pattern)
		}
	}
	if t.Failed() {
		t.FailNow()
	}

	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	s := openWith(t, func(c *engine.Config) {
		c.BuyerJWKS, c.BuyerAudience = jwksFile(t, "shop-1", key), "*"
	})
	s.must(s.create("matrix", "max_per_buyer=null"), 201)
	placed := s.must(s.claim("matrix", "alice", "attempt-1"), 202)
	order := placed.text("order_id")
	for deadline := time.Now().Add(20 * time.Second); s.do("GET", "/v1/orders/"+order, "",
		s.auth("alice")).text("status") == "queued"; {
		if time.Now().After(deadline) {
			t.Fatal("the order is not stored")
		}
		time.Sleep(5 * time.Millisecond)
	}

	callers := s.callers(key)
	for _, r := range httpapi.Routes() {
		for i := range callers {
			c := &callers[i]
			status, code := s.ask(r.Pattern, order, c.headers)
			want := c.refusal(r.Access)
			switch {
			case want == 0 && (status == http.StatusUnauthorized || status == http.StatusForbidden):
				t.Errorf("%s: %s may ask, and gets %d %s", r.Pattern, c.name, status, code)
			case want != 0 && (status != want || code != map[int]string{401: "unauthenticated", 403: "forbidden"}[want]):
				t.Errorf("%s: %s gets %d %s, want %d", r.Pattern, c.name, status, code, want)
			}
			if c.name == "another buyer" && r.Access == httpapi.Buyers && strings.Contains(r.Pattern, "{order}") &&
				(status != 404 || code != "order_not_found") {
				t.Errorf("%s: another buyer gets %d %s, want 404 as if there were no such order", r.Pattern, status, code)
			}
		}
	}
}

func hasRoute(pattern string) bool {
	for _, r := range httpapi.Routes() {
		if r.Pattern == pattern {
			return true
		}
	}
	return false
}

// jwksFile is a JWKS of one key.
func jwksFile(t *testing.T, kid string, key *ecdsa.PrivateKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: kid, Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jwks.json")
	must.Succeed(t, os.WriteFile(path, text, 0o600))
	return path
}

// callers are all kinds of callers of a shop whose JWKS has this key.
func (s *shop) callers(key *ecdsa.PrivateKey) []caller {
	t := s.t
	other := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	sign := func(method jwt.SigningMethod, key any, buyer string, ttl time.Duration) string {
		token := jwt.NewWithClaims(method, jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(ttl).Unix()})
		token.Header["kid"] = "shop-1"
		text := must.Get(token.SignedString(key))(t)
		return "Authorization: Bearer " + text
	}
	bearer := func(key string) []string { return []string{"Authorization: Bearer " + key} }
	good := s.auth("alice")
	return []caller{
		{"no credentials", nil, 0},
		{"a buyer", []string{good}, 1},
		{"a buyer by JWKS", []string{sign(jwt.SigningMethodES256, key, "alice", time.Hour)}, 1},
		{"another buyer", []string{s.auth("bob")}, 1},
		{"a viewer", bearer(viewerKey), 2},
		{"an operator", bearer(operatorKey), 3},
		{"an owner", bearer(ownerKey), 4},
		{"the owner that every server has", bearer(s.engine.AdminKey()), 4},
		{"a buyer who is called like an owner", []string{s.auth("olga")}, 1},

		{"a forged token", []string{sign(jwt.SigningMethodHS256, []byte("another secret"), "alice", time.Hour)}, 0},
		{"a token of another key", []string{sign(jwt.SigningMethodES256, other, "alice", time.Hour)}, 0},
		{"a token without signature", []string{
			sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "alice", time.Hour),
		}, 0},
		{"an expired token", []string{sign(jwt.SigningMethodES256, key, "alice", -time.Hour)}, 0},
		{"an expired token, HS256", []string{
			sign(jwt.SigningMethodHS256, []byte(s.engine.BuyerSecret()), "alice", -time.Hour),
		}, 0},
		{"a forged admin key", bearer("owner-0123456789abcdeg"), 0},
		{"half an admin key", bearer(ownerKey[:len(ownerKey)-1]), 0},
		{"the buyers' secret as a key", bearer(s.engine.BuyerSecret()), 0},
		{"the name of an admin", bearer("olga"), 0},
		{"an admin key of another scheme", []string{"Authorization: Basic " + ownerKey}, 0},
		{"two keys", []string{"Authorization: Bearer " + ownerKey, "Authorization: Bearer " + viewerKey}, 0},
		{"an empty key", bearer(""), 0},
		{"a key elsewhere", []string{"X-Admin-Key: " + ownerKey, "Cookie: token=" + ownerKey}, 0},
	}
}

var wildcard = regexp.MustCompile(`\{[a-z$]+\}`)

// ask sends a request for a route and returns status and code, without waiting
// for the end of a stream.
func (s *shop) ask(pattern, order string, headers []string) (status int, code string) {
	s.t.Helper()
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = http.MethodGet, "/nowhere"
	}
	path = wildcard.ReplaceAllStringFunc(path, func(name string) string {
		if value, ok := map[string]string{"{sale}": "matrix", "{order}": order, "{list}": "deny", "{$}": ""}[name]; ok {
			return value
		}
		return "1"
	})
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader(`{}`)
	}
	request := must.Get(http.NewRequestWithContext(ctx, method, s.url+path, body))(s.t)
	request.Header.Set("Idempotency-Key", "attempt-1")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatalf("%s: %v", pattern, err)
	}
	defer response.Body.Close()
	if response.StatusCode >= 400 {
		var p struct{ Code string }
		text := must.Get(io.ReadAll(response.Body))(s.t)
		_ = json.Unmarshal(text, &p)
		code = p.Code
	}
	return response.StatusCode, code
}

// Operators change how much traffic a sale lets through, and nothing else of it.
func TestOperatorsChangeRates(t *testing.T) {
	s := openWith(t, nil)
	owner, operator := "Authorization: Bearer "+ownerKey, "Authorization: Bearer "+operatorKey
	want := func(method, path, body, key string, status int) {
		t.Helper()
		if got := s.do(method, path, body, key); got.status != status {
			t.Errorf("%s %s: %d, want %d", method, body, got.status, status)
		}
	}
	want("POST", "/v1/admin/sales", saleJSON("phone", "total=5"), owner, 201)
	for body, status := range map[string]int{
		`{"buyer_rate":{"requests":3,"per_s":1},"address_rate":{"requests":9,"per_s":1}}`: 200,
		`{"admission_ratio":2,"buyer_rate":null,"address_rate":null}`:                     200,
		`{"admission_ratio":2,"title":"Mine"}`:                                            403,
		`{"total":6}`:                                                                     403,
		`{"ticket":null}`:                                                                 403,
		`{"eligibility":"list"}`:                                                          403,
		`{"admission_ratio":-1}`:                                                          400,
	} {
		want("PATCH", "/v1/admin/sales/phone", body, operator, status)
	}
	want("PATCH", "/v1/admin/sales/phone", `{"title":"Ours"}`, owner, 200)
}
