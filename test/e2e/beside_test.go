package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/figures"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

const merchantKey = "e2e-woocommerce-key-0123456789"

// docs/beside-a-shop.md at work, from the first command to the last: its server behind
// its nginx, its settings of the plugin in two PHP processes, which have files in place
// of WordPress, and its sale. Addresses, folders and keys are other ones.
func TestBesideAShop(t *testing.T) {
	t.Parallel()
	servertest.Program(t, "openssl", "openssl")
	page := snippets(t, "docs/beside-a-shop.md")
	install, conf := next(t, &page, "sh", "sluice.env"), next(t, &page, "nginx", "upstream")
	hook, settings := next(t, &page, "sh", "webhook create"), next(t, &page, "php", "SLUICE_PAGES")
	sell, rehearse := next(t, &page, "sh", "sale create"), next(t, &page, "sh", "rehearsal")
	day, after := next(t, &page, "sh", "sale show"), next(t, &page, "sh", "sale close")

	dir, shopDir := t.TempDir(), t.TempDir()
	php := []string{"SHOP=" + shopDir, "SALE=poster", "PLUGIN=" + absolute(t, "../../examples/woocommerce/sluice.php")}
	shop, visited := servertest.StartPHP(t, "testdata/wordpress.php", php...)
	hooks, posted := servertest.StartPHP(t, "testdata/wordpress.php", php...)
	nginx := freeAddr(t)
	s := newServer(t, backends{})
	admin := freeAddr(t)
	s.admin = "http://" + admin
	here := strings.NewReplacer("/usr/local/bin", dir+"/bin", "/etc/", dir+"/etc/", "/var/lib/sluice", s.dir,
		"127.0.0.1:8080", s.addr, "127.0.0.1:8081", admin, "https://buy.shop.example", "https://"+nginx,
		"https://shop.example/wp-json", "http://"+hooks+"/wp-json", "https://shop.example", "http://"+shop)
	path := "PATH=" + dir + "/bin:" + os.Getenv("PATH")

	// The server, as the unit starts it.
	const start = "systemctl daemon-reload && systemctl enable --now sluice\n"
	repository := absolute(t, "../..")
	for _, folder := range []string{"bin", "etc/systemd/system"} {
		must.Succeed(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	sh(t, repository, here.Replace(replaceAll(t, install, start, "", "install -m 755 sluice", "install -m 755 "+binary,
		`"key": "$(openssl rand -hex 32)"`, `"key": "`+merchantKey+`"`,
		"SLUICE_ADMIN_KEY=$(openssl rand -hex 32)", "SLUICE_ADMIN_KEY="+adminKey,
		"SLUICE_BUYER_SECRET=$(openssl rand -hex 32)", "SLUICE_BUYER_SECRET="+buyerSecret)), path)
	s.env = []string{path, "SLUICE_DATA_DIR=" + s.dir, "SLUICE_READY_FILE=" + s.readyPath()}
	for line := range strings.Lines(read(t, filepath.Join(dir, "etc/sluice/sluice.env"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		s.env = append(s.env, name+"="+strings.Trim(value, "'"))
	}
	s.start()
	if log := s.log(); strings.Contains(log, "level=WARN") {
		t.Errorf("the server warns:\n%s", log)
	}
	certificates, trust := certify(t)
	live := dir + "/etc/letsencrypt/live/buy.shop.example/"
	servertest.StartNginx(t, "events {} http { access_log off;\n"+replaceAll(t, here.Replace(conf),
		"listen 443", "listen "+nginx, "allow 192.0.2.10", "allow 127.0.3.1",
		live+"fullchain.pem", certificates+"/cert.pem", live+"privkey.pem", certificates+"/key.pem")+"}", nginx)

	// The webhook, the plugin's settings, the sale.
	secret := regexp.MustCompile(`whsec_\S+`).FindString(sh(t, dir, here.Replace(hook), path))
	if secret == "" {
		t.Fatal("the webhook has no secret")
	}
	key := regexp.MustCompile(`'\.\.\.'\); +// (\S+).*`)
	values := map[string]string{"the": merchantKey, "SLUICE_BUYER_SECRET": buyerSecret, "whsec_...,": secret}
	settings = key.ReplaceAllStringFunc(here.Replace(settings), func(text string) string {
		return "'" + values[key.FindStringSubmatch(text)[1]] + "');"
	})
	write(t, filepath.Join(shopDir, "wp-config.php"), "<?php\n"+settings)
	write(t, filepath.Join(shopDir, "orders", ".keep"), "")
	use := "set -a; . " + dir + "/etc/sluice/sluice.env; set +a\n"
	if out := sh(t, dir, use+sell+"sluice sale open poster", path); strings.Contains(out, "fail") {
		t.Error(out)
	}
	// The merchant of the sale may buy only what is sold; a rehearsal is another sale.
	out := sh(t, dir, use+here.Replace(rehearse), path, "SSL_CERT_FILE="+certificates+"/cert.pem")
	if !strings.Contains(out, "active") || !strings.Contains(out, `"buyer_id":"guest-`) {
		t.Errorf("no webhook is active, or the shop's token is not good:\n%s", out)
	}

	w := &woocommerce{
		t: t, shop: "http://" + shop, pages: "https://" + nginx, dir: shopDir, settings: settings, server: s,
		client: &compose{tls: trust},
	}
	awaitState(t, []*server{s}, "poster", sluice.StateOpen)
	w.testGuest("http://" + hooks)
	w.testCustomer()
	w.testLate()
	w.testEnds()
	w.testAmount()
	w.testAnotherID()
	w.testWrongKey()
	w.testDigits()
	w.testStrangers("http://"+hooks, secret)
	for _, log := range []string{visited(), posted()} {
		for _, bad := range []string{"Warning", "Notice", "Deprecated", "Fatal"} {
			if strings.Contains(log, bad) {
				t.Errorf("%q in the log:\n%s", bad, log)
			}
		}
	}

	// Sales of other tests, of which the shop has no products.
	proxied := &compose{servers: []*server{s}, url: w.pages, tls: trust}
	for address, want := range map[string]int{"127.0.0.1": http.StatusForbidden, "127.0.3.1": http.StatusUnauthorized} {
		if status, _, _ := w.ask(proxied.buyer(t, address), w.pages+"/v1/admin/sales", nil); status != want {
			t.Errorf("the merchant's API answers %s with %d, want %d", address, status, want)
		}
	}
	proxied.testEvents(t)
	proxied.testAddresses(t)

	if out = sh(t, dir, use+day, path); !strings.Contains(out, "claims") || strings.Contains(out, "fail") {
		t.Error(out)
	}
	out = sh(t, dir, use+here.Replace(after), path)
	if !strings.Contains(out, "Everything adds up.") {
		t.Error(out)
	}
}

// woocommerce is the shop of testdata/wordpress.php, and its customers.
type woocommerce struct {
	t           *testing.T
	shop, pages string
	dir         string
	settings    string // of the plugin, in wp-config.php
	server      *server
	client      *compose
}

// wooOrder is what the tests read of one of its orders.
type wooOrder struct {
	ID            int               `json:"id"`
	Status        string            `json:"status"`
	Meta          map[string]string `json:"meta"`
	Notes         []string          `json:"notes"`
	Total         string            `json:"total"`
	Currency      string            `json:"currency"`
	Customer      int               `json:"customer_id"`
	Email         string            `json:"billing_email"`
	StockReduced  bool              `json:"stock_reduced"`
	TransactionID string            `json:"transaction_id"`
	Items         []struct{ Quantity int }
}

// visitor returns a browser; with a number, one that is logged in as this user.
func (w *woocommerce) visitor(user string) *http.Client {
	jar := must.Get(cookiejar.New(nil))(w.t)
	if user != "" {
		shop, _ := url.Parse(w.shop)
		jar.SetCookies(shop, []*http.Cookie{{Name: "wp_user", Value: user}})
	}
	browser := w.client.buyer(w.t, "127.0.0.1")
	browser.Jar = jar
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return browser
}

// ask sends a request, a POST if there is a form, and returns status, Location and body.
func (w *woocommerce) ask(browser *http.Client, target string, form url.Values) (status int, location, body string) {
	w.t.Helper()
	var answer *http.Response
	var err error
	if form == nil {
		answer, err = browser.Get(target)
	} else {
		answer, err = browser.PostForm(target, form)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(w.t)
	return answer.StatusCode, answer.Header.Get("Location"), string(text)
}

// login goes from a page of Sluice through the shop's login, and returns the token.
func (w *woocommerce) login(browser *http.Client) string {
	w.t.Helper()
	back := w.pages + "/s/poster?state=mb2x"
	status, location, body := w.ask(browser, w.shop+"/?sluice_login="+url.QueryEscape(back), nil)
	token, ok := strings.CutPrefix(location, back+"#token=")
	if status != http.StatusSeeOther || !ok {
		w.t.Fatalf("the login answers %d, Location %q: %s", status, location, body)
	}
	return token
}

// buy claims units and returns the order's id.
func (w *woocommerce) buy(browser *http.Client, quantity int) sluice.OrderID {
	w.t.Helper()
	request := must.Get(http.NewRequest(http.MethodPost, w.pages+"/v1/sales/poster/orders",
		strings.NewReader(`{"quantity": `+strconv.Itoa(quantity)+`}`)))(w.t)
	request.Header.Set("Authorization", "Bearer "+w.login(browser))
	request.Header.Set("Idempotency-Key", "attempt-1")
	answer := must.Get(browser.Do(request))(w.t)
	defer answer.Body.Close()
	var placed struct {
		ID sluice.OrderID `json:"order_id"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&placed); err != nil || answer.StatusCode != http.StatusAccepted {
		w.t.Fatalf("a claim: %s, %v", answer.Status, err)
	}
	return placed.ID
}

// paymentPage follows the buyer's link to pay, and returns the page it leads to.
func (w *woocommerce) paymentPage(browser *http.Client, id sluice.OrderID) (target string) {
	w.t.Helper()
	await(w.t, "a payment page", func() bool {
		status, location, body := w.ask(browser, w.shop+"/?sluice_pay="+string(id), nil)
		if status != http.StatusSeeOther && status != http.StatusServiceUnavailable {
			w.t.Fatalf("the link to pay answers %d: %s", status, body)
		}
		target = location
		return status == http.StatusSeeOther
	})
	return target
}

// order waits until the shop's one order for an order of Sluice has a status.
func (w *woocommerce) order(id sluice.OrderID, status string) (found wooOrder) {
	w.t.Helper()
	visitor := w.visitor("")
	await(w.t, "an order of the shop that is "+status, func() bool {
		_, _, body := w.ask(visitor, w.shop+"/test/orders", nil)
		var all []wooOrder
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			w.t.Fatalf("%v: %s", err, body)
		}
		n := 0
		for _, o := range all {
			if o.Meta["_sluice_order"] == string(id) {
				found = o
				n++
			}
		}
		if n > 1 {
			w.t.Fatalf("the shop has %d orders for %s", n, id)
		}
		return found.Status == status
	})
	return found
}

// is waits until Sluice's order has a status.
func (w *woocommerce) is(id sluice.OrderID, status sluice.Status) (paymentID string) {
	w.t.Helper()
	merchant := w.server.merchant()
	await(w.t, "an order that is "+string(status), func() bool {
		o, err := merchant.AdminOrder(w.t.Context(), id)
		paymentID = o.PaymentID
		return err == nil && o.Status == status
	})
	return paymentID
}

// A guest comes from the product's page, buys two, asks for the payment page in two tabs
// while the webhook is on its way, and pays once there is an address.
func (w *woocommerce) testGuest(hooks string) {
	guest := w.visitor("")
	if _, _, body := w.ask(guest, w.shop+"/product/poster", nil); !strings.Contains(body, `href="`+w.pages+`/s/poster"`) ||
		strings.Contains(body, "Add to cart") {
		w.t.Errorf("the product's page: %s", body)
	}
	id := w.buy(guest, 2)
	w.is(id, sluice.Pending)
	tabs := make(chan error, 2)
	for _, process := range []string{w.shop, hooks} {
		go func() {
			answer, err := guest.Get(process + "/?sluice_pay=" + string(id))
			if err == nil {
				err = answer.Body.Close()
			}
			tabs <- err
		}()
	}
	must.Succeed(w.t, errors.Join(<-tabs, <-tabs))
	target := w.paymentPage(guest, id)
	o := w.order(id, "pending")
	if o.Total != "38.00" || o.Currency != "EUR" || len(o.Items) != 1 || o.Items[0].Quantity != 2 {
		w.t.Errorf("the shop's order: %+v", o)
	}
	if again := w.paymentPage(guest, id); again != target {
		w.t.Errorf("the payment page is %s, then %s", target, again)
	}
	if _, _, form := w.ask(guest, target, nil); !strings.Contains(form, "billing_email") {
		w.t.Errorf("the payment page asks a guest for no address: %s", form)
	}
	pay := url.Values{"transaction": {"tx-1"}}
	if _, _, body := w.ask(guest, target, pay); !strings.Contains(body, "Email address is missing") {
		w.t.Errorf("paid without an address: %s", body)
	}
	pay.Set("billing_email", "guest@example.com")
	w.ask(guest, target, pay)
	if paid := w.order(id, "processing"); paid.Email != "guest@example.com" || paid.StockReduced {
		w.t.Errorf("the paid order: %+v", paid)
	}
	if payment := w.is(id, sluice.Paid); payment != "tx-1" {
		w.t.Errorf("Sluice has the payment %q", payment)
	}
	if _, location, _ := w.ask(guest, w.shop+"/?sluice_pay="+string(id), nil); location != w.pages+"/o/"+string(id) {
		w.t.Errorf("the link to pay what is paid leads to %s", location)
	}
}

// A customer has an address. Sluice does not answer when the payment comes; the shop
// reports it again.
func (w *woocommerce) testCustomer() {
	customer := w.visitor("42")
	id := w.buy(customer, 1)
	target := w.paymentPage(customer, id)
	if o := w.order(id, "pending"); o.Customer != 42 || o.Email != "42@example.com" {
		w.t.Errorf("a customer's order: %+v", o)
	}
	up := w.file("sluice-is-down")
	w.ask(customer, target, url.Values{})
	o := w.order(id, "processing")
	w.is(id, sluice.Pending)
	w.due(1) // in vain
	up()
	w.due(1)
	if payment := w.is(id, sluice.Paid); payment != "wc-"+strconv.Itoa(o.ID) {
		w.t.Errorf("Sluice has the payment %q", payment)
	}
	w.due(0)
}

// due runs the reports that are scheduled, of which there are n.
func (w *woocommerce) due(n int) {
	w.t.Helper()
	if _, _, got := w.ask(w.visitor(""), w.shop+"/test/scheduled", nil); got != strconv.Itoa(n) {
		w.t.Errorf("%s reports are scheduled, want %d", got, n)
	}
}

// set changes an order in the shop, as its staff or its gateway does.
func (w *woocommerce) set(o wooOrder, status, transaction string) {
	w.t.Helper()
	w.ask(w.visitor(""), fmt.Sprintf("%s/test/status?order=%d&status=%s&transaction=%s",
		w.shop, o.ID, status, transaction), nil)
}

// file makes one that changes what the stand-in does, until undo.
func (w *woocommerce) file(name string) (undo func()) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	write(w.t, path, "")
	return func() {
		w.t.Helper()
		must.Succeed(w.t, os.Remove(path))
	}
}

// A buyer cancels, which the shop learns, and the gateway has the money all the same:
// the shop holds the order back, and refunds it.
func (w *woocommerce) testLate() {
	late := w.visitor("43")
	id := w.buy(late, 1)
	target := w.paymentPage(late, id)
	w.is(id, sluice.Pending)
	browser := buyer(w.t, w.pages, "user-43", client.Options{HTTPClient: w.client.buyer(w.t, "127.0.0.1")})
	must.Get(browser.CancelOrder(w.t.Context(), id))(w.t)
	o := w.order(id, "cancelled")
	live := w.file("dies-before-on-hold")
	w.ask(late, target, url.Values{"transaction": {"tx-late"}})
	w.order(id, "processing")
	live()
	w.due(1) // reports it again
	if held := w.order(id, "on-hold"); !strings.Contains(strings.Join(held.Notes, " "), "refund_due. Do not deliver") {
		w.t.Errorf("the notes are %q", held.Notes)
	}
	w.is(id, sluice.RefundDue)
	w.set(o, "refunded", "tx-late")
	w.is(id, sluice.Refunded)
	w.due(0)
}

// The merchant cancels an order in the shop: its unit is for sale again.
func (w *woocommerce) testEnds() {
	buyer := w.visitor("44")
	id := w.buy(buyer, 1)
	w.is(id, sluice.Pending)
	w.set(w.order(id, "pending"), "cancelled", "")
	w.is(id, sluice.Cancelled)
}

// A gateway that takes the money later gives the payment another id. It is the same
// payment, whether Sluice has heard of it before or not, and is reported with the first.
func (w *woocommerce) testAnotherID() {
	for user, answers := range map[string]bool{"47": true, "48": false} {
		buyer := w.visitor(user)
		id := w.buy(buyer, 1)
		target := w.paymentPage(buyer, id)
		o := w.order(id, "pending")
		first := "wc-" + strconv.Itoa(o.ID)
		up := func() {}
		if !answers {
			up = w.file("sluice-is-down")
		}
		w.ask(buyer, target, url.Values{})
		up()
		o = w.order(id, "processing")
		if answers {
			up := w.file("sluice-is-down") // what is recorded is not reported again
			w.set(o, "completed", "ch_1"+user)
			w.due(0)
			up()
		} else {
			w.set(o, "completed", "ch_1"+user)
		}
		w.due(0)
		if completed := w.order(id, "completed"); w.is(id, sluice.Paid) != first || len(completed.Notes) != 2 {
			w.t.Errorf("the payment of an order that was completed is %q, want %s; the notes are %q",
				w.is(id, sluice.Paid), first, completed.Notes)
		}
		w.set(o, "cancelled", "ch_1"+user) // which a paid order cannot be
		cancelled := w.order(id, "cancelled")
		if !strings.Contains(strings.Join(cancelled.Notes, " "), "order_ended. It stays paid there") {
			w.t.Errorf("the notes are %q", cancelled.Notes)
		}
		w.set(o, "refunded", "ch_1"+user)
		w.is(id, sluice.Refunded)
		w.set(o, "processing", "ch_1"+user)
		if held := w.order(id, "on-hold"); !strings.Contains(strings.Join(held.Notes, " "), "refunded. Do not deliver") {
			w.t.Errorf("the notes are %q", held.Notes)
		}
		w.due(0)
	}
}

// With a wrong key Sluice hears of no payment: the shop's order stays as it is, and the
// report is repeated until the key is right.
func (w *woocommerce) testWrongKey() {
	buyer := w.visitor("49")
	id := w.buy(buyer, 1)
	target := w.paymentPage(buyer, id)
	w.configure(merchantKey, "another-"+merchantKey)
	if status, _, _ := w.ask(buyer, w.shop+"/?sluice_pay="+string(id), nil); status != http.StatusServiceUnavailable {
		w.t.Errorf("the link to pay answers %d", status)
	}
	w.ask(buyer, target, url.Values{})
	w.due(1)
	if o := w.order(id, "processing"); len(o.Notes) != 1 {
		w.t.Errorf("the notes are %q", o.Notes)
	}
	w.is(id, sluice.Pending)
	w.configure("", "")
	w.due(1)
	w.is(id, sluice.Paid)
	w.due(0)
}

// configure writes the settings of the plugin, with a change.
func (w *woocommerce) configure(old, changed string) {
	w.t.Helper()
	if old != "" && !strings.Contains(w.settings, old) {
		w.t.Fatalf("the settings do not contain %s", old)
	}
	write(w.t, filepath.Join(w.dir, "wp-config.php"), "<?php\n"+strings.Replace(w.settings, old, changed, 1))
}

// The plugin counts minor units as we do.
func (w *woocommerce) testDigits() {
	for _, currency := range strings.Fields("EUR JPY XOF XAF XPF PYG UGX UYI RWF GNF KMF DJF BIF VUV VND CLP ISK KRW " +
		"BHD KWD JOD OMR TND IQD LYD CLF UYW HUF IDR") {
		_, _, got := w.ask(w.visitor(""), w.shop+"/test/digits?currency="+currency, nil)
		if want := strconv.Itoa(figures.Digits(currency)); got != want {
			w.t.Errorf("%s has %s digits at the shop, want %s", currency, got, want)
		}
	}
}

// Another amount than is due is held back; the order still waits for its payment, which
// is one with an id of its own.
func (w *woocommerce) testAmount() {
	buyer := w.visitor("46")
	id := w.buy(buyer, 1)
	target := w.paymentPage(buyer, id)
	o := w.order(id, "pending")
	w.ask(buyer, w.shop+"/test/total?total=18.99&order="+strconv.Itoa(o.ID), nil)
	w.ask(buyer, target, url.Values{"transaction": {"tx-short"}})
	if held := w.order(id, "on-hold"); !strings.Contains(strings.Join(held.Notes, " "), "payment_amount. Do not deliver") {
		w.t.Errorf("the notes are %q", held.Notes)
	}
	w.is(id, sluice.Pending)
	w.ask(buyer, w.shop+"/test/total?total=19.00&order="+strconv.Itoa(o.ID), nil)
	w.set(o, "processing", "tx-full")
	if payment := w.is(id, sluice.Paid); payment != "tx-full" {
		w.t.Errorf("Sluice has the payment %q", payment)
	}
}

// What is not signed, or an old copy, or of another visitor, or leads elsewhere is
// refused; and guests where the shop wants none.
func (w *woocommerce) testStrangers(hooks, secret string) {
	stranger := w.visitor("45")
	id := w.buy(stranger, 1)
	w.order(id, "pending")
	if status, _, _ := w.ask(w.visitor("46"), w.shop+"/?sluice_pay="+string(id), nil); status != http.StatusNotFound {
		w.t.Errorf("the payment page of another buyer: %d", status)
	}
	up := w.file("sluice-is-down") // so a 404 is the shop's own
	for visitor, order := range map[*http.Client]string{w.visitor(""): string(id), stranger: "../sales"} {
		if status, _, _ := w.ask(visitor, w.shop+"/?sluice_pay="+url.QueryEscape(order), nil); status != http.StatusNotFound {
			w.t.Errorf("the payment page of %s asks Sluice: %d", order, status)
		}
	}
	up()
	for _, elsewhere := range []string{"https://evil.example/", w.pages + ".evil.example/"} {
		status, location, _ := w.ask(stranger, w.shop+"/?sluice_login="+url.QueryEscape(elsewhere), nil)
		if status != http.StatusBadRequest || location != "" {
			w.t.Errorf("the login leads to %s: %d %s", elsewhere, status, location)
		}
	}
	for _, sent := range []struct {
		key  string
		age  time.Duration
		want int
	}{{secret, 0, 204}, {"whsec_bm8=", 0, 401}, {secret, time.Hour, 401}} {
		request, err := http.NewRequest(http.MethodPost, hooks+"/wp-json/sluice/v1/events", strings.NewReader(`{}`))
		if err != nil {
			w.t.Fatal(err)
		}
		at := strconv.FormatInt(time.Now().Add(-sent.age).Unix(), 10)
		key := must.Get(base64.StdEncoding.DecodeString(strings.TrimPrefix(sent.key, "whsec_")))(w.t)
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("evt_1." + at + ".{}"))
		request.Header.Set("Webhook-Id", "evt_1")
		request.Header.Set("Webhook-Timestamp", at)
		request.Header.Set("Webhook-Signature", "v1,bm8= v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		answer := must.Get(stranger.Do(request))(w.t)
		answer.Body.Close()
		if answer.StatusCode != sent.want {
			w.t.Errorf("an event with the key %s, sent %s ago: %s, want %d", sent.key, sent.age, answer.Status, sent.want)
		}
	}
	w.configure("'SLUICE_GUESTS', true", "'SLUICE_GUESTS', false")
	_, location, _ := w.ask(w.visitor(""), w.shop+"/?sluice_login="+url.QueryEscape(w.pages+"/s/poster"), nil)
	if !strings.Contains(location, "/wp-login.php?redirect_to=") {
		w.t.Errorf("a guest who must log in is led to %s", location)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path = must.Get(filepath.Abs(path))(t)
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Succeed(t, os.WriteFile(path, []byte(text), 0o600))
}
