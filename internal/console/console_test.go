package console_test

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/sluicetest"
)

const (
	ownerKey    = "owner-key-of-the-console-test"
	viewerKey   = "viewer-key-of-the-console-test"
	operatorKey = "operator-key-of-the-console-test"
	secret      = "buyer-secret-of-the-console-test-0123456789"
)

// browser is one person's: it keeps cookies, and says where a form was sent from, as browsers do.
type browser struct {
	t      *testing.T
	url    string
	client *http.Client
}

// rig is a server with a console.
type rig struct {
	*testing.T
	url string
	api *client.Client
}

// newRig starts a server, below a path if one is given.
func newRig(t *testing.T, base ...string) *rig {
	t.Helper()
	below := strings.Join(base, "")
	e := sluicetest.Open(t, engine.Config{
		BasePath: below, AdminKey: ownerKey, BuyerSecret: secret,
		AdminKeys: []sluice.AdminKey{
			{Name: "vera", Role: sluice.Viewer, Key: viewerKey}, {Name: "otto", Role: sluice.Operator, Key: operatorKey},
		},
	})
	server := httptest.NewUnstartedServer(nil)
	server.Config = e.NewServer()
	server.Start()
	t.Cleanup(server.Close)
	at := server.URL + below
	return &rig{t, at, must.Get(client.New(at, client.Options{AdminKey: ownerKey}))(t)}
}

func (r *rig) sale(id sluice.SaleID, title string) {
	r.Helper()
	total := int64(10)
	must.Get(r.api.CreateSale(r.Context(), api.CreateSale{
		ID: api.Some(id), SKU: "sku", Title: title, Price: api.Some(sluice.Money{Amount: 19900, Currency: "CNY"}),
		Total: api.Value(total), MaxPerBuyer: api.Value(int64(2)), OpensAt: api.Some(api.At(time.Now().Add(-time.Minute))),
	}))(r.T)
}

func (r *rig) browser() *browser {
	jar := must.Get(cookiejar.New(nil))(r.T)
	return &browser{r.T, r.url, &http.Client{Jar: jar}}
}

// signedIn is the browser of an admin who has signed in with this key.
func (r *rig) signedIn(key string) *browser {
	r.Helper()
	b := r.browser()
	if status, page := b.post("/admin/sign-in", url.Values{"key": {key}}); status != http.StatusOK ||
		!strings.Contains(page, "Who did what") {
		r.Fatalf("sign in: %d\n%s", status, page)
	}
	return b
}

func (b *browser) do(r *http.Request) (status int, page string) {
	b.t.Helper()
	answer := must.Get(b.client.Do(r))(b.t)
	defer answer.Body.Close()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(b.t))
}

func (b *browser) get(path string) (status int, page string) {
	b.t.Helper()
	return b.do(must.Get(http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.url+path, nil))(b.t))
}

func (b *browser) post(path string, form url.Values) (status int, page string) {
	b.t.Helper()
	r := must.Get(http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+path,
		strings.NewReader(form.Encode())))(b.t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.url)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return b.do(r)
}

// upload opens a page, and sends its form, with a file and further fields, to an address.
func (b *browser) upload(path, to, field string, file []byte, more ...string) (status int, page string) {
	b.t.Helper()
	_, page = b.get(path)
	_, page, _ = strings.Cut(page, "<main")
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	for _, other := range hidden.FindAllStringSubmatch(page, -1) {
		must.Succeed(b.t, parts.WriteField(other[1], other[2]))
	}
	for i := 0; i < len(more); i += 2 {
		must.Succeed(b.t, parts.WriteField(more[i], more[i+1]))
	}
	must.Get(must.Get(parts.CreateFormFile(field, "a-file"))(b.t).Write(file))(b.t)
	must.Succeed(b.t, parts.Close())
	r := must.Get(http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.url+to, &form))(b.t)
	r.Header.Set("Content-Type", parts.FormDataContentType())
	return b.do(r)
}

// ours are the scripts that a page may have: files of the console, and data.
var ours = regexp.MustCompile(`<script (src="/admin/assets/[0-9a-f]+/(console|uPlot\.iife\.min)\.js"|` +
	`type="application/json" id="curve">)`)

var (
	hidden = regexp.MustCompile(`<input type="hidden" name="([\w:.]+)" value="([^"]*)">`)
	target = regexp.MustCompile(`<form method="post"[^>]* action="([^"]*)">`)
)

