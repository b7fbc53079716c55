package openapi

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/tickets"
)

// What a live server answers is what its document says: on every route, with
// every status that the document has for it.
func TestAnswersFitTheDocument(t *testing.T) {
	t.Parallel()
	c := openChecked(t)
	c.gone()
	c.selling()
	c.entering()
	c.conflicts()
	c.reading()
	c.refused()
	c.closed() // the last: nothing works afterwards
	c.complete()
}

// notProvoked are answers that this test cannot have, and why.
var notProvoked = map[string]string{
	"PUT /v1/admin/sales/{sale}/lists/{list} 413":    "five million buyers",
	"PUT /v1/admin/sales/{sale}/lists/{list} 409":    "two uploads of one list that overtake each other",
	"DELETE /v1/admin/sales/{sale}/lists/{list} 409": "two changes of one list that overtake each other",
	"POST /v1/admin/sales/{sale}/recover 409":        "a sale that was archived",
	"POST /v1/admin/sales/{sale}/resume 409":         "the same",
	"POST /v1/admin/sales/{sale}/close 409":          "the same",
	"GET /v1/admin/dead-letters/{id} 200":            "damage",
	"POST /v1/admin/dead-letters/{id}/replay 200":    "damage",
	"POST /v1/admin/dead-letters/{id}/replay 409":    "damage",
	"GET /v1/buyer 503":                              "it needs neither ledger nor store",
	"GET /v1/admin/profiles/{profile} 503":           "two profiles of one kind at a time",
	"PUT /v1/admin/log-level 404":                    "a program that embeds the server",
}

// complete finds what the document has and no answer here had.
func (c *checked) complete() {
	c.t.Helper()
	answered := map[string]bool{}
	for _, o := range c.operations() {
		for status := range o.Responses.Map() {
			what := o.name() + " " + status
			switch {
			case c.seen[what] && notProvoked[what] != "":
				c.t.Errorf("%s was answered: take it off the list of what is not provoked", what)
			case !c.seen[what] && notProvoked[what] == "":
				c.t.Errorf("%s is in the document, and was never answered", what)
			}
			answered[o.name()] = answered[o.name()] || c.seen[what]
		}
	}
	for _, r := range httpapi.Routes() {
		if path := strings.TrimSuffix(r.Pattern, "{$}"); path != "/" && !answered[path] {
			c.t.Errorf("%s was never answered", path)
		}
	}
}

// operation is a route as the document has it, with what a right request for
// something that does not exist looks like.
type operation struct {
	*openapi3.Operation
	method, path string
	access       string
}

func (o *operation) name() string { return o.method + " " + o.path }

func (o *operation) has(status int) bool { return o.Responses.Status(status) != nil }

