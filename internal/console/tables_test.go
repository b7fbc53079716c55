package console_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/console"
	"github.com/sluicehq/sluice/internal/must"
)

// A list is typed or uploaded, and emptied, by those who may; a wrong one leaves it as it was.
func TestLists(t *testing.T) {
	r := newRig(t)
	r.sale("phone", "Phone")
	const page, replace = "/admin/lists/phone.deny", "/admin/lists/phone.deny/replace"
	listed := func() []sluice.BuyerID {
		return must.Get(r.api.Buyers(t.Context(), "phone", sluice.DenyList, sluice.MaxPage, ""))(t).Buyers
	}
	wants := func(what string, status, wanted int, body, says string, buyers ...sluice.BuyerID) {
		t.Helper()
		if got := listed(); status != wanted || !strings.Contains(body, says) || !slices.Equal(got, buyers) {
			t.Errorf("%s: %d, want %d and %q; on the list are %d %.60q, want %q\n%.3000s", what, status, wanted, says,
				len(got), got, buyers, body)
		}
	}
	b := r.signedIn(operatorKey)
	_, stale := b.get(replace)
	status, body := b.press(replace, "buyers", "mallory\r\n\r\nadam <i>\r\n")
	wants("two buyers", status, http.StatusOK, body, "The list is replaced.", "adam <i>", "mallory")
	if !strings.Contains(body, "adam &lt;i&gt;") || !strings.Contains(body, "buyer=adam%20%3ci%3e") {
		t.Errorf("the page of the list:\n%s", body)
	}
	if _, form := b.get(replace); !strings.Contains(form, ">\nadam &lt;i&gt;\nmallory\n</textarea>") {
		t.Errorf("the form does not have the list:\n%s", form)
	}
	form := map[string][]string{"buyers": {"eve"}, "was": {""}, "token": {hidden.FindStringSubmatch(stale)[2]}}
	status, body = b.post(replace, form)
	wants("a form from before", status, http.StatusUnprocessableEntity, body, "another upload", "adam <i>", "mallory")
	status, body = b.press(replace, "buyers", "eve\n\"carol\"\n")
	wants("quotes", status, http.StatusBadRequest, body, "line 2", "adam <i>", "mallory")
	if !strings.Contains(body, "\neve\n&#34;carol&#34;\n</textarea>") {
		t.Errorf("the refused form does not keep what was typed:\n%s", body)
	}
	status, body = b.press(replace, "buyers", " \r\n")
	wants("nobody", status, http.StatusUnprocessableEntity, body, "there is no buyer", "adam <i>", "mallory")
	for _, file := range []string{"", "\ufeff\r\n \r\n"} {
		status, body = b.upload(replace, replace, "file", []byte(file), "buyers", "eve")
		wants("a file of nobody", status, http.StatusUnprocessableEntity, body, "there is no buyer", "adam <i>", "mallory")
		if strings.Contains(body, "eve") { // which would be the list if the form was sent again without the file
			t.Errorf("the form goes on with what the file was taken in place of:\n%s", body)
		}
	}
	status, body = b.upload(replace, replace, "file", make([]byte, 17<<20))
	wants("a huge file", status, http.StatusRequestEntityTooLarge, body, "15 MB", "adam <i>", "mallory")
	status, body = b.press(replace, "buyers", strings.Repeat("eve\n", 1<<18))
	wants("a huge text", status, http.StatusRequestEntityTooLarge, body, "15 MB", "adam <i>", "mallory")
	status, body = b.upload(replace, replace, "file", []byte("eve"), "buyers", strings.Repeat("x", 1<<20+1))
	wants("a huge text with a file", status, http.StatusRequestEntityTooLarge, body, "15 MB", "adam <i>", "mallory")

	viewer := r.signedIn(viewerKey)
	if status, body := viewer.get(page); status != http.StatusOK || !strings.Contains(body, "mallory") ||
		strings.Contains(body, "/replace") || strings.Contains(body, "/clear") {
		t.Errorf("a viewer's page: %d\n%s", status, body)
	}
	_, body = viewer.get("/admin/sales/phone")
	_, now := b.get(replace)
	was := regexp.MustCompile(`name="was" value="(.+)"`).FindStringSubmatch(now)[1]
	form = map[string][]string{"token": {hidden.FindStringSubmatch(body)[2]}, "was": {was}}
	status, body = viewer.post("/admin/lists/phone.deny/clear", form)
	wants("a viewer empties it", status, http.StatusForbidden, body, "operator", "adam <i>", "mallory")
	status, body = viewer.upload("/admin/sales/phone", replace, "file", []byte("eve"))
	wants("a viewer's file", status, http.StatusForbidden, body, "The role of your key", "adam <i>", "mallory")
	status, body = b.upload("/admin/assets/none", replace, "file", []byte("eve"), "was", "")
	wants("a file without a token", status, http.StatusForbidden, body, "load it again", "adam <i>", "mallory")

	status, body = b.press("/admin/lists/phone.deny/clear")
	wants("empty it", status, http.StatusOK, body, "The list is empty.")
	var lines strings.Builder
	for i := range 2*sluice.MaxPage + 1 {
		fmt.Fprintf(&lines, "buyer-%04d-%0100d\n", i, i)
	}
	t.Setenv("TMPDIR", "/no/such/folder") // a server may have none to write to
	status, body = b.upload(replace, replace, "file", []byte(lines.String()+strings.Repeat("\n", 2<<20)))
	if page := listed(); status != http.StatusOK || len(page) != sluice.MaxPage || !strings.Contains(body, ">2,001<") {
		t.Errorf("a file: %d, a page of %d\n%s", status, len(page), body)
	}
	if _, form := b.get(replace); !strings.Contains(form, ">\n</textarea>") {
		t.Errorf("the form has a part of a long list, which would take its place:\n%.3000s", form)
	}
	for _, path := range []string{
		"/admin/lists/phone.none", "/admin/lists/none.deny", "/admin/lists/phone", "/admin/lists/.deny",
		"/admin/lists/%2e%2e",
	} {
		if status, body := b.get(path); status != http.StatusNotFound {
			t.Errorf("%s: %d\n%s", path, status, body)
		}
	}
	if _, body = b.get("/admin/lists/phone.allow"); !strings.Contains(body, "does not ask for it") {
		t.Errorf("the allow list of a sale for all:\n%s", body)
	}
	must.Get(r.api.PatchSale(t.Context(), "phone", api.PatchSale{
		PatchRules: api.PatchRules{Eligibility: api.Value(sluice.EligibleList)},
	}))(t)
	if _, body = b.get("/admin/lists/phone.allow?lang=zh"); !strings.Contains(body, "只有名单上的买家") {
		t.Errorf("the allow list of a sale that asks for it:\n%s", body)
	}
}