// press opens a page, fills the form of it, and sends that.
func (b *browser) press(path string, fields ...string) (status int, page string) {
	b.t.Helper()
	status, page = b.get(path)
	if status != http.StatusOK {
		return status, page
	}
	_, form, _ := strings.Cut(page, "<main")
	if action := target.FindStringSubmatch(form); action != nil {
		path = action[1]
	}
	values := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(form, -1) {
		values.Set(field[1], field[2])
	}
	for i := 0; i < len(fields); i += 2 {
		values.Set(fields[i], fields[i+1])
	}
	return b.post(path, values)
}

// A night: sign in, pause and resume, restock once however often the form is sent, find an order, have it paid and
// refunded, and read who did what.
func TestANight(t *testing.T) {
	r := newRig(t)
	r.sale("phone", "Phone <script>alert(1)</script>")
	token := must.Get(client.BuyerToken(secret, client.Token{Buyer: "alice", TTL: time.Hour}))(t)
	buyer := must.Get(client.New(r.url, client.Options{Token: token}))(t)
	placed := must.Get(buyer.Place(t.Context(), "phone", sluice.NewKey(), api.PlaceOrder{Quantity: 1}))(t)
	b := r.signedIn(ownerKey)
	wants := func(what string, status int, page string, texts ...string) {
		t.Helper()
		if status != http.StatusOK {
			t.Errorf("%s: %d", what, status)
		}
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not say %q:\n%s", what, text, page)
			}
		}
		if rest := ours.ReplaceAllString(page, ""); strings.Contains(rest, "<script") {
			t.Errorf("%s: there is a script of somebody else in the page:\n%s", what, rest)
		}
	}
	status, page := b.get("/admin")
	wants("sales", status, page, "Phone &lt;script&gt;", `/admin/sales/phone`)
	status, page = b.press("/admin/sales/phone/pause")
	wants("pause", status, page, "The sale is paused.", `data-state="paused"`, "/admin/sales/phone/resume")
	status, page = b.press("/admin/sales/phone/resume")
	wants("resume", status, page, "The sale goes on.", `data-state="open"`)

	_, page = b.get("/admin/sales/phone/restock")
	form := url.Values{"delta": {"5"}}
	_, inMain, _ := strings.Cut(page, "<main")
	for _, field := range hidden.FindAllStringSubmatch(inMain, -1) {
		form.Set(field[1], field[2])
	}
	for range 2 {
		status, page = b.post("/admin/sales/phone/restock", form)
		wants("restock", status, page, "The total is changed.")
	}
	if s := must.Get(r.api.AdminSale(t.Context(), "phone"))(t); *s.Total != 15 {
		t.Errorf("a total of %d after the form of +5 was sent twice, want 15", *s.Total)
	}
	status, page = b.press("/admin/sales/phone/restock", "delta", "many")
	if status != http.StatusUnprocessableEntity || !strings.Contains(page, "want a whole number") {
		t.Errorf("by many units: %d\n%s", status, page)
	}
	status, page = b.press("/admin/sales/phone/restock", "delta", "-15")
	if status != http.StatusConflict || !strings.Contains(page, "below_taken") && !strings.Contains(page, "taken") {
		t.Errorf("below what is taken: %d\n%s", status, page)
	}

	id := url.PathEscape(string(placed.OrderID))
	for range 100 { // until it is stored
		if status, page = b.get("/admin/orders?buyer=alice"); strings.Contains(page, string(placed.OrderID)) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	wants("orders of a buyer", status, page, string(placed.OrderID))
	status, page = b.get("/admin/orders?id=" + id)
	wants("an order by its id", status, page, "alice", "199.00 CNY")
	status, page = b.press("/admin/orders/"+id+"/pay", "payment", "pay-1")
	wants("pay", status, page, "The payment is recorded.", "pay-1", "/refund")
	status, page = b.press("/admin/orders/" + id + "/refund")
	wants("refund", status, page, "The refund is recorded.", ">refunded<")
	status, page = b.get("/admin/sales/phone/audit")
	wants("audit", status, page, "all holds")
	for path, says := range map[string]string{
		"/admin/dead-letters": "There are none", "/admin/webhooks": "There are none",
		"/admin/log": "POST /v1/admin/orders/{order}/refund",
	} {
		status, page = b.get(path)
		wants(path, status, page, says)
	}
	hook := must.Get(r.api.CreateWebhook(t.Context(), api.CreateWebhook{URL: "https://shop.example/hook"}))(t)
	status, page = b.press("/admin/webhooks/" + string(hook.ID) + "/disable")
	wants("webhooks", status, page, "The webhook is disabled.", "https://shop.example/hook", "/enable")
	status, page = b.get("/admin/sales/phone?lang=zh")
	wants("in Chinese", status, page, "已售", `lang="zh-CN"`)
	if status, _ = b.get("/admin/sales/none"); status != http.StatusNotFound {
		t.Errorf("a sale that is not there: %d", status)
	}
	if status, _ = b.get("/admin/none"); status != http.StatusNotFound {
		t.Errorf("a page that is not there: %d", status)
	}
}

