package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// shelf is a Source of a fixed list.
type shelf []api.Sale

func (s shelf) Sales() []api.Sale { return s }

func (s shelf) Snapshot() any { return nil }

func (s shelf) Sale(_ context.Context, id sluice.SaleID) (api.Sale, error) {
	for i := range s {
		if s[i].ID == id {
			return s[i], nil
		}
	}
	if id == "down" {
		return api.Sale{}, errors.New("no answer")
	}
	return api.Sale{}, sluice.ErrSaleNotFound
}

// Picture has those of the lamp.
func (s shelf) Picture(_ context.Context, sale sluice.SaleID, picture string, size int) ([]byte, error) {
	if sale != "lamp" || picture != front {
		return nil, sluice.ErrNoPicture
	}
	return fmt.Appendf(nil, "a JPEG of %d pixels", size), nil
}

const front = "0123456789abcdef0123456789abcdef"

func lamp() api.Sale {
	total, limit := int64(500), int64(2)
	return api.Sale{
		ID: "lamp", SKU: "L1", Title: `<script>alert("lamp")</script>`, Price: sluice.Money{Amount: 19900, Currency: "CNY"},
		ListPrice: &sluice.Money{Amount: 29900, Currency: "CNY"}, Total: &total, MaxPerBuyer: &limit,
		OpensAt: api.At(time.Date(2026, 11, 11, 12, 30, 0, 0, time.UTC)), State: sluice.StateUpcoming,
	}
}

func pages(t *testing.T, source Source, o Options) *Pages {
	t.Helper()
	p := must.Get(New(source, o))(t)
	return p
}

func get(h http.Handler, method, path string, header ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	body := must.Get(io.ReadAll(r.Body))(t)
	return string(body)
}

