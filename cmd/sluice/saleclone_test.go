package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// A rehearsal has all terms, rules and lists of its sale, and another face.
func TestSaleClone(t *testing.T) {
	s := serve(t)
	list := filepath.Join(t.TempDir(), "buyers.txt")
	if err := os.WriteFile(list, []byte("ann\nbob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ok(t, s.env, "sale", "create", "--id", "phone", "--sku", "P-1", "--title", "A phone", "--price", "99900",
		"--list-price", "109900", "--currency", "EUR", "--total", "10", "--max-per-buyer", "2",
		"--max-orders-per-buyer", "3", "--max-unpaid-per-buyer", "none", "--payment-window", "5m", "--payment-grace", "7s",
		"--opens-at", "+1h", "--closes-at", "+3h", "--buyer-rate", "10/1s", "--address-rate", "50/1s",
		"--admission-ratio", "1.5", "--eligibility", "list", "--availability", "some")
	ok(t, s.env, "sale", "allow", "phone", "--file", list)
	made := okJSON[api.AdminSale](t, s.env, "sale", "clone", "phone", "--rehearse", "--opens-at", "+2h")
	phone := okJSON[api.AdminSale](t, s.env, "sale", "show", "phone")

	if made.ID != "phone-rehearsal" || made.Title != "REHEARSAL: A phone" || made.SKU != "REHEARSAL-P-1" ||
		made.Visibility != sluice.Unlisted {
		t.Errorf("like the real one: %+v", made)
	}
	if lasts := made.ClosesAt.Sub(made.OpensAt.Time); lasts != phone.ClosesAt.Sub(phone.OpensAt.Time) ||
		made.OpensAt.Sub(phone.OpensAt.Time) < 50*time.Minute {
		t.Errorf("opens at %s, for %s", made.OpensAt, lasts)
	}
	terms := func(s api.AdminSale) api.AdminSale {
		return api.AdminSale{
			Sale: api.Sale{
				Price: s.Price, ListPrice: s.ListPrice, Total: s.Total, MaxPerBuyer: s.MaxPerBuyer,
			},
			MaxOrdersPerBuyer: s.MaxOrdersPerBuyer, MaxUnpaidPerBuyer: s.MaxUnpaidPerBuyer,
			PaymentWindowS: s.PaymentWindowS, PaymentGraceS: s.PaymentGraceS, Rules: s.Rules,
		}
	}
	same := terms(phone)
	same.Visibility = made.Visibility
	if diff := cmp.Diff(same, terms(made)); diff != "" {
		t.Errorf("other terms (-phone +rehearsal):\n%s", diff)
	}
	if out := ok(t, s.env, "sale", "allow", "phone-rehearsal", "--export"); out != "ann\nbob\n" {
		t.Errorf("allow list: %q", out)
	}
	if deny := okJSON[api.BuyerList](t, s.env, "sale", "deny", "phone-rehearsal"); deny.Size != 0 {
		t.Errorf("deny list: %+v", deny)
	}

	if again := okJSON[api.AdminSale](t, s.env, "sale", "clone", "phone", "--id", "phone-2"); again.Title != "A phone" ||
		again.SKU != "P-1" || again.Visibility != phone.Visibility {
		t.Errorf("%+v", again)
	}
	// One that opens now has its lists before, and a long title is cut.
	long := strings.Repeat("好", 85)
	ok(t, s.env, "sale", "create", "--id", "lamp", "--title", long, "--price", "100",
		"--total", "10", "--closes-at", "+1m")
	ok(t, s.env, "sale", "deny", "lamp", "--file", list)
	lamp := okJSON[api.AdminSale](t, s.env, "sale", "clone", "lamp", "--rehearse", "--opens-at", "now")
	if lamp.State != sluice.StateOpen || lamp.ClosesAt.Sub(lamp.OpensAt.Time).Round(time.Second) != time.Minute ||
		lamp.Title != "REHEARSAL: "+strings.Repeat("好", 81) {
		t.Errorf("%+v", lamp)
	}
	if deny := okJSON[api.BuyerList](t, s.env, "sale", "deny", "lamp-rehearsal"); deny.Size != 2 {
		t.Errorf("deny list: %+v", deny)
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{exitUsage, []string{"phone"}},
		{exitUsage, []string{"phone", "--id", "No"}},
		{exitUsage, []string{"phone", "--rehearse", "--opens-at", "soon"}},
		{exitFailed, []string{"phone", "--rehearse"}}, // there is one already
		{exitFailed, []string{"radio", "--rehearse"}},
	} {
		if got := command(t, s.env, append([]string{"sale", "clone"}, c.args...)...); got.code != c.code {
			t.Errorf("%v: %+v", c.args, got)
		}
	}
}
