package admission

import (
	"net/netip"
	"testing"
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