func TestSalePage(t *testing.T) {
	p := pages(t, shelf{lamp()}, Options{LoginURL: "https://shop.example/login?return={return}", PayURL: "/pay/{order}"})
	r := get(p, "GET", "/s/lamp")
	body := text(t, r)
	for _, want := range []string{
		`data-sale="lamp"`, "&lt;script&gt;alert(&#34;lamp&#34;)", "199.00 CNY", "299.00 CNY", "−33%",
		`datetime="2026-11-11T12:30:00.000Z">2026-11-11 12:30:00 UTC`, `id="total">500<`, `id="limit">2<`,
		`data-login="https://shop.example/login?return={return}"`, `data-pay="/pay/{order}"`,
		`lang="en">Per buyer<`, `lang="zh-CN">每人限购<`, "<noscript>",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	_, facts, _ := strings.Cut(body, `data-facts="`)
	facts, _, _ = strings.Cut(facts, `"`)
	const want = `{"title":"\u003cscript\u003ealert(\"lamp\")\u003c/script\u003e","price":{"amount":19900,"currency":"CNY"},` +
		`"list_price":{"amount":29900,"currency":"CNY"},` +
		`"total":500,"max_per_buyer":2,"opens_at":"2026-11-11T12:30:00.000Z","closes_at":null}`
	if got := html.UnescapeString(facts); got != want {
		t.Errorf("facts for the script:\n%s, want\n%s", got, want)
	}
	if strings.Contains(body, "<script>") || strings.Contains(body, "style=") || strings.Contains(body, " on") &&
		regexp.MustCompile(` on\w+="`).MatchString(body) {
		t.Error("there is a script or style in the page itself, which its policy forbids")
	}
	if got := regexp.MustCompile(`(?:src|href)="(https?:)?//[^"]*"`).FindString(body); got != "" {
		t.Errorf("%s: another host", got)
	}
	if got := r.Header.Get("Cache-Control"); got != keepSale {
		t.Errorf("Cache-Control: %q", got)
	}
	if r.Header.Get("Set-Cookie") != "" || r.Header.Get("Etag") == "" {
		t.Errorf("%v", r.Header)
	}
}

// The page of a sale is made once, and again when its merchant has changed it;
// not when units are sold.
func TestSalePageIsKept(t *testing.T) {
	sale := lamp()
	source := shelf{sale}
	p := pages(t, source, Options{})
	first := get(p, "GET", "/s/lamp").Header.Get("Etag")
	kept, _ := p.sales.kept.Load(sluice.SaleID("lamp"))
	available := int64(3)
	source[0].Available, source[0].State = &available, sluice.StateOpen
	if again := get(p, "GET", "/s/lamp").Header.Get("Etag"); again != first {
		t.Error("the page depends on what is sold")
	}
	if now, _ := p.sales.kept.Load(sluice.SaleID("lamp")); now != kept {
		t.Error("the page was made again")
	}
	source[0].Price.Amount = 18900
	if again := get(p, "GET", "/s/lamp"); again.Header.Get("Etag") == first ||
		!strings.Contains(text(t, again), "189.00 CNY") {
		t.Error("the page has the old price")
	}
}

func TestConditionalAndCompressed(t *testing.T) {
	p := pages(t, shelf{lamp()}, Options{})
	r := get(p, "GET", "/s/lamp")
	plain, etag := text(t, r), r.Header.Get("Etag")
	for _, c := range []struct {
		match string
		want  int
	}{{etag, 304}, {`"other", ` + etag, 304}, {"W/" + etag, 304}, {"*", 304}, {`"other"`, 200}, {"", 200}} {
		if r := get(p, "GET", "/s/lamp", "If-None-Match", c.match); r.StatusCode != c.want {
			t.Errorf("If-None-Match %s: %d, want %d", c.match, r.StatusCode, c.want)
		}
	}
	for accept, want := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "": "", "br": "",
		"x-gzip": "", "*": "gzip", "*;q=0": "", "gzip;q=0, *": "",
	} {
		r := get(p, "GET", "/s/lamp", "Accept-Encoding", accept)
		body := []byte(text(t, r))
		if got := r.Header.Get("Content-Encoding"); got != want {
			t.Errorf("Accept-Encoding %q: %q, want %q", accept, got, want)
			continue
		}
		if want == "gzip" {
			z := must.Get(gzip.NewReader(bytes.NewReader(body)))(t)
			body, _ = io.ReadAll(z)
		}
		if string(body) != plain {
			t.Errorf("Accept-Encoding %q: another page", accept)
		}
	}
	server := httptest.NewServer(p)
	defer server.Close()
	head := must.Get(http.Head(server.URL + "/s/lamp"))(t)
	defer head.Body.Close()
	if head.StatusCode != 200 || text(t, head) != "" || head.Header.Get("Etag") != etag ||
		head.ContentLength != int64(len(plain)) {
		t.Errorf("HEAD: %d %v", head.StatusCode, head.Header)
	}
}

func TestEveryAnswerIsStrict(t *testing.T) {
	strict := fmt.Sprintf(policy, "")
	p := pages(t, shelf{lamp()}, Options{})
	for _, path := range []string{
		"/", "/orders", "/s/lamp", "/s/lamp/remind.ics", "/s/lamp/pictures/none-640.jpg", "/s/none", "/s/down",
		"/o/lamp.0123", "/o/none",
		"/assets/" + p.assets.build + "/sale.js", "/assets/" + p.assets.build + "/none.js", "/none",
	} {
		h := get(p, "GET", path).Header
		if h.Get("Content-Security-Policy") != strict || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, h)
		}
	}
	for _, part := range []string{"unsafe", "*", "http:", "https:"} {
		if strings.Contains(strict, part) {
			t.Errorf("the policy has %s", part)
		}
	}
}

func TestTrouble(t *testing.T) {
	p := pages(t, shelf{lamp()}, Options{})
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/s/none": {404, "There is no such sale."}, "/s/down": {503, "Please try again."},
		"/o/none": {404, "There is no such order."},
	} {
		r := get(p, "GET", path, "If-None-Match", "*")
		if body := text(t, r); r.StatusCode != want.status || !strings.Contains(body, want.text) ||
			r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
	}
}

