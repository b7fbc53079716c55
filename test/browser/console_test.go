package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/store/sqlitestore"
)

// console is a server of its own, in whose console somebody has signed in.
type console struct {
	*tab
	dir string
}

func openConsole(t *testing.T) *console {
	t.Helper()
	start(t)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s, dir := &site{url: "http://" + listener.Addr().String(), shop: "http://shop.invalid"}, t.TempDir()
	s.engine = must.Get(engine.Open(t.Context(), engine.Config{DataDir: dir}))(t)
	server := s.engine.NewServer()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = s.engine.Close(context.Background())
	})
	s.merchant = must.Get(client.New(s.url, client.Options{AdminKey: s.engine.AdminKey()}))(t)
	c := &console{visit(t, s, "admin").tab(), dir}
	c.emulate(1280, 900, "light")
	c.open("/admin", "")
	c.wait(`document.activeElement?.id === "key"`)
	c.press(s.engine.AdminKey())
	c.press("\r")
	c.shows("There is no sale yet.")
	return c
}

// shows waits until the page says something.
func (c *console) shows(text string) {
	c.t.Helper()
	c.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// fill sets fields of a form.
func (c *console) fill(fields map[string]string) {
	c.t.Helper()
	for id, value := range fields {
		script := fmt.Sprintf("document.getElementById(%q).value = %q", id, value)
		c.do(chromedp.Evaluate[chromedp.Void](script))
	}
}

// act opens an action by its link, and confirms it, both by keyboard.
func (c *console) act(path, says string) {
	c.t.Helper()
	c.wait(fmt.Sprintf(`document.querySelector('a[href=%q]')?.checkVisibility()`, path))
	c.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector('main a[href=%q]').focus()`, path)))
	c.press("\r")
	c.wait(fmt.Sprintf("location.pathname === %q && document.querySelector('main form .button')", path))
	c.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("main form .button").focus()`))
	c.press("\r")
	c.shows(says)
}

// accessible finds nothing serious on the page with axe, and takes a picture of it for people to look at, if a folder
// for that is named.
func (c *console) accessible(name string) {
	c.t.Helper()
	source := must.Get(os.ReadFile("axe/axe.min.js"))(c.t)
	c.do(chromedp.Evaluate[chromedp.Void](string(source) + "; undefined"))
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	text := c.text(`JSON.stringify((await axe.run()).violations
		.filter((v) => ["serious", "critical"].includes(v.impact)))`)
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		c.t.Fatalf("%s: %v: %s", name, err, text)
	}
	for _, f := range found {
		c.t.Errorf("%s: axe: %s: %s: %.200s", name, f.ID, f.Help, f.Nodes[0].HTML)
	}
	if folder := os.Getenv("SLUICE_TEST_PICTURES"); folder != "" {
		c.picture(filepath.Join(folder, "console-"+name+".png"))
	}
}

// rush has a crowd claim that gets smaller and smaller. In pictures, for people to look at, it takes a while.
func (s *site) rush(buyers int, sale sluice.SaleID) {
	const parts = 20
	for i, from := 0, 0; i < parts; i++ {
		upto := buyers - buyers*(parts-1-i)*(parts-i)/(parts*(parts+1))
		s.crowd(from, upto, sale)
		if from = upto; os.Getenv("SLUICE_TEST_PICTURES") != "" {
			time.Sleep(time.Second)
		}
	}
}