// All orders that a search finds are a table, of whatever size.
func TestOrdersAsATable(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sale("phone", "Phone")
	b := r.signedIn(viewerKey)
	for _, who := range []sluice.BuyerID{"alice", "=2"} {
		token := must.Get(client.BuyerToken(secret, client.Token{Buyer: who, TTL: time.Hour}))(t)
		buyer := must.Get(client.New(r.url, client.Options{Token: token}))(t)
		must.Get(buyer.Place(t.Context(), "phone", sluice.NewKey(), api.PlaceOrder{Quantity: 1}))(t)
		b.until("/admin/orders?sale=phone", string(who))
	}
	page := b.until("/admin/orders?sale=phone&status=pending", "=2")
	const link = `/admin/orders.csv?sale=phone&amp;status=pending`
	if !strings.Contains(page, link) {
		t.Errorf("no link to the table:\n%s", page)
	}
	_, table := b.get("/admin/orders.csv?sale=phone&status=pending")
	text, marked := strings.CutPrefix(table, "\ufeff")
	rows := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
	if !marked || len(rows) != 3 || rows[0][2] != "buyer_id" || rows[1][2] != "alice" || rows[2][2] != "'=2" {
		t.Errorf("the table, marked as UTF-8 %v: %q", marked, rows)
	}
	for _, query := range []string{"status=lost", "sale=none;status=pending", "sale=none%zz", "id=none"} {
		if status, page := b.get("/admin/orders.csv?" + query); status != http.StatusBadRequest ||
			!strings.Contains(page, `role="alert"`) {
			t.Errorf("orders of %s: %d\n%.3000s", query, status, page)
		}
	}
}

// stand is a console before an API that the test makes.
func stand(t *testing.T, orders http.HandlerFunc) *browser {
	t.Helper()
	api := http.NewServeMux()
	api.HandleFunc("GET /v1/admin/orders", orders)
	api.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	c := console.New(console.Options{API: api, Admins: must.Get(auth.NewAdmins(ownerKey, nil))(t), Secret: secret})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return (&rig{T: t, url: server.URL}).signedIn(ownerKey)
}

// A table that cannot be written to its end does not pass for a whole one.
func TestATableThatBreaksOff(t *testing.T) {
	t.Parallel()
	answers := func(w http.ResponseWriter, message any) { _ = json.NewEncoder(w).Encode(message) }
	for name, c := range map[string]struct {
		orders int // of the page before the error
		status int // 0: the connection breaks
	}{
		"before anything was sent": {10, http.StatusServiceUnavailable},
		"after something was sent": {1000, 0},
	} {
		b := stand(t, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("cursor") != "" {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				answers(w, api.Problem{Status: 503, Code: "unavailable", Title: "The database does not answer"})
				return
			}
			orders := slices.Repeat([]api.Order{{Reason: strings.Repeat("x", 200)}}, c.orders)
			answers(w, api.OrderPage{Orders: orders, NextCursor: "next"})
		})
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, b.url+"/admin/orders.csv", nil))(t)
		answer := must.Get(b.client.Do(request))(t)
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case c.status == 0 && err == nil:
			t.Errorf("%s: a table of %d bytes looks whole", name, len(body))
		case c.status != 0 && (answer.StatusCode != c.status || err != nil ||
			!strings.Contains(string(body), "The database does not answer")):
			t.Errorf("%s: %d, %v\n%s", name, answer.StatusCode, err, body)
		}
	}
}

// One admin writes one table at a time.
func TestOneTableAtATime(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan struct{}, 9), make(chan struct{})
	b := stand(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
		}
		_ = json.NewEncoder(w).Encode(api.OrderPage{})
	})
	b.client.Timeout = 20 * time.Second
	done := make(chan int, 1)
	go func() { status, _ := b.get("/admin/orders.csv"); done <- status }()
	select {
	case <-asked:
	case status := <-done:
		t.Fatalf("a table without asking for orders: %d", status)
	}
	if status, page := b.get("/admin/orders.csv"); status != http.StatusServiceUnavailable ||
		!strings.Contains(page, "no more at a time") {
		t.Errorf("another table at a time: %d\n%s", status, page)
	}
	close(goOn)
	if status := <-done; status != http.StatusOK {
		t.Errorf("the first table: %d", status)
	}
	if status, page := b.get("/admin/orders.csv"); status != http.StatusOK {
		t.Errorf("a table after the first: %d\n%s", status, page)
	}
}
