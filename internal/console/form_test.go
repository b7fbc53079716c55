package console

import (
	"encoding/json"
	"maps"
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

// A stranger's form is not read.
func TestFormsOfStrangersAreNotRead(t *testing.T) {
	c := New(Options{API: http.NotFoundHandler(), Admins: must.Get(auth.NewAdmins("the key of an owner", nil))(t)})
	for path, read := range map[string]bool{
		"/admin/sales": false, "/admin/sales/x/pictures": false, "/admin/sign-in": true,
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("to=/admin/log"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		c.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || (r.PostForm != nil) != read {
			t.Errorf("%s: %d, read: %v", path, w.Code, r.PostForm)
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
	if len(c.live.feeds)+len(c.live.pages.of)+c.live.pages.now != 0 || !joins("a") {
		t.Errorf("%d sales, %d admins and %d pages are left", len(c.live.feeds), len(c.live.pages.of), c.live.pages.now)
	}
	leaves[len(leaves)-1]()
}

// A form leaves alone what others have changed since it was loaded, and is refused if it changes the same.
func TestTwoChangeASale(t *testing.T) {
	loaded := values{
		"title": "Lamp", "sku": "lamp", "price": "199.00", "currency": "CNY", "list_price": "", "free": "",
		"description": "of\nglass", "titles.en": "Lamp", "titles.zh": "台灯", "pictures": "a b",
		"buyer_rate.requests": "10", "buyer_rate.per_s": "1", "buyer_rate.shared": "",
	}
	for name, c := range map[string]struct {
		theirs, ours values
		want         string // empty: it is refused
	}{
		"other fields":        {values{"title": "Mug"}, values{"sku": "cup"}, `{"sku":"cup"}`},
		"the same field":      {values{"title": "Mug"}, values{"title": "Cup"}, ""},
		"to the same":         {values{"title": "Mug"}, values{"title": "Mug"}, `{"title":"Mug"}`},
		"the currency":        {values{"currency": "USD"}, values{"price": "99.00"}, ""},
		"of the former price": {values{"currency": "USD"}, values{"list_price": "299.00"}, ""},
		"a checkbox":          {values{"free": "on"}, values{"title": "Cup"}, `{"title":"Cup"}`},
		"price and currency":  {values{"price": "1500.00"}, values{"currency": "USD"}, ""},
		"parts of a rate":     {values{"buyer_rate.requests": "100"}, values{"buyer_rate.per_s": "60"}, ""},
		"parts of a group":    {values{"titles.zh": "灯"}, values{"titles.en": "Cup"}, `{"titles":{"en":"Cup","zh":"灯"}}`},
		"one part of a group": {values{"titles.en": "Mug"}, values{"titles.en": "Cup"}, ""},
		"nothing but new lines": {
			values{"description": "of\r\nglass"}, values{"description": "of wood"}, `{"description":"of wood"}`,
		},
		"pictures":        {values{"pictures": "a b c"}, values{"pictures": "b"}, ""},
		"pictures, alone": {nil, values{"pictures": " b "}, `{"pictures":["b"]}`},
		"no picture":      {nil, values{"pictures": ""}, `{"pictures":[]}`},
	} {
		now, form := maps.Clone(loaded), url.Values{}
		maps.Copy(now, c.theirs)
		for in, was := range loaded {
			said, changed := c.ours[in]
			if !changed {
				said = was
			}
			form.Set("was:"+in, was)
			form.Set(in, strings.ReplaceAll(said, "\n", "\r\n"))
		}
		sent, err := message(form, now, false)
		if got := string(must.Get(json.Marshal(sent))(t)); (err != nil) != (c.want == "") || err == nil && got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}
