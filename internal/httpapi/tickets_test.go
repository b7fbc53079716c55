package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/tickets"
)

// soon is an opening in an hour, as a field of a sale; a ticket's time ahead
// of it decides what is handed out now.
func soon() string { return `opens_at="` + api.At(time.Now().Add(time.Hour)).String() + `"` }

func (s *shop) ticket(sale, buyer, body string) answer {
	s.t.Helper()
	return s.do("POST", "/v1/sales/"+sale+"/ticket", body, s.auth(buyer))
}

// with sends a claim of one unit with a ticket.
func (s *shop) with(ticket, sale, buyer, key string) answer {
	s.t.Helper()
	return s.do("POST", "/v1/sales/"+sale+"/orders", `{"quantity":1}`, s.auth(buyer), "Idempotency-Key: "+key,
		"Sluice-Ticket: "+ticket)
}

func (s *shop) refusedFor(a answer, reason string) {
	s.t.Helper()
	if a.status != http.StatusForbidden || a.code() != "forbidden" || a.text("reason") != reason ||
		a.text("detail") == "" {
		s.t.Errorf("answer %d %s, want 403 with reason %s", a.status, a.body, reason)
	}
}

func TestTicketsBeforeTheOpening(t *testing.T) {
	s := open(t)
	s.must(s.create("far", soon(), `ticket={"before_s":600}`), 201)
	s.must(s.create("near", soon(), `ticket={"before_s":7200}`), 201)
	s.must(s.create("free"), 201)

	shown := s.must(s.do("GET", "/v1/sales/far", ""), 200)
	if free := s.do("GET", "/v1/sales/free", ""); strings.Contains(free.body, "tickets_from") {
		t.Errorf("a sale without tickets: %s", free.body)
	}
	early := s.must(s.ticket("far", "ann", ""), 409, "not_open")
	opens, err1 := time.Parse(time.RFC3339, early.text("opens_at"))
	from, err2 := time.Parse(time.RFC3339, early.text("tickets_from"))
	if err1 != nil || err2 != nil || opens.Sub(from) != 10*time.Minute ||
		shown.text("tickets_from") != early.text("tickets_from") {
		t.Errorf("too early: %s", early.body)
	}
	s.must(s.do("POST", "/v1/sales/far/challenge", "", s.auth("ann")), 409, "not_open")
	s.must(s.ticket("free", "ann", ""), 409, "sale_state")
	s.must(s.ticket("none", "ann", ""), 404, "sale_not_found")
	s.must(s.do("POST", "/v1/sales/near/ticket", ""), 401, "unauthenticated")
	s.must(s.ticket("near", "ann", `{"answer":1}`), 400, "bad_request")
	s.must(s.ticket("near", "ann", `{"token":"`+strings.Repeat("x", 5000)+`"}`), 400, "bad_request")

	got := s.must(s.ticket("near", "ann", ""), 200)
	expires, err := time.Parse(time.RFC3339, got.text("expires_at"))
	if err != nil || time.Until(expires) < time.Hour || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("ticket %s, %v: want it to outlast the opening", got.body, got.header)
	}
	// It does not open the sale.
	s.must(s.with(got.text("ticket"), "near", "ann", "key-00000001"), 409, "not_open")
	s.must(s.admin("POST", "/v1/admin/sales/near/open", ""), 200)
	placed := s.must(s.eventually(func() answer {
		return s.with(got.text("ticket"), "near", "ann", "key-00000002")
	}, 202), 202)
	if placed.text("status") != "queued" {
		t.Errorf("placed %s", placed.body)
	}
}

// eventually repeats what changes with the board, which is a moment behind.
func (s *shop) eventually(do func() answer, status int) (a answer) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if a = do(); a.status == status {
			return a
		}
	}
	return a
}

