package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/must"
)

// What a form sends is what differs, in the words of the API.
func TestForms(t *testing.T) {
	total, most, ratio := int64(100), int64(2), 4.0
	s := &api.AdminSale{Sale: api.Sale{
		ID: "phone", SKU: "p", Title: "Phone", Price: sluice.Money{Amount: 19900, Currency: "CNY"}, Total: &total,
		MaxPerBuyer: &most, OpensAt: api.At(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)),
		Showcase: sluice.Showcase{Titles: sluice.Texts{ZH: "手机"}},
	}, PaymentWindowS: 900, Rules: api.Rules{
		AdmissionRatio: &ratio, BuyerRate: &sluice.BuyerRate{Requests: 10, PerS: 1, Shared: true}, Visibility: "listed",
	}}
	before := must.Get(valuesOf(s))(t)
	for _, c := range []struct {
		name   string
		change map[string]string
		want   string
	}{
		{"nothing", nil, `{}`},
		{"the title", map[string]string{"title": "Phone 2"}, `{"title": "Phone 2"}`},
		{"no more total", map[string]string{"total": ""}, `{"total": null}`},
		{"the price", map[string]string{"price": "99.5"}, `{"price": {"amount": 9950, "currency": "CNY"}}`},
		{
			"the currency",
			map[string]string{"currency": "JPY", "price": "500"},
			`{"price": {"amount": 500, "currency": "JPY"}}`,
		},
		{
			"a part of a rate",
			map[string]string{"buyer_rate.per_s": "5"},
			`{"buyer_rate": {"requests": 10, "per_s": 5, "shared": true}}`,
		},
		{
			"no rate",
			map[string]string{"buyer_rate.requests": "", "buyer_rate.per_s": "", "buyer_rate.shared": ""},
			`{"buyer_rate": null}`,
		},
		{"a later opening", map[string]string{"opens_at": "2026-12-01T13:30"}, `{"opens_at": "2026-12-01T13:30:00Z"}`},
		{"no other titles", map[string]string{"titles.zh": ""}, `{"titles": {}}`},
		{"hidden", map[string]string{"visibility": "hidden"}, `{"visibility": "hidden"}`},
		{"limits, which stay", map[string]string{"limits": "household=2"}, `{}`},
	} {
		form := url.Values{}
		for _, part := range sections {
			for _, in := range part.Inputs {
				value, changed := c.change[in.Name]
				if !changed {
					value = before[in.Name]
				}
				if in.Shape == flag {
					form.Set("of:"+in.Name, "1")
				}
				if in.Shape != flag || value != "" {
					form.Set(in.Name, value)
				}
			}
		}
		var want map[string]any
		must.Succeed(t, json.Unmarshal([]byte(c.want), &want))
		sent := must.Get(message(form, before, false))(t)
		var got map[string]any
		must.Succeed(t, json.Unmarshal(must.Get(json.Marshal(sent))(t), &got))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if _, err := decoded[api.PatchSale](sent); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for input, value := range map[string]string{
		"total": "many", "price": "1.999", "opens_at": "tomorrow", "admission_ratio": "NaN",
	} {
		form := url.Values{"currency": {"CNY"}, input: {value}}
		if sent, err := message(form, before, false); err == nil {
			t.Errorf("%s %q becomes %v", input, value, sent)
		}
	}
}

// A dead letter is shown with what can be done to it.
func TestDeadLettersAreShown(t *testing.T) {
	c := New(Options{API: http.NotFoundHandler(), Admins: must.Get(auth.NewAdmins("the key of an owner", nil))(t)})
	w := httptest.NewRecorder()
	v := c.visit(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/dead-letters", nil))
	v.Admin = auth.Admin{Name: "admin", Role: sluice.Owner}
	letter := api.DeadLetter{ID: 7, SaleID: "phone", Reason: "<refused>", Claims: "alice\tkey"}
	rows := []row[api.DeadLetter]{{letter, v.Buttons(letterKind, "7", &letter)}}
	v.render(http.StatusOK, "letters.html", letterPage{rows, v.next("7")})
	for _, text := range []string{
		"&lt;refused&gt;", "alice\tkey", "/admin/dead-letters/7/replay", `href="/admin/dead-letters?cursor=7"`,
	} {
		if !strings.Contains(w.Body.String(), text) {
			t.Errorf("the page does not say %q:\n%s", text, w.Body)
		}
	}
}

// One admin does not take all streams from the others, who do not take them all either.
func TestStreamsAreShared(t *testing.T) {
	c := New(Options{API: http.NotFoundHandler(), Admins: must.Get(auth.NewAdmins("the key of an owner", nil))(t)})
	var leaves []func()
	joins := func(admin string) bool {
		messages, leave := c.live.join("phone", admin)
		if messages != nil {
			leaves = append(leaves, leave)
		}
		return messages != nil
	}
	count := func(admin string) (n int) {
		for joins(admin) {
			n++
		}
		return n
	}
	if a, b, rest := count("a"), count("b"), count("c"); a != mostOfOne || b != mostOfOne || a+b+rest != mostLive {
		t.Errorf("%d, %d and %d streams, want %d of an admin and %d in all", a, b, rest, mostOfOne, mostLive)
	}
	for _, leave := range leaves {
		leave()
	}
	if len(c.live.feeds)+len(c.live.of)+c.live.pages != 0 || !joins("a") {
		t.Errorf("%d sales, %d admins and %d pages are left", len(c.live.feeds), len(c.live.of), c.live.pages)
	}
	leaves[len(leaves)-1]()
}
