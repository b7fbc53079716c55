package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
)

// rehearse returns what a rehearsal found, by check.
func (s *shop) rehearse(sale, token string) map[string]api.Check {
	s.t.Helper()
	body, err := json.Marshal(api.Rehearse{Token: token})
	if err != nil {
		s.t.Fatal(err)
	}
	var r api.Rehearsal
	a := s.must(s.admin("POST", "/v1/admin/sales/"+sale+"/rehearse", string(body)), 200)
	if err := json.Unmarshal([]byte(a.body), &r); err != nil || r.Node != s.engine.Node() {
		s.t.Fatalf("%v: %s", err, a.body)
	}
	all := map[string]api.Check{}
	for _, c := range r.Checks {
		if all[c.Name] = c; c.Status != api.CheckOK && (c.Where == "" || c.Right == "") {
			s.t.Errorf("%+v says not where, or not what would be right", c)
		}
	}
	return all
}

// A rehearsal says what a claim would be answered, takes nothing and counts nowhere,
// however often it is made.
func TestRehearsal(t *testing.T) {
	s, log := openLogged(t, engine.Config{Refresh: 20 * time.Millisecond})
	s.must(s.create("open", `total=1`, `buyer_rate={"requests":1,"per_s":3600}`,
		`address_rate={"requests":1,"per_s":3600}`), 201)
	s.must(s.create("soon", soon()), 201)
	s.must(s.create("paused"), 201)
	s.must(s.admin("POST", "/v1/admin/sales/paused/pause", ""), 200)
	s.must(s.create("over"), 201)
	s.must(s.admin("POST", "/v1/admin/sales/over/close", ""), 200)
	s.must(s.create("nothing", "total=0"), 201)
	s.must(s.create("hidden", `visibility="hidden"`), 201)
	s.must(s.create("secret", `visibility="hidden"`, soon()), 201)
	s.must(s.create("list", `eligibility="list"`), 201)
	s.must(s.create("invited", `eligibility="token"`), 201)
	s.must(s.create("tickets", `ticket={"before_s":600}`), 201)
	for _, c := range []struct {
		sale, claim string // what a real claim gets; empty: it is accepted
		status      api.CheckStatus
		text        string
	}{
		{"open", "", api.CheckOK, "accepted now"},
		{"soon", "not_open", api.CheckOK, "when the sale has opened"},
		{"paused", "paused", api.CheckFail, "paused"},
		{"over", "closed", api.CheckFail, "closed"},
		{"nothing", "sold_out", api.CheckWarn, "sold_out"},
		{"hidden", "sale_not_found", api.CheckFail, "sale_not_found"},
		{"secret", "sale_not_found", api.CheckWarn, "sale_not_found"}, // it can be shown until it opens
		{"list", "forbidden", api.CheckFail, "not_eligible"},
		{"invited", "forbidden", api.CheckOK, "accepted now"}, // its own token names the sale
		{"tickets", "forbidden", api.CheckOK, "accepted now"}, // it makes its own ticket
	} {
		for range 20 {
			if got := s.rehearse(c.sale, "")["claim"]; got.Status != c.status || !strings.Contains(got.Detail, c.text) {
				t.Fatalf("%s: %+v, want %s and %q", c.sale, got, c.status, c.text)
			}
		}
		shown := s.must(s.admin("GET", "/v1/admin/sales/"+c.sale, ""), 200)
		var sale api.AdminSale
		if err := json.Unmarshal([]byte(shown.body), &sale); err != nil || sale.Taken != 0 || sale.Seq != 0 ||
			len(sale.Claims.Answers)+len(sale.Claims.Refused) != 0 {
			t.Errorf("%s: %v, something was taken or counted: %s", c.sale, err, shown.body)
		}
		if a := s.claim(c.sale, "sluice-check", "attempt-1"); a.code() != c.claim {
			t.Errorf("%s: a claim gets %s, want %q", c.sale, a.body, c.claim)
		}
	}
	if got := s.rehearse("open", "")["claim"]; got.Status != api.CheckWarn { // the claim above took the last unit
		t.Errorf("sold out: %+v", got)
	}
	if done := s.must(s.admin("GET", "/v1/admin/actions", ""), 200); strings.Contains(done.body, "rehearse") {
		t.Error("rehearsals are recorded as changes")
	}
	if lines := log.lines("claims are refused", "sluice-check"); len(lines) != 0 {
		t.Errorf("rehearsals are in the log: %q", lines)
	}
	good := strings.TrimPrefix(s.auth("ann"), "Authorization: Bearer ")
	if got := s.rehearse("soon", good); got["token"].Status != api.CheckOK ||
		!strings.Contains(got["claim"].Detail, "ann") {
		t.Errorf("with a token: %+v", got)
	}
	ahead := s.token(jwt.MapClaims{
		"sub": "ann", "iat": time.Now().Add(time.Hour).Unix(), "exp": time.Now().Add(2 * time.Hour).Unix(),
	})
	if got := s.rehearse("soon", ahead); got["token"].Status != api.CheckWarn || got["claim"].Status != api.CheckOK ||
		!strings.Contains(got["token"].Detail, "will be issued in ") {
		t.Errorf("with a token of a login whose clock is ahead: %+v", got)
	}
	bad := good[:len(good)-4] + "AAAA"
	if got := s.rehearse("soon", bad); got["token"].Status != api.CheckFail || got["claim"].Name != "" ||
		!strings.Contains(got["token"].Where, "buyer_secret") {
		t.Errorf("with a token of another secret: %+v", got)
	}
	s.must(s.admin("POST", "/v1/admin/sales/none/rehearse", "{}"), 404, "sale_not_found")
}

// The risk service is asked once, and what it does is said.
func TestRehearsalAsksTheRiskService(t *testing.T) {
	s, _ := openLogged(t, engine.Config{})
	var asked atomic.Int64
	var answer atomic.Value
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(answer.Load().(string)))
	}))
	t.Cleanup(service.Close)
	risk := func(url, then string) []string {
		return []string{
			`ticket={"before_s":600}`,
			`risk={"url":"` + url + `","timeout_ms":10000,"on_failure":"` + then + `"}`,
		}
	}
	s.must(s.create("deny", risk(service.URL, "deny")...), 201)
	s.must(s.create("allow", risk(service.URL, "allow")...), 201)
	for n, c := range []struct {
		sale, answer string
		want         api.CheckStatus
	}{
		{"deny", `{"allow":true}`, api.CheckOK},
		{"deny", `{"allow":false}`, api.CheckOK},
		{"deny", `nonsense`, api.CheckFail},
		{"allow", `nonsense`, api.CheckWarn},
	} {
		answer.Store(c.answer)
		if got := s.rehearse(c.sale, "")["risk service"]; got.Status != c.want || asked.Load() != int64(n+1) {
			t.Errorf("%s, %s: %+v after %d questions, want %s", c.sale, c.answer, got, asked.Load(), c.want)
		}
	}
	service.Close()
	if got := s.rehearse("deny", "")["risk service"]; got.Status != api.CheckFail {
		t.Errorf("unreachable: %+v", got)
	}
}
