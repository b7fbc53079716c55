package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// actions reads what is recorded, the newest first.
func (s *shop) actions(query string) []map[string]any {
	s.t.Helper()
	page := s.must(s.do("GET", "/v1/admin/actions"+query, "", "Authorization: Bearer "+viewerKey), 200)
	var list []map[string]any
	for _, a := range page.fields["actions"].([]any) {
		list = append(list, a.(map[string]any))
	}
	return list
}

func TestAdminActionsAreRecorded(t *testing.T) {
	s := openWith(t, nil)
	as := func(key, method, path, body string, headers ...string) answer {
		t.Helper()
		return s.do(method, path, body, append(headers, "Authorization: Bearer "+key)...)
	}
	s.must(as(ownerKey, "POST", "/v1/admin/sales", saleJSON("phone")), 201)
	placed := s.must(s.claim("phone", "alice", "attempt-1"), 202)
	order := placed.text("order_id")
	for deadline := time.Now().Add(20 * time.Second); s.do("GET", "/v1/orders/"+order, "",
		s.auth("alice")).text("status") == "queued"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the order is not stored")
		}
	}
	paused := s.must(as(operatorKey, "POST", "/v1/admin/sales/phone/pause", "", "X-Request-Id: req-7"), 200)
	if paused.header.Get("X-Request-Id") != "req-7" || paused.text("state") != "paused" {
		t.Errorf("the answer to a recorded change: %v %s", paused.header, paused.body)
	}
	s.must(as(operatorKey, "POST", "/v1/admin/orders/"+order+"/pay", `{"payment_id":"p-1"}`), 200)
	s.must(as(operatorKey, "POST", "/v1/admin/orders/"+order+"/reject", `{"reason":"x"}`), 409, "order_ended")
	s.must(as(operatorKey, "POST", "/v1/admin/sales/phone/restock", `{"id":"a","delta":0}`, "X-Request-Id: two words"),
		400, "bad_request")
	s.must(as(viewerKey, "POST", "/v1/admin/sales/phone/resume", ""), 403, "forbidden")
	s.must(s.do("GET", "/v1/admin/sales", "", s.auth("alice")), 403, "forbidden")
	s.must(as(viewerKey, "GET", "/v1/admin/sales", ""), 200)
	s.must(as("wrong-0123456789abcdef", "POST", "/v1/admin/sales/phone/resume", ""), 401, "unauthenticated")
	s.must(s.admin("POST", "/v1/admin/sales/phone/resume", ""), 200)

	var got []string
	list := s.actions("")
	for _, a := range list {
		got = append(got, fmt.Sprint(a["by"], " ", a["route"], " ", a["sale_id"], " ", a["order_id"] == order, " ",
			a["status"], " ", a["code"]))
		if a["address"] != "127.0.0.1" || a["node"] != s.engine.Node() || a["request_id"] == "" ||
			a["request_id"] == "two words" || !strings.HasPrefix(fmt.Sprint(a["at"]), "20") {
			t.Errorf("action %v", a)
		}
	}
	want := []string{
		"admin POST /v1/admin/sales/{sale}/resume phone false 200 <nil>",
		"buyer:alice GET /v1/admin/sales <nil> false 403 forbidden",
		"vera POST /v1/admin/sales/{sale}/resume phone false 403 forbidden",
		"otto POST /v1/admin/sales/{sale}/restock phone false 400 bad_request",
		"otto POST /v1/admin/orders/{order}/reject phone true 409 order_ended",
		"otto POST /v1/admin/orders/{order}/pay phone true 200 <nil>",
		"otto POST /v1/admin/sales/{sale}/pause phone false 200 <nil>",
		"olga POST /v1/admin/sales phone false 201 <nil>",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("recorded:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(list) == 8 && list[6]["request_id"] != "req-7" {
		t.Errorf("the request's id is %v, want req-7", list[6]["request_id"])
	}
	history := s.must(as(viewerKey, "GET", "/v1/admin/orders/"+order+"/history", ""), 200)
	if !strings.Contains(history.body, `"by":"otto"`) {
		t.Errorf("the order's history does not name who changed it: %s", history.body)
	}

	page := s.must(as(viewerKey, "GET", "/v1/admin/actions?limit=3", ""), 200)
	if next := s.actions("?limit=100&cursor=" + page.text("next_cursor")); len(next) != 5 || next[0]["by"] != "otto" {
		t.Errorf("the second page: %v", next)
	}
	for _, bad := range []string{
		"?limit=0", "?limit=1001", "?limit=x", "?cursor=x", "?by=olga", "?limit=1&limit=2",
		"?%zz",
	} {
		s.must(as(viewerKey, "GET", "/v1/admin/actions"+bad, ""), 400, "bad_request")
	}
}

