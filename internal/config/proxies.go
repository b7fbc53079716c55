package config

import (
	"fmt"
	"net/netip"
	"strings"
)

// proxies is a setting of addresses and CIDRs.
func proxies(at func(*Config) *[]netip.Prefix) func(*Config, string) error {
	return func(c *Config, value string) (err error) {
		*at(c), err = parseProxies(value)
		return err
	}
}

// parseProxies reads addresses and CIDRs, separated by commas.
func parseProxies(list string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range strings.Split(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, bad := netip.ParseAddr(text)
			if bad != nil || address.Zone() != "" {
				return nil, fmt.Errorf("%q: want addresses or CIDRs, like 10.0.0.0/8, 2001:db8::1", text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("%q: want IPv4 written as IPv4", text)
		}
		if prefix.Masked() != prefix {
			return nil, fmt.Errorf("%q: the address has bits beyond the prefix; want %s", text, prefix.Masked())
		}
		all = append(all, prefix)
	}
	return all, nil
}
