package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// The lists and the check of a sale as an operator types them.
func TestPrepareASaleByHand(t *testing.T) {
	s := serve(t)
	ok(t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "3", "--opens-at", "+2h",
		"--ticket-before", "10m", "--eligibility", "list")
	got := command(t, s.env, "sale", "check", "phone")
	if got.code != exitFailed || got.stderr != "" || !strings.Contains(got.out, "it is empty") ||
		!strings.HasSuffix(got.out, " is not ready because of: eligibility.\n") {
		t.Errorf("without an allow list: %+v", got)
	}
	file := filepath.Join(t.TempDir(), "buyers.txt")
	must.Succeed(t, os.WriteFile(file, []byte("bob\nann\n\nbob\n"), 0o600))
	if l := okJSON[api.BuyerList](t, s.env, "sale", "allow", "phone", "--file", file); l.Size != 2 ||
		l.List != sluice.AllowList {
		t.Errorf("upload: %+v", l)
	}
	if out := ok(t, s.env, "sale", "allow", "phone", "--file", file); !strings.Contains(out, "the first  bob\n") {
		t.Errorf("it does not say the first id back: %s", out)
	}
	if out := ok(t, s.env, "sale", "allow", "phone", "--export"); out != "ann\nbob\n" {
		t.Errorf("export: %q", out)
	}
	if out := ok(t, s.env, "sale", "deny", "phone"); !strings.Contains(out, "buyers   0\n") ||
		!strings.Contains(out, "updated  never") {
		t.Errorf("a list that was never uploaded: %s", out)
	}
	report := okJSON[api.SaleCheck](t, s.env, "sale", "check", "phone")
	if report.Status != api.CheckOK || len(report.Checks) < 8 {
		t.Errorf("check: %+v", report)
	}
	if out := ok(t, s.env, "sale", "check", "phone", "--all"); !strings.Contains(out, "live: ") ||
		!strings.Contains(out, "ok  allow list: 2 buyers\n") {
		t.Errorf("check: %s", out)
	}
	if out := ok(t, s.env, "sale", "check", "phone"); !regexp.MustCompile(
		`\A\d+ checks ok \(--all\)\nphone, as server \w+ sees it, is ready.\n\z`).MatchString(out) {
		t.Errorf("check: %s", out)
	}
	if l := okJSON[api.BuyerList](t, s.env, "sale", "allow", "phone", "--empty"); l.Size != 0 {
		t.Errorf("emptied: %+v", l)
	}

	must.Succeed(t, os.WriteFile(file, []byte("ann\nb\tb\n"), 0o600))
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
		{exitFailed, "sale_not_found", []string{"sale", "check", "none"}},
		{exitUsage, "sale id", []string{"sale", "check", "No"}},
	} {
		if got := command(t, s.env, c.args...); got.code != c.code || !strings.Contains(got.stderr, c.text) {
			t.Errorf("%v: %+v, want exit code %d and %q", c.args, got, c.code, c.text)
		}
	}
}

// docs/tickets.md shows what the command prints, in both languages.
func TestDocumentedCheck(t *testing.T) {
	answer := api.SaleCheck{SaleID: "phone", Node: "node-1", Status: api.CheckFail, Checks: []api.Check{
		{
			Name: "eligibility", Status: api.CheckFail, Detail: "only buyers on the allow list may buy, and it is empty",
			Where: "the allow list of the sale",
			Right: "sluice sale allow SALE --file buyers.txt, or sluice sale patch SALE --eligibility none",
		},
		{
			Name: "addresses", Status: api.CheckWarn,
			Detail: "at most 20 claims in 10 s from one address, and no proxy is named", Where: "trusted_proxies",
			Right: "the address of your proxy, if buyers come through one; nothing if they connect to this server",
		},
		{Name: "store clock", Status: api.CheckOK, Detail: "differs by 0s"},
		{Name: "opening", Status: api.CheckOK, Detail: "opens in 2h0m0s, at 2026-11-11T12:00:00.000Z"},
	}}
	print := func(a app, all bool) string {
		var out bytes.Buffer
		a.stdout = &out
		if err := a.printSaleCheck(answer, all); exitOf(err) != exitFailed {
			t.Error(err)
		}
		return out.String()
	}
	for _, name := range []string{"tickets.md", "tickets.zh-CN.md"} {
		if text := string(must.Get(os.ReadFile("../../docs/" + name))(t)); !strings.Contains(text,
			"```\n$ sluice sale check phone\n"+print(app{}, false)+"```\n") {
			t.Errorf("docs/%s does not show\n%s", name, print(app{}, false))
		}
	}
	if all := print(app{}, true); !strings.Contains(all, "\nok    store clock: differs by 0s\nok    opening: ") ||
		strings.Contains(all, "--all") {
		t.Errorf("with --all:\n%s", all)
	}
	for line := range strings.Lines(print(app{columns: 60}, true)) {
		if len(line) > 61 {
			t.Errorf("too wide: %s", line)
		}
	}
}
