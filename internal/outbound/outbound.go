// Package outbound keeps requests that a merchant configured, for webhooks and
// risk services, from reaching addresses where clouds serve a machine's secrets,
// such as link-local ones. Private addresses are allowed.
package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Clouds serve their machines' secrets at these addresses, which are not all
// link-local: fd00:ec2::254 (AWS), 100.100.100.200 (Alibaba), 168.63.129.16
// (Azure), 192.0.0.192 (Oracle). NAT64 (64:ff9b::/96, and local-use 64:ff9b:1::/48)
// and 6to4 (2002::/16) hold every IPv4 address once more.
var forbidden = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
}

// Dialer returns a dialer that refuses addresses that no service of a merchant
// has. Private ones are allowed: such a service is often there. A transport with it
// must have no proxy, which would dial in its place.
func Dialer() *net.Dialer {
	return &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second, Control: guard}
}

// guard sees the address that the name was resolved to, so a name that changes
// is no way around it.
func guard(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap().WithZone("")
	bad := ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified()
	for _, prefix := range forbidden {
		bad = bad || prefix.Contains(ip)
	}
	if bad {
		return fmt.Errorf("%s is not an address for a webhook or a risk service", ip)
	}
	return nil
}
