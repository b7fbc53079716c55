package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// inside is an element within the <sluice-button> of a shop's page.
func inside(id string) string {
	return fmt.Sprintf(`document.querySelector("sluice-button").shadowRoot?.getElementById(%q)`, id)
}

func (b *tab) seen(id string) { b.t.Helper(); b.wait(inside(id) + "?.checkVisibility()") }

func (b *tab) tells(id, words string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("%s?.innerText.includes(%q)", inside(id), words))
}

func (b *tab) pressButton(id string) {
	b.t.Helper()
	b.seen(id)
	b.do(chromedp.Evaluate[chromedp.Void](inside(id) + ".click()"))
}

func (b *tab) mayPress() {
	b.t.Helper()
	b.wait(inside("buy") + `?.getAttribute("aria-disabled") === "false"`)
}

// beside starts a server for the pages of a shop, which is at this address.
func beside(t *testing.T, shop string) *site {
	t.Helper()
	start(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &site{url: "http://" + listener.Addr().String(), shop: shop}
	s.engine = must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), CORSOrigins: []string{shop}}))(t)
	server := s.engine.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = s.engine.Close(context.Background())
	})
	s.merchant = must.Get(client.New(s.url, client.Options{AdminKey: s.engine.AdminKey()}))(t)
	return s
}

// A shop in Node and one in Java, each one file below 100 lines, sell through Sluice: token, button,
// webhook verified, order paid.
func TestExampleShops(t *testing.T) {
	t.Parallel()
	for _, language := range []string{"node", "java"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			program := servertest.Program(t, language, language)
			source := absolute(t, "../../examples/shop-"+language+"/"+map[string]string{
				"node": "shop.mjs", "java": "Shop.java",
			}[language])
			if text := read(t, source); strings.Count(text, "\n") >= 100 {
				t.Errorf("%s has %d lines", source, strings.Count(text, "\n"))
			}
			port := must.Get(servertest.FreePort())(t)
			addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			s := beside(t, "http://"+addr)
			sale := s.sale(t, units(5), named("A mug"))
			hook := must.Get(s.merchant.CreateWebhook(t.Context(), api.CreateWebhook{URL: s.shop + "/hooks/sluice"}))(t)
			env := []string{
				"SLUICE_URL=" + s.url, "SLUICE_ADMIN_KEY=" + s.engine.AdminKey(), "SALE=" + string(sale),
				"SLUICE_BUYER_SECRET=" + s.engine.BuyerSecret(), "SLUICE_WEBHOOK_SECRET=" + hook.Secret,
				"PORT=" + strconv.Itoa(port),
			}
			log := servertest.StartProgram(t, addr, env, program, prepare(t, language, source)...)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(log())
				}
			})
			s.sellThrough(t, sale)
		})
	}
}

