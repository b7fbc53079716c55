package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// shown is a lamp with all that a showcase can have.
func shown() api.Sale {
	sale := lamp()
	sale.Title = "Lamp"
	sale.Showcase = sluice.Showcase{
		Description: "# Warm\n\nIt *glows*.\n\n<script>alert(1)</script>", Badge: "Limited",
		Titles: sluice.Texts{ZH: "台灯"}, Descriptions: sluice.Texts{ZH: "**暖光**"},
		Pictures: sluice.PicturesOf(front, "https://cdn.shop.example/side.jpg"),
	}
	return sale
}

func TestShowcase(t *testing.T) {
	sale := shown()
	sale.OpensAt = api.At(time.Now().Add(time.Hour))
	p := pages(t, shelf{sale}, Options{
		PublicURL: "https://buy.shop.example", PictureHosts: []string{"cdn.shop.example"},
		Shop: Shop{
			Name: "Aurora", Logo: "https://shop.example/logo.svg", Home: "https://shop.example/", Terms: "/terms",
			Imprint: "/imprint", Accent: "#ffd400",
		},
	})
	body := text(t, get(p, "GET", "/s/lamp"))
	for _, want := range []string{
		`<span class="t" lang="en">Lamp</span><span class="t" lang="zh-CN">台灯</span>`, `data-zh="台灯"`, `>Limited<`,
		`src="/s/lamp/pictures/` + front + `-640.jpg"`, front + `-1280.jpg 1280w`, `src="https://cdn.shop.example/side.jpg"`,
		`<h3>Warm</h3>`, `<em>glows</em>`, `<div class="t" lang="zh-CN"><p><strong>暖光</strong></p>`,
		`<meta property="og:image" content="https://buy.shop.example/s/lamp/pictures/` + front + `-1280.jpg">`,
		`<meta property="og:site_name" content="Aurora">`, `href="https://shop.example/"`,
		`src="https://shop.example/logo.svg"`,
		`href="/terms"`, `href="/imprint"`, `href="/s/lamp/remind.ics"`, `href="/orders"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	begun := text(t, get(pages(t, shelf{shown()}, Options{}), "GET", "/s/lamp"))
	if strings.Contains(begun, "remind.ics") {
		t.Error("the page of a sale that has begun offers to remind of it")
	}
	if strings.Contains(body, "alert(1)") {
		t.Error("HTML of a description is in the page")
	}
	if list := text(t, get(p, "GET", "/")); !strings.Contains(list, `src="/s/lamp/pictures/`+front+`-640.jpg"`) ||
		!strings.Contains(list, "台灯") {
		t.Error("the list lacks the picture or the title")
	}
	csp := get(p, "GET", "/").Header.Get("Content-Security-Policy")
	if !strings.Contains(csp, "img-src 'self' data: https://cdn.shop.example https://shop.example;") {
		t.Error(csp)
	}
	css := text(t, get(p, "GET", p.assets.address("pages.css")))
	if !strings.Contains(css, "--on-accent: #ffffff") ||
		strings.LastIndex(css, "--accent:") < strings.Index(css, "forced-colors") {
		t.Error("the shop's colour does not come after the sheet's own")
	}
}

func TestPictures(t *testing.T) {
	sale := shown()
	sale.Pictures = sluice.PicturesOf(front, strings.Repeat("f", 32))
	p := pages(t, shelf{sale}, Options{Base: "/flash"})
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/s/lamp/pictures/" + front + "-640.jpg", 200, "a JPEG of 640 pixels"},
		{"/s/lamp/pictures/" + front + "-1280.jpg", 200, "a JPEG of 1280 pixels"},
		{"/s/lamp/pictures/" + front + "-641.jpg", 404, ""},
		{"/s/lamp/pictures/" + front + ".jpg", 404, ""},
		{"/s/lamp/pictures/" + strings.Repeat("f", 32) + "-640.jpg", 404, ""}, // named, and gone from the store
		{"/s/lamp/pictures/" + strings.Repeat("e", 32) + "-640.jpg", 404, ""}, // not named: the store is not asked
		{"/s/none/pictures/" + front + "-640.jpg", 404, ""},
		{"/s/down/pictures/" + front + "-640.jpg", 503, ""},
	} {
		r := get(p, "GET", c.path)
		if body := text(t, r); r.StatusCode != c.status || c.body != "" && body != c.body {
			t.Errorf("%s: %d %q, want %d %q", c.path, r.StatusCode, body, c.status, c.body)
		}
		if kept := r.Header.Get("Cache-Control"); c.status == 200 && kept != keepForever {
			t.Errorf("%s: %s", c.path, kept)
		}
	}
	if body := text(t, get(p, "GET", "/s/lamp")); !strings.Contains(body, `src="/flash/s/lamp/pictures/`) {
		t.Error("a picture is not below the base path")
	}
}

