package httpapi_test

import (
	"strings"
	"testing"
)

// A sale that was created by mistake is gone, for buyers and for the merchant, and its
// id is free again; one that has opened stays.
func TestDeleteSale(t *testing.T) {
	s := open(t)
	s.must(s.create("phone", `opens_at="2100-01-01T00:00:00Z"`), 201)
	ended := s.listen("phone")
	deleted := s.must(s.admin("DELETE", "/v1/admin/sales/phone", ""), 200)
	if deleted.text("deleted") != "phone" {
		t.Errorf("answer: %s", deleted.body)
	}
	for _, path := range []string{"/v1/sales/phone", "/s/phone"} {
		s.must(s.do("GET", path, ""), 404)
	}
	ended("the sale is deleted")
	s.must(s.claim("phone", "alice", "attempt-1"), 404, "sale_not_found")
	s.must(s.admin("GET", "/v1/admin/sales/phone", ""), 404, "sale_not_found")
	s.must(s.admin("DELETE", "/v1/admin/sales/phone", ""), 404, "sale_not_found")
	for _, path := range []string{"/v1/sales", "/v1/admin/sales"} {
		header := "Authorization: Bearer " + s.engine.AdminKey()
		if list := s.must(s.do("GET", path, "", header), 200); strings.Contains(list.body, "phone") {
			t.Errorf("%s: %s", path, list.body)
		}
	}
	s.must(s.create("phone", "total=1"), 201)
	s.must(s.claim("phone", "alice", "attempt-1"), 202)
	s.must(s.admin("DELETE", "/v1/admin/sales/phone", ""), 409, "sale_state")
	s.must(s.claim("phone", "alice", "attempt-1"), 202)
}