// prepare returns the arguments that run a shop.
func prepare(t *testing.T, language, source string) []string {
	t.Helper()
	dir := t.TempDir()
	if language == "java" {
		javac := servertest.Program(t, "java", "javac")
		cmd := exec.Command(javac, "--release", "17", "-d", dir, absolute(t, "../../clients/java/Sluice.java"), source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{"-cp", dir, "Shop"}
	}
	shop, packages := filepath.Join(dir, "shop.mjs"), filepath.Join(dir, "node_modules", "@sluice")
	must.Succeed(t, errors.Join(os.WriteFile(shop, []byte(read(t, source)), 0o600), os.MkdirAll(packages, 0o700),
		os.Symlink(absolute(t, "../../clients/typescript"), filepath.Join(packages, "client"))))
	return []string{shop}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path = must.Get(filepath.Abs(filepath.FromSlash(path)))(t)
	return path
}

func read(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

// sellThrough buys in a shop as a customer who is not logged in yet, and pays.
func (s *site) sellThrough(t *testing.T, sale sluice.SaleID) {
	t.Helper()
	b := visit(t, s, "customer").tab()
	b.emulate(420, 860, "light")
	b.do(chromedp.Navigate(s.shop + "/"))
	b.tells("status", "sign in first")
	b.pressButton("login")
	b.wait(`location.pathname === "/login" && document.querySelector("input")`)
	b.do(chromedp.Evaluate[chromedp.Void](
		`document.querySelector("input").value = "ann.o'hara & 张"; document.forms[0].submit()`))
	b.wait(`location.pathname === "/"`)
	b.mayPress()
	b.keep("button-open")
	b.pressButton("buy")
	b.tells("order-title", yours)
	order := s.orders(t, sale, 1)[0]
	if order.BuyerID != "ann.o'hara & 张" {
		t.Errorf("the buyer is %q", order.BuyerID)
	}
	b.seen("pay")
	b.keep("button-yours")
	b.pressButton("pay")
	b.wait(`location.pathname === "/pay" && document.body.textContent.includes("Pay 199")`)
	b.do(chromedp.Evaluate[chromedp.Void](`document.forms[0].submit()`))
	b.wait(`location.pathname === "/"`)
	b.tells("order-title", "Paid")
	b.keep("button-paid")
	// What the shop knows, it knows of the webhook.
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var known map[sluice.OrderID]struct{ Buyer, Status string }
		text := s.ask(t, http.MethodGet, "/orders")
		if err := json.Unmarshal([]byte(text), &known); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if of := known[order.OrderID]; of.Status == "paid" && of.Buyer == string(order.BuyerID) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the shop knows %s", text)
		}
	}
	if text := s.ask(t, http.MethodPost, "/hooks/sluice"); text != "401" {
		t.Errorf("a forged webhook gets %s", text)
	}
	if text := s.ask(t, http.MethodGet, "/pay?order="+string(order.OrderID)); !strings.Contains(text, "not your order") {
		t.Errorf("a stranger at the payment of an order sees %s", text)
	}
}

// ask sends a request of a stranger to the shop, and returns the body, or the status if it is an error.
func (s *site) ask(t *testing.T, method, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.shop+path, strings.NewReader(`{"data":{"order":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	answer := must.Get(http.DefaultClient.Do(request))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != http.StatusOK {
		return strconv.Itoa(answer.StatusCode)
	}
	return string(text)
}

// keep saves a picture, if the test is asked for them.
func (b *tab) keep(name string) {
	if folder := os.Getenv("SLUICE_TEST_PICTURES"); folder != "" {
		b.picture(filepath.Join(folder, name+".png"))
	}
}

// A button does what the page of the sale does: it counts down, gets a ticket with its proof of work,
// speaks the language of the shop's page, takes another token or sale, and stops when it is taken away.
func TestButtonOfAnotherOrigin(t *testing.T) {
	t.Parallel()
	var page string
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		// As strict as a shop's page with a button may be.
		server := page[strings.Index(page, "http"):strings.Index(page, "/assets")]
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; script-src "+server+"; connect-src "+server+"; worker-src blob: "+server+"; base-uri 'none'")
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(shop.Close)
	s := beside(t, shop.URL)
	sale := s.sale(t, units(3), opensIn(time.Hour), asksTicket, func(c *api.CreateSale) {
		c.Challenge = api.Value(sluice.Challenge{Difficulty: 12})
	})
	page = `<!doctype html><html lang="zh-Hans"><title>商店</title>
		<script type="module" src="` + s.url + `/assets/latest/button.js"></script>
		<sluice-button sale="` + string(sale) + `" login="javascript:alert(1)" pay="/pay?order={order}&amp;back={return}"></sluice-button>`
	b := visit(t, s, "li").tab(`addEventListener("sluice-order", ({ detail }) => (window.told ??= []).push(detail.status));`)
	b.emulate(420, 860, "dark")
	b.do(chromedp.Navigate(shop.URL))
	b.tells("countdown-label", "距开始")
	b.tells("status", "登录")
	if b.is(inside("login") + ".checkVisibility()") {
		t.Error("a link that runs a script is shown")
	}
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector("sluice-button").token = %q`, s.token("li"))))
	must.Get(s.merchant.OpenSale(t.Context(), sale))(t)
	b.mayPress()
	b.keep("button-chinese")
	b.do(chromedp.Evaluate[chromedp.Void](`document.documentElement.lang = "de"`)) // a language that there is not
	b.tells("buy", "Buy now")
	b.pressButton("buy")
	b.tells("order-title", yours)
	b.seen("pay")
	order := s.orders(t, sale, 1)[0]
	want := "/pay?order=" + string(order.OrderID) + "&back=" + url.QueryEscape(shop.URL+"/")
	if got := b.text(inside("pay") + `.getAttribute("href")`); got != want {
		t.Errorf("the link to pay is %s, want %s", got, want)
	}
	b.wait(`window.told?.at(-1) === "pending"`)

	// Somebody else logs in; another sale; a refusal.
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector("sluice-button").token = %q`, s.token("wu"))))
	b.mayPress()
	if b.is(inside("order") + ".checkVisibility()") {
		t.Error("another buyer's order is shown")
	}
	empty := s.sale(t)
	s.claim(t, empty, "quick")
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector("sluice-button").setAttribute("sale", %q)`, empty)))
	b.tells("buy", "Sold out")
	b.keep("button-sold-out")
	b.do(chromedp.Evaluate[chromedp.Void](`window.gone = document.querySelector("sluice-button"); gone.remove()`))
}