func TestClaimsWantTickets(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, "total=100"), 201)
	s.must(s.create("tablets", `ticket={"before_s":60}`), 201)
	good := s.must(s.ticket("phones", "ann", "{}"), 200).text("ticket")
	keys := must.Get(tickets.NewKeys(s.engine.BuyerSecret(), ""))(t)
	expired, _ := keys.Ticket("phones", "ann", time.Now().Add(-time.Hour), time.Now().Add(-time.Hour))

	s.refusedFor(s.claim("phones", "ann", "key-00000001"), "ticket_missing")
	s.refusedFor(s.with("", "phones", "ann", "key-00000001"), "ticket_missing")
	s.refusedFor(s.with("nonsense", "phones", "ann", "key-00000001"), "ticket_invalid")
	s.refusedFor(s.with(good, "phones", "bob", "key-00000001"), "ticket_invalid")
	s.refusedFor(s.with(good, "tablets", "ann", "key-00000001"), "ticket_invalid")
	s.refusedFor(s.with(expired, "phones", "ann", "key-00000001"), "ticket_expired")
	if got := s.admin("GET", "/v1/admin/sales/phones", ""); got.text("taken") != "0" {
		t.Errorf("something was taken: %s", got.body)
	}
	first := s.must(s.with(good, "phones", "ann", "key-00000001"), 202)

	// A repeat of an accepted claim gets its order, whatever ticket it brings (I4).
	for _, ticket := range []string{good, expired, "nonsense", ""} {
		again := s.must(s.with(ticket, "phones", "ann", "key-00000001"), 202)
		if again.text("order_id") != first.text("order_id") || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("with ticket %q: %s, want the order %s again", ticket, again.body, first.text("order_id"))
		}
	}
	other := s.do("POST", "/v1/sales/phones/orders", `{"quantity":2}`, s.auth("ann"), "Idempotency-Key: key-00000001")
	s.must(other, 422, "idempotency_key_reused")
	// Another claim of the same buyer is a new one.
	s.refusedFor(s.claim("phones", "ann", "key-00000002"), "ticket_missing")
	// So it stays when the order has ended.
	s.eventually(func() answer {
		return s.do("POST", "/v1/orders/"+first.text("order_id")+"/cancel", "", s.auth("ann"))
	}, 200)
	s.must(s.claim("phones", "ann", "key-00000001"), 202)
	if got := s.do("GET", "/metrics", ""); !strings.Contains(got.body,
		`sluice_claims_total{code="forbidden",sale="phones"} 6`) ||
		!strings.Contains(got.body, `sluice_ticket_requests_total{outcome="handed_out"} 1`) {
		t.Error("the metrics do not count them")
	}
}

func TestChallenges(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, `challenge={"difficulty":8}`), 201)
	s.must(s.create("easy", `ticket={"before_s":60}`), 201)
	s.must(s.do("POST", "/v1/sales/easy/challenge", "", s.auth("ann")), 409, "sale_state")
	ask := func(buyer string) api.Challenge {
		t.Helper()
		a := s.must(s.do("POST", "/v1/sales/phones/challenge", "", s.auth(buyer)), 200)
		var c api.Challenge
		if err := json.Unmarshal([]byte(a.body), &c); err != nil || c.Difficulty != 8 || !c.ExpiresAt.After(time.Now()) {
			t.Fatalf("%s, %v", a.body, err)
		}
		return c
	}
	hand := func(buyer, challenge, nonce string) answer {
		t.Helper()
		return s.ticket("phones", buyer, fmt.Sprintf(`{"challenge":%q,"nonce":%q}`, challenge, nonce))
	}
	c := ask("ann")
	nonce := must.Get(tickets.Solve(t.Context(), c.Challenge, 8))(t)
	n, _ := strconv.Atoi(nonce)
	keys := must.Get(tickets.NewKeys(s.engine.BuyerSecret(), ""))(t)
	old, _ := keys.Challenge("phones", "ann", 8, time.Now().Add(-time.Hour))
	s.refusedFor(s.ticket("phones", "ann", ""), "challenge_missing")
	s.refusedFor(hand("ann", "nonsense", nonce), "challenge_invalid")
	s.refusedFor(hand("bob", c.Challenge, nonce), "challenge_invalid")
	s.refusedFor(hand("ann", old, nonce), "challenge_expired")
	if n > 0 { // the first one that solves it, so the one before does not
		s.refusedFor(hand("ann", c.Challenge, strconv.Itoa(n-1)), "challenge_unsolved")
	}
	ticket := s.must(hand("ann", c.Challenge, nonce), 200).text("ticket")
	s.must(hand("ann", c.Challenge, nonce), 200) // no more than the first
	s.must(s.with(ticket, "phones", "ann", "key-00000001"), 202)
	// When the sale asks for more, what was solved before does not do.
	s.must(s.admin("PATCH", "/v1/admin/sales/phones", `{"challenge":{"difficulty":9}}`), 200)
	s.refusedFor(hand("ann", c.Challenge, nonce), "challenge_expired")
}

