package httpapi_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicehq/sluice/engine"
)

// from sends a claim with more headers.
func (s *shop) from(buyer string, n int, headers ...string) answer {
	s.t.Helper()
	all := append([]string{s.auth(buyer), fmt.Sprintf("Idempotency-Key: attempt-%d", n)}, headers...)
	return s.do("POST", "/v1/sales/phone/orders", `{"quantity":1}`, all...)
}

// limited checks a 429: its code and detail, and a Retry-After that is whole seconds of
// no more than most.
func limited(t *testing.T, what string, a answer, least, most int) {
	t.Helper()
	after, err := strconv.Atoi(a.header.Get("Retry-After"))
	if a.status != 429 || a.code() != "rate_limited" || !strings.Contains(a.body, `"detail":"`) || err != nil ||
		after < least || after > most {
		t.Errorf("%s: %d %s, Retry-After %q; want 429 rate_limited and %d to %d seconds", what, a.status, a.body,
			a.header.Get("Retry-After"), least, most)
	}
}

func TestBuyersAreLimited(t *testing.T) {
	s := openWith(t, nil)
	s.must(s.create("phone", `total=1000`, `max_per_buyer=null`, `max_orders_per_buyer=null`,
		`buyer_rate={"requests":3,"per_s":3600}`), 201)
	for n := range 3 {
		s.must(s.from("ann", n), 202)
	}
	// A third of an hour for each, and the tries were made a moment ago.
	limited(t, "the fourth", s.from("ann", 4), 900, 1200)
	limited(t, "a repeat (429 says nothing about it)", s.from("ann", 1), 900, 1200)
	s.must(s.from("bob", 1), 202)

	s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"buyer_rate":{"requests":3,"per_s":3600,"shared":true}}`), 200)
	limited(t, "shared, and known to wait", s.from("ann", 4), 900, 1200)
	for n := range 3 {
		s.must(s.from("cid", n), 202)
	}
	limited(t, "shared, the fourth", s.from("cid", 4), 900, 1200)

	s.must(s.admin("PATCH", "/v1/admin/sales/phone", `{"buyer_rate":null}`), 200)
	if a := s.must(s.from("ann", 1), 202); a.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("a repeat after the rate was taken away: %s (I4)", a.body)
	}
	for _, line := range []string{
		`sluice_gate_refused_total{check="buyer_rate"} `,
		`sluice_gate_refused_total{check="ratio"} 0`, `sluice_claims_total{code="rate_limited",sale="phone"} 4`,
		"sluice_claims_on_their_way 0",
	} {
		if metrics := s.do("GET", "/metrics", ""); !strings.Contains(metrics.body, line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
}

// Where a claim comes from is not what its sender says, unless a proxy that is
// trusted says it.
func TestAddressesAreLimited(t *testing.T) {
	t.Parallel()
	limit := []string{`total=1000`, `address_rate={"requests":3,"per_s":3600}`}
	spoofs := func(n int) []string {
		return []string{
			fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", n), fmt.Sprintf("Forwarded: for=203.0.113.%d", n),
			fmt.Sprintf("X-Real-IP: 203.0.113.%d", n),
		}
	}
	for name, proxies := range map[string][]netip.Prefix{
		"no proxy is trusted": nil, "another proxy is": {netip.MustParsePrefix("10.0.0.0/8")},
	} {
		s := openWith(t, func(c *engine.Config) { c.TrustedProxies = proxies })
		s.must(s.create("phone", limit...), 201)
		for n := range 3 {
			s.must(s.from(fmt.Sprint("buyer-", n), 1, spoofs(n)...), 202)
		}
		for n := range 5 {
			limited(t, name+": a spoofed header", s.from(fmt.Sprint("other-", n), 1, spoofs(100+n)...), 900, 1200)
		}
	}

	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	for header, which := range map[string]string{"X-Forwarded-For": "", "Forwarded": "forwarded"} {
		s := openWith(t, func(c *engine.Config) { c.TrustedProxies, c.ClientAddressHeader = trusted, which })
		s.must(s.create("phone", limit...), 201)
		says := func(n int) string { // the proxy appends the address that has connected to it
			address := fmt.Sprintf("203.0.113.%d", n)
			if header == "Forwarded" {
				return "for=" + address
			}
			return address
		}
		buyer := 0
		next := func(headers ...string) answer {
			buyer++
			return s.from(fmt.Sprint("buyer-", buyer), 1, headers...)
		}
		for n := range 20 {
			s.must(next(header+": "+says(n)), 202)
		}
		for n := range 2 {
			s.must(next(header+": "+says(50+n)+", "+says(1)), 202)
		}
		other := map[string]string{
			"X-Forwarded-For": "Forwarded: for=198.51.100.7",
			"Forwarded":       "X-Forwarded-For: 198.51.100.7",
		}[header]
		for name, headers := range map[string][]string{
			"said by the client before":           {header + ": " + says(60) + ", " + says(1)},
			"said in a line before":               {header + ": " + says(61), header + ": " + says(1)},
			"said in the header that is not read": {other, header + ": " + says(1)},
		} {
			limited(t, header+", "+name, next(headers...), 900, 1200)
		}
	}
}