// forgetful is a store that remembers what it was asked to record, and says err.
type forgetful struct {
	port.Store
	mu    sync.Mutex
	tried []port.AdminAction
	err   error
}

func (f *forgetful) RecordAdminAction(_ context.Context, a port.AdminAction) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = append(f.tried, a)
	return f.err
}

// counted counts by code.
type counted struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counted) Count(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[code]++
}

// A change whose record cannot be stored has happened all the same: it is
// answered, counted, and in the log.
func TestRecordsThatCannotBeStored(t *testing.T) {
	var log strings.Builder
	store, counts := &forgetful{err: errors.New("the disk is full")}, &counted{}
	handler := bare(t, httpapi.Options{Store: store, AdminDecided: counts, Log: textLog(&log)})
	answer := httptest.NewRecorder()
	request := httptest.NewRequest("POST", "/v1/admin/sales/phone/restock", strings.NewReader(`{"id":"a","delta":0}`))
	request.Header.Set("Authorization", "Bearer "+operatorKey)
	handler.ServeHTTP(answer, request)
	if answer.Code != 400 || !strings.Contains(answer.Body.String(), api.CodeBadRequest) {
		t.Errorf("the answer: %d %s", answer.Code, answer.Body)
	}
	if counts.n["unrecorded"] != 1 || counts.n["recorded"] != 0 {
		t.Errorf("counted %v", counts.n)
	}
	for _, want := range []string{
		"level=ERROR", "by=otto", `route="POST /v1/admin/sales/{sale}/restock"`, "sale=phone",
		"status=400", "the disk is full", "request=",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
}

// A request whose client has gone is recorded; so is one that panicked.
func TestWhatIsRecordedInAnyCase(t *testing.T) {
	store := &forgetful{}
	handler := bare(t, httpapi.Options{Store: store}) // nothing behind it: a handler that needs more panics
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request := httptest.NewRequestWithContext(ctx, "POST", "/v1/admin/sales/phone/recover", nil)
	request.Header.Set("Authorization", "Bearer "+ownerKey)
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	if answer.Code != 503 || !strings.Contains(answer.Body.String(), api.CodeOutcomeUnknown) {
		t.Errorf("the answer: %d %s", answer.Code, answer.Body)
	}
	if len(store.tried) != 1 || store.tried[0].Status != 503 || store.tried[0].Code != api.CodeOutcomeUnknown ||
		store.tried[0].By != "olga" || store.tried[0].Sale != "phone" {
		t.Errorf("recorded: %+v", store.tried)
	}
}

// A flood of requests that are forbidden does not flood the store.
func TestRefusalsAreRecordedWithinBounds(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	store, counts := &forgetful{}, &counted{}
	handler := bare(t, httpapi.Options{Store: store, AdminDecided: counts, Now: func() time.Time { return now }})
	flood := func() {
		for range 200 {
			request := httptest.NewRequest("POST", "/v1/admin/sales/phone/pause", nil)
			request.Header.Set("Authorization", "Bearer "+viewerKey)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != http.StatusForbidden {
				t.Fatalf("answer %d", answer.Code)
			}
		}
	}
	flood()
	if n := len(store.tried); n != 30 || counts.n["forbidden"] != 200 {
		t.Errorf("%d of %d were recorded, want 30 of 200", n, counts.n["forbidden"])
	}
	now = now.Add(25 * time.Second)
	flood()
	if n := len(store.tried); n != 32 {
		t.Errorf("25 s later %d more were recorded, want 2", n-30)
	}
	now = now.Add(time.Hour)
	flood()
	if n := len(store.tried); n != 62 {
		t.Errorf("an hour later %d more were recorded, want 30", n-32)
	}
}

// bare is the API with what a test gives it, and nothing behind.
func bare(t *testing.T, o httpapi.Options) http.Handler {
	t.Helper()
	admins := must.Get(auth.NewAdmins("", testAdmins))(t)
	o.Admins = admins
	o.Buyers = auth.NewVerifier(auth.Options{Secret: []byte("the shop's secret, long enough"), Now: o.Now})
	return httpapi.New(o)
}

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
