package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

const (
	testKey = "vera-0123456789abcdef"
	testSum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

func TestAdminKeys(t *testing.T) {
	want := []sluice.AdminKey{
		{Name: "vera", Role: sluice.Viewer, Key: testKey},
		{Name: "otto@shop", Role: sluice.Operator, SHA256: testSum},
		{Name: "job", Role: sluice.Owner, File: "/run/secrets/job"},
	}
	entries := []string{
		"{name: vera, role: viewer, key: " + testKey + "}", "{name: otto@shop, role: operator, key_sha256: " + testSum + "}",
		"{name: job, role: owner, key_file: /run/secrets/job}",
	}
	asBlock := "admin_keys:\n  - name: vera\n    role: viewer\n    key: " + testKey + "\n  - " +
		strings.Join(entries[1:], "\n  - ") + "\n"
	for name, source := range map[string]Source{
		"a list in the file":      {File: write(t, asBlock)},
		"a list on one line":      {File: write(t, "admin_keys: ["+strings.Join(entries, ", ")+"]\n")},
		"a text in the file":      {File: write(t, "admin_keys: '["+strings.Join(entries, ", ")+"]'\n")},
		"YAML in the environment": {Environ: []string{"SLUICE_ADMIN_KEYS=[" + strings.Join(entries, ", ") + "]"}},
		"the environment wins": {
			File:    write(t, "admin_keys: [{name: x, role: viewer, key: "+testKey+"}]\n"),
			Environ: []string{"SLUICE_ADMIN_KEYS=[" + strings.Join(entries, ", ") + "]"},
		},
		"JSON in the environment": {Environ: []string{
			`SLUICE_ADMIN_KEYS=[{"name":"vera","role":"viewer","key":"` + testKey +
				`"},{"name":"otto@shop","role":"operator","key_sha256":"` + testSum +
				`"},{"name":"job","role":"owner","key_file":"/run/secrets/job"}]`,
		}},
		"an anchor, used elsewhere": {File: write(t, "node: &n job\n"+asBlock)},
	} {
		c, err := Load(source)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, c.AdminKeys); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, row := range c.Rows() {
			if row.Key == "admin_keys" && row.Value != "vera (viewer), otto@shop (operator), job (owner)" {
				t.Errorf("%s: shown as %q", name, row.Value)
			}
		}
	}
	c, err := Load(Source{})
	if err != nil || c.AdminKeys != nil {
		t.Errorf("by default: %+v, %v", c.AdminKeys, err)
	}
}

func TestAdminKeysThatAreWrong(t *testing.T) {
	for value, want := range map[string]string{
		"x":                                      "want a list",
		"{name: a}":                              "want a list",
		"[x]":                                    "want a list",
		"[[x]]":                                  "want a list",
		"[{name: a":                              "want a list",
		"[{}]":                                   "entry 1: name",
		"[{name: ann}]":                          "want a role",
		"[{name: ann, role: boss}]":              `role "boss"`,
		"[{name: ann, role: owner}]":             "want one of key",
		"[{name: ann, role: owner, key: short}]": "at least 16",
		"[{name: ann, role: owner, key: " + testKey + ", key_sha256: " + testSum +
			"}]": "want one of key",
		"[{name: ann, role: owner, kee: " + testKey +
			"}]": `unknown field "kee"`,
		"[{name: ann, role: owner, key: " + testKey + ", key: " + testKey + "}]": "is duplicated",
		"[{name: ann, role: owner, key: [" + testKey + "]}]":                     "want a text",
		"[{name: ann, role: owner, key: }]":                                      "want a text",
		"[{name: a b, role: owner, key: " + testKey + "}]":                       "want letters",
		"[{name: admin, role: viewer, key: " + testKey + "}]":                    "admin_key",
		"[{name: ann, role: viewer, key: " + testKey +
			"}, {name: ann, role: owner, key: 0123456789abcdef}]": "entry 2: ann: the name is duplicated",
	} {
		_, err := Load(Source{Environ: []string{"SLUICE_ADMIN_KEYS=" + value}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "SLUICE_ADMIN_KEYS") {
			t.Errorf("%s: %v, want an error with %q", value, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), testKey) || strings.Contains(err.Error(), "short}")) {
			t.Errorf("%s: the error shows a key: %v", value, err)
		}
	}
	file := write(t, "admin_key: "+testKey+"\nadmin_keys:\n  - {name: ann, role: owner, key: "+testKey+"}\n")
	c := must.Get(Load(Source{File: file}))(t)
	if err := c.CheckFiles(); err == nil || !strings.Contains(err.Error(), "same key as that of admin") ||
		strings.Contains(err.Error(), testKey) {
		t.Errorf("one key under two names: %v", err)
	}
	c = must.Get(Load(Source{
		Environ: []string{"SLUICE_ADMIN_KEYS=[{name: ann, role: owner, key_file: /nonexistent}]"},
	}))(t)
	if err := c.CheckFiles(); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("a key file that is not there: %v", err)
	}
}

func TestBuyersTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jwks.json")
	c := must.Get(Load(Source{Environ: []string{
		"SLUICE_BUYER_JWKS=" + path, "SLUICE_BUYER_ISSUER=https://login.example",
		"SLUICE_BUYER_AUDIENCE=sluice", "SLUICE_CLOCK_SKEW=0s",
	}}))(t)
	if c.BuyerJWKS != path || c.BuyerIssuer != "https://login.example" || c.BuyerAudience != "sluice" ||
		c.ClockSkew != none {
		t.Errorf("%+v", c)
	}
	if err := c.CheckFiles(); err == nil || !strings.Contains(err.Error(), "buyer_jwks") ||
		!strings.Contains(err.Error(), "SLUICE_BUYER_JWKS") {
		t.Errorf("a JWKS file that is not there: %v", err)
	}
	if c, err := Load(Source{}); err != nil || c.ClockSkew != 30*time.Second || c.BuyerJWKS != "" {
		t.Errorf("defaults: %+v, %v", c, err)
	}
	for value, want := range map[string]string{
		"SLUICE_BUYER_JWKS=http://login.example.com/jwks":   "want https",
		"SLUICE_BUYER_JWKS=ftp://login.example.com/jwks":    "want https",
		"SLUICE_BUYER_JWKS=https://a:b@login.example.com/x": "no user",
		"SLUICE_BUYER_JWKS=https://login.example.com/x":     "buyer_audience",
		"SLUICE_BUYER_TOKEN_LIFE=1s":                        "want a duration",
		"SLUICE_CLOCK_SKEW=-1s":                             "want a duration",
		"SLUICE_CLOCK_SKEW=1h":                              "want a duration",
	} {
		if _, err := Load(Source{Environ: []string{value}}); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "a:b@") {
			t.Errorf("%s: %v, want an error with %q", value, err, want)
		}
	}
	c = must.Get(Load(Source{Environ: []string{
		"SLUICE_BUYER_JWKS=https://login.example.com/jwks?key=hidden",
		"SLUICE_BUYER_AUDIENCE=*",
	}}))(t)
	for _, row := range c.Rows() {
		if row.Key == "buyer_jwks" && row.Value != "https://login.example.com/jwks?***" {
			t.Errorf("shown as %q", row.Value)
		}
	}
}