func TestMarkdown(t *testing.T) {
	for _, c := range [][2]string{
		{"one\n\ntwo", "<p>one</p>\n<p>two</p>"},
		{"# a\n\n###### b", "<h3>a</h3>\n<h6>b</h6>"},
		{"- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>"},
		{
			"[link](https://shop.example/?a=1&b=2)",
			`<p><a href="https://shop.example/?a=1&amp;b=2" rel="nofollow noreferrer">link</a></p>`,
		},
		{"[bad](javascript:alert(1))", "<p>bad</p>"},
		{"[bad](data:text/html,x)", "<p>bad</p>"},
		{"![picture](https://else.example/x.png)", "<p></p>"},
		{"<img src=x onerror=alert(1)><b>bold</b>", "<p>bold</p>"},
		{"<div onclick=x>block</div>", ""},
		{"a < b & c", "<p>a &lt; b &amp; c</p>"},
	} {
		got := must.Get(markdown(c[0]))(t)
		if strings.TrimSpace(string(got)) != c[1] {
			t.Errorf("%q: %s, want %s", c[0], got, c[1])
		}
	}
}

// TestColours: whatever a shop's colour is, text in it and on it can be read.
func TestColours(t *testing.T) {
	white := rgb{255, 255, 255}
	for n := range 16 * 16 * 16 {
		accent := fmt.Sprintf("#%02x%02x%02x", n>>8*17, n>>4&0xf*17, n&0xf*17)
		c := must.Get(coloursOf(accent))(t)
		for _, pair := range []struct {
			of   string
			a, b rgb
		}{
			{"accent on the light ground", parsed(t, c.light), lightGround},
			{"accent on a light card", parsed(t, c.light), lightCard},
			{"accent on its light ground", parsed(t, c.light), parsed(t, c.lightSoft)},
			{"letters on the light accent", white, parsed(t, c.light)},
			{"accent on the dark ground", parsed(t, c.dark), darkGround},
			{"accent on a dark card", parsed(t, c.dark), darkCard},
			{"accent on its dark ground", parsed(t, c.dark), parsed(t, c.darkSoft)},
		} {
			if got := contrast(pair.a, pair.b); got < readable-0.05 { // rounded to whole numbers
				t.Fatalf("%s: %s has a contrast of %.2f", accent, pair.of, got)
			}
		}
	}
	if c := must.Get(coloursOf("#0b6670"))(t); c.light != "#0b6670" {
		t.Errorf("a colour that can be read became %s", c.light)
	}
	for _, wrong := range []string{"red", "#fff", "0b6670", "#0b667g", "#0b66700", "#+b6670"} {
		if _, err := coloursOf(wrong); err == nil {
			t.Errorf("%s is taken for a colour", wrong)
		}
	}
}

func parsed(t *testing.T, colour string) (c rgb) {
	t.Helper()
	var r, g, b uint8
	must.Get(fmt.Sscanf(colour, "#%02x%02x%02x", &r, &g, &b))(t)
	return rgb{float64(r), float64(g), float64(b)}
}

func TestReminder(t *testing.T) {
	sale := shown()
	sale.Title = "A lamp; warm, bright\\ and " + strings.Repeat("亮", 60)
	closes := api.At(sale.OpensAt.Add(20 * time.Minute))
	sale.ClosesAt = &closes
	p := pages(t, shelf{sale}, Options{PublicURL: "https://buy.shop.example"})
	r := get(p, "GET", "/s/lamp/remind.ics")
	body := text(t, r)
	if r.Header.Get("Content-Type") != "text/calendar; charset=utf-8" {
		t.Error(r.Header)
	}
	whole := strings.ReplaceAll(body, "\r\n ", "")
	for _, want := range []string{
		"DTSTART:20261111T123000Z\r\n", "DTEND:20261111T125000Z\r\n", `SUMMARY:A lamp\; warm\, bright\\ and 亮亮`,
		"URL:https://buy.shop.example/s/lamp\r\n", "BEGIN:VALARM\r\n",
	} {
		if !strings.Contains(whole, want) {
			t.Errorf("lacks %q:\n%s", want, body)
		}
	}
	for line := range strings.SplitSeq(body, "\r\n") {
		if len(line) > 75 || !strings.HasSuffix(body, "END:VCALENDAR\r\n") {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
}

func TestWrongShop(t *testing.T) {
	for want, o := range map[string]Options{
		"accent":       {Shop: Shop{Accent: "blue"}},
		"picture host": {PictureHosts: []string{"https://cdn.example"}},
		"shop logo":    {Shop: Shop{Logo: "javascript:alert(1)"}},
		"imprint URL":  {Shop: Shop{Imprint: "//else.example"}},
	} {
		if _, err := New(shelf{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
