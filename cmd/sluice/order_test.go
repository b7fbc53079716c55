package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// merchantAPI answers a "METHOD path" with something, or with a problem.
type merchantAPI struct {
	t       *testing.T
	answers map[string]func(query string) any
	bodies  map[string]string
}

func (m *merchantAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + r.URL.Path
	answer := m.answers[call]
	if answer == nil || r.Header.Get("Authorization") != "Bearer adm" {
		m.t.Errorf("%s %s", call, r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusTeapot)
		return
	}
	body, _ := io.ReadAll(r.Body)
	m.bodies[call] = string(body)
	v := answer(r.URL.RawQuery)
	if p, bad := v.(api.Problem); bad {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
	}
	_ = json.NewEncoder(w).Encode(v)
}

func always(v any) func(string) any { return func(string) any { return v } }

// against returns the environment of commands that speak to the API.
func (m *merchantAPI) against(t *testing.T) []string {
	m.t, m.bodies = t, map[string]string{}
	srv := httptest.NewServer(m)
	t.Cleanup(srv.Close)
	return []string{"SLUICE_URL=" + srv.URL, "SLUICE_ADMIN_KEY=adm"}
}

func orderWith(edit func(*api.Order)) api.Order {
	o := sampleOrder
	edit(&o)
	return o
}

func TestOrderChanges(t *testing.T) {
	id := string(sampleOrder.OrderID)
	path := "POST /v1/admin/orders/" + id
	status := func(s sluice.Status) func(string) any {
		return always(orderWith(func(o *api.Order) { o.Status = s }))
	}
	shop := &merchantAPI{answers: map[string]func(string) any{
		path + "/pay": status(sluice.Paid), path + "/cancel": status(sluice.Cancelled),
		path + "/extend":             status(sluice.Pending),
		"GET /v1/admin/orders/" + id: always(orderWith(func(o *api.Order) { o.Currency = "EUR" })),
		path + "/refund":             status(sluice.Refunded), path + "/reject": status(sluice.Rejected),
	}}
	env := shop.against(t)
	for _, tc := range []struct {
		args []string
		want sluice.Status
		body string
	}{
		{[]string{"pay", id, "--payment-id", "p-1"}, sluice.Paid, `{"payment_id":"p-1"}`},
		{
			[]string{"pay", id, "--payment-id", "p-1", "--amount", "3800", "--currency", "CNY"},
			sluice.Paid,
			`{"payment_id":"p-1","amount":3800,"currency":"CNY"}`,
		},
		{ // in the currency of the order
			[]string{"pay", id, "--payment-id", "p-1", "--amount", "3800"},
			sluice.Paid,
			`{"payment_id":"p-1","amount":3800,"currency":"EUR"}`,
		},
		{
			[]string{"extend", id, "--until", "2026-11-11T12:30:00Z"},
			sluice.Pending,
			`{"expires_at":"2026-11-11T12:30:00.000Z"}`,
		},
		{[]string{"cancel", id}, sluice.Cancelled, ""},
		{[]string{"refund", id}, sluice.Refunded, ""},
		{[]string{"reject", id, "--reason", "no such colour"}, sluice.Rejected, `{"reason":"no such colour"}`},
	} {
		got := okJSON[api.Order](t, env, append([]string{"order"}, tc.args...)...)
		if body := shop.bodies[path+"/"+tc.args[0]]; got.Status != tc.want || body != tc.body {
			t.Errorf("%v: %s, sent %q", tc.args, got.Status, body)
		}
	}

	shop.answers[path+"/pay"] = status(sluice.RefundDue)
	shop.answers["GET /v1/admin/orders/"+id+"/history"] = always(
		api.OrderHistory{Changes: []api.OrderChange{{From: sluice.Pending, To: sluice.RefundDue}}})
	late := command(t, env, "order", "pay", id, "--payment-id", "p-1")
	if late.code != exitOK || !strings.HasPrefix(late.stderr, "The payment came too late: ") ||
		!strings.Contains(late.stderr, "sluice order refund "+id) || !strings.Contains(late.out, "refund_due") {
		t.Errorf("%+v", late)
	}
	for _, code := range []string{
		api.CodePaymentConflict, api.CodePaymentAmount, api.CodeOrderEnded, api.CodeOrderQueued,
	} {
		shop.answers[path+"/pay"] = always(api.Problem{Status: 409, Code: code, Title: "T"})
		if got := command(t, env, "order", "pay", id, "--payment-id", "p-2"); got.code != exitFailed ||
			got.stderr != "sluice: T ("+code+")\n" || got.out != "" {
			t.Errorf("%+v", got)
		}
		if got := command(t, env, "order", "pay", id, "--payment-id", "p-2", "--json"); got.code != exitFailed ||
			got.stderr != `{"error":"T (`+code+`)","code":"`+code+`","exit_code":2}`+"\n" || got.out != "" {
			t.Errorf("%+v", got)
		}
	}
}

// Orders that a spreadsheet and a line reader would trip over.
var awkward = []api.Order{
	orderWith(func(o *api.Order) {
		o.BuyerID, o.PaymentID, o.Status = `"Ann", B`, "p,1", sluice.Paid
		o.KeepUntil, o.UpdatedAt, o.Epoch, o.Seq = &noon, &noon, 1, 7
	}),
	orderWith(func(o *api.Order) {
		o.BuyerID, o.Reason, o.Meta, o.StoredAt, o.ExpiresAt = " 张三", "=1+1; <b>", []byte("null"), nil, nil
	}),
}