// A button takes the accent of the page around it in all that it shows, by day and by night, and stays readable.
func TestButtonTakesTheAccent(t *testing.T) {
	t.Parallel()
	var page string
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(shop.Close)
	s := beside(t, shop.URL)
	sale := s.sale(t, opensIn(time.Hour))
	b := visit(t, s, "painter").tab()
	for _, scheme := range []string{"light", "dark"} {
		for accent, warm := range map[string]bool{"": false, "#a02020": true, "#ffd400": true, "#101010": false} {
			style := ""
			if accent != "" {
				style = "sluice-button { --accent: " + accent + "; }"
			}
			page = `<!doctype html><html lang="en"><title>Shop</title><style>:root { color-scheme: light dark; } ` + style +
				`</style><script type="module" src="` + s.url + `/assets/latest/button.js"></script><sluice-button sale="` +
				string(sale) + `"></sluice-button>`
			b.emulate(390, 844, scheme)
			b.do(chromedp.Navigate(shop.URL))
			b.tells("countdown-label", "Opens in")
			if bad := b.text(fmt.Sprintf("(%s)(%v)", painted, warm)); bad != "" {
				t.Errorf("%s, accent %q: %s", scheme, accent, bad)
			}
			b.keep("button-accent-" + scheme + accent)
		}
	}
}

// painted says which of the colours within a button cannot be read, or have another hue than a warm accent.
const painted = `(warm) => {
	const root = document.querySelector("sluice-button").shadowRoot, bad = [];
	const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d",
		{ willReadFrequently: true });
	const rgb = (colour) => {
		canvas.fillStyle = colour;
		canvas.fillRect(0, 0, 1, 1);
		return [...canvas.getImageData(0, 0, 1, 1).data];
	};
	const light = ([r, g, b]) => [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const page = matchMedia("(prefers-color-scheme: dark)").matches ? "rgb(18 18 18)" : "white";
	const probe = document.createElement("p");
	probe.innerHTML = '<button class="link">x</button> <button class="button">x</button> <button class="button quiet">x</button> <span class="badge">x</span>';
	root.firstElementChild.append(probe);
	for (const e of [...probe.children, root.getElementById("minutes")]) {
		const style = getComputedStyle(e), ground = style.backgroundColor === "rgba(0, 0, 0, 0)" ? page : style.backgroundColor;
		const [a, b] = [light(rgb(style.color)), light(rgb(ground))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(e.className + e.id + ": contrast " + (a + 0.05) / (b + 0.05));
		const [r, , blue] = rgb(ground === page ? style.color : ground);
		if (warm && r <= blue) bad.push(e.className + e.id + ": " + style.color + " on " + ground);
	}
	probe.remove();
	return bad.join("; ");
}`

// A shop whose origin the server does not know learns that from the button.
func TestButtonOfAStranger(t *testing.T) {
	t.Parallel()
	s := beside(t, "https://shop.example")
	sale := s.sale(t)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<!doctype html><title>Shop</title><script type="module" src="`+s.url+
			`/assets/latest/button.js"></script><sluice-button sale="`+string(sale)+`"></sluice-button>`)
	}))
	t.Cleanup(shop.Close)
	s.shop = shop.URL
	b := visit(t, s, "stranger").tab()
	b.do(chromedp.Navigate(shop.URL))
	b.tells("status", "does not answer")
}
