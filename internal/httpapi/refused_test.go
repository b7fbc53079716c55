package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
)

// logText is what a server has logged.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines are those with all the words.
func (l *logText) lines(words ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		all := true
		for _, word := range words {
			all = all && strings.Contains(line, word)
		}
		if all {
			found = append(found, line)
		}
	}
	return found
}

func openLogged(t *testing.T, cfg engine.Config) (*shop, *logText) {
	t.Helper()
	log := &logText{}
	cfg.DataDir, cfg.Log = t.TempDir(), slog.New(slog.NewTextHandler(log, nil))
	e := must.Get(engine.Open(t.Context(), cfg))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(func() {
		server.Close()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &shop{t: t, engine: e, url: server.URL, dir: cfg.DataDir}, log
}

// metrics waits until they have a line; a reading may be a second old.
func (s *shop) metrics(want string) (body string) {
	s.t.Helper()
	s.until(want, func() bool {
		body = s.must(s.do("GET", "/metrics", ""), 200).body
		return strings.Contains(body, want+"\n")
	})
	return body
}

// Buyers who are sent away before anything is decided are seen: in the metrics by
// sale and reason, in the sale, and in the log once per reason. A sale that no buyer
// comes to looks different.
func TestRefusedClaimsAreSeen(t *testing.T) {
	s, log := openLogged(t, engine.Config{CORSOrigins: []string{"https://shop.example"}})
	s.must(s.create("phone"), 201)
	s.must(s.create("list", `eligibility="list"`), 201)
	s.must(s.create("lonely"), 201)
	bearer := func(secret string, expires time.Duration) string {
		token := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256,
			jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(expires).Unix()}).SignedString([]byte(secret)))(t)
		return "Authorization: Bearer " + token
	}
	good, key := s.auth("ann"), "Idempotency-Key: attempt-1"
	for _, c := range []struct {
		reason, code, sale, body string
		status                   int
		headers                  []string
	}{
		{"token_missing", "unauthenticated", "phone", oneUnit, 401, nil},
		{"token_signature", "unauthenticated", "phone", oneUnit, 401, []string{bearer("another secret", time.Hour)}},
		{"token_time", "unauthenticated", "phone", oneUnit, 401, []string{bearer(s.engine.BuyerSecret(), -time.Hour)}},
		{"token_invalid", "unauthenticated", "phone", oneUnit, 401, []string{"Authorization: Bearer a.b.c"}},
		{"admin_key", "forbidden", "phone", oneUnit, 403, []string{"Authorization: Bearer " + s.engine.AdminKey()}},
		{"idempotency_key", "bad_request", "phone", oneUnit, 400, []string{good}},
		{"body", "bad_request", "phone", `{"qty":1}`, 400, []string{good, key}},
		{"too_large", "too_large", "phone", strings.Repeat(" ", 5000), 413, []string{good, key}},
		{"not_eligible", "forbidden", "list", oneUnit, 403, []string{good, key}},
	} {
		for range 3 {
			s.must(s.do("POST", "/v1/sales/"+c.sale+"/orders", c.body, c.headers...), c.status, c.code)
		}
		s.must(s.do("POST", "/v1/sales/made-up-"+strings.ReplaceAll(c.reason, "_", "-")+"/orders", c.body, c.headers...),
			map[bool]int{true: 404, false: c.status}[c.reason == "not_eligible"])
		if lines := log.lines("claims are refused", "reason="+c.reason+" "); len(lines) != 1 ||
			!strings.Contains(lines[0], "sale="+c.sale+" ") {
			t.Errorf("%s: log %q, want one line that names the sale", c.reason, lines)
		}
	}
	s.must(s.do("OPTIONS", "/v1/sales/phone/orders", "", "Origin: https://other.example",
		"Access-Control-Request-Method: POST"), 403)
	if lines := log.lines("claims are refused", "reason=origin "); len(lines) != 1 {
		t.Errorf("origin: log %q", lines)
	}
	metrics := s.metrics(`sluice_claims_refused_total{reason="origin",sale="phone"} 1`)
	for _, want := range []string{
		`sluice_claims_total{code="unauthenticated",sale="phone"} 12`,
		`sluice_claims_total{code="bad_request",sale="phone"} 6`,
		`sluice_claims_total{code="too_large",sale="phone"} 3`, `sluice_claims_total{code="forbidden",sale="phone"} 3`,
		`sluice_claims_total{code="forbidden",sale="list"} 3`, `sluice_claims_total{code="accepted",sale="phone"} 0`,
		`sluice_claims_total{code="accepted",sale="lonely"} 0`, `sluice_claims_total{code="unauthenticated",sale="other"} 4`,
		`sluice_claims_refused_total{reason="token_signature",sale="phone"} 3`,
		`sluice_claims_refused_total{reason="token_signature",sale="other"} 1`,
		`sluice_claims_refused_total{reason="not_eligible",sale="list"} 3`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(metrics, "made-up") {
		t.Error("a made-up sale has a label")
	}
	counts := func(sale string) api.ClaimCounts {
		t.Helper()
		var shown api.AdminSale
		a := s.must(s.admin("GET", "/v1/admin/sales/"+sale, ""), 200)
		if err := json.Unmarshal([]byte(a.body), &shown); err != nil || shown.Claims == nil {
			t.Fatalf("%v: %s", err, a.body)
		}
		return *shown.Claims
	}
	if c := counts("phone"); c.Refused["token_signature"] != 3 || c.Answers["unauthenticated"] != 12 ||
		c.Node != s.engine.Node() {
		t.Errorf("the sale shows %+v", c)
	}
	if c := counts("lonely"); len(c.Answers)+len(c.Refused) != 0 {
		t.Errorf("a sale that no buyer comes to shows %+v", c)
	}
}