// crowd has buyers claim, a few at a time, and returns when all have been answered.
func (s *site) crowd(from, upto int, sale sluice.SaleID) {
	next := make(chan int)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for i := range next {
				r := httptest.NewRequest(http.MethodPost, "/v1/sales/"+string(sale)+"/orders", strings.NewReader(`{"quantity":1}`))
				r.Header.Set("Authorization", "Bearer "+s.token(fmt.Sprint("buyer-", i)))
				r.Header.Set("Idempotency-Key", "attempt-1")
				s.engine.BuyerHandler().ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
	for i := from; i < upto; i++ {
		next <- i
	}
	close(next)
	all.Wait()
}

// A night of a sale, seen and run from the console alone, in a real browser.
func TestConsole(t *testing.T) {
	t.Parallel()
	const units, buyers = 5000, 20_000
	c := openConsole(t)
	s := c.site
	c.accessible("empty")

	c.open("/admin/new", "")
	c.fill(map[string]string{
		"id": "lamp", "title": "Aurora lamp", "sku": "LAMP", "price": "199.00", "currency": "CNY", "total": fmt.Sprint(units),
		"max_per_buyer": "1", "opens_at": time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05"),
	})
	c.accessible("new")
	c.click("main form.edit .button")
	c.shows("Upcoming")
	c.open("/admin/sales/lamp/edit", "")
	picture := must.Get(filepath.Abs("../../internal/demo/pictures/lamp.jpg"))(t)
	c.do(chromedp.SetUploadFiles(chromedp.CSS("#picture"), []string{picture}))
	c.click(`form[enctype="multipart/form-data"] .button`)
	c.shows("The picture is added.")
	c.open("/admin/sales/lamp/edit", "")
	c.wait(`document.querySelector(".pictures img")`)
	c.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".pictures img").scrollIntoView()`))
	c.wait(`document.querySelector(".pictures img").naturalWidth > 100`)
	c.accessible("edit")
	if sale := must.Get(s.merchant.AdminSale(t.Context(), "lamp"))(t); len(sale.Pictures.Names()) != 1 {
		t.Errorf("pictures %v", sale.Pictures)
	}

	c.open("/admin/sales/lamp", "")
	c.act("/admin/sales/lamp/open", "The sale is open.")
	c.wait(`document.querySelector("[data-state=open]")`)
	c.wait(`document.querySelector("[data-figure=claims_per_s]").textContent === "0"`) // the page is live
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		s.rush(buyers, "lamp")
	}()
	const perSecond = `document.querySelector("[data-figure=claims_per_s]").textContent.replaceAll(/[^0-9]/g, "")`
	c.wait(`document.querySelector("#chart canvas") && Number(` + perSecond + `) > 100`)
	c.wait(`document.querySelector("[data-figure=taken]").textContent === "5,000"`)
	<-seen
	c.wait(`document.querySelector("[data-state=sold_out]")`) // by itself
	c.wait(`document.querySelector("#curve-title")`)
	c.wait(`document.querySelector("[data-figure=pending]")?.textContent === "5,000"`)
	c.accessible("rush")

	c.act("/admin/sales/lamp/pause", "The sale is paused.")
	c.shows("An admin has paused this sale.")
	c.act("/admin/sales/lamp/resume", "The sale goes on.")
	c.open("/admin/sales/lamp/restock", "")
	c.fill(map[string]string{"delta": "100"})
	c.accessible("ask")
	c.click("main form .button")
	c.shows("The total is changed.")
	c.wait(`document.querySelector("[data-figure=left]").textContent === "100"`)

	order := s.claim(t, "lamp", "late-buyer")
	c.open("/admin/orders?buyer=late-buyer", "")
	for end := time.Now().Add(patience); !c.is(fmt.Sprintf("document.body.innerText.includes(%q)", order)); {
		if time.Now().After(end) {
			t.Fatal("the order is not found by its buyer")
		}
		c.open("/admin/orders?buyer=late-buyer", "")
	}
	c.accessible("orders")
	c.click(fmt.Sprintf(`main a[href="/admin/orders/%s"]`, order))
	c.wait(fmt.Sprintf("location.pathname === %q", "/admin/orders/"+order))
	c.open("/admin/orders/"+string(order)+"/pay", "")
	c.fill(map[string]string{"payment": "pay-1"})
	c.click("main form .button")
	c.shows("The payment is recorded.")
	c.act("/admin/orders/"+string(order)+"/refund", "The refund is recorded.")
	c.accessible("order")
	c.open("/admin/sales/lamp", "")
	c.wait(`document.querySelector("[data-figure=refunded]")?.textContent === "1"`)

	c.buyers()
	const rows = `(await (await fetch(document.querySelector('main a[href^="/admin/orders.csv"]').href)).text())` +
		`.split("\r\n").length`
	c.open("/admin/orders?sale=lamp", "")
	if lines := c.text(rows); lines != fmt.Sprint(units+3) { // with the names of the columns, and the end
		t.Errorf("the table of %d orders has %s lines", units+1, lines)
	}

	c.deadLetter()
	c.open("/admin/sales/lamp", "")
	c.act("/admin/sales/lamp/reconcile", "Ledger and database are compared.")
	const sum = `[...document.querySelectorAll("[data-part=sums] tbody td:nth-child(2)")]
		.map((n) => Number(n.textContent.replaceAll(",", ""))).reduce((a, b) => a + b, 0)`
	for end := time.Now().Add(patience); ; { // servers keep what they counted every other second
		c.open("/admin/sales/lamp/report", "")
		c.shows("Every invariant holds.")
		if c.is(fmt.Sprint(sum, " === ", buyers+1)) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the report has %s answers, want %d", c.text(sum), buyers+1)
		}
	}
	c.shows("POST /v1/admin/sales/{sale}/pause")
	c.wait(`document.querySelector("#chart canvas")`)
	c.accessible("report")
	for _, path := range []string{"/admin/status", "/admin/webhooks", "/admin/log", "/admin/sales"} {
		c.open(path, "")
		c.accessible(strings.TrimPrefix(path, "/admin/"))
	}
	c.emulate(390, 844, "dark")
	c.open("/admin/sales/lamp?lang=zh", "")
	c.shows("已售")
	c.wait(`document.querySelector("#chart canvas") && document.documentElement.scrollWidth <= 390`)
	c.accessible("phone-zh")
	c.emulate(2560, 1440, "light")
	c.open("/admin/sales/lamp/report?lang=zh", "")
	c.accessible("wall-zh")
	c.emulate(1280, 900, "dark")
	c.open("/admin/sales/lamp?lang=zh", "")
	c.wait(`document.querySelector("#chart canvas")`)
	c.accessible("sale-zh")
}

// buyers makes the sale's deny list by typing and of a file, and empties it.
func (c *console) buyers() {
	c.t.Helper()
	const list = "/admin/lists/lamp.deny"
	c.click(fmt.Sprintf("main a[href=%q]", list))
	c.shows("never changed")
	c.open(list+"/replace", "")
	c.accessible("ask-list")
	c.fill(map[string]string{"buyers": "robot-1\nrobot-2\n"})
	c.click("main form .button")
	c.shows("The list is replaced.")
	c.shows("robot-2")
	c.accessible("list")
	file := filepath.Join(c.t.TempDir(), "robots.txt")
	must.Succeed(c.t, os.WriteFile(file, []byte("robot-3\nrobot-4\nrobot-5\n"), 0o600))
	c.open(list+"/replace", "")
	c.do(chromedp.SetUploadFiles(chromedp.CSS("#file"), []string{file}))
	c.click("main form .button")
	c.shows("robot-5")
	c.act(list+"/clear", "The list is empty.")
}

// deadLetter plants one, and replays it.
func (c *console) deadLetter() {
	c.t.Helper()
	ctx := c.t.Context()
	store := must.Get(sqlitestore.Open(ctx, filepath.Join(c.dir, "store.db"), sqlitestore.Options{}))(c.t)
	defer store.Close()
	mug := c.site.sale(c.t, units(5), named("A mug"))
	e := port.Entry{
		ID: "aside", Sale: mug, Epoch: 1, Node: "a", Terms: 1, FirstSeq: 1, At: time.Now().UTC().Truncate(time.Millisecond),
		Claims: []sluice.Claim{{
			Buyer: "promised", Key: "attempt-1", Quantity: 1, Order: mug.Order(fmt.Sprintf("%032x", 1)),
		}},
	}
	must.Succeed(c.t, store.SetAside(ctx, e.DeadLetter(fmt.Errorf("a trigger refused <it>"))))
	c.open("/admin/dead-letters", "")
	c.shows("a trigger refused <it>")
	c.accessible("letters")
	letters := must.Get(c.site.merchant.DeadLetters(ctx, mug))(c.t)
	c.act(fmt.Sprintf("/admin/dead-letters/%d/replay", letters[0].ID), "There are none")
}
