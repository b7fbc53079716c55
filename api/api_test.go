package api

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

const goodSale = `{"id":"s1","sku":"K","title":"T","price":{"amount":1,"currency":"CNY"},"total":10,"max_per_buyer":1,
	"opens_at":"2026-11-11T20:00:00.5+08:00","closes_at":null}`

func fixedID() sluice.SaleID { return "made" }

func TestCreateSaleDefaults(t *testing.T) {
	var c CreateSale
	must.Succeed(t, Decode([]byte(goodSale), &c))
	got := must.Get(c.Domain(fixedID))(t)
	want := sluice.Sale{
		ID: "s1", SKU: "K", Title: "T", Price: sluice.Money{Amount: 1, Currency: "CNY"},
		Terms: sluice.Terms{
			Version: 1, Total: 10, MaxPerBuyer: 1, MaxOrders: 10, MaxUnpaid: 2,
			OpensAt: time.Date(2026, 11, 11, 12, 0, 0, 500e6, time.UTC),
		},
		PaymentWindow: 900 * time.Second, PaymentGrace: 30 * time.Second,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	c.ID = Opt[sluice.SaleID]{}
	c.Total, c.MaxPerBuyer = Null[int64](), Null[int64]()
	got = must.Get(c.Domain(fixedID))(t)
	if got.ID != "made" || got.Total != sluice.Unlimited || got.MaxPerBuyer != sluice.Unlimited ||
		got.MaxOrders != sluice.Unlimited {
		t.Errorf("got %+v, want a made id and no limits", got)
	}
}

func TestCreateSaleRefused(t *testing.T) {
	for _, tc := range []struct{ name, replace, with, want string }{
		{"unknown field", `"sku":`, `"stock":1,"sku":`, "stock: unknown field (byte"},
		{"other spelling", `"sku":`, `"SKU":`, "SKU: unknown field"},
		{"twice", `"sku":"K"`, `"sku":"K","sku":"L"`, "sku: the field is duplicated"},
		{"nested unknown", `"amount":1`, `"amount":1,"cents":2`, "price.cents: unknown field"},
		{"negative price", `"amount":1`, `"amount":-1`, "price: amount -1"},
		{"price of which no order can be counted", `"amount":1`, `"amount":9223372036855`, "want 0 to 9223372036854,"},
		{"fractional price", `"amount":1`, `"amount":1.5`, "amount: want a whole number that fits 64 bits, have 1.5"},
		{"currency", `CNY`, `cny`, `price: currency "cny": did you mean CNY?`},
		{"no currency", `CNY`, `cn1`, `price: currency "cn1": want three upper-case letters, like CNY`},
		{"mistaken small", `CNY`, `rmb`, `price: currency "rmb": want an ISO 4217 code like CNY`},
		{"mistaken currency", `CNY`, `RMB`, `price: currency "RMB": want an ISO 4217 code like CNY`},
		{"no price", `"price":{"amount":1,"currency":"CNY"},`, ``, "price: is missing"},
		{"forgotten amount", `"amount":1,`, ``, "price.amount: is missing"},
		{"null amount", `"amount":1,`, `"amount":null,`, "price.amount: is null"},
		{"forgotten currency", `,"currency":"CNY"`, ``, "price.currency: is missing"},
		{"null price", `{"amount":1,"currency":"CNY"}`, `null`, "price: want money"},
		{"negative total", `"total":10`, `"total":-1`, "total: want 0 or more"},
		{"huge total", `"total":10`, `"total":99999999999999999999`, "total: want a whole number that fits 64 bits"},
		{"no total", `"total":10,`, ``, "total: is missing"},
		{"limit 0", `"max_per_buyer":1`, `"max_per_buyer":0`, "max_per_buyer 0: want 1 to 1000000000000"},
		{"limit as text", `"max_per_buyer":1`, `"max_per_buyer":"1"`, "max_per_buyer: want a whole number"},
		{"no opening", `"opens_at":"2026-11-11T20:00:00.5+08:00",`, ``, "opens_at: is missing"},
		{"loose time", `2026-11-11T20:00:00.5+08:00`, `2026-11-11 20:00`, "opens_at: want a time in RFC 3339"},
		{"unreal time", `2026-11-11T20:00:00.5+08:00`, `2026-02-30T20:00:00Z`, "opens_at: want a time in RFC 3339"},
		{
			"closing before opening", `"closes_at":null`, `"closes_at":"2026-11-11T12:00:00Z"`,
			"closes_at: want a time after opens_at",
		},
		{"window", `"closes_at":null`, `"payment_window_s":0`, "payment_window_s: want 1 to"},
		{"endless window", `"closes_at":null`, `"payment_window_s":9223372036854775807`, "payment_window_s: want"},
		{"bad id", `"id":"s1"`, `"id":"S 1"`, "sale id"},
		{"broken", `"sku":"K"`, `"sku":"K`, "broken JSON at byte"},
		{"cut", `"closes_at":null}`, ``, "broken JSON: it ends at byte"},
		{"trailing", `"closes_at":null}`, `"closes_at":null} {}`, "something follows"},
		{"array", goodSale, `[]`, "want a JSON object"},
		{"empty", goodSale, ` `, "the body is empty"},
		{"utf8", `"T"`, "\"\xff\"", "not valid UTF-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			body := strings.Replace(goodSale, tc.replace, tc.with, 1)
			if body == goodSale {
				t.Fatal("the case replaces nothing")
			}
			var c CreateSale
			err := Decode([]byte(body), &c)
			if err == nil {
				_, err = c.Domain(fixedID)
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestPatchTellsAbsentFromNull(t *testing.T) {
	base := func() sluice.Sale {
		var c CreateSale
		must.Succeed(t, Decode([]byte(goodSale), &c))
		s := must.Get(c.Domain(fixedID))(t)
		s.ClosesAt = s.OpensAt.Add(time.Hour)
		return s
	}
	for _, tc := range []struct {
		body string
		edit func(*sluice.Sale)
		err  string
	}{
		{`{}`, func(*sluice.Sale) {}, ""},
		{`{"total":null}`, func(s *sluice.Sale) { s.Total = sluice.Unlimited }, ""},
		{`{"total":0}`, func(s *sluice.Sale) { s.Total = 0 }, ""},
		{`{"closes_at":null}`, func(s *sluice.Sale) { s.ClosesAt = time.Time{} }, ""},
		{`{"max_per_buyer":5}`, func(s *sluice.Sale) { s.MaxPerBuyer, s.MaxOrders = 5, 14 }, ""},
		{`{"max_per_buyer":null}`, func(s *sluice.Sale) {
			s.MaxPerBuyer, s.MaxOrders = sluice.Unlimited, sluice.Unlimited
		}, ""},
		{`{"max_per_buyer":5,"max_orders_per_buyer":6}`, func(s *sluice.Sale) { s.MaxPerBuyer, s.MaxOrders = 5, 6 }, ""},
		{`{"max_unpaid_per_buyer":5}`, func(s *sluice.Sale) { s.MaxUnpaid = 5 }, ""},
		{`{"max_unpaid_per_buyer":null}`, func(s *sluice.Sale) { s.MaxUnpaid = 0 }, ""},
		{`{"max_per_buyer":0}`, nil, "max_per_buyer 0: want 1 to 1000000000000, or null for no limit"},
		{
			`{"max_per_buyer":1000000000001}`, nil,
			"max_per_buyer 1000000000001: want 1 to 1000000000000, or null for no limit",
		},
		{
			`{"max_orders_per_buyer":1000000000001}`, nil,
			"max_orders_per_buyer 1000000000001: want 1 to 1000000000000, or null for no limit",
		},
		{`{"max_unpaid_per_buyer":1000000000000}`, func(s *sluice.Sale) { s.MaxUnpaid = sluice.MaxUnits }, ""},
		{
			`{"max_unpaid_per_buyer":1000000000001}`, nil,
			"max_unpaid_per_buyer 1000000000001: want 1 to 1000000000000, or null for no limit",
		},
		{
			`{"max_unpaid_per_buyer":9223372036854775807}`, nil,
			"max_unpaid_per_buyer 9223372036854775807: want 1 to 1000000000000",
		},
		{`{"max_unpaid_per_buyer":0}`, nil, "max_unpaid_per_buyer 0: want 1 to 1000000000000, or null for no limit"},
		{`{"max_unpaid_per_buyer":-1}`, nil, "max_unpaid_per_buyer -1: want 1 to 1000000000000"},
		{`{"title":"New"}`, func(s *sluice.Sale) { s.Title = "New" }, ""},
		{`{"title":null}`, nil, "title: want a string, have null"},
		{`{"list_price":{"amount":9,"currency":"CNY"}}`, func(s *sluice.Sale) {
			s.ListPrice = sluice.Money{Amount: 9, Currency: "CNY"}
		}, ""},
		{`{"list_price":{"amount":9,"currency":"EUR"}}`, nil, "differs"},
		{`{"list_price":{"amount":9,"currency":"NTD"}}`, nil, `list_price: currency "NTD": want an ISO 4217 code like TWD`},
		{`{"id":"other"}`, nil, "id: unknown field"},
		{`null`, nil, "want a JSON object"},
	} {
		var p PatchSale
		err := Decode([]byte(tc.body), &p)
		got := base()
		if err == nil {
			err = p.Apply(&got)
		}
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: got %v, want %q", tc.body, err, tc.err)
			}
			continue
		}
		want := base()
		tc.edit(&want)
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v %s", tc.body, err, d)
		}
		back, _ := json.Marshal(p)
		var again PatchSale
		if err := Decode(back, &again); err != nil || again != p {
			t.Errorf("%s: written as %s and read back as %+v, %v", tc.body, back, again, err)
		}
	}
}

// A message that is nested as deep as it is long costs no more memory than a
// few times its length, wherever the nesting stands.
func TestNestingCostsLittle(t *testing.T) {
	const depth = 9_000 // encoding/json takes 10,000
	deep := strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth)
	list := strings.Repeat(`[`, depth) + strings.Repeat("]", depth)
	for _, value := range []string{deep, list} {
		for body, dst := range map[string]any{
			`{"token":` + value + `}`:             new(AskTicket),
			`{"price":` + value + `}`:             new(CreateSale),
			`{"quantity":1,"meta":` + value + `}`: new(PlaceOrder),
			`{"unknown":` + value + `}`:           new(CreateSale),
		} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_ = Decode([]byte(body), dst)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 5<<20 {
				t.Errorf("%.20s… of %d bytes, as %T: %d MB allocated", body, len(body), dst, n>>20)
			}
		}
	}
}
