package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// fuzzedShop is an engine with the sales phone, which has units for everybody,
// and early, which is not open.
func fuzzedShop(f *testing.F) *engine.Engine {
	e := must.Get(engine.Open(context.Background(), engine.Config{
		DataDir: f.TempDir(), AdminKeys: testAdmins, BuyerSecret: "the shop's secret, long enough", ReconcileInterval: -1,
		CORSOrigins: []string{"https://shop.example"},
	}))(f)
	f.Cleanup(func() { _ = e.Close(context.Background()) })
	for _, sale := range []string{
		saleJSON("phone", "total=null", "max_per_buyer=null", "max_orders_per_buyer=null"),
		saleJSON("early", `opens_at="2999-01-01T00:00:00Z"`),
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/admin/sales", strings.NewReader(sale))
		r.Header.Set("Authorization", "Bearer "+ownerKey)
		w := httptest.NewRecorder()
		if e.Handler().ServeHTTP(w, r); w.Code != http.StatusCreated {
			f.Fatal(w.Body)
		}
	}
	return e
}

var goodKey = regexp.MustCompile(`^[A-Za-z0-9_-]{8,64}$`)

// goodClaim says by the plain JSON package whether a body is a claim's, as the
// contract has it, and what it asks for.
func goodClaim(body string) (quantity int64, meta any, good bool) {
	var fields map[string]json.RawMessage
	if len(body) > 4096 || json.Unmarshal([]byte(body), &fields) != nil || fields == nil {
		return 0, nil, false
	}
	text := string(fields["quantity"])
	quantity, err := strconv.ParseInt(text, 10, 64)
	if err != nil || quantity < 1 || quantity > sluice.MaxQuantity {
		return 0, nil, false
	}
	if raw, found := fields["meta"]; found && string(raw) != "null" {
		var compact bytes.Buffer
		if json.Compact(&compact, raw) != nil || compact.Len() > 512 || json.Unmarshal(raw, &meta) != nil ||
			compact.Bytes()[0] != '{' {
			return 0, nil, false
		}
	}
	delete(fields, "quantity")
	delete(fields, "meta")
	return quantity, meta, len(fields) == 0
}

// Whatever a buyer sends: what is accepted is a claim as the contract has it,
// a repeat of it gets the same order (I4), the order has the meta that was sent,
// and every other request gets an answer that says what is wrong with it.
func FuzzClaims(f *testing.F) {
	e := fuzzedShop(f)
	for _, key := range []string{
		"key-00001", "key", "", "clé-00001", strings.Repeat("k", 65), "key 00001",
		"key-00001\x00",
	} {
		f.Add("phone", key, `{"quantity":1}`, "")
	}
	for _, body := range []string{
		"", "{}", "null", "[]", "1", `{"quantity":1}`, `{"quantity":2,"meta":{"a":"張三","b":[1,2.5e3,null]}}`,
		`{"quantity":1,"meta":null}`, `{"quantity":1,"meta":{}}`,
		`{"quantity":1,"quantity":2}`, `{"Quantity":1}`, `{"quantity":1,"x":1}`, `{"quantity":-1}`, `{"quantity":1.0}`,
		`{"quantity":"1"}`, `{"quantity":01}`, `{"quantity":1e0}`, `{"quantity":+1}`,
		`{"quantity":99999999999999999999}`, `{"quantity":1,"meta":[]}`, `{"quantity":1,"meta":"{}"}`, `{"quantity":1} {}`,
		`{"quantity":1}x`, " \n{\"quantity\" : 1 } \t", "\xef\xbb\xbf{\"quantity\":1}",
		`{"quantity":1,"meta":{"a":"` + strings.Repeat("a", 504) + `"}}`,
		`{"quantity":1,"meta":{"a":"` + strings.Repeat("a", 505) + `"}}`, `{"quantity":1,"meta":{"a":"\ud800"}}`,
		"{\"quantity\":1,\"meta\":{\"a\":\"\xff\"}}",
		`{"quantity":1,"meta":{"a":{"a":{"a":{}}},"a":1}}`, strings.Repeat(" ", 4095) + "{}",
		`{"quantity":1,"meta":{"a":"\u0000<\u2028>"}}`, `{"quant\u0069ty":1}`,
	} {
		f.Add("phone", "key-00001", body, "")
	}
	f.Add("early", "key-00001", `{"quantity":1}`, "")
	f.Add("nobody", "key-00001", `{"quantity":1}`, "")
	f.Add("../phone", "key-00001", `{"quantity":1}`, "a ticket that is none")

	buyer := 0
	f.Fuzz(func(t *testing.T, sale, key, body, ticket string) {
		buyer++
		token := must.Get(jwt.NewWithClaims(jwt.SigningMethodHS256,
			jwt.MapClaims{"sub": strconv.Itoa(buyer), "exp": time.Now().Add(time.Hour).Unix()}).
			SignedString([]byte("the shop's secret, long enough")))(t)
		send := func(method, path, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, "/", strings.NewReader(body))
			r.URL.Path = path
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header["Idempotency-Key"] = []string{key}
			if ticket != "" {
				r.Header["Sluice-Ticket"] = []string{ticket}
			}
			w := httptest.NewRecorder()
			e.Handler().ServeHTTP(w, r)
			return w
		}
		claim := func(body string) (int, api.Placed, api.Problem) {
			w := send(http.MethodPost, "/v1/sales/"+sale+"/orders", body)
			var placed api.Placed
			var problem api.Problem
			var answer any = &problem
			if w.Code == http.StatusAccepted {
				answer = &placed
			}
			if err := json.Unmarshal(w.Body.Bytes(), answer); w.Code/100 != 3 && err != nil {
				t.Fatalf("status %d, %.200q: %v", w.Code, w.Body, err)
			}
			return w.Code, placed, problem
		}
		status, placed, problem := claim(body)
		quantity, meta, good := goodClaim(body)
		switch {
		case status >= 500:
			t.Fatalf("status %d %s", status, problem.Code)
		case sale != "phone":
			if status == http.StatusAccepted {
				t.Fatalf("the sale %q has accepted a claim", sale)
			}
			return
		case status != http.StatusAccepted:
			// Twice the same field, another spelling, and what is no UTF-8 are refused too.
			if plain := `{"quantity":` + strconv.FormatInt(quantity, 10) + `}`; goodKey.MatchString(key) && good &&
				strings.Join(strings.Fields(body), "") == plain {
				t.Fatalf("status %d %+v", status, problem)
			}
			if problem.Code == "" || problem.Detail == "" {
				t.Fatalf("status %d without a reason: %+v", status, problem)
			}
			return
		case !good || !goodKey.MatchString(key):
			t.Fatalf("a claim with the key %q and the body %q is accepted", key, body)
		}

		if status, again, _ := claim(body); status != http.StatusAccepted || again != placed {
			t.Fatalf("the repeat: status %d, %+v, first %+v (I4)", status, again, placed)
		}
		other := quantity%sluice.MaxQuantity + 1
		if status, _, problem := claim(`{"quantity":` + strconv.FormatInt(other, 10) + `}`); status !=
			http.StatusUnprocessableEntity {
			t.Fatalf("the same key with another quantity: status %d %+v", status, problem)
		}
		var order api.Order
		answer := send(http.MethodGet, "/v1/orders/"+string(placed.OrderID), "")
		if err := json.Unmarshal(answer.Body.Bytes(), &order); err != nil || order.Quantity != quantity {
			t.Fatalf("the order: %d %s, %v", answer.Code, answer.Body, err)
		}
		var kept any
		if order.Meta != nil {
			must.Succeed(t, json.Unmarshal(order.Meta, &kept))
		}
		if sent, got := compactJSON(t, meta), compactJSON(t, kept); sent != got {
			t.Fatalf("the order's meta is %s, sent was %s", got, sent)
		}
	})
}