func TestRiskService(t *testing.T) {
	var say atomic.Value
	asked := make(chan string, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- string(body)
		_, _ = io.WriteString(w, say.Load().(string))
	}))
	defer service.Close()
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, `risk={"url":"`+service.URL+`","timeout_ms":10000}`), 201)
	say.Store(`{"allow":true}`)
	s.must(s.ticket("phones", "ann", `{"token":"captcha"}`), 200)
	if got, want := <-asked, `{"sale":"phones","buyer":"ann","address":"127.0.0.1","token":"captcha"}`; got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
	say.Store(`{"allow":false,"reason":"a robot"}`)
	denied := s.ticket("phones", "ann", "")
	s.refusedFor(denied, "risk")
	if denied.text("detail") != "a robot" {
		t.Errorf("denied %s", denied.body)
	}
	say.Store(`not JSON`)
	// The policy is to deny: no ticket, but what is no verdict is not a buyer's last word either.
	s.must(s.ticket("phones", "ann", ""), 503, "unavailable")
	s.must(s.admin("PATCH", "/v1/admin/sales/phones", `{"risk":{"url":"`+service.URL+
		`","timeout_ms":10000,"on_failure":"allow"}}`), 200)
	s.must(s.ticket("phones", "ann", ""), 200)
	got := s.do("GET", "/metrics", "")
	for _, verdict := range []string{"allowed", "denied", "failed_denied", "failed_allowed"} {
		if !strings.Contains(got.body, `sluice_risk_seconds_count{verdict="`+verdict+`"} 1`) {
			t.Errorf("the metrics do not count %s", verdict)
		}
	}
}

// A crowd before the risk service neither passes it nor is refused by it, whatever the policy: who finds no place
// asks again. A challenge that is solved is judged once.
func TestRiskServiceIsCrowded(t *testing.T) {
	asked, release := make(chan struct{}, 10), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-release
		_, _ = io.WriteString(w, `{"allow":true}`)
	}))
	defer service.Close()
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, `challenge={"difficulty":1}`,
		`risk={"url":"`+service.URL+`","timeout_ms":10000,"on_failure":"allow"}`), 201)
	var c api.Challenge
	challenge := s.must(s.do("POST", "/v1/sales/phones/challenge", "", s.auth("ann")), 200)
	must.Succeed(t, json.Unmarshal([]byte(challenge.body), &c))
	solved := fmt.Sprintf(`{"challenge":%q,"nonce":%q}`, c.Challenge, must.Get(tickets.Solve(t.Context(), c.Challenge, 1))(t))
	first := make(chan answer)
	go func() { first <- s.ticket("phones", "ann", solved) }()
	<-asked
	if busy := s.must(s.ticket("phones", "ann", solved), 503, "overloaded"); busy.header.Get("Retry-After") != "1" ||
		busy.text("detail") != tickets.ErrUnderWay.Error() {
		t.Errorf("Retry-After %q, %s", busy.header.Get("Retry-After"), busy.body)
	}
	close(release)
	s.must(<-first, 200)
	s.must(s.ticket("phones", "ann", solved), 200)
	if len(asked) > 0 {
		t.Error("the service is asked again about the same challenge")
	}
}