// pages hands out the awkward orders n times, one a page.
func pages(n int) func(string) any {
	return func(query string) any {
		at := 0
		if _, cursor, ok := strings.Cut(query, "cursor="); ok {
			cursor, _, _ = strings.Cut(cursor, "&")
			at, _ = strconv.Atoi(cursor)
		}
		page := api.OrderPage{Orders: awkward[at%len(awkward) : at%len(awkward)+1]}
		if at+1 < n {
			page.NextCursor = strconv.Itoa(at + 1)
		}
		return page
	}
}

func TestExport(t *testing.T) {
	shop := &merchantAPI{answers: map[string]func(string) any{"GET /v1/admin/orders": pages(2)}}
	env := shop.against(t)
	asCSV := ok(t, env, "order", "export", "--format", "csv")
	golden(t, "export.csv", asCSV)
	text, marked := strings.CutPrefix(asCSV, "\ufeff") // without it Excel reads Chinese in its own encoding
	if bare := ok(t, env, "order", "export", "--format", "csv", "--no-bom"); !marked || bare != text {
		t.Errorf("a BOM %v; without it %q", marked, bare)
	}
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][2] != `"Ann", B` || rows[2][2] != " 张三" ||
		rows[1][17] != `{"colour":"red"}` {
		t.Errorf("%v %q", err, rows)
	}
	if strings.Count(asCSV, "\r\n") != 3 || strings.Count(asCSV, "\n") != 3 {
		t.Errorf("want lines that end with CRLF: %q", asCSV)
	}

	var back []api.Order
	lines := bufio.NewScanner(strings.NewReader(ok(t, env, "order", "export")))
	for lines.Scan() {
		var o api.Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Errorf("%s: %v", lines.Text(), err)
		}
		back = append(back, o)
	}
	if d := cmp.Diff(awkward, back); d != "" {
		t.Error(d)
	}

	shop.answers["GET /v1/admin/orders"] = always(api.OrderPage{})
	if got := ok(t, env, "order", "export", "--format", "csv"); got != strings.SplitAfter(asCSV, "\n")[0] {
		t.Errorf("without orders: %q", got)
	}
	if got := ok(t, env, "order", "export", "--json"); got != "" {
		t.Errorf("without orders: %q", got)
	}
}

// An export that breaks off must not pass for a whole one.
func TestExportSaysThatItIsNotComplete(t *testing.T) {
	second := func(query string) any {
		if strings.Contains(query, "cursor=") {
			return api.Problem{Status: 503, Code: "unavailable", Title: "The sale is not available now"}
		}
		return pages(2)(query)
	}
	shop := &merchantAPI{answers: map[string]func(string) any{"GET /v1/admin/orders": second}}
	env := shop.against(t)
	got := command(t, env, "order", "export", "--sale", "phone", "--status", "paid")
	if got.code != exitFailed ||
		!strings.Contains(got.stderr, "the export is not complete: The sale is not available now (un") ||
		strings.Count(got.out, "\n") != 1 {
		t.Errorf("%+v", got)
	}
	var stderr safeBuffer
	if code := run(t.Context(), []string{"order", "export", "--format", "csv", "--status", "paid"}, nil, full{}, &stderr,
		env); code != exitFailed {
		t.Errorf("a full disk: exit %d %s", code, stderr.String())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestListAllAndFilters(t *testing.T) {
	var asked []string
	shop := &merchantAPI{answers: map[string]func(string) any{
		"GET /v1/admin/orders": func(query string) any { asked = append(asked, query); return pages(3)(query) },
		"GET /v1/admin/dead-letters": func(query string) any {
			asked = append(asked, query)
			return api.DeadLetterList{DeadLetters: []api.DeadLetter{{ID: 7, SaleID: "phone"}}}
		},
	}}
	env := shop.against(t)
	page := okJSON[api.OrderPage](t, env, "order", "list", "--sale", "phone", "--status", "paid", "--buyer", "b",
		"--limit", "1")
	if len(page.Orders) != 1 || page.NextCursor != "1" {
		t.Errorf("%+v", page)
	}
	page = okJSON[api.OrderPage](t, env, "order", "list", "--limit", "1", "--cursor", "1", "--all")
	if len(page.Orders) != 2 || page.NextCursor != "" {
		t.Errorf("%+v", page)
	}
	if list := okJSON[api.DeadLetterList](t, env, "dead-letter", "list", "--sale", "phone"); len(list.DeadLetters) != 1 ||
		list.DeadLetters[0].ID != 7 {
		t.Errorf("%+v", list)
	}
	want := []string{"buyer=b&limit=1&sale=phone&status=paid", "cursor=1&limit=1", "cursor=2&limit=1", "sale=phone"}
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
}

func TestOrderHistoryCommand(t *testing.T) {
	id := string(sampleOrder.OrderID)
	shop := &merchantAPI{answers: map[string]func(string) any{
		"GET /v1/admin/orders/" + id + "/history": always(api.OrderHistory{
			OrderID: sampleOrder.OrderID, Changes: []api.OrderChange{{At: noon, From: "queued", To: "pending", By: "n1"}},
		}),
	}}
	h := okJSON[api.OrderHistory](t, shop.against(t), "order", "history", id)
	if len(h.Changes) != 1 || h.Changes[0].To != sluice.Pending {
		t.Errorf("%+v", h)
	}
}