func TestList(t *testing.T) {
	at := func(id sluice.SaleID, day, hour, minute int) api.Sale {
		s := lamp()
		s.ID, s.ListPrice, s.OpensAt = id, nil, api.At(time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC))
		return s
	}
	var listed []facts
	for _, s := range []api.Sale{at("a", 11, 9, 0), at("b", 11, 9, 30), at("c", 11, 20, 0), at("d", 12, 9, 0)} {
		listed = append(listed, factsOf(&s))
	}
	days := daysOf(listed)
	var got strings.Builder
	for _, d := range days {
		got.WriteString(d.Date)
		for _, h := range d.Hours {
			got.WriteString(" " + h.Hour)
			for _, s := range h.Sales {
				got.WriteString(" " + string(s.ID))
			}
		}
		got.WriteString("\n")
	}
	if want := "2026-11-11 09:00 a b 20:00 c\n2026-11-12 09:00 d\n"; got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
	p := pages(t, shelf{at("a", 11, 9, 0)}, Options{})
	if body := text(t, get(p, "GET", "/")); !strings.Contains(body, `href="/s/a"`) ||
		!strings.Contains(body, `id="empty" class="notice" hidden`) {
		t.Error(body)
	}
	if body := text(t, get(pages(t, shelf{}, Options{}), "GET", "/")); strings.Contains(body,
		`id="empty" class="notice" hidden`) {
		t.Error("an empty list does not say so")
	}
}

func TestAssets(t *testing.T) {
	p := pages(t, shelf{lamp()}, Options{})
	body := text(t, get(p, "GET", "/s/lamp"))
	found := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`).FindAllStringSubmatch(body, -1)
	if len(found) < 8 {
		t.Fatalf("only %d assets in the page", len(found))
	}
	for _, match := range found {
		r := get(p, "GET", match[1])
		if r.StatusCode != 200 || r.Header.Get("Cache-Control") != keepForever {
			t.Errorf("%s: %d %v", match[1], r.StatusCode, r.Header)
		}
	}
	for _, module := range []string{"clock.js", "attempt.js", "orderpanel.js"} {
		if !strings.Contains(body, `rel="modulepreload" href="/assets/`+p.assets.build+"/"+module) {
			t.Errorf("%s is not fetched ahead", module)
		}
	}
	// While servers are replaced, a page of another build must work, and its
	// files must not be taken for that build's for ever.
	r := get(p, "GET", "/assets/0123456789abcdef/sale.js")
	if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "no-cache" ||
		r.Header.Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("another build: %d %v", r.StatusCode, r.Header)
	}
	if r := get(p, "GET", "/assets/"+p.assets.build+"/none.js"); r.StatusCode != 404 {
		t.Errorf("no such file: %d", r.StatusCode)
	}
}

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		m    sluice.Money
		want string
	}{
		{sluice.Money{Amount: 19900, Currency: "CNY"}, "199.00 CNY"},
		{sluice.Money{Amount: 5, Currency: "EUR"}, "0.05 EUR"},
		{sluice.Money{Amount: 0, Currency: "USD"}, "0.00 USD"},
		{sluice.Money{Amount: 500, Currency: "JPY"}, "500 JPY"},
		{sluice.Money{Amount: 1234, Currency: "KWD"}, "1.234 KWD"},
	} {
		if got := money(c.m); got != c.want {
			t.Errorf("%+v: %s, want %s", c.m, got, c.want)
		}
	}
}

func TestLinks(t *testing.T) {
	for link, ok := range map[string]bool{
		"": true, "/login": true, "https://shop.example/login?return={return}": true, "http://127.0.0.1:9/x": true,
		"javascript:alert(1)": false, "//evil.example": false, `/\evil.example`: false, "shop.example/login": false,
		"https://": false, "data:text/html,x": false,
	} {
		if _, err := New(shelf{}, Options{LoginURL: link}); (err == nil) != ok {
			t.Errorf("login %q: %v", link, err)
		}
	}
	for link, ok := range map[string]bool{"": true, "/pay/{order}": true, "/pay": false, "javascript:{order}": false} {
		if _, err := New(shelf{}, Options{PayURL: link}); (err == nil) != ok {
			t.Errorf("pay %q: %v", link, err)
		}
	}
}