// What a buyer asks for before a claim has the sale's rates, and takes nothing
// from what the claim has.
func TestTicketsAreRateLimited(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, `challenge={"difficulty":1}`,
		`buyer_rate={"requests":2,"per_s":86400}`), 201)
	for _, kind := range []string{"challenge", "ticket"} {
		ask := func(buyer string) answer { return s.do("POST", "/v1/sales/phones/"+kind, "", s.auth(buyer)) }
		for n := range 2 {
			if a := ask("ann"); a.code() == "rate_limited" {
				t.Errorf("try %d at a %s: %s", n+1, kind, a.body)
			}
		}
		if a := s.must(ask("ann"), 429, "rate_limited"); a.header.Get("Retry-After") == "" ||
			!strings.Contains(a.body, `"detail":"`) ||
			a.header.Get("Retry-After") == "1" {
			t.Errorf("Retry-After %q, %s", a.header.Get("Retry-After"), a.body)
		}
		if a := ask("bob"); a.code() == "rate_limited" {
			t.Errorf("another buyer: %s", a.body)
		}
	}
	if a := s.claim("phones", "ann", "key-00000001"); a.code() == "rate_limited" {
		t.Errorf("the claim: %s", a.body)
	}
}

// What may be read of a request for a ticket is little; the error says how much.
func TestTicketBodies(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, `challenge={"difficulty":1}`), 201)
	s.must(s.ticket("phones", "ann", `{"token":"`+strings.Repeat("x", 4096)+`"}`+strings.Repeat(" ", 4000)), 403,
		"forbidden")
	if a := s.must(s.ticket("phones", "ann", strings.Repeat(" ", 8193)), 413,
		"too_large"); !strings.Contains(a.text("detail"), "8192 bytes") {
		t.Errorf("too large: %s", a.body)
	}
	s.must(s.do("POST", "/v1/sales/phones/challenge", "{}"+strings.Repeat(" ", 8190), s.auth("ann")), 200)
	s.must(s.do("POST", "/v1/sales/phones/challenge", "{}"+strings.Repeat(" ", 8191), s.auth("ann")), 413, "too_large")
}

// A rate over all servers reports the wait as exactly as one of a server.
func TestTicketsAreRateLimitedTogether(t *testing.T) {
	s := open(t)
	s.must(s.create("phones", `ticket={"before_s":60}`, `buyer_rate={"requests":3,"per_s":3600,"shared":true}`), 201)
	for range 3 {
		s.must(s.ticket("phones", "ann", ""), 200)
	}
	for range 2 { // told, and remembered
		limited(t, "the fourth", s.ticket("phones", "ann", ""), 900, 1200)
	}
	s.must(s.ticket("phones", "bob", ""), 200)
}

func TestEligibility(t *testing.T) {
	s := open(t)
	s.must(s.create("club", `eligibility="token"`, "max_per_buyer=5"), 201)
	s.must(s.create("list", `eligibility="list"`, "max_per_buyer=5"), 201)
	s.must(s.create("open", "max_per_buyer=5"), 201)
	member := "Authorization: Bearer " + s.token(jwt.MapClaims{
		"sub": "ann", "exp": time.Now().Add(time.Hour).Unix(), "sluice_sales": []string{"x", "club"},
	})
	place := func(sale, auth, key string) answer {
		t.Helper()
		return s.do("POST", "/v1/sales/"+sale+"/orders", `{"quantity":1}`, auth, "Idempotency-Key: "+key)
	}
	s.must(place("club", member, "key-00000001"), 202)
	s.refusedFor(place("club", s.auth("bob"), "key-00000001"), "not_eligible")
	s.refusedFor(place("list", member, "key-00000001"), "not_eligible")
	// A buyer whose token names the sale no more still gets the order.
	if again := s.must(place("club", s.auth("ann"), "key-00000001"), 202); again.header.Get("Idempotent-Replayed") !=
		"true" {
		t.Errorf("%s", again.body)
	}
	s.refusedFor(place("club", s.auth("ann"), "key-00000002"), "not_eligible")

	put := func(sale, list, kind, body string) answer {
		t.Helper()
		return s.do("PUT", "/v1/admin/sales/"+sale+"/lists/"+list, body, "Authorization: Bearer "+s.engine.AdminKey(),
			"Content-Type: "+kind)
	}
	up := s.must(put("list", "allow", "text/plain", "\xef\xbb\xbf ann\t\r\n \nbob  \nann\n手机\u3000"), 200)
	if up.text("size") != "3" || up.text("list") != "allow" || up.text("updated_at") == "<nil>" ||
		up.text("first") != "ann" {
		t.Errorf("upload %s", up.body)
	}
	s.must(place("list", s.auth("bob"), "key-00000001"), 202)
	s.must(place("list", s.auth("手机"), "key-00000001"), 202)
	s.refusedFor(place("list", s.auth("eve"), "key-00000001"), "not_eligible")
	s.must(put("list", "deny", "application/x-ndjson", "\"bob\"\n{\"buyer_id\":\"e\\u0076e\"}\n"), 200)
	s.refusedFor(place("list", s.auth("bob"), "key-00000002"), "denied")
	s.must(place("list", s.auth("bob"), "key-00000001"), 202) // what was accepted stays (I4)
	s.must(put("open", "deny", "text/plain", "eve"), 200)
	s.refusedFor(place("open", s.auth("eve"), "key-00000001"), "denied")
	s.must(place("open", s.auth("ann"), "key-00000001"), 202)
	s.must(s.admin("DELETE", "/v1/admin/sales/open/lists/deny", ""), 200)
	s.must(place("open", s.auth("eve"), "key-00000001"), 202)
}