// A sale is made of a form, changed by one, and given a picture; an operator changes its traffic, and no more.
func TestForms(t *testing.T) {
	r := newRig(t)
	owner := r.signedIn(ownerKey)
	lamp := func() api.AdminSale { return must.Get(r.api.AdminSale(t.Context(), "lamp"))(t) }
	fields := []string{
		"id", "lamp", "title", "Lamp", "sku", "l", "price", "19.90", "currency", "CNY", "total", "5", "max_per_buyer", "1",
		"opens_at", "2036-01-01T00:00",
	}
	for name, value := range map[string]string{"price": "19.999", "currency": "RMB", "max_per_buyer": "-3"} {
		status, page := owner.press("/admin/new", append(fields, name, value)...)
		if status < 400 || status >= 500 || !strings.Contains(page, `role="alert"`) ||
			!strings.Contains(page, `value="Lamp"`) {
			t.Errorf("%s %s: %d\n%s", name, value, status, page)
		}
	}
	status, page := owner.press("/admin/new", fields...)
	if s := lamp(); status != http.StatusOK || !strings.Contains(page, "The sale is created.") ||
		s.Price.Amount != 1990 || *s.Total != 5 || s.OpensAt.Year() != 2036 {
		t.Errorf("create: %d, %+v\n%s", status, s, page)
	}
	status, page = owner.press("/admin/sales/lamp/edit", "title", "Lamp of glass", "total", "")
	if s := lamp(); status != http.StatusOK || !strings.Contains(page, "The sale is changed.") ||
		s.Title != "Lamp of glass" || s.Total != nil || s.Price.Amount != 1990 {
		t.Errorf("edit: %d, %+v\n%s", status, s, page)
	}
	if _, page = owner.get("/admin/new?like=lamp"); !strings.Contains(page, `value="19.90"`) ||
		strings.Contains(page, "2036") {
		t.Errorf("a form with the values of an earlier sale, but for its times:\n%s", page)
	}

	// What others have changed since the form was loaded stays.
	_, page = owner.get("/admin/sales/lamp/edit")
	must.Get(r.api.PatchSale(t.Context(), "lamp", api.PatchSale{Total: api.Value(int64(7))}))(t)
	loaded := url.Values{"title": {"Lamp of steel"}, "total": {""}}
	_, inMain, _ := strings.Cut(page, "<main")
	for _, field := range hidden.FindAllStringSubmatch(inMain, -1) {
		loaded.Set(field[1], field[2])
	}
	status, page = owner.post("/admin/sales/lamp/edit", loaded)
	if s := lamp(); status != http.StatusOK || s.Title != "Lamp of steel" || s.Total == nil || *s.Total != 7 {
		t.Errorf("a form from before a restock: %d, %+v\n%s", status, s, page)
	}
	loaded.Set("title", "Lamp of wood") // which the form was not loaded with
	status, page = owner.post("/admin/sales/lamp/edit", loaded)
	if status != http.StatusConflict || lamp().Title != "Lamp of steel" ||
		!strings.Contains(page, "another admin has changed it to &#34;Lamp of steel&#34;") ||
		!strings.Contains(page, `name="title" type="text" value="Lamp of wood"`) ||
		!strings.Contains(page, `name="was:title" value="Lamp of steel"`) { // to save it again is to know
		t.Errorf("a form that changes what another admin has changed: %d\n%s", status, page)
	}
	for name, c := range map[string]struct {
		value  string
		status int
	}{
		"of another alphabet": {"\xff\xfe", http.StatusBadRequest},
		"too long":            {strings.Repeat("x", 1<<20), http.StatusRequestEntityTooLarge},
	} {
		if status, page = owner.press("/admin/sales/lamp/edit", "badge", c.value); status != c.status {
			t.Errorf("a badge %s: %d\n%s", name, status, page)
		}
	}

	operator := r.signedIn(operatorKey)
	_, page = operator.get("/admin/sales/lamp/edit")
	if strings.Contains(page, `name="title"`) || !strings.Contains(page, `name="buyer_rate.requests"`) {
		t.Errorf("an operator's form:\n%s", page)
	}
	operator.press("/admin/sales/lamp/edit", "buyer_rate.requests", "10", "buyer_rate.per_s", "1")
	if s := lamp(); s.BuyerRate == nil || s.BuyerRate.Requests != 10 {
		t.Errorf("the rate is %+v", s.BuyerRate)
	}
	if status, _ = operator.press("/admin/sales/lamp/edit", "title", "Mine"); status != http.StatusForbidden ||
		lamp().Title != "Lamp of steel" {
		t.Errorf("an operator's title: %d", status)
	}

	upload := func(file []byte) (status int, page string) {
		return owner.upload("/admin/sales/lamp/edit", "/admin/sales/lamp/pictures", "picture", file)
	}
	status, page = upload([]byte("no picture"))
	if status != http.StatusBadRequest || !strings.Contains(page, `role="alert"`) ||
		!strings.Contains(page, `value="Lamp of steel"`) {
		t.Errorf("no picture: %d\n%s", status, page)
	}
	if status, page = upload(make([]byte, 12<<20)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large picture: %d\n%s", status, page)
	}
	var picture bytes.Buffer
	must.Succeed(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 600, 600))))
	if status, page = upload(picture.Bytes()); status != http.StatusOK || lamp().Pictures == "" {
		t.Errorf("a picture: %d\n%s", status, page)
	}
	_, page = owner.get("/admin/sales/lamp/edit")
	shown := regexp.MustCompile(`<img src="([^"]*)"`).FindStringSubmatch(page)
	if shown == nil {
		t.Fatalf("the form does not show its picture:\n%s", page)
	}
	if status, page = owner.get("/admin/sales/lamp/pictures/%00"); status != http.StatusNotFound {
		t.Errorf("a picture of no name: %d\n%s", status, page)
	}
	if status, page = owner.get(shown[1]); status != http.StatusOK || !strings.HasPrefix(page, "\xff\xd8") {
		t.Errorf("the picture: %d, %.20q", status, page)
	}
	status, page = owner.press("/admin/sales/lamp/edit", "pictures", "")
	if status != http.StatusOK || lamp().Pictures != "" {
		t.Errorf("to take a picture away: %d, %q\n%s", status, lamp().Pictures, page)
	}
}