func (c *checked) operations() []operation {
	var all []operation
	for path, item := range c.doc.Paths.Map() {
		for method, op := range item.Operations() {
			access, _ := op.Extensions["x-access"].(string)
			all = append(all, operation{Operation: op, method: method, path: path, access: access})
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// missing is the path to something that does not exist, in a sale of this name.
func (o *operation) missing(sale string) string {
	return strings.NewReplacer("{sale}", sale, "{order}", sale+"."+strings.Repeat("0", 32), "{webhook}", "wh_nothing",
		"{id}", "999", "{list}", "allow",
		"{build}", "x", "{file}", "x", "{picture}", "x").Replace(o.path)
}

// body is a right one, empty if there is none.
func (o *operation) body(t *testing.T) string {
	if o.RequestBody != nil && o.RequestBody.Value.Content["image/jpeg"] != nil {
		return lamp(t)
	}
	if o.RequestBody == nil || o.RequestBody.Value.Content["application/json"] == nil {
		return map[bool]string{true: "ann,1,WC-1"}[o.RequestBody != nil]
	}
	example := o.RequestBody.Value.Content["application/json"].Example
	if example == nil {
		return ""
	}
	text := must.Get(json.Marshal(example))(t)
	return strings.Replace(string(text), "(the address of your endpoint)", "http://127.0.0.1:9/hook", 1)
}

// lamp is a picture.
func lamp(t *testing.T) string {
	return string(must.Get(os.ReadFile("../../internal/demo/pictures/lamp.jpg"))(t))
}

// headers are all but the token.
func (o *operation) headers(c *checked, token bool) []string {
	var headers []string
	switch {
	case strings.HasSuffix(o.path, "/pictures"):
		headers = append(headers, "Content-Type: image/jpeg")
	case o.method == http.MethodPut:
		headers = append(headers, "Content-Type: text/plain")
	}
	if strings.HasSuffix(o.path, "/orders") && o.method == http.MethodPost {
		headers = append(headers, "Idempotency-Key: attempt-1")
	}
	switch {
	case o.access == "anyone":
	case (o.access == "buyer") == token:
		headers = append(headers, c.auth("nobody"))
	default:
		headers = append(headers, "Authorization: Bearer "+c.engine.AdminKey())
	}
	return headers
}

// refused asks every route for what it refuses whatever it is.
func (c *checked) refused() {
	c.t.Helper()
	big := `{"a":"` + strings.Repeat("a", 64<<10) + `"}`
	for _, o := range c.operations() {
		path, body := o.missing("nothing"), o.body(c.t)
		if o.access != "anyone" {
			bare := slices.DeleteFunc(o.headers(c, true), func(h string) bool { return strings.HasPrefix(h, "Authorization") })
			c.judge(401, o.method, path, body, bare...)
			c.judge(403, o.method, path, body, o.headers(c, false)...) // the other half's token
		}
		headers := o.headers(c, true)
		if strings.Contains(o.path, "{") { // also where the document forgets it
			c.judge(404, o.method, strings.Replace(path, "/o/nothing.", "/o/nothing", 1), body, headers...)
		}
		switch {
		case o.method == http.MethodGet && !o.has(400):
		case o.method == http.MethodGet:
			c.judge(400, o.method, path+"?nonsense=1", "", headers...)
		case o.method == http.MethodPut:
			c.judge(400, o.method, strings.Replace(o.path, "{sale}/lists/{list}", "phone/lists/allow", 1), "a\tb", headers...)
		default:
			c.judge(400, o.method, path, `{"nonsense":1}`, headers...)
		}
		if o.method != http.MethodGet && notProvoked[o.name()+" 413"] == "" {
			if strings.HasSuffix(path, "/pictures") {
				big = strings.Repeat("a", 10<<20+1)
			}
			c.judge(413, o.method, path, big, headers...)
		}
		if o.has(304) {
			c.judge(304, o.method, strings.Replace(o.path, "{sale}", "phone", 1), "", "If-None-Match: *")
		}
	}
}

// closed asks every route that may be unavailable when nothing answers any more.
func (c *checked) closed() {
	c.t.Helper()
	if err := c.engine.Close(context.Background()); err != nil {
		c.t.Error(err)
	}
	// What the ledger said of late counts for a moment.
	for end := time.Now().Add(10 * time.Second); c.do("GET", "/readyz", "").status == 200 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	for _, o := range c.operations() {
		if o.has(503) && notProvoked[o.name()+" 503"] == "" {
			c.judge(503, o.method, o.missing("unheard-of"), o.body(c.t), o.headers(c, true)...)
		}
	}
}

// merchant asks as the merchant, rightly.
func (c *checked) merchant(status int, method, path, body string) answer {
	c.t.Helper()
	return c.call(status, false, method, path, body, c.key())
}

// selling is the life of a sale and its orders, and what goes wrong in it.
func (c *checked) selling() {
	admin := c.merchant
	t, key := c.t, c.key()
	claim := func(status int, wrong bool, buyer, attempt, body string) answer {
		t.Helper()
		return c.call(status, wrong, "POST", "/v1/sales/phone/orders", body, c.auth(buyer), "Idempotency-Key: "+attempt)
	}
	one := `{"quantity":1}`

	admin(201, "POST", "/v1/admin/sales", saleJSON("phone", "total=2"))
	admin(409, "POST", "/v1/admin/sales", saleJSON("phone"))
	c.call(400, true, "POST", "/v1/admin/sales", `{"id":"x","colour":"red"}`, key)
	admin(201, "POST", "/v1/admin/sales", saleJSON("later", `opens_at="2099-01-01T00:00:00Z"`, "total=null",
		"max_per_buyer=null", `list_price={"amount":300,"currency":"CNY"}`,
		`buyer_rate={"requests":10,"per_s":1,"shared":false}`))
	admin(200, "GET", "/v1/admin/sales", "")
	admin(200, "GET", "/v1/admin/sales/later", "")
	admin(200, "PATCH", "/v1/admin/sales/later", `{"title":"Later","closes_at":"2099-02-01T00:00:00Z"}`)
	c.call(200, false, "GET", "/v1/sales", "")
	c.call(200, false, "GET", "/v1/sales/phone", "")
	c.call(200, false, "GET", "/v1/sales/later", "")
	c.call(404, false, "GET", "/v1/sales/nothing", "")
	c.call(200, false, "GET", "/v1/time", "")

	placed := claim(202, false, "alice", "attempt-1", `{"quantity":1,"meta":{"size":"XL"}}`)
	claim(202, false, "alice", "attempt-1", `{"quantity":1,"meta":{"size":"XL"}}`)
	claim(422, false, "alice", "attempt-1", one)
	claim(409, false, "alice", "attempt-2", one) // buyer_limit
	claim(202, false, "bob", "attempt-1", one)
	claim(409, false, "carol", "attempt-1", one) // sold_out
	claim(400, true, "carol", "attempt-1", `{"quantity":"1"}`)
	claim(400, true, "carol", "a", one)
	c.call(409, false, "POST", "/v1/sales/later/orders", one, c.auth("alice"), "Idempotency-Key: attempt-1") // not_open
	c.call(401, false, "POST", "/v1/sales/phone/orders", one, "Idempotency-Key: attempt-1")
	c.call(403, false, "POST", "/v1/sales/phone/orders", one, key, "Idempotency-Key: attempt-1")
	c.call(401, false, "GET", "/v1/admin/sales", "")

	id := placed.text("order_id")
	order := "/v1/orders/" + id
	for deadline := time.Now().Add(30 * time.Second); ; {
		got := c.call(200, false, "GET", order, "", c.auth("alice"))
		if got.text("status") == "pending" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the order is not stored")
		}
	}
	c.call(200, false, "GET", "/v1/buyer", "", c.auth("alice"))
	c.call(200, false, "GET", "/v1/orders?limit=10&sale=phone", "", c.auth("alice"))
	c.call(404, false, "GET", order, "", c.auth("bob"))
	admin(200, "GET", "/v1/admin/orders?limit=10", "")
	c.call(400, true, "GET", "/v1/admin/orders?limit=0", "", key)
	admin(200, "GET", "/v1/admin"+order[len("/v1"):], "")
	admin(200, "POST", "/v1/admin/orders/"+id+"/extend", `{"expires_at":"`+api.At(time.Now().Add(time.Hour)).String()+`"}`)
	admin(200, "POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"pay-1"}`)
	admin(409, "POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"pay-2"}`)
	admin(409, "POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"pay-1","amount":0,"currency":"CNY"}`)
	admin(200, "GET", "/v1/admin/orders/"+id+"/history", "")
	c.call(409, false, "POST", order+"/cancel", "", c.auth("alice"))
	admin(200, "POST", "/v1/admin/orders/"+id+"/refund", "")
	admin(200, "POST", "/v1/admin/sales/phone/restock", `{"id":"delivery","delta":5}`)
	admin(201, "POST", "/v1/admin/sales", saleJSON("next", `opens_at="2039-01-01T00:00:00Z"`))
	admin(200, "POST", "/v1/admin/sales/phone/pause", "")
	admin(200, "POST", "/v1/admin/sales/phone/resume", "")
	admin(200, "GET", "/v1/admin/sales/phone/audit", "")
	admin(200, "POST", "/v1/admin/sales/phone/reconcile", `{"apply":false}`)
	admin(200, "GET", "/v1/admin/actions", "")
	admin(200, "GET", "/v1/admin/status", "")
	admin(200, "GET", "/v1/admin/sales/phone/curve", "")
	admin(200, "GET", "/v1/admin/events?limit=5", "")
	hook := admin(201, "POST", "/v1/admin/webhooks", `{"url":"http://127.0.0.1:9/hook"}`).text("id")
	admin(200, "GET", "/v1/admin/webhooks", "")
	admin(200, "GET", "/v1/admin/webhooks/"+hook, "")
	admin(200, "GET", "/v1/admin/webhooks/"+hook+"/deliveries?state=failed&limit=5", "")
	admin(200, "POST", "/v1/admin/webhooks/"+hook+"/replay", `{"failed":true}`)
	admin(200, "POST", "/v1/admin/webhooks/"+hook+"/test", "")
	admin(200, "POST", "/v1/admin/webhooks/"+hook+"/disable", "")
	admin(200, "DELETE", "/v1/admin/webhooks/"+hook, "")
	admin(404, "GET", "/v1/admin/webhooks/"+hook, "")
	admin(200, "GET", "/v1/admin/dead-letters", "")
	admin(404, "GET", "/v1/admin/dead-letters/1", "")
	admin(200, "PUT", "/v1/admin/log-level", `{"level":"error"}`)
	c.call(400, false, "PUT", "/v1/admin/log-level", `{"level":"loud"}`, key)
	for _, profile := range []string{"heap", "goroutine", "allocs", "cpu?seconds=1", "trace?seconds=1"} {
		c.call(200, false, "GET", "/v1/admin/profiles/"+profile, "", key)
	}
	c.call(400, true, "GET", "/v1/admin/profiles/cpu?seconds=21", "", key)
	c.call(404, true, "GET", "/v1/admin/profiles/secrets", "", key)
	c.call(200, false, "GET", "/readyz", "")
	c.call(200, false, "GET", "/healthz", "")
}

// entering is what stands before a sale: tickets, proofs of work, lists, rates.
func (c *checked) entering() {
	c.merchant(201, "POST", "/v1/admin/sales", saleJSON("club", "total=5", "max_per_buyer=5", `ticket={"before_s":60}`,
		`challenge={"difficulty":1}`,
		`address_rate={"requests":300,"per_s":60}`, `admission_ratio=0.5`, `eligibility="list"`))
	c.merchant(200, "PATCH", "/v1/admin/sales/club", `{"buyer_rate":{"requests":3,"per_s":86400}}`) // not shared
	c.merchant(200, "PATCH", "/v1/admin/sales/club", `{"admission_ratio":1.5}`)
	c.merchant(200, "PATCH", "/v1/admin/sales/club", `{"risk":{"url":"http://127.0.0.1:9/","on_failure":"allow"}}`)
	c.merchant(200, "PATCH", "/v1/admin/sales/club", `{"risk":{"url":"http://127.0.0.1:9/"}}`) // both left out
	c.merchant(200, "PATCH", "/v1/admin/sales/club", `{"risk":null}`)
	c.call(400, true, "PATCH", "/v1/admin/sales/club", `{"buyer_rate":{"requests":3}}`, c.key())
	c.call(400, true, "PATCH", "/v1/admin/sales/club", `{"buyer_rate":{"requests":3,"per_s":1,"burst":1}}`, c.key())
	list := "/v1/admin/sales/club/lists/allow"
	if _, wrong := c.judge(200, "PUT", list, "ann\nbob\n", c.key(), "Content-Type: text/plain"); wrong != nil {
		c.t.Error(wrong)
	}
	c.merchant(200, "GET", list+"?limit=1", "")
	c.call(404, true, "GET", "/v1/admin/sales/club/lists/vip", "", c.key())
	c.merchant(200, "DELETE", "/v1/admin/sales/club/lists/deny", "")
	c.merchant(200, "GET", "/v1/admin/sales/club/check", "")

	ask := func(status int, buyer, what, body string) answer {
		c.t.Helper()
		return c.call(status, false, "POST", "/v1/sales/club/"+what, body, c.auth(buyer))
	}
	ask(403, "eve", "ticket", "")
	ask(403, "ann", "ticket", "")
	var work api.Challenge
	must.Succeed(c.t, json.Unmarshal([]byte(ask(200, "ann", "challenge", "{}").body), &work))
	nonce := must.Get(tickets.Solve(c.t.Context(), work.Challenge, int(work.Difficulty)))(c.t)
	ticket := ask(200, "ann", "ticket", fmt.Sprintf(`{"challenge":%q,"nonce":%q}`, work.Challenge, nonce)).text("ticket")
	ask(200, "ann", "challenge", "")
	ask(200, "ann", "challenge", "")
	ask(429, "ann", "challenge", "")
	ask(403, "ann", "ticket", "")
	ask(429, "ann", "ticket", "")
	claim := func(status, n int, headers ...string) {
		c.t.Helper()
		c.call(status, false, "POST", "/v1/sales/club/orders", `{"quantity":1}`,
			append(headers, c.auth("ann"), fmt.Sprint("Idempotency-Key: attempt-", n))...)
	}
	claim(403, 1)
	claim(202, 2, "Sluice-Ticket: "+ticket)
	claim(403, 3)
	claim(429, 4)
	c.call(409, false, "POST", "/v1/sales/phone/ticket", "", c.auth("ann"))
	c.call(409, false, "POST", "/v1/sales/phone/challenge", "", c.auth("ann"))
}

// conflicts are requests that come at the wrong time.
func (c *checked) conflicts() {
	place := func(buyer string) string {
		c.t.Helper()
		id := c.call(202, false, "POST", "/v1/sales/shop/orders", `{"quantity":1}`, c.auth(buyer),
			"Idempotency-Key: attempt-1").text("order_id")
		c.must(c.eventually(func() answer {
			return c.admin("POST", "/v1/admin/orders/"+id+"/pay", `{"payment_id":"pay-of-`+buyer+`"}`)
		}, 200), 200)
		return id
	}
	c.merchant(201, "POST", "/v1/admin/sales", saleJSON("shop", "total=5"))
	paid := "/v1/admin/orders/" + place("ann")
	c.merchant(409, "POST", paid+"/cancel", "")
	c.merchant(200, "POST", "/v1/admin/buyers/erase", `{"buyer_id":"ann"}`)
	c.merchant(409, "POST", paid+"/reject", `{"reason":"none left"}`)
	c.merchant(409, "POST", paid+"/extend", `{"expires_at":"2030-01-01T00:00:00Z"}`)
	c.merchant(400, "POST", paid+"/reject", `{"reason":"not_covered"}`)
	open := c.call(202, false, "POST", "/v1/sales/shop/orders", `{"quantity":1}`, c.auth("bob"),
		"Idempotency-Key: attempt-1").text("order_id")
	c.must(c.eventually(func() answer {
		return c.admin("GET", "/v1/admin/orders?sale=shop&status=pending", "")
	}, 200), 200)
	c.must(c.eventually(func() answer { return c.admin("POST", "/v1/admin/orders/"+open+"/cancel", "") }, 200), 200)
	c.merchant(200, "POST", "/v1/admin/orders/"+open+"/cancel", "")
	c.merchant(409, "POST", "/v1/admin/orders/"+open+"/refund", "")
	last := c.call(202, false, "POST", "/v1/sales/shop/orders", `{"quantity":1}`, c.auth("cid"),
		"Idempotency-Key: attempt-1").text("order_id")
	c.must(c.eventually(func() answer { return c.do("POST", "/v1/orders/"+last+"/cancel", "", c.auth("cid")) }, 200), 200)
	c.call(200, false, "POST", "/v1/orders/"+last+"/cancel", "{}", c.auth("cid"))
	gone := c.call(202, false, "POST", "/v1/sales/shop/orders", `{"quantity":1}`, c.auth("dan"),
		"Idempotency-Key: attempt-1").text("order_id")
	c.must(c.eventually(func() answer {
		return c.admin("POST", "/v1/admin/orders/"+gone+"/reject", `{"reason":"x"}`)
	}, 200), 200)
	c.merchant(200, "POST", "/v1/admin/orders/"+gone+"/reject", `{"reason":"x"}`)

	sale := "/v1/admin/sales/shop"
	c.merchant(409, "POST", sale+"/restock", `{"id":"less","delta":-100}`)
	c.merchant(200, "POST", sale+"/restock", `{"id":"more","delta":1}`)
	c.merchant(422, "POST", sale+"/restock", `{"id":"more","delta":2}`)
	c.merchant(409, "PATCH", sale, `{"total":0}`)
	c.merchant(200, "POST", sale+"/close", "")
	c.merchant(409, "POST", sale+"/open", "")
	c.merchant(409, "DELETE", sale, "")
	c.merchant(201, "POST", "/v1/admin/sales", saleJSON("mistake", `opens_at="2100-01-01T00:00:00Z"`))
	c.merchant(200, "DELETE", "/v1/admin/sales/mistake", "")
	c.merchant(409, "POST", sale+"/pause", "")
	c.merchant(200, "POST", "/v1/admin/sales/later/open", "")
	c.merchant(409, "GET", "/v1/admin/events?after=evt_99999_0123abcd", "")
	c.merchant(200, "POST", "/v1/admin/sales/later/recover", "")
	hook := c.merchant(201, "POST", "/v1/admin/webhooks", `{"url":"http://127.0.0.1:9/hook"}`).text("id")
	c.merchant(200, "POST", "/v1/admin/webhooks/"+hook+"/enable", "")
	c.merchant(404, "POST", "/v1/admin/webhooks/"+hook+"/replay", `{"event":"evt_99999_0123abcd"}`)
}

// reading is what people and machines look at.
func (c *checked) reading() {
	page := c.call(200, false, "GET", "/s/phone", "")
	_, asset, _ := strings.Cut(page.body, `"/assets/`)
	asset, _, _ = strings.Cut(asset, `"`)
	with, _ := c.judge(201, "POST", "/v1/admin/sales/phone/pictures", lamp(c.t), c.key(), "Content-Type: image/jpeg")
	_, picture, _ := strings.Cut(with.body, `"pictures":["`)
	picture, _, _ = strings.Cut(picture, `"`)
	for _, path := range []string{
		"/", "/o/phone.019a7d3e5f6b7c8d9e0f1a2b3c4d5e6f", "/assets/" + asset, "/docs",
		"/openapi.json", "/metrics", "/orders", "/s/phone/remind.ics", "/s/phone/pictures/" + picture + "-640.jpg",
	} {
		c.call(200, false, "GET", path, "")
	}

	var eight []string
	for i := range sluice.MaxPictures {
		eight = append(eight, fmt.Sprintf(`"https://cdn.shop.example/%d.jpg"`, i))
	}
	c.merchant(200, "PATCH", "/v1/admin/sales/later", `{"pictures":[`+strings.Join(eight, ",")+`]}`)
	c.judge(409, "POST", "/v1/admin/sales/later/pictures", lamp(c.t), c.key(), "Content-Type: image/jpeg")

	const other = "/v1/orders/phone.019a7d3e5f6b7c8d9e0f1a2b3c4d5e6f"
	for path, method := range map[string]string{
		"/v1/buyer": "GET", "/v1/orders": "GET", other: "GET", other + "/cancel": "POST",
	} {
		for range 2000 { // until the buyer has asked too often
			if a := c.do(method, path, "", c.auth("greedy")); a.status == 429 {
				_ = c.fits(a, method, path, "", c.auth("greedy"))
				break
			}
		}
	}

	ctx, leave := context.WithCancel(c.t.Context())
	defer leave()
	const events = "/v1/sales/phone/events"
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, c.url+events, nil))(c.t)
	response := must.Get(http.DefaultClient.Do(request))(c.t)
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			a.body = text
			break
		}
	}
	if err := c.fits(a, "GET", events, ""); err != nil {
		c.t.Error(err)
	}
	a.header = http.Header{"Content-Type": {"application/json"}}
	if err := c.fits(a, "GET", "/v1/sales/phone", ""); err != nil { // an event is a sale
		c.t.Error(err)
	}
}