func TestLists(t *testing.T) {
	s := open(t)
	s.must(s.create("phones"), 201)
	key := "Authorization: Bearer " + s.engine.AdminKey()
	put := func(kind, body string) answer {
		t.Helper()
		return s.do("PUT", "/v1/admin/sales/phones/lists/allow", body, key, "Content-Type: "+kind)
	}
	empty := s.must(s.admin("GET", "/v1/admin/sales/phones/lists/deny", ""), 200)
	if empty.body != `{"sale_id":"phones","list":"deny","size":0,"updated_at":null,"buyers":[],"next_cursor":""}`+"\n" {
		t.Errorf("never uploaded: %s", empty.body)
	}
	var lines strings.Builder
	for i := range 2345 {
		fmt.Fprintf(&lines, "buyer-%05d\n", i)
	}
	s.must(put("text/plain; charset=utf-8", lines.String()), 200)
	seen, cursor := 0, ""
	for {
		page := s.must(s.admin("GET", "/v1/admin/sales/phones/lists/allow?limit=1000&cursor="+cursor, ""), 200)
		for _, id := range page.fields["buyers"].([]any) {
			if id != fmt.Sprintf("buyer-%05d", seen) {
				t.Fatalf("buyer %d is %v", seen, id)
			}
			seen++
		}
		if cursor = page.text("next_cursor"); cursor == "" {
			break
		}
	}
	if seen != 2345 {
		t.Errorf("%d buyers in the pages, want 2345", seen)
	}
	for _, bad := range []struct{ kind, body, detail string }{
		{"", "ann", "Content-Type"},
		{"application/json", `["ann"]`, "Content-Type"},
		{"text/plain", "ann\nb\tb\n", "line 2: it has a tab"},
		{"text/plain", "ann\n\"bob\"\n", `line 2: it has '"'`},
		{"text/plain", "ann\n'bob'\n", `line 2: it is in quotes`},
		{"text/plain", "ann\nbob,bob@shop.example\n", "line 2: it has ','"},
		{"text/plain", "ann;2026-11-11", "line 1: it has ';'"},
		{"text/plain", "sep=\t\nann", "line 1: it looks as if it is for a spreadsheet"},
		{"text/plain", "ann\n6.22848E+18\n", "line 2: it looks as if a spreadsheet has shortened it"},
		{"text/plain", "bob,1", "want one buyer's id as it is in the token"},
		{"text/plain", "ann\n" + strings.Repeat("x", 129), "line 2"},
		{"text/plain", "ann\n\nbob\n" + strings.Repeat("x", 5000), "line 4"},
		{"text/plain", "ann\n\xff\n", "line 2"},
		{"text/plain", "\xff\xfea\x00\n\x00", "the file is in UTF-16: want text in UTF-8"},
		{"text/plain", "PK\x03\x04\x14\x00" + strings.Repeat("x", 5000), "line 1: the file is a spreadsheet"},
		{"text/plain", "ann\nbo\u200bb\n", `line 2: buyer id "bo\u200bb" has an invisible character`},
		{"text/plain", "手机\ufe0f\n", `line 1: buyer id "手机\ufe0f" has an invisible character`},
		{"application/x-ndjson", "\"ann\"\nbob\n", "line 2"},
		{"application/x-ndjson", "7\n", "line 1"},
		{"application/x-ndjson", `{"id":"ann"}`, "line 1"},
		{"application/x-ndjson", "\"ann\"\n\" bob\"\n", `line 2: buyer id " bob" begins or ends with white space`},
		{"application/x-ndjson", `{"buyer_id":"bob\u3000"}`, "line 1: buyer id"},
		{"application/x-ndjson", `{"buyer_id":""}`, "line 1"},
	} {
		if a := put(bad.kind, bad.body); a.status != 400 || !strings.Contains(a.text("detail"), bad.detail) {
			t.Errorf("%q as %q: %d %s, want %q in it", bad.body[:min(len(bad.body), 20)], bad.kind, a.status, a.body, bad.detail)
		}
	}
	for _, query := range []string{"limit=0", "limit=1001", "cursor=***", "page=2", "limit=1&limit=2"} {
		s.must(s.admin("GET", "/v1/admin/sales/phones/lists/allow?"+query, ""), 400, "bad_request")
	}
	if a := s.must(s.admin("GET", "/v1/admin/sales/phones/lists/allow?limit=1", ""), 200); a.text("size") != "2345" {
		t.Errorf("a wrong upload has changed the list: %s", a.body)
	}
	s.must(s.admin("GET", "/v1/admin/sales/none/lists/allow", ""), 404, "sale_not_found")
	s.must(s.do("PUT", "/v1/admin/sales/none/lists/allow", "ann", key, "Content-Type: text/plain"), 404, "sale_not_found")
	s.must(s.admin("GET", "/v1/admin/sales/phones/lists/vip", ""), 404, "not_found")
	s.must(s.admin("POST", "/v1/admin/sales/phones/lists/allow", ""), 405, "method_not_allowed")
}

