package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// What the flags of a sale's rules become, typed against an API that keeps
// what it was sent.
func TestRuleFlags(t *testing.T) {
	path := "PATCH /v1/admin/sales/phone"
	shop := &merchantAPI{answers: map[string]func(string) any{path: always(api.AdminSale{})}}
	env := shop.against(t)
	for _, c := range []struct{ flags, want string }{
		{"--buyer-rate 10/1s", `{"buyer_rate":{"requests":10,"per_s":1,"shared":false}}`},
		{"--visibility hidden --availability some", `{"visibility":"hidden","availability":"some"}`},
		{"--visibility listed --availability exact", `{"visibility":"listed","availability":"exact"}`},
		{"--buyer-rate 10/1m30s,shared", `{"buyer_rate":{"requests":10,"per_s":90,"shared":true}}`},
		{
			"--buyer-rate none --address-rate 5/2s",
			`{"buyer_rate":null,"address_rate":{"requests":5,"per_s":2,"shared":false}}`,
		},
		{"--address-rate 10/1s,shared", `{"address_rate":{"requests":10,"per_s":1,"shared":true}}`},
		{
			"--admission-ratio 1.5 --ticket-before 1m --challenge 18",
			`{"admission_ratio":1.5,"ticket":{"before_s":60},"challenge":{"difficulty":18}}`,
		},
		{
			"--admission-ratio none --ticket-before none --challenge none --eligibility none",
			`{"admission_ratio":null,"ticket":null,"challenge":null,"eligibility":null}`,
		},
		{
			"--risk-url https://r.example/?a=b,c",
			`{"risk":{"url":"https://r.example/?a=b,c","timeout_ms":1000,"on_failure":"deny"}}`,
		},
		{
			"--risk-url https://r.example --risk-timeout 300ms --risk-on-failure allow",
			`{"risk":{"url":"https://r.example","timeout_ms":300,"on_failure":"allow"}}`,
		},
		{"--risk-url none", `{"risk":null}`},
		{"--eligibility list --title T --closes-at none", `{"title":"T","closes_at":null,"eligibility":"list"}`},
		{"--price 5 --currency EUR --list-price none", `{"price":{"amount":5,"currency":"EUR"},"list_price":null}`},
		{"--total none --max-per-buyer 2 --payment-window 60s", `{"total":null,"max_per_buyer":2,"payment_window_s":60}`},
	} {
		delete(shop.bodies, path)
		got := command(t, env, append([]string{"sale", "patch", "phone"}, strings.Fields(c.flags)...)...)
		if d := cmp.Diff(c.want, shop.bodies[path]); got.code != exitOK || d != "" {
			t.Errorf("%s: %+v, sent (-want +got):\n%s", c.flags, got, d)
		}
	}
	delete(shop.bodies, path)
	for _, c := range []struct{ flags, want string }{
		{"", "nothing to change"},
		{"--buyer-rate 10", `--buyer-rate "10": want a number of tries per whole seconds like 10/1s`},
		{"--buyer-rate 10/1s,global", `--buyer-rate "10/1s,global"`},
		{"--address-rate 10/0.5s", `--address-rate "10/0.5s"`},
		{"--address-rate 10/1s,local", `--address-rate "10/1s,local"`},
		{"--admission-ratio much", `--admission-ratio "much": want a number`},
		{"--admission-ratio 1.5,shared", `--admission-ratio "1.5,shared": want a number`},
		{"--ticket-before 10", `--ticket-before "10": want whole seconds`},
		{"--ticket-before 500ms", `--ticket-before "500ms": want whole seconds`},
		{"--challenge hard", `--challenge "hard"`},
		{"--risk-timeout 1s", "--risk-timeout: want --risk-url with it"},
		{"--risk-url none --risk-on-failure deny", "--risk-on-failure: want --risk-url with it"},
		{"--price 5", "want an amount and its currency"},
		{"--currency EUR", "want an amount and its currency"},
		{"--opens-at none", "--opens-at"},
		{"--burst 4", "unknown flag"},
	} {
		got := command(t, env, append([]string{"sale", "patch", "phone"}, strings.Fields(c.flags)...)...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) || shop.bodies[path] != "" {
			t.Errorf("%s: %+v, want %q; sent %s", c.flags, got, c.want, shop.bodies[path])
		}
	}
}

// Rules as an operator types them, against a real server.
func TestRulesByHand(t *testing.T) {
	s := serve(t)
	made := okJSON[api.AdminSale](t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total",
		"3",
		"--buyer-rate", "10/1s,shared", "--admission-ratio", "2", "--ticket-before", "1m")
	if r := made.Rules; r.BuyerRate == nil || !r.BuyerRate.Shared || r.AdmissionRatio == nil || *r.AdmissionRatio != 2 ||
		r.Ticket == nil || r.AddressRate != nil {
		t.Errorf("%+v", r)
	}
	patched := okJSON[api.AdminSale](t, s.env, "sale", "patch", "phone", "--admission-ratio", "1.25", "--buyer-rate",
		"none", "--address-rate", "9/3s", "--ticket-before", "none")
	shown := okJSON[api.AdminSale](t, s.env, "sale", "show", "phone")
	for how, r := range map[string]api.Rules{"patched": patched.Rules, "shown": shown.Rules} {
		if r.BuyerRate != nil || r.AdmissionRatio == nil || *r.AdmissionRatio != 1.25 || r.AddressRate == nil ||
			r.AddressRate.Requests != 9 || r.Ticket != nil {
			t.Errorf("%s: %+v", how, r)
		}
	}
	text := ok(t, s.env, "sale", "show", "phone")
	if !strings.Contains(text, "9 tries in 3s") || !strings.Contains(text, "1.25 claims at a time") {
		t.Errorf("%s", text)
	}
	if got := command(t, s.env, "sale", "patch", "phone", "--challenge", "5"); got.code != exitUsage ||
		!strings.Contains(got.stderr, "want a ticket too") {
		t.Errorf("%+v", got)
	}
	if got := command(t, s.env, "sale", "create", "--title", "T", "--price", "1", "--total", "3", "--challenge",
		"99"); got.code != exitUsage || !strings.Contains(got.stderr, "difficulty 99: want 1 to 30") {
		t.Errorf("%+v", got)
	}
	if out := ok(t, s.env, "sale", "create", "--free", "--title", "T", "--total", "3"); !strings.Contains(out, " free\n") {
		t.Errorf("a free sale: %s", out)
	}
	file := filepath.Join(t.TempDir(), "sale.json") // as editors of Windows save it
	must.Succeed(t, os.WriteFile(file, []byte("\ufeff"+`{"id":"bom","sku":"s","title":"T","opens_at":"2026-01-01T00:00:00Z",`+
		`"price":{"amount":1,"currency":"CNY"},"total":1,"max_per_buyer":1}`), 0o600))
	ok(t, s.env, "sale", "create", "--file", file)
	if got := command(t, s.env, "sale", "create", "--file", "x.json", "--eligibility", "list"); got.code != exitUsage ||
		!strings.Contains(got.stderr, "one or the other") {
		t.Errorf("%+v", got)
	}
}
