package config

import (
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
			if err != nil || !strings.HasSuffix(c.env, "="+got.LoginURL+got.PayURL) {
				t.Errorf("%s: %+v, %v", c.env, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %v, want %q", c.env, err, c.err)
		}
	}
}
