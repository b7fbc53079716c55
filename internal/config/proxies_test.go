package config

import (
	"strings"
	"testing"
)

func TestParseProxies(t *testing.T) {
	for list, want := range map[string]string{
		"": "", " , ": "",
		"10.0.0.0/8,192.0.2.1 , 2001:db8::/32": "10.0.0.0/8 192.0.2.1/32 2001:db8::/32",
		"0.0.0.0/0, ::/0":                      "0.0.0.0/0 ::/0",
	} {
		got, err := parseProxies(list)
		var texts []string
		for _, p := range got {
			texts = append(texts, p.String())
		}
		if err != nil || strings.Join(texts, " ") != want {
			t.Errorf("%q: %v, %v, want %s", list, texts, err, want)
		}
	}
	for list, want := range map[string]string{
		"localhost":          `"localhost": want addresses or CIDRs`,
		"10.0.0.1/8":         `"10.0.0.1/8": the address has bits beyond the prefix; want 10.0.0.0/8`,
		"10.0.0.0/33":        "want addresses or CIDRs",
		"10.0.0.0/8;::1":     "want addresses or CIDRs",
		"fe80::1%eth0":       "want addresses or CIDRs",
		"::ffff:10.0.0.0/96": "want IPv4 written as IPv4",
	} {
		if got, err := parseProxies(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %q", list, got, err, want)
		}
	}
}
