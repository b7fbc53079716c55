package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

const goodSale = `{"id":"s1","sku":"K","title":"T","price":{"amount":1,"currency":"CNY"},"total":10,"max_per_buyer":1,
	"opens_at":"2026-11-11T12:00:00Z"}`

func TestRulesOfASale(t *testing.T) {
	all := sluice.Rules{
		BuyerRate:      sluice.BuyerRate{Requests: 10, PerS: 1, Shared: true},
		AddressRate:    sluice.AddressRate{Requests: 100, PerS: 60, Shared: true},
		AdmissionRatio: 1.5,
		Ticket:         sluice.Ticket{BeforeS: 60},
		Challenge:      sluice.Challenge{Difficulty: 18},
		Risk:           sluice.Risk{URL: "https://risk.example/check", TimeoutMS: 300, OnFailure: sluice.Allow},
		Eligibility:    sluice.EligibleToken,
		Visibility:     sluice.Unlisted,
		Availability:   sluice.Some,
	}
	const everything = `{"buyer_rate":{"requests":10,"per_s":1,"shared":true},` +
		`"address_rate":{"requests":100,"per_s":60,"shared":true},` +
		`"admission_ratio":1.5,"ticket":{"before_s":60},"challenge":{"difficulty":18},` +
		`"risk":{"url":"https://risk.example/check","timeout_ms":300,"on_failure":"allow"},` +
		`"eligibility":"token",` +
		`"visibility":"unlisted","availability":"some"}`
	none := sluice.Rules{}
	with := func(edit func(*sluice.Rules)) sluice.Rules {
		rules := all
		edit(&rules)
		return rules
	}
	for _, c := range []struct {
		name, body string
		before     sluice.Rules
		want       sluice.Rules
		err        string
	}{
		{"all of them", everything, none, all, ""},
		{"none said", `{}`, all, all, ""},
		{"one", `{"admission_ratio":2}`, all, with(func(r *sluice.Rules) { r.AdmissionRatio = 2 }), ""},
		{"no bound", `{"admission_ratio":null}`, sluice.Rules{AdmissionRatio: 1.5}, none, ""},
		{"null takes one away", `{"buyer_rate":null}`, all, with(func(r *sluice.Rules) {
			r.BuyerRate = sluice.BuyerRate{}
		}), ""},
		{
			"null takes all away",
			`{"buyer_rate":null,"address_rate":null,"admission_ratio":null,"ticket":null,"challenge":null,"risk":null,
			"eligibility":null,
			"visibility":"listed","availability":"exact"}`, all, none, "",
		},
		{
			"a rate is not shared unless it says so", `{"buyer_rate":{"requests":3,"per_s":2}}`, none,
			sluice.Rules{BuyerRate: sluice.BuyerRate{Requests: 3, PerS: 2}},
			"",
		},
		{
			"what risk may leave out", `{"ticket":{"before_s":1},"risk":{"url":"http://127.0.0.1:9/"}}`, none,
			sluice.Rules{Ticket: sluice.Ticket{BeforeS: 1}, Risk: sluice.Risk{
				URL: "http://127.0.0.1:9/", TimeoutMS: 1000, OnFailure: sluice.Deny,
			}},
			"",
		},

		{"unknown rule", `{"buyer_rates":null}`, none, none, "buyer_rates: unknown field"},
		{
			"unknown field of a rule", `{"buyer_rate":{"requests":1,"per_s":1,"burst":2}}`, none, none,
			"buyer_rate.burst: unknown field",
		},
		{
			"an address rate of each server", `{"address_rate":{"requests":2,"per_s":1}}`, all,
			with(func(r *sluice.Rules) { r.AddressRate = sluice.AddressRate{Requests: 2, PerS: 1} }), "",
		},
		{"other spelling", `{"buyer_rate":{"Requests":1,"per_s":1}}`, none, none, "buyer_rate.Requests: unknown field"},
		{"a rate of nothing", `{"buyer_rate":{}}`, none, none, "buyer_rate: want requests and per_s"},
		{"no period", `{"buyer_rate":{"requests":1}}`, none, none, "buyer_rate: per_s 0: want 1 to 86400"},
		{"no requests", `{"address_rate":{"per_s":1}}`, none, none, "address_rate: requests 0: want 1 to 1000000"},
		{
			"too many requests", `{"address_rate":{"requests":1000001,"per_s":1}}`, none, none,
			"address_rate: requests 1000001",
		},
		{"period of a fraction", `{"buyer_rate":{"requests":1,"per_s":0.5}}`, none, none, "per_s: want a whole number"},
		{"ratio 0", `{"admission_ratio":0}`, none, none, "admission_ratio: want a number above 0"},
		{"negative ratio", `{"admission_ratio":-0.5}`, none, none, "admission_ratio -0.5: want 0.001 to"},
		{"ratio as text", `{"admission_ratio":"1.5"}`, none, none, "admission_ratio: want a number, have string"},
		{"huge ratio", `{"admission_ratio":1e300}`, none, none, "admission_ratio 1e+300: want"},
		{"ticket of no time", `{"ticket":{"before_s":0}}`, none, none, "ticket: want before_s"},
		{"ticket as a flag", `{"ticket":true}`, none, none, "ticket: want an object, have bool"},
		{"easy challenge", `{"challenge":{"difficulty":0}}`, none, none, "challenge: want a difficulty"},
		{
			"endless challenge", `{"ticket":{"before_s":1},"challenge":{"difficulty":31}}`, none, none,
			"challenge: difficulty 31: want 1 to 30",
		},
		{
			"challenge without a ticket", `{"challenge":{"difficulty":3}}`, none, none,
			"challenge: it is asked for before the ticket",
		},
		{"ticket taken from a challenge", `{"ticket":null}`, all, none, "challenge: it is asked for before the ticket"},
		{
			"risk without a ticket", `{"risk":{"url":"https://risk.example/"}}`, none, none,
			"risk: the service is asked before the ticket",
		},
		{
			"risk of another scheme", `{"risk":{"url":"ftp://risk.example/"}}`, none, none,
			`risk: url "ftp://risk.example/": want an address`,
		},
		{
			"risk with a password", `{"risk":{"url":"https://a:b@risk.example/"}}`, none, none,
			"risk: url: want no user name or password",
		},
		{"patient risk", `{"risk":{"url":"https://risk.example/","timeout_ms":10001}}`, none, none, "risk: timeout_ms 10001"},
		{
			"risk's policy", `{"risk":{"url":"https://risk.example/","on_failure":"shrug"}}`, none, none,
			`on_failure "shrug": want allow or deny`,
		},
		{
			"unknown visibility", `{"visibility":"private"}`, none, none,
			`visibility "private": want listed, unlisted or hidden`,
		},
		{"empty visibility", `{"visibility":""}`, none, none, "visibility: want listed, unlisted or hidden"},
		{"unknown availability", `{"availability":"few"}`, none, none, `availability "few": want exact, some or none`},
		{"unknown eligibility", `{"eligibility":"vip"}`, none, none, `eligibility "vip": want token or list`},
		{"empty eligibility", `{"eligibility":""}`, none, none, "eligibility: want token or list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sale := aSale(t)
			sale.Rules = c.before
			var p api.PatchSale
			err := api.Decode([]byte(c.body), &p)
			if err == nil {
				err = p.Apply(&sale)
			}
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, sale.Rules); d != "" {
				t.Errorf("patched (-want +got):\n%s", d)
			}

			// The same in the message that creates a sale.
			if c.before == none {
				var create api.CreateSale
				if err := api.Decode([]byte(strings.TrimSuffix(goodSale, "}")+","+c.body[1:]), &create); err == nil {
					if made, err := create.Domain(nil); err != nil || made.Rules != c.want {
						t.Errorf("created: %v, %+v", err, made.Rules)
					}
				} else if c.body != `{}` {
					t.Error(err)
				}
			}

			// What is shown can be sent back.
			shown := adminSaleMessage(unread(&sale), time.Time{})
			text := must.Get(json.Marshal(shown.Rules))(t)
			var back api.PatchSale
			if err := api.Decode(text, &back); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			again := aSale(t)
			again.Rules = all
			if err := back.Apply(&again); err != nil || again.Rules != c.want {
				t.Errorf("%s: %v, %+v", text, err, again.Rules)
			}
		})
	}
}

func aSale(t *testing.T) sluice.Sale {
	t.Helper()
	var c api.CreateSale
	must.Succeed(t, api.Decode([]byte(goodSale), &c))
	s := must.Get(c.Domain(nil))(t)
	return s
}

// A list that was stored with such ids denies nobody: the check of the sale says so.
func TestListedIDsThatLookWrong(t *testing.T) {
	for id, wrong := range map[sluice.BuyerID]bool{
		"bob": false, "bob smith": false, " bob": true, "bob\u3000": true, "a;b": true,
	} {
		if looks := looksWrong(id); (looks != "") != wrong {
			t.Errorf("%q: %q", id, looks)
		}
	}
}
