package httpapi_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// The check of a sale names a key of the login that is passed over: what it signs is refused.
func TestSaleCheckNamesKeysPassedOver(t *testing.T) {
	path := jwksFile(t, "shop-1", must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	text := must.Get(os.ReadFile(path))(t)
	text = bytes.Replace(text, []byte(`"keys":[`), []byte(`"keys":[{"kty":"RSA","kid":"ps-7","n":"AQAB","e":"AQAB"},`), 1)
	must.Succeed(t, os.WriteFile(path, text, 0o600))
	s, _ := openLogged(t, engine.Config{BuyerJWKS: path, BuyerAudience: "*"})
	s.must(s.create("mug"), 201)
	a := s.must(s.admin("GET", "/v1/admin/sales/mug/check", ""), 200)
	var found api.SaleCheck
	must.Succeed(t, json.Unmarshal([]byte(a.body), &found))
	for _, c := range found.Checks {
		if c.Name == "token keys" && c.Status == api.CheckWarn && strings.Contains(c.Detail, `"ps-7"`) {
			return
		}
	}
	t.Errorf("no check names the key: %s", a.body)
}

// Ids of a list that look like lines of a CSV file name no buyer's token: the check of the sale says so.
func TestSaleCheckLooksAtListedIDs(t *testing.T) {
	s, _ := openLogged(t, engine.Config{})
	s.must(s.create("mug"), 201)
	for body, status := range map[string]api.CheckStatus{
		`"cn=ann,ou=shop"` + "\n\"bob\"\n": api.CheckWarn, // JSON, so these are the ids
		"\"bob\"\n":                        api.CheckOK,
		"\"bob\"\n\"O'Brien\"\n":           api.CheckOK,
	} {
		s.must(s.do("PUT", "/v1/admin/sales/mug/lists/deny", body, "Content-Type: application/x-ndjson",
			"Authorization: Bearer "+s.engine.AdminKey()), 200)
		a := s.must(s.admin("GET", "/v1/admin/sales/mug/check", ""), 200)
		var found api.SaleCheck
		must.Succeed(t, json.Unmarshal([]byte(a.body), &found))
		i := slices.IndexFunc(found.Checks, func(c api.Check) bool { return c.Name == "deny list" })
		if c := found.Checks[i]; c.Status != status ||
			strings.Contains(c.Detail, "cn=ann,ou=shop") != (status == api.CheckWarn) || strings.Contains(c.Detail, "1 buyers") {
			t.Errorf("%s: %+v", body, c)
		}
	}
}

// The check of a sale asks its risk service once, and reports whether it judges.
func TestSaleCheckAsksTheRiskService(t *testing.T) {
	s, _ := openLogged(t, engine.Config{})
	var asked atomic.Int64
	var answer atomic.Value
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(answer.Load().(string)))
	}))
	t.Cleanup(service.Close)
	for _, then := range []string{"deny", "allow"} {
		s.must(s.create(then, `ticket={"before_s":600}`,
			`risk={"url":"`+service.URL+`","timeout_ms":10000,"on_failure":"`+then+`"}`), 201)
	}
	check := func(sale string) (status api.CheckStatus) {
		var found api.SaleCheck
		a := s.must(s.admin("GET", "/v1/admin/sales/"+sale+"/check", ""), 200)
		must.Succeed(t, json.Unmarshal([]byte(a.body), &found))
		for _, c := range found.Checks {
			if c.Name == "risk service" {
				status = c.Status
			}
			if c.Status != api.CheckOK && (c.Where == "" || c.Right == "") {
				t.Errorf("%+v does not say where or what would be right", c)
			}
		}
		return status
	}
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
		if got := check(c.sale); got != c.want || asked.Load() != int64(n+1) {
			t.Errorf("%s, %s: %s after %d questions, want %s", c.sale, c.answer, got, asked.Load(), c.want)
		}
	}
	service.Close()
	if got := check("deny"); got != api.CheckFail {
		t.Errorf("unreachable: %s", got)
	}
}
