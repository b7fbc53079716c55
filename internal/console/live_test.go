package console_test

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/must"
)

// live opens the stream of a sale.
func (b *browser) live(sale string) (next func() map[string]any, status int) {
	b.t.Helper()
	address := b.url + "/admin/sales/" + sale + "/live"
	request := must.Get(http.NewRequestWithContext(b.t.Context(), http.MethodGet, address, nil))(b.t)
	answer := must.Get(b.client.Do(request))(b.t)
	b.t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func() map[string]any {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				message := map[string]any{}
				must.Succeed(b.t, json.Unmarshal([]byte(data), &message))
				return message
			}
		}
		if err := lines.Err(); err != nil {
			b.t.Error(err)
		}
		return nil
	}, answer.StatusCode
}

// until asks for a page until it says something, for the time in which servers see what is wrong.
func (b *browser) until(path, says string) (page string) {
	b.t.Helper()
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		_, page = b.get(path)
		if strings.Contains(page, says) {
			return page
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s does not say %q:\n%s", path, says, page)
		}
	}
}

// A rush is on the page while it lasts, and in the report afterwards. A stream ends with its session.
func TestARushIsSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sale("phone", "Phone")
	b := r.signedIn(viewerKey)
	next, status := b.live("phone")
	if first := next(); status != http.StatusOK || first["taken"] != 0.0 || first["left"] != 10.0 {
		t.Fatalf("%d, %v", status, first)
	}
	if _, status := r.browser().live("phone"); status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", status)
	}
	for i := range 12 { // over three seconds: two of them are sold out
		who := client.Token{Buyer: sluice.BuyerID(fmt.Sprint("buyer-", i)), TTL: time.Hour}
		token := must.Get(client.BuyerToken(secret, who))(t)
		buyer := must.Get(client.New(r.url, client.Options{Token: token}))(t)
		_, _ = buyer.Place(t.Context(), "phone", sluice.NewKey(), api.PlaceOrder{Quantity: 1})
		time.Sleep(250 * time.Millisecond)
	}
	accepted := func(message map[string]any) (n float64) {
		for _, one := range message["curve"].(map[string]any)["answers"].(map[string]any)["accepted"].([]any) {
			n += one.(float64)
		}
		return n
	}
	for end := time.Now().Add(15 * time.Second); ; {
		message := next()
		if message == nil || time.Now().After(end) {
			t.Fatalf("the stream does not tell of 10 orders: %v", message)
		}
		if message["taken"] == 10.0 && accepted(message) == 10 && message["sold"] == 100.0 {
			break
		}
	}
	for _, says := range []string{
		"accepted", "sold out", `id="curve"`, "Every invariant holds", "POST /v1/admin/sales",
	} {
		b.until("/admin/sales/phone/report", says)
	}
	_, table := b.get("/admin/sales/phone/curve.csv")
	rows := must.Get(csv.NewReader(strings.NewReader(table)).ReadAll())(t)
	if len(rows) < 3 || rows[0][2] != "accepted" || len(rows[1]) != len(rows[0]) {
		t.Errorf("the table: %v", rows)
	}
	_, page := b.get("/admin")
	b.post("/admin/sign-out", url.Values{"token": {hidden.FindStringSubmatch(page)[2]}})
	for range 4 {
		if next() == nil {
			return
		}
	}
	t.Error("the stream goes on after its session")
}

// What is wrong is said on top, with the button for those who may press it.
func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.sale("phone", "Phone")
	must.Get(r.api.PauseSale(t.Context(), "phone"))(t)
	operator, viewer := r.signedIn(operatorKey), r.signedIn(viewerKey)
	const said, button = "An admin has paused this sale.", `href="/admin/sales/phone/resume">Resume</a></div></section>`
	if page := operator.until("/admin/sales/phone", said); !strings.Contains(page, button) {
		t.Errorf("an operator sees no button:\n%s", page)
	}
	if page := viewer.until("/admin/sales/phone", said); strings.Contains(page, button) {
		t.Error("a viewer sees the button")
	}
	if page := viewer.until("/admin/status?lang=zh", "这个活动已被暂停"); strings.Contains(page, said) {
		t.Error("the Chinese page speaks English")
	}
	if _, page := viewer.get("/admin/orders?lang=en"); strings.Contains(page, said) {
		t.Error("a note stands on every page")
	}
	must.Get(r.api.ResumeSale(t.Context(), "phone"))(t)
	viewer.until("/admin/status", "All is well")
}
