package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// The lists and the check of a sale as an operator types them.
func TestPrepareASaleByHand(t *testing.T) {
	s := serve(t)
	ok(t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "3", "--opens-at", "+2h",
		"--ticket-before", "10m", "--eligibility", "list")
	got := command(t, s.env, "sale", "check", "phone")
	if got.code != exitFailed || got.stderr != "" || !strings.Contains(got.out, "it is empty") {
		t.Errorf("without an allow list: %+v", got)
	}
	file := filepath.Join(t.TempDir(), "buyers.txt")
	if err := os.WriteFile(file, []byte("bob\nann\n\nbob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l := okJSON[api.BuyerList](t, s.env, "sale", "allow", "phone", "--file", file); l.Size != 2 ||
		l.List != sluice.AllowList {
		t.Errorf("upload: %+v", l)
	}
	if out := ok(t, s.env, "sale", "allow", "phone", "--export"); out != "ann\nbob\n" {
		t.Errorf("export: %q", out)
	}
	if out := ok(t, s.env, "sale", "deny", "phone"); !strings.Contains(out, "buyers   0\n") ||
		!strings.Contains(out, "updated  never") {
		t.Errorf("a list that was never uploaded: %s", out)
	}
	report := okJSON[saleReport](t, s.env, "sale", "check", "phone")
	if report.Status != api.CheckOK || len(report.Checks) < 8 {
		t.Errorf("check: %+v", report)
	}
	out := ok(t, s.env, "sale", "check", "phone", "--server", s.url) // the same one twice
	if !strings.Contains(out, "all 1 live ones were asked") || !strings.Contains(out, "2 buyers") {
		t.Errorf("check: %s", out)
	}
	if l := okJSON[api.BuyerList](t, s.env, "sale", "allow", "phone", "--empty"); l.Size != 0 {
		t.Errorf("emptied: %+v", l)
	}

	if err := os.WriteFile(file, []byte("ann\nb\tb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		text string
		args []string
	}{
		{exitUsage, "line 2", []string{"sale", "allow", "phone", "--file", file}},
		{exitUsage, "no such file", []string{"sale", "allow", "phone", "--file", file + "x"}},
		{exitUsage, "a folder; want a file", []string{"sale", "allow", "phone", "--file", filepath.Dir(file)}},
		{exitUsage, "want one of them", []string{"sale", "allow", "phone", "--file", file, "--empty"}},
		{exitUsage, "want one or the other", []string{"sale", "allow", "phone", "--export", "--json"}},
		{exitUsage, "sale id", []string{"sale", "deny", "No"}},
		{exitFailed, "sale_not_found", []string{"sale", "deny", "none", "--empty"}},
		{exitUsage, "sale id", []string{"sale", "check", "No"}},
		{exitUsage, "--server", []string{"sale", "check", "phone", "--server", "x"}},
		{exitUsage, "on another machine", []string{"sale", "check", "phone", "--server", "http://shop.example"}},
	} {
		if got := command(t, s.env, c.args...); got.code != c.code || !strings.Contains(got.stderr, c.text) {
			t.Errorf("%v: %+v, want exit code %d and %q", c.args, got, c.code, c.text)
		}
	}
	if got := command(t, s.env, "sale", "check", "none"); got.code != exitFailed ||
		!strings.Contains(got.out, "sale_not_found") {
		t.Errorf("no such sale: %+v", got)
	}
}

// What several servers say is compared.
func TestSaleCheckCompares(t *testing.T) {
	answer := func(node, key string, epoch int64, live ...string) api.SaleCheck {
		return api.SaleCheck{Node: node, TicketKey: key, Epoch: epoch, Terms: 1, LiveNodes: live}
	}
	for _, c := range []struct {
		name    string
		answers []api.SaleCheck
		want    api.CheckStatus
		text    string
	}{
		{"agree", []api.SaleCheck{answer("a", "k", 1, "a", "b"), answer("b", "k", 1, "a", "b")}, api.CheckOK, "all 2"},
		{"one was not asked", []api.SaleCheck{answer("a", "k", 1, "a", "b")}, api.CheckWarn, "give --server for b"},
		{
			"other secrets",
			[]api.SaleCheck{answer("a", "k", 1, "a", "b"), answer("b", "l", 1, "a", "b")},
			api.CheckFail,
			"ticket_secret",
		},
		{
			"another load",
			[]api.SaleCheck{answer("a", "k", 1, "a", "b"), answer("b", "k", 2, "a", "b")},
			api.CheckFail,
			"epoch 1, terms 1, epoch 2, terms 1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &saleReport{}
			r.compare(c.answers)
			found := false
			for _, check := range r.Checks {
				found = found || strings.Contains(check.Detail, c.text)
			}
			if r.Status != c.want || !found {
				t.Errorf("%+v, want %s and %q", r, c.want, c.text)
			}
		})
	}
}

// Servers of one shop that are set differently refuse each other's buyers, or let them have
// their limits twice: what differs is named.
func TestServersThatDiffer(t *testing.T) {
	one := func(node string, with ...api.SharedSetting) api.SaleCheck {
		return api.SaleCheck{Node: node, LiveNodes: []string{"a", "b"}, Settings: with}
	}
	secret, proxies := api.SharedSetting{Name: "buyer_secret", Value: "0a"}, api.SharedSetting{Name: "trusted_proxies"}
	another, named := secret, proxies
	another.Value, named.Value = "0b", "[10.0.0.0/8]"
	for name, c := range map[string]struct {
		answers []api.SaleCheck
		want    api.CheckStatus
		text    string
	}{
		"alike": {[]api.SaleCheck{one("a", secret, proxies), one("b", secret, proxies)}, api.CheckOK, ""},
		"another secret": {
			[]api.SaleCheck{one("a", secret, proxies), one("b", another, proxies)},
			api.CheckFail,
			"buyer_secret: 0a, 0b",
		},
		"other proxies": {
			[]api.SaleCheck{one("a", secret, proxies), one("b", secret, named)},
			api.CheckWarn,
			"trusted_proxies: [10.0.0.0/8], none",
		},
		"an older one": {[]api.SaleCheck{one("a", secret, proxies), one("b")}, api.CheckOK, ""},
	} {
		r := saleReport{}
		r.compare(c.answers)
		said := ""
		for _, check := range r.Checks {
			if check.Status != api.CheckOK {
				said += check.Detail
			}
		}
		if r.Status != c.want || !strings.Contains(said, c.text) || c.text == "" && said != "" {
			t.Errorf("%s: %s, %q; want %s, %q", name, r.Status, said, c.want, c.text)
		}
	}
}
