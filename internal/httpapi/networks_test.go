package httpapi_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/engine"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// A dozen accounts made by one person do not empty a sale from one place.
func TestLiveOrdersOfAnAddress(t *testing.T) {
	s := openWith(t, func(c *engine.Config) { c.TrustedProxies = loopback })
	sale := s.must(s.create("phone", `total=100`, `max_live_per_address=2`), 201)
	if got := sale.text("max_live_per_address"); got != "2" {
		t.Errorf("the sale says max_live_per_address %s", got)
	}
	buyers := 0
	next := func(address string) answer {
		buyers++
		var headers []string
		if address != "" {
			headers = []string{"X-Forwarded-For: " + address}
		}
		return s.from(fmt.Sprint("account-", buyers), 1, headers...)
	}
	var orders []string
	for n := range 12 {
		a := next("203.0.113.9")
		switch {
		case n < 2:
			orders = append(orders, s.must(a, 202).text("order_id"))
		case a.status != 409 || a.code() != "address_limit":
			t.Fatalf("account %d of one address: %d %s", n+1, a.status, a.body)
		}
	}
	s.must(next("203.0.113.10"), 202)
	for range 5 { // the shop's own backend, behind no proxy
		s.must(next(""), 202)
	}
	if a := s.must(s.from("account-1", 1, "X-Forwarded-For: 203.0.113.9"), 202); a.text("order_id") != orders[0] {
		t.Errorf("a repeat gets %s (I4)", a.body)
	}
	s.must(next("unknown"), 202) // of all that the proxy names no valid address for
	s.must(next("203.0.113.7, junk"), 202)
	if a := next("_hidden"); a.code() != "address_limit" {
		t.Errorf("a third one without a valid address: %d %s", a.status, a.body)
	}
	s.must(next("2001:db8:0:1::1"), 202)
	s.must(next("2001:db8:0:1:ffff::2"), 202)
	if a := next("2001:db8:0:1::3"); a.code() != "address_limit" {
		t.Errorf("a third address of one /64: %d %s", a.status, a.body)
	}
	s.must(next("2001:db8:0:2::1"), 202)

	s.until("a cancelled order makes room", func() bool {
		s.do("POST", "/v1/orders/"+orders[0]+"/cancel", "", s.auth("account-1"))
		return next("203.0.113.9").status == 202
	})
	if a := next("203.0.113.9"); a.code() != "address_limit" {
		t.Errorf("after one has ended and one has come: %d %s", a.status, a.body)
	}

	s.must(s.create("other", `max_live_per_address=2`), 201)
	s.must(s.do("POST", "/v1/sales/other/orders", `{"quantity":1}`, s.auth("account-1"), "Idempotency-Key: attempt-1",
		"X-Forwarded-For: 203.0.113.9"), 202)
	s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"max_live_per_address":null}`), 200)
	s.until("without the limit", func() bool { return next("203.0.113.9").status == 202 })
	if a := s.must(s.admin("GET", "/v1/admin/sales/phone", ""), 200); a.text("max_live_per_address") != "<nil>" {
		t.Errorf("max_live_per_address is %s", a.text("max_live_per_address"))
	}
	s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"max_live_per_address":0}`), 400)
}

// What is kept of an address is of no use to those who get the files.
func TestNoAddressIsKept(t *testing.T) {
	dir := ""
	s := openWith(t, func(c *engine.Config) { c.TrustedProxies, dir = loopback, c.DataDir })
	s.must(s.create("phone", `max_live_per_address=2`, `address_rate={"requests":3,"per_s":3600,"shared":true}`), 201)
	order := s.must(s.from("ann", 1, "X-Forwarded-For: 203.0.113.9"), 202).text("order_id")
	s.until("the order is stored", func() bool {
		return s.do("GET", "/v1/orders/"+order, "", s.auth("ann")).text("status") == "pending"
	})
	files, err := filepath.Glob(filepath.Join(dir, "*.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := false
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte("203.0.113")) {
			t.Errorf("%s has the address", filepath.Base(file))
		}
		found = found || bytes.Contains(content, []byte(order))
	}
	if !found {
		t.Error("no file has the order")
	}
}

// The check of a sale warns where all buyers may be one address.
func TestCheckOfLiveOrdersOfAnAddress(t *testing.T) {
	s := openWith(t, nil)
	s.must(s.create("phone", `total=100`, `max_live_per_address=2`), 201)
	check := func() string { return s.must(s.admin("GET", "/v1/admin/sales/phone/check", ""), 200).body }
	const none = `at most 2 live orders from one address, and no proxy is named`
	if answer := check(); !strings.Contains(answer, none) {
		t.Errorf("no proxy is named: %s", answer)
	}
	s.must(s.from("ann", 1, "X-Forwarded-For: 203.0.113.9"), 202)
	const unnamed = `at most 2 live orders from one address; 1 of the last 1 claims came with X-Forwarded-For`
	if answer := check(); !strings.Contains(answer, unnamed) {
		t.Errorf("a proxy that is not named: %s", answer)
	}
}
