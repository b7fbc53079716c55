package browser

import (
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

func showing(what sluice.Availability) func(*api.CreateSale) {
	return func(c *api.CreateSale) { c.Availability = api.Some(what) }
}

// A sale that shows whether there are units, and no number, says so in words.
func TestSomeUnits(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t, units(1), showing(sluice.Some))
	b := visit(t, s, "watcher").tab()
	b.openSale(sale, "watcher")
	b.wait(canBuy)
	b.says("stock-text", "In stock")
	if b.is(`!document.getElementById("total-row").hidden || !document.getElementById("stock-bar").hidden`) {
		t.Error("the page shows a number of units")
	}
	order := s.claim(t, sale, "quick")
	b.says("status", "Sold out")
	s.orders(t, sale, 1)
	must.Get(s.merchant.AdminCancelOrder(t.Context(), order))(t)
	b.says("status", "Units have come back")
	b.click("#buy")
	b.says("order-title", "It is yours")
}

// A sale that shows nothing says that it is sold out to the buyer who asked, and lets
// them ask again. One that is hidden while they look is gone, and comes back.
func TestNothingIsShown(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t, units(1), showing(sluice.None))
	b := visit(t, s, "patient").tab()
	b.openSale(sale, "patient")
	b.wait(canBuy)
	order := s.claim(t, sale, "quick")
	s.orders(t, sale, 1)
	b.click("#buy")
	b.says("status", "Sold out at the moment")
	if text := b.text(`document.getElementById("stock").hidden ? "" : "stock"`); text != "" || !b.is(canBuy) {
		t.Errorf("stock %q, or the button is off", text)
	}
	show := func(v sluice.Visibility) {
		t.Helper()
		_, err := s.merchant.PatchSale(t.Context(), sale, api.PatchSale{PatchRules: api.PatchRules{Visibility: api.Some(v)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	show(sluice.Hidden)
	b.says("status", "There is no such sale")
	if list := b.text(`await fetch("/v1/sales").then((r) => r.text())`); strings.Contains(list, string(sale)) {
		t.Error("it is listed")
	}
	show(api.Listed)
	b.wait(canBuy)
	must.Get(s.merchant.AdminCancelOrder(t.Context(), order))(t)
	b.wait(canBuy)
}