// Without cors_origins a preflight is no route; it is a buyer sent away all the same.
func TestPreflightsWithoutOriginsAreSeen(t *testing.T) {
	s, log := openLogged(t, engine.Config{})
	s.must(s.create("phone"), 201)
	s.must(s.do("OPTIONS", "/v1/sales/phone/orders", "", "Origin: https://shop.example",
		"Access-Control-Request-Method: POST"), 405)
	if lines := log.lines("claims are refused", "reason=origin ", "cors_origins"); len(lines) != 1 {
		t.Errorf("log %q", lines)
	}
}

// Claims through a proxy that is not named count as one address: the log says so.
func TestUnnamedProxiesAreSeen(t *testing.T) {
	s, log := openLogged(t, engine.Config{})
	s.must(s.create("phone", `address_rate={"requests":1,"per_s":3600}`), 201)
	for i, buyer := range []string{"ann", "bob", "cem"} {
		a := s.do("POST", "/v1/sales/phone/orders", oneUnit, s.auth(buyer), "Idempotency-Key: attempt-1",
			fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", i))
		if want := map[bool]int{true: 202, false: 429}[i == 0]; a.status != want {
			t.Fatalf("%s: %d %s", buyer, a.status, a.body)
		}
	}
	if lines := log.lines("trusted_proxies", "127.0.0.1"); len(lines) != 1 {
		t.Errorf("log %q, want one line", lines)
	}
}

// Refusals are a stranger's to cause: one costs no more memory with the number of
// sales that were made up.
func TestMadeUpSalesCostNothing(t *testing.T) {
	s, _ := openLogged(t, engine.Config{})
	handler := s.engine.Handler()
	for i := range 3000 {
		r := httptest.NewRequest(http.MethodPost, fmt.Sprintf("/v1/sales/made-up-%d/orders", i), nil)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	metrics := s.metrics(`sluice_claims_refused_total{reason="token_missing",sale="other"} 3000`)
	if n := strings.Count(metrics, "sluice_claims_"); strings.Contains(metrics, "made-up") || n > 60 {
		t.Errorf("%d lines about claims", n)
	}
}

// docs/operating.md says of each reason what it means and what to do.
func TestReasonsAreDocumented(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/operating.md"))(t)
	_, table, _ := strings.Cut(string(text), "#### Why a claim is refused")
	table, _, _ = strings.Cut(table, "\n#")
	for _, reason := range httpapi.RefusalReasons() {
		if !strings.Contains(table, "`"+reason+"`") {
			t.Errorf("no row for %s", reason)
		}
	}
}

// A header that any client can send, and a few who are sent away, make no check of a
// sale that sells fail; and the cure trusts no stranger.
func TestStrangersFailNoCheck(t *testing.T) {
	s, _ := openLogged(t, engine.Config{})
	s.must(s.create("phone", `address_rate={"requests":100,"per_s":1}`, `total=2`), 201)
	forwarded := "X-Forwarded-For: 203.0.113.7"
	s.must(s.do("POST", "/v1/sales/phone/orders", oneUnit, s.auth("ann"), "Idempotency-Key: attempt-1", forwarded), 202)
	check := func() map[string]api.Check {
		t.Helper()
		var found api.SaleCheck
		a := s.must(s.admin("GET", "/v1/admin/sales/phone/check", ""), 200)
		must.Succeed(t, json.Unmarshal([]byte(a.body), &found))
		all := map[string]api.Check{}
		for _, c := range found.Checks {
			all[c.Name] = c
		}
		return all
	}
	if got := check()["addresses"]; got.Status != api.CheckWarn || !strings.Contains(got.Right, "if not, nothing") {
		t.Errorf("one header: %+v", got)
	}
	s.must(s.claim("phone", "bob", "attempt-1"), 202)
	for i := range 5 { // buyers who come too late are answered: nothing is wrong
		s.must(s.claim("phone", "cem", fmt.Sprint("attempt-", i)), 409, "sold_out")
	}
	for range 4 {
		s.must(s.do("POST", "/v1/sales/phone/orders", oneUnit), 401)
	}
	if got := check()["claims"]; got.Status != api.CheckOK {
		t.Errorf("four without a token, seven who were answered: %+v", got)
	}
	for range 10 {
		s.must(s.do("POST", "/v1/sales/phone/orders", oneUnit), 401)
	}
	if got := check()["claims"]; got.Status != api.CheckWarn || !strings.Contains(got.Detail, "token_missing") {
		t.Errorf("more without a token, while others buy: %+v", got)
	}
}
