package httpapi_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/httpapi"
)

// of sends a claim of a buyer whose token has this household.
func (s *shop) of(household any, buyer, key string, body ...string) answer {
	s.t.Helper()
	claims := jwt.MapClaims{"sub": buyer, "exp": time.Now().Add(time.Hour).Unix(), "name": "Somebody"}
	if household != nil {
		claims["household"] = household
	}
	return s.do("POST", "/v1/sales/phones/orders", append(body, `{"quantity":1}`)[0],
		"Authorization: Bearer "+s.token(claims), "Idempotency-Key: "+key)
}

// The members of a household have two units together, whatever keys and buyers they use; units that
// return are theirs again.
func TestHouseholds(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `max_per_buyer=2`, `limits=[{"by":"household","max":2}]`), 201)
	ann := s.must(s.of("17", "ann", "key-00000001"), 202)
	bob := s.must(s.of(17, "bob", "key-00000002"), 202) // the same as a number
	full := s.of("17", "cid", "key-00000003")
	if full.status != 409 || full.code() != "buyer_limit" || full.text("limit") != "household" ||
		strings.Contains(full.body, "order_ids") || !strings.Contains(full.text("detail"), "at most 2 per household") {
		t.Errorf("%d %s", full.status, full.body)
	}
	again := s.of("17", "ann", "key-00000004")
	if again.text("limit") != "household" || !strings.Contains(again.body, ann.text("order_id")) ||
		strings.Contains(again.body, bob.text("order_id")) {
		t.Errorf("not the buyer's own order alone: %s", again.body)
	}
	own := s.of("18", "dan", "key-00000005", `{"quantity":3}`)
	if own.code() != "buyer_limit" || strings.Contains(own.body, `"limit":`) {
		t.Errorf("the buyer's own limit comes first: %s", own.body)
	}
	for want, repeat := range map[string]answer{
		ann.text("order_id"): s.of("17", "ann", "key-00000001"),
		bob.text("order_id"): s.of(nil, "bob", "key-00000002"), // without the token's claim
	} {
		if repeat.status != 202 || repeat.text("order_id") != want {
			t.Errorf("a repeat: %d %s, want order %s", repeat.status, repeat.body, want)
		}
	}
	for _, none := range []any{nil, "", true, 1.5, []string{"17"}, strings.Repeat("x", 257)} {
		s.refusedFor(s.of(none, "eve", "key-00000006"), "limit_missing")
	}
	order := ann.text("order_id")
	s.stored(order)
	s.must(s.do("POST", "/v1/orders/"+order+"/cancel", "", s.auth("ann")), 200)
	s.until("the unit returns to the household", func() bool { return s.of("17", "cid", "key-00000007").status == 202 })
	if last := s.of("17", "eve", "key-00000008"); last.text("limit") != "household" {
		t.Errorf("it is full again: %s", last.body)
	}
}

func TestLimitsAreChecked(t *testing.T) {
	s := open(t)
	for limits, want := range map[string]string{
		`[]`: "1 to 3", `[{}]`: "by", `[{"by":"household"}]`: "max", `[{"max":1}]`: "by",
		`[{"by":"household","max":0}]`: "1 to", `[{"by":"sub","max":1}]`: "by", `[{"by":"A","max":1}]`: "by",
		`[{"by":"a","max":1},{"by":"a","max":2}]`: "twice", `{"by":"a","max":1}`: "limits", `"household"`: "limits",
		`[{"by":"a","max":1},{"by":"b","max":1},{"by":"c","max":1},{"by":"d","max":1}]`: "1 to 3",
		`[{"by":"a","max":1,"salt":"x"}]`:                                               "salt",
	} {
		a := s.create("phones", "limits="+limits)
		if a.status != 400 || !strings.Contains(a.text("detail"), want) {
			t.Errorf("%s: %d %s, want 400 with %q", limits, a.status, a.body, want)
		}
	}
	made := s.must(s.create("phones", soon(), `limits=[{"by":"household","max":2},{"by":"device","max":1}]`), 201)
	if !strings.Contains(made.body, `"limits":[{"by":"household","max":2},{"by":"device","max":1}]`) ||
		strings.Contains(made.body, "salt") {
		t.Errorf("created: %s", made.body)
	}
	if a := s.admin("PATCH", "/v1/admin/sales/phones", `{"limits":null}`); a.status != 400 ||
		!strings.Contains(a.body, "limits") {
		t.Errorf("changed: %d %s", a.status, a.body)
	}
	for _, edit := range []func(*sluice.Rules){
		func(r *sluice.Rules) { r.Limits[0].Max = 3 },
		func(r *sluice.Rules) { r.LimitSalt = "" },
		func(r *sluice.Rules) { *r = sluice.Rules{Limits: r.Limits} },
	} {
		_, err := s.engine.Control().Patch(t.Context(), "phones", func(s *sluice.Sale) error {
			edit(&s.Rules)
			return nil
		})
		if _, ok := errors.AsType[*sluice.StateError](err); !ok {
			t.Errorf("changed by a program: %v", err)
		}
	}
}

// What the embedding shop says of a session counts as a token's claims do.
func TestSessionsAreSigned(t *testing.T) {
	t.Parallel()
	asked := 0
	handler := bare(t, httpapi.Options{
		Identify: func(*http.Request) (sluice.BuyerID, error) { return "alice", nil },
		Signed: func(*http.Request) map[string]string {
			asked++
			return map[string]string{"household": "17"}
		},
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/buyer", http.NoBody))
	if w.Code != http.StatusOK || asked != 1 {
		t.Errorf("%d %s, asked %d times", w.Code, w.Body, asked)
	}
}