// A picture that is larger than what is kept in memory leaves no file behind.
func TestUploadsLeaveNoFiles(t *testing.T) {
	r := newRig(t, "/shop")
	r.sale("phone", "Phone")
	owner := r.signedIn(ownerKey)
	t.Setenv("TMPDIR", t.TempDir())
	const form, to = "/admin/sales/phone/edit", "/admin/sales/phone/pictures"
	if status, page := owner.upload(form, to, "picture", make([]byte, 9<<20)); status != http.StatusBadRequest {
		t.Errorf("a large file that is no picture: %d\n%s", status, page)
	}
	if left := must.Get(os.ReadDir(os.TempDir()))(t); len(left) > 0 {
		t.Errorf("the upload has left %v", left)
	}
}

// Who has not signed in sees a form, whatever the address; who may only look changes nothing; and a form that no page
// of this session made is refused.
func TestWhoMayDoWhat(t *testing.T) {
	r := newRig(t)
	r.sale("phone", "Phone")
	paused := func() bool { return must.Get(r.api.AdminSale(t.Context(), "phone"))(t).Paused }
	stranger := r.browser()
	for _, path := range []string{
		"/admin", "/admin/sales/phone", "/admin/orders", "/admin/log", "/admin/sales/phone/pause",
		"/admin/orders.csv?sale=phone", "/admin/lists/phone.deny", "/admin/sales/phone/curve.csv",
	} {
		if status, page := stranger.get(path); status != http.StatusUnauthorized || strings.Contains(page, "Phone") {
			t.Errorf("GET %s by a stranger: %d\n%s", path, status, page)
		}
	}
	status, page := stranger.post("/admin/sales/phone/pause", nil)
	if status != http.StatusUnauthorized || paused() || !strings.Contains(page, "nothing was changed") {
		t.Errorf("a stranger's pause: %d\n%s", status, page)
	}
	status, page = stranger.post("/admin/sign-in", url.Values{"key": {"a-wrong-key-of-some-length"}})
	if status != http.StatusUnauthorized || !strings.Contains(page, "the admin key is not right") {
		t.Errorf("a wrong key: %d\n%s", status, page)
	}
	if status, page = stranger.post("/admin/sign-in", url.Values{"to": {"/admin/sales/phone"}}); status !=
		http.StatusUnauthorized || !strings.Contains(page, `name="to" value="/admin/sales/phone"`) {
		t.Errorf("the form after a wrong key leads elsewhere: %d\n%s", status, page)
	}
	viewer := r.signedIn(viewerKey)
	if _, page := viewer.get("/admin/sales/phone"); strings.Contains(page, "/admin/sales/phone/pause") {
		t.Errorf("a viewer is offered to pause:\n%s", page)
	}
	for _, path := range []string{"/admin/new", "/admin/sales/phone/edit"} {
		if status, page := viewer.get(path); status != http.StatusForbidden || strings.Contains(page, `class="edit"`) {
			t.Errorf("a viewer's %s: %d\n%s", path, status, page)
		}
	}
	if status, page := viewer.get("/admin/sales/%2e%2e"); status != http.StatusNotFound {
		t.Errorf("an id of points: %d\n%s", status, page)
	}
	_, page = viewer.get("/admin/sales/phone")
	token := hidden.FindStringSubmatch(page)[2]
	status, _ = viewer.post("/admin/sales/phone/pause", url.Values{"token": {token}})
	if status != http.StatusForbidden || paused() {
		t.Errorf("a viewer's pause: %d", status)
	}
	// What the API has not read of a call it refused is not on the page's connection, which goes on.
	for range 20 {
		form := url.Values{"token": {token}, "delta": {"5"}, "id": {"r"}}
		if status, page = viewer.post("/admin/sales/phone/restock", form); status != http.StatusForbidden {
			t.Errorf("a viewer's restock: %d\n%s", status, page)
		}
		if status, page = viewer.get("/admin/sales/phone"); status != http.StatusOK {
			t.Fatalf("the next page on that connection: %d\n%s", status, page)
		}
	}
	owner := r.signedIn(ownerKey)
	for name, form := range map[string]url.Values{"none": nil, "another session's": {"token": {token}}} {
		if status, _ := owner.post("/admin/sales/phone/pause", form); status != http.StatusForbidden || paused() {
			t.Errorf("an owner's form with the token of %s: %d", name, status)
		}
	}
	cross := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/admin/sign-in",
		strings.NewReader("key="+ownerKey)))(t)
	cross.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	if status, _ := stranger.do(cross); status != http.StatusForbidden {
		t.Errorf("another site's form signs in: %d", status)
	}

	// A session that ends while its form comes changes nothing.
	hasty := r.signedIn(ownerKey)
	_, page = hasty.get("/admin")
	form := url.Values{"token": {hidden.FindStringSubmatch(page)[2]}}
	body, rest := io.Pipe()
	slow := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/admin/sales/phone/pause", body))(t)
	slow.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	slow.Header.Set("Expect", "100-continue") // so that nothing is sent before the server reads the form
	came := make(chan int, 1)
	go func() { status, _ := hasty.do(slow); came <- status }()
	must.Get(io.WriteString(rest, form.Encode()))(t)
	hasty.post("/admin/sign-out", form)
	must.Succeed(t, rest.Close())
	if status := <-came; status != http.StatusForbidden || paused() {
		t.Errorf("a pause of a session that has ended meanwhile: %d", status)
	}

	// Signing out ends the session, also for whoever has copied the cookie.
	at := must.Get(url.Parse(r.url + "/admin"))(t)
	cookies := owner.client.Jar.Cookies(at)
	_, page = owner.get("/admin")
	status, _ = owner.post("/admin/sign-out", url.Values{"token": {hidden.FindStringSubmatch(page)[2]}})
	if status != http.StatusUnauthorized {
		t.Errorf("after signing out: %d", status)
	}
	stranger.client.Jar.SetCookies(at, cookies)
	if status, _ := stranger.get("/admin"); status != http.StatusUnauthorized {
		t.Errorf("with the cookie of a session that was ended: %d", status)
	}
}