func TestSaleCheck(t *testing.T) {
	s := open(t)
	s.must(s.create("ready", soon(), `ticket={"before_s":600}`), 201)
	s.must(s.create("odd", `eligibility="list"`, "total=0", "max_per_buyer=null"), 201)
	checks := func(sale string) (api.SaleCheck, map[string]api.CheckStatus) {
		t.Helper()
		a := s.must(s.admin("GET", "/v1/admin/sales/"+sale+"/check", ""), 200)
		var c api.SaleCheck
		must.Succeed(t, json.Unmarshal([]byte(a.body), &c))
		all := map[string]api.CheckStatus{}
		for _, check := range c.Checks {
			all[check.Name] = check.Status
		}
		return c, all
	}
	c, ready := checks("ready")
	for _, name := range []string{"ledger clock", "store clock", "loaded", "opening", "units", "eligibility", "servers"} {
		if ready[name] != api.CheckOK {
			t.Errorf("%s is %q; all: %+v", name, ready[name], c.Checks)
		}
	}
	if c.Node != s.engine.Node() || c.Status == api.CheckFail {
		t.Errorf("%+v", c)
	}
	c, odd := checks("odd")
	if c.Status != api.CheckFail || odd["units"] != api.CheckFail ||
		odd["eligibility"] != api.CheckFail || odd["loaded"] != api.CheckOK {
		t.Errorf("%+v", c.Checks)
	}
	s.must(s.admin("POST", "/v1/admin/sales/ready/pause", ""), 200)
	if c, paused := checks("ready"); paused["opening"] != api.CheckFail {
		t.Errorf("%+v", c.Checks)
	}
	s.must(s.admin("GET", "/v1/admin/sales/none/check", ""), 404, "sale_not_found")
}
