package httpapi_test

import (
	"strings"
	"testing"
	"time"
)

// The list is made from what is encoded already, and has an ETag of its own.
func TestSaleList(t *testing.T) {
	s := open(t)
	if empty := s.must(s.do("GET", "/v1/sales", ""), 200); empty.body != "{\"sales\":[]}\n" {
		t.Errorf("no sales: %q", empty.body)
	}
	s.must(s.create("later", `opens_at="2027-01-02T00:00:00Z"`), 201)
	s.must(s.create("phone"), 201)
	list := s.must(s.do("GET", "/v1/sales", ""), 200)
	etag := list.header.Get("ETag")
	one := s.must(s.do("GET", "/v1/sales/phone", ""), 200)
	if want := `{"sales":[` + strings.TrimSpace(one.body) + `,{"id":"later"`; !strings.HasPrefix(list.body, want) {
		t.Errorf("the list: %s\nwant %s...", list.body, want)
	}
	if list.header.Get("Cache-Control") != one.header.Get("Cache-Control") || !strings.HasPrefix(etag, `"`) {
		t.Errorf("header of the list: %v", list.header)
	}
	if same := s.do("GET", "/v1/sales", "", "If-None-Match: "+etag); same.status != 304 {
		t.Errorf("the list with its own ETag: %d", same.status)
	}
	if head := s.do("HEAD", "/v1/sales", ""); head.status != 200 || head.body != "" || head.header.Get("ETag") != etag {
		t.Errorf("HEAD of the list: %d %v", head.status, head.header)
	}
	s.must(s.claim("phone", "alice", "attempt-1"), 202)
	for deadline := time.Now().Add(10 * time.Second); ; {
		changed := s.do("GET", "/v1/sales", "", "If-None-Match: "+etag)
		if changed.status == 200 && strings.Contains(changed.body, `"available":9`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a unit is taken, and the list says %d %s", changed.status, changed.body)
		}
	}
	for _, id := range []string{"a", "b", "c", "d", "e"} { // enough to be compressed
		s.must(s.create("more-"+id), 201)
	}
	if packed := s.do("GET", "/v1/sales", "", "Accept-Encoding: gzip"); packed.header.Get("Content-Encoding") != "gzip" ||
		packed.header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("a longer list: %v", packed.header)
	}
	s.must(s.admin("POST", "/v1/admin/sales/phone/close", ""), 200)
	if closed := s.must(s.do("GET", "/v1/sales", ""), 200); strings.Contains(closed.body, `"phone"`) {
		t.Errorf("a closed sale is listed: %s", closed.body)
	}
}
