package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// Every list of the merchant's comes page by page: each thing once, however the pages
// are cut, and a cursor that no page gave is an error.
func TestListsPageByPage(t *testing.T) {
	s := open(t)
	want := map[string][]string{}
	for _, id := range []string{"e", "a", "c", "b", "d"} {
		s.must(s.create("sale-"+id, `opens_at="2027-01-02T00:00:00Z"`), 201)
		want["sales"] = append(want["sales"], "sale-"+id)
		hook := s.must(s.admin("POST", "/v1/admin/webhooks", `{"url":"http://127.0.0.1:9/"}`), 201).text("id")
		want["webhooks"] = append(want["webhooks"], hook)
	}
	slices.Sort(want["sales"])
	for name, ids := range want {
		for _, limit := range []string{"1", "2", "5", "6", ""} {
			var got []string
			for cursor := ""; ; {
				var page struct {
					Sales, Webhooks []struct{ ID string }
					Next            string `json:"next_cursor"`
				}
				path := "/v1/admin/" + name + "?" + url.Values{"cursor": {cursor}, "limit": {limit}}.Encode()
				answer := s.must(s.admin("GET", path, ""), 200)
				must.Succeed(t, json.Unmarshal([]byte(answer.body), &page))
				for _, each := range append(page.Sales, page.Webhooks...) {
					got = append(got, each.ID)
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if !slices.Equal(got, ids) {
				t.Errorf("%s, %q in a page: %v, want %v", name, limit, got, ids)
			}
		}
	}
	for _, path := range []string{
		"sales?cursor=A%20b", "webhooks?cursor=wh_none", "dead-letters?cursor=x", "sales?limit=0",
	} {
		s.must(s.admin("GET", "/v1/admin/"+path, ""), 400, "bad_request")
	}
}

// A test of a webhook posts one signed message, and says what came of it; a disabled
// webhook stays disabled.
func TestWebhookTest(t *testing.T) {
	s := open(t)
	status := make(chan int, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event api.Event
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil || event.Type != api.WebhookTestType ||
			event.ID != r.Header.Get("webhook-id") || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			t.Errorf("%+v, %v, %v", event, err, r.Header)
		}
		w.WriteHeader(<-status)
	}))
	defer receiver.Close()
	id := s.must(s.admin("POST", "/v1/admin/webhooks", `{"url":"`+receiver.URL+`","types":["order.paid"]}`), 201).text("id")
	path := "/v1/admin/webhooks/" + id
	s.must(s.admin("POST", path+"/disable", ""), 200)
	try := func() (tested api.WebhookTested) {
		must.Succeed(t, json.Unmarshal([]byte(s.must(s.admin("POST", path+"/test", ""), 200).body), &tested))
		return tested
	}
	status <- 204
	if got := try(); !got.Delivered || got.Status != 204 || got.Error != "" {
		t.Errorf("%+v", got)
	}
	status <- 500
	if got := try(); got.Delivered || got.Status != 500 || got.Error != "HTTP 500 Internal Server Error" {
		t.Errorf("%+v", got)
	}
	receiver.Close()
	if got := try(); got.Delivered || got.Status != 0 || !strings.Contains(got.Error, "refused") {
		t.Errorf("%+v", got)
	}
	after := s.must(s.admin("GET", path, ""), 200)
	if after.text("status") != api.WebhookDisabled || strings.Contains(after.body, "last_error") {
		t.Errorf("after the tests: %s", after.body)
	}
	if feed := s.must(s.admin("GET", "/v1/admin/events", ""), 200); strings.Contains(feed.body, "webhook.test") {
		t.Errorf("the feed has a test: %s", feed.body)
	}
	s.must(s.admin("POST", "/v1/admin/webhooks/wh_none/test", ""), 404, "webhook_not_found")
}
