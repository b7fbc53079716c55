package httpapi_test

import (
	"strings"
	"testing"
)

// What a merchant changes is on the pages when the change is answered; a unit
// that is taken changes none of them.
func TestPagesFollowTheMerchant(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", `title="First title"`), 201)
	tags := map[string]string{}
	for _, path := range []string{"/", "/s/phone"} {
		page := s.must(s.do("GET", path, ""), 200)
		if tags[path] = page.header.Get("ETag"); tags[path] == "" || !strings.Contains(page.body, "First title") {
			t.Fatalf("%s: %v %s", path, page.header, page.body)
		}
	}
	s.must(s.claim("phone", "alice", "attempt-1"), 202)
	for path, tag := range tags {
		if same := s.do("GET", path, "", "If-None-Match: "+tag); same.status != 304 {
			t.Errorf("%s: %d with its ETag, want 304", path, same.status)
		}
	}
	s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"title":"Second title"}`), 200)
	for path, tag := range tags {
		page := s.do("GET", path, "", "If-None-Match: "+tag)
		if page.status != 200 || !strings.Contains(page.body, "Second title") || strings.Contains(page.body, "First title") {
			t.Errorf("%s after the change: %d %s", path, page.status, page.body)
		}
	}
	s.must(s.admin("POST", "/v1/admin/sales/phone/close", ""), 200)
	if list := s.must(s.do("GET", "/", ""), 200); strings.Contains(list.body, "/s/phone") {
		t.Error("the closed sale is still listed")
	}
	s.must(s.do("GET", "/s/phone", ""), 200)
	s.must(s.do("GET", "/s/none", "", "If-None-Match: *"), 404)
}
