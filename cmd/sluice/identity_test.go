package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// Keys with names and roles, and tokens for one audience, as an operator sets
// them up in a file; and the record of who did what.
func TestNamedKeysAndTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	const vera, olga = "vera-0123456789abcdef", "olga-0123456789abcdef"
	must.Succeed(t, os.WriteFile(file, []byte(`
buyer_secret: a-secret-that-is-long-enough-for-hs256
buyer_issuer: https://login.example
buyer_audience: sluice
admin_keys:
  - {name: vera, role: viewer, key: `+vera+`}
  - {name: olga, role: owner, key: `+olga+`}
`), 0o600))
	s := serve(t, "--config", file)
	as := func(key string) []string {
		return []string{"SLUICE_URL=" + s.url, "SLUICE_ADMIN_KEY=" + key, "SLUICE_CONFIG=" + file}
	}
	ok(t, as(olga), "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "3")
	got := command(t, as(vera), "sale", "pause", "phone")
	if got.code != exitFailed || !strings.Contains(got.stderr,
		"needs the role operator; the key vera has the role viewer") {
		t.Errorf("a viewer pauses a sale: %+v", got)
	}
	ok(t, as(vera), "sale", "show", "phone")
	load := okJSON[loadgen.Result](t, as(olga), "load", "--sale", "phone", "--buyers", "9", "--again", "0")
	if load.Decisions[sluice.Accepted] != 3 {
		t.Errorf("tokens for the right audience: %+v", load)
	}
	withoutFile := []string{"SLUICE_URL=" + s.url, "SLUICE_BUYER_SECRET=a-secret-that-is-long-enough-for-hs256"}
	if got := command(t, withoutFile, "load", "--sale", "phone", "--buyers", "1", "--json"); strings.Contains(got.out,
		`"accepted":1`) || strings.Contains(got.out, `"sold_out":1`) {
		t.Errorf("tokens without a buyer are good: %+v", got)
	}

	page := okJSON[api.AdminActionPage](t, as(vera), "admin", "log", "--limit", "10")
	if len(page.Actions) != 2 || page.Actions[0].By != "vera" || page.Actions[0].Status != 403 ||
		page.Actions[1].By != "olga" || page.Actions[1].SaleID != "phone" {
		t.Errorf("recorded: %+v", page)
	}
	table := ok(t, as(vera), "admin", "log", "--limit", "1")
	if !strings.Contains(table, "vera") || !strings.Contains(table, "403 forbidden") || strings.Contains(table, "olga") {
		t.Errorf("the table: %s", table)
	}
	more := okJSON[api.AdminActionPage](t, as(vera), "admin", "log", "--limit", "1", "--cursor",
		okJSON[api.AdminActionPage](t, as(vera), "admin", "log", "--limit", "1").NextCursor)
	if len(more.Actions) != 1 || more.Actions[0].By != "olga" {
		t.Errorf("the second page: %+v", more)
	}
	for _, args := range [][]string{
		{"admin"},
		{"admin", "log", "--limit", "0"},
		{"admin", "log", "x"},
		{"admin", "logs"},
	} {
		if got := command(t, as(vera), args...); len(args) > 1 && got.code != exitUsage {
			t.Errorf("%v: exit %d", args, got.code)
		}
	}
	if out := ok(t, []string{"SLUICE_CONFIG=" + file}, "config", "print"); !strings.Contains(out,
		"vera (viewer), olga (owner)") || strings.Contains(out, vera) {
		t.Errorf("config print: %s", out)
	}
	if got := command(t, []string{"SLUICE_CONFIG=" + file, "SLUICE_BUYER_JWKS=/nowhere/jwks.json"}, "config",
		"check"); got.code != exitUsage || !strings.Contains(got.stderr, "buyer_jwks") {
		t.Errorf("config check: %+v", got)
	}
}
