package browser

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/figures"
)

// A time of another year says which, and one of this year does not.
func TestTimesNameAnotherYear(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "years").tab()
	sale := s.sale(t, opensIn(time.Hour), func(c *api.CreateSale) {
		c.ClosesAt = api.Value(api.At(time.Date(2099, 6, 15, 12, 0, 0, 0, time.UTC)))
	})
	b.openSale(sale, "")
	b.wait(`document.getElementById("closes").textContent.includes("2099")`)

	got := strings.Fields(
		b.text(`(await import(document.querySelector('link[href$="/format.js"]').href).then(({ time, day }) => {
		const now = Date.parse("2026-06-15T12:00:00Z"), other = Date.parse("2027-06-15T12:00:00Z");
		const same = Date.parse("2026-07-20T12:00:00Z");
		return [time(other, now), day(other, now), time(same, now), day(same, now), time(now, other), time(now, now)]
			.map((text) => text.match(/20\d\d/)?.[0] ?? "none").join(" ");
	}))`))
	if want := "2027 2027 none none 2026 none"; strings.Join(got, " ") != want {
		t.Errorf("the years named are %q, want %q", got, want)
	}
}

// Where clocks are put back, one hour is there twice: a time near it says which one it is.
func TestTimesNameTheZoneWhereClocksChange(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "zones").tab()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetTimezoneOverride,
			emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
		return err
	}))
	b.openSale(s.sale(t, opensIn(time.Hour)), "")
	got := b.text(`(await import(document.querySelector('link[href$="/format.js"]').href).then(({ time, clockTime, hour }) => {
		const now = Date.parse("2027-10-20T12:00:00Z"), summer = Date.parse("2027-10-31T00:30:00Z");
		const winter = summer + 3600000, plain = Date.parse("2027-11-11T11:00:00Z");
		const all = [time(summer, now), time(winter, now), clockTime(winter), hour(summer), hour(winter), time(plain, now)];
		return all.map((text) => text.match(/\d\d:.*/)[0]).join(", ");
	}))`)
	if want := "02:30 GMT+2, 02:30 GMT+1, 02:30:00 GMT+1, 02:00 GMT+2, 02:00 GMT+1, 12:00"; got != want {
		t.Errorf("the times are %q, want %q", got, want)
	}
}

// The pages take as many digits for a currency's minor units as the rest of Sluice does,
// whatever the browser's custom is: for IDR and HUF it shows none.
func TestMoneyHasTheDigitsOfItsCurrency(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "money").tab()
	b.openSale(s.sale(t, opensIn(time.Hour)), "")
	currencies := strings.Fields("EUR HUF IDR PKR COP AFN JPY XOF XAF XPF PYG UGX UYI RWF GNF KMF DJF BIF VUV VND CLP " +
		"ISK KRW BHD KWD JOD OMR TND IQD LYD CLF UYW")
	got := strings.Fields(b.text(`(await import(document.querySelector('link[href$="/format.js"]').href).then(({ money }) =>
		"` + strings.Join(currencies, " ") + `".split(" ").map((currency) =>
			Number(money({ amount: 1234567, currency }).match(/\d[\d.,]*/)[0].replaceAll(",", ""))).join(" ")))`))
	if len(got) != len(currencies) {
		t.Fatalf("%q", got)
	}
	for i, currency := range currencies {
		if want := figures.Money(1234567, currency); got[i]+" "+currency != want {
			t.Errorf("the page shows %s %s, want %s", got[i], currency, want)
		}
	}
}

// A price of 0 is no amount. There is nothing to pay at a free sale, and the page says so in both languages; at another
// one it says nothing of a price, which the shop keeps elsewhere.
func TestAPriceOfZeroIsNoAmount(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, c := range []struct {
		free                             bool
		buyer, price, chinese, title, is string
	}{
		{true, "zero-free", "Free", "免费", "Confirmed", "paid"},
		{false, "zero-elsewhere", "", "", "It is yours", "pending"},
	} {
		b := visit(t, s, c.buyer).tab()
		sale := s.sale(t, units(5), func(m *api.CreateSale) {
			m.Price.Value.Amount = 0
			if c.free {
				m.Free = api.Some(true)
			}
		})
		b.openSale(sale, c.buyer)
		b.wait(canBuy)
		const price = `document.getElementById("price")`
		if got := b.text(price + `.checkVisibility() ? ` + price + `.innerText : ""`); got != c.price {
			t.Errorf("%s: the price is %q, want %q", c.buyer, got, c.price)
		}
		b.click("#buy")
		b.wait(`document.getElementById("order").dataset.status === "` + c.is + `"`)
		b.says("order-title", c.title)
		if got := b.text(`document.querySelector("main").innerText`); strings.Contains(got, "0.00") ||
			c.free && strings.Contains(got, "ay ") {
			t.Errorf("%s: the page says\n%s", c.buyer, got)
		}
		b.speak("zh-CN")
		if got := b.text(price + `.innerText`); got != c.chinese {
			t.Errorf("%s: the price is %q in Chinese, want %q", c.buyer, got, c.chinese)
		}
	}
}
