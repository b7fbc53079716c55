package admission

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

func TestNetworkOf(t *testing.T) {
	at := func(text string) Network { return NetworkOf(netip.MustParseAddr(text)) }
	if at("203.0.113.1") == at("203.0.113.2") || at("203.0.113.1") != at("::ffff:203.0.113.1") ||
		at("2001:db8::1") != at("2001:db8::ffff:1:2:3%eth0") ||
		at("2001:db8:0:1::") == at("2001:db8:0:2::") || at("0.0.0.0") == at("::") ||
		NetworkOf(netip.Addr{}) == at("0.0.0.0") {
		t.Error("addresses are counted together that should not be, or apart")
	}
}

// A home that has a /56 of IPv6, or a company that has a /48, has many /64: all of it passes twice, and four times,
// what an address may try, and a try that is denied uses up nothing. Others do not notice.
func TestAddressRatePerNetwork(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	r := newRates(0, began)
	rules := &sluice.Rules{AddressRate: sluice.AddressRate{Requests: 5, PerS: 3600, Shared: true}}
	passes := func(address string) bool {
		by, _ := r.check(rules, "phone", "ann", netip.MustParseAddr(address), began)
		return by == checkNone
	}
	count := func(format string, most int) (passed int) {
		for i := range most {
			for range 10 {
				if passes(fmt.Sprintf(format, i)) {
					passed++
				}
			}
		}
		return passed
	}
	if n := count("2001:db8:1:0%02x::1", 100); n != 10 {
		t.Errorf("%d tries of a /56 pass, want 10", n)
	}
	if n := count("2001:db8:1:%02x00::1", 100); n != 10 {
		t.Errorf("then %d of its /48 pass, want the rest of 20", n)
	}
	if n := count("203.0.113.%d", 20); n != 100 {
		t.Errorf("%d of 20 addresses of IPv4, want 5 of each", n)
	}
	one := "2001:db8:2:100::1"
	for range 5 {
		passes(one)
	}
	r.denied(rules, "phone", "ann", netip.MustParseAddr(one), port.Wait{Address: time.Hour}, began) // by the ledger
	if n := count("2001:db8:2:1%02x::2", 100); n != 10-4 {
		t.Errorf("after a denial of the ledger %d of the /56, want 6: the try that it denied counts nowhere", n)
	}
}

func TestNetworksOfAnAddress(t *testing.T) {
	for address, want := range map[string]string{
		"2001:db8:ab:cdef::1": "2001:db8:ab:cdef::/64 1 2001:db8:ab:cd00::/56 2 2001:db8:ab::/48 4 ",
		"203.0.113.9":         "203.0.113.9 1 ", "::ffff:203.0.113.9": "203.0.113.9 1 ",
	} {
		got := ""
		for n, ok := NetworkOf(netip.MustParseAddr(address)), true; ok; n, ok = n.Wider() {
			got += fmt.Sprint(n, " ", n.Times(), " ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}
