package httpapi_test

import (
	"bytes"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// What is kept of an address is of no use to those who get the files.
func TestNoAddressIsKept(t *testing.T) {
	dir := ""
	s := openWith(t, func(c *engine.Config) { c.TrustedProxies, dir = loopback, c.DataDir })
	s.must(s.create("phone", `address_rate={"requests":3,"per_s":3600,"shared":true}`), 201)
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
		content := must.Get(os.ReadFile(file))(t)
		if bytes.Contains(content, []byte("203.0.113")) {
			t.Errorf("%s has the address", filepath.Base(file))
		}
		found = found || bytes.Contains(content, []byte(order))
	}
	if !found {
		t.Error("no file has the order")
	}
}