func compactJSON(t *testing.T, v any) string {
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}

// Whatever a reader's headers are, the answer is the bytes of the sale or a 304;
// and only the shop's pages may read them from another origin.
func FuzzReadingHeaders(f *testing.F) {
	e := fuzzedShop(f)
	ask := func(header http.Header) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/v1/sales/early", nil)
		r.Header = header
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		return w
	}
	plain := ask(http.Header{})
	tag := plain.Header().Get("Etag")
	for _, match := range []string{"", "*", tag, "W/" + tag, `"x", ` + tag, strings.Trim(tag, `"`), `"`, ",,,", "W/"} {
		f.Add(match, "gzip", "https://shop.example")
	}
	for _, encoding := range []string{
		"", "*", "gzip;q=0", "gzip; q=0.001, *;q=0", "br;q=1.0, gzip;q=0.8, *;q=0.1", "GZIP",
		"gzip;q=", "gzip;q=NaN", "gzip;q=-1", ";;;",
	} {
		f.Add("", encoding, "null")
	}
	f.Add("", "", "https://shop.example.evil.example")
	f.Add("", "", "HTTPS://shop.example")
	f.Fuzz(func(t *testing.T, match, encoding, origin string) {
		w := ask(http.Header{"If-None-Match": {match}, "Accept-Encoding": {encoding}, "Origin": {origin}})
		switch w.Code {
		case http.StatusNotModified:
			if !strings.Contains(match, tag) && !strings.Contains(match, "*") {
				t.Errorf("not modified for %q, and the tag is %s", match, tag)
			}
			if w.Body.Len() > 0 {
				t.Errorf("a body: %q", w.Body)
			}
		case http.StatusOK:
			if match == tag {
				t.Errorf("the body for one who has it")
			}
			body := io.Reader(w.Body)
			if w.Header().Get("Content-Encoding") == "gzip" {
				if !strings.Contains(strings.ToLower(encoding), "gzip") && !strings.Contains(encoding, "*") {
					t.Errorf("gzip for %q", encoding)
				}
				unzipped := must.Get(gzip.NewReader(body))(t)
				body = unzipped
			}
			if got, err := io.ReadAll(body); err != nil || string(got) != plain.Body.String() {
				t.Errorf("%q, %v; want %q", got, err, plain.Body)
			}
		default:
			t.Errorf("status %d", w.Code)
		}
		if allowed := w.Header().Get("Access-Control-Allow-Origin"); allowed != "" &&
			(allowed != origin || origin != "https://shop.example") {
			t.Errorf("%q may read, and it asked as %q", allowed, origin)
		}
	})
}
