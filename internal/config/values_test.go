package config

import (
	"slices"
	"strings"
	"testing"
)

func TestLinks(t *testing.T) {
	for _, c := range []struct{ env, err string }{
		{"SLUICE_LOGIN_URL=https://shop.example/login?return={return}", ""},
		{"SLUICE_LOGIN_URL=/login", ""},
		{"SLUICE_LOGIN_URL=javascript:alert(1)", "login_url"},
		{"SLUICE_LOGIN_URL=//elsewhere.example/", "login_url"},
		{"SLUICE_LOGIN_URL=shop.example/login", "want an address like"},
		{"SLUICE_PAY_URL=https://shop.example/pay/{order}", ""},
		{"SLUICE_PAY_URL=https://shop.example/pay", "want {order} in it"},
	} {
		got, err := Load(Source{Environ: []string{c.env}})
		if c.err == "" {
			if err != nil || !strings.HasSuffix(c.env, "="+got.Pages.LoginURL+got.Pages.PayURL) {
				t.Errorf("%s: %+v, %v", c.env, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.env, err, c.err)
		}
	}
}

func TestOrigins(t *testing.T) {
	c, err := Load(Source{Environ: []string{"SLUICE_CORS_ORIGINS=https://shop.example, http://localhost:3000"}})
	if err != nil || !slices.Equal(c.CORSOrigins, []string{"https://shop.example", "http://localhost:3000"}) {
		t.Errorf("origins %v, %v", c.CORSOrigins, err)
	}
	if c, err := Load(Source{}); err != nil || len(c.CORSOrigins) != 0 {
		t.Errorf("unless set: %v, %v", c.CORSOrigins, err)
	}
	for bad, why := range map[string]string{
		"*": "exact", "shop.example": "scheme", "https://a.example https://b.example/": "alone",
		"https://A.example":     "lower case",
		"https://a.example:443": "no port", "null": "scheme",
	} {
		_, err := Load(Source{Environ: []string{"SLUICE_CORS_ORIGINS=" + bad}})
		if err == nil || !strings.Contains(err.Error(), "cors_origins") || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v; want a word on %q", bad, err, why)
		}
	}
}

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
