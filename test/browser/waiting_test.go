package browser

import (
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// A buyer who wants more units than there are sees so, and is woken when there
// are enough: the same press then buys them.
func TestEnoughUnitsWakeWhoWantsMore(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t, units(3), unlimited)
	quick := []sluice.OrderID{s.claim(t, sale, "quick"), s.claim(t, sale, "quick")}
	s.orders(t, sale, 2)
	cancel := func(order sluice.OrderID) {
		t.Helper()
		must.Get(s.merchant.AdminCancelOrder(t.Context(), order))(t)
	}
	b := visit(t, s, "greedy").tab()
	b.openSale(sale, "greedy")
	b.wait(canBuy)
	b.do(chromedp.SetValue(chromedp.CSS("#quantity"), "3"))
	b.click("#buy")
	b.says("status", "Only 1 left")
	cancel(quick[0])
	b.says("status", "Only 2 left") // not yet enough, and it says how many there are
	cancel(quick[1])
	b.says("status", "There are enough now: 3 left")
	b.says("said", "There are enough now")
	b.wait(`document.title.startsWith("● Available!")`)
	// Another buyer is quicker, and gives it back: said each time.
	third := s.claim(t, sale, "quick")
	b.says("status", "Only 2 left")
	b.wait(`!document.title.includes("Available")`)
	s.orders(t, sale, 3)
	cancel(third)
	b.says("status", "There are enough now: 3 left")
	b.click("#buy")
	b.says("order-title", "They are yours")
	b.says("order-text", "Your 3 units are held")
	if orders := s.orders(t, sale, 4); orders[3].Quantity != 3 || orders[3].BuyerID != "greedy" {
		t.Errorf("orders: %+v", orders)
	}
}

// Who then asks for fewer is not told any more that there are too few.
func TestAskingForFewer(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t, units(2), unlimited)
	b := visit(t, s, "modest").tab()
	b.openSale(sale, "modest")
	b.wait(canBuy)
	b.do(chromedp.SetValue(chromedp.CSS("#quantity"), "3"))
	b.click("#buy")
	b.says("status", "Only 2 left")
	b.do(chromedp.Evaluate[chromedp.Void](
		`(() => { const q = document.getElementById("quantity"); q.value = "2"; q.dispatchEvent(new Event("change")); })()`))
	b.says("status", "Press the button")
	b.click("#buy")
	b.says("order-title", "They are yours")
	if orders := s.orders(t, sale, 1); orders[0].Quantity != 2 {
		t.Errorf("orders: %+v", orders)
	}
}

// Who may not buy gets no button that looks as if they might.
func TestNoButtonForWhoMayNotBuy(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "stranger").tab(stubs + `stub.orders = { code: "forbidden", status: 403, reason: "denied" };`)
	sale := s.sale(t, units(5))
	b.openSale(sale, "stranger")
	b.wait(canBuy)
	b.click("#buy")
	b.says("buy", "Not for this account")
	if b.is(canBuy) {
		t.Error("the button can be pressed")
	}
	// It is that account's, not the page's.
	b.openSale(sale, "somebody")
	b.click("#ask-yes")
	b.says("buyer", "Signed in as somebody")
	b.wait(canBuy)
}

// A quantity is set right before the button is pressed, where it can be seen.
func TestQuantityIsWhatIsSeen(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "clumsy").tab()
	b.openSale(s.sale(t, units(9), func(c *api.CreateSale) { c.MaxPerBuyer = api.Value(int64(4)) }), "clumsy")
	b.wait(canBuy)
	for typed, want := range map[string]string{"7": "4", "0": "1", "2.9": "2", "": "1", "3": "3"} {
		if got := b.text(`(() => { const q = document.getElementById("quantity"); q.value = "` + typed +
			`"; q.dispatchEvent(new Event("change")); return q.value; })()`); got != want {
			t.Errorf("typed %q: %q, want %q", typed, got, want)
		}
	}
}

// On a page that came by plain HTTP from another machine browsers have no
// locks. Two tabs, each of which does not know yet of what the other has just
// written, still send one key.
func TestOneKeyWithoutLocks(t *testing.T) {
	t.Parallel()
	s := start(t)
	plain := *s
	address := must.Get(url.Parse(s.url))(t)
	plain.url = "http://" + plainHost + ":" + address.Port()
	v := visit(t, &plain, "twice")
	// The attempt is hidden from every tab but its own until hide is false, and
	// no claim leaves before go.
	const late = `{
		window.hide = true;
		const read = Storage.prototype.getItem, write = Storage.prototype.setItem;
		const own = new Map();
		Storage.prototype.getItem = function (name) {
			return hide && name.startsWith("sluice_attempt:") ? own.get(name) ?? null : read.call(this, name);
		};
		Storage.prototype.setItem = function (name, value) { own.set(name, value); write.call(this, name, value); };
		const real = window.fetch;
		const gone = new Promise((go) => { window.go = go; });
		window.keys = [];
		window.fetch = async (path, options) => {
			if (options?.method === "POST") {
				keys.push(options.headers["Idempotency-Key"]);
				await gone;
			}
			return real(path, options);
		};
	}`
	first, second := v.tab(late), v.tab(late)
	sale := s.sale(t, units(10), unlimited)
	first.openSale(sale, "twice")
	first.wait(canBuy)
	second.openSale(sale, "")
	second.wait(canBuy)
	for _, b := range []*tab{first, second} {
		if b.is("isSecureContext || navigator.locks") {
			t.Fatal("the browser trusts this page: the test shows nothing")
		}
	}
	for _, b := range []*tab{first, second} {
		b.click("#buy")
		b.wait("keys.length === 1")
	}
	for _, b := range []*tab{first, second} {
		b.do(chromedp.Evaluate[chromedp.Void]("go()"))
		b.wait(payNow)
	}
	order := s.orders(t, sale, 1)[0].OrderID
	for _, b := range []*tab{first, second} {
		if got := b.text(`document.getElementById("order-id").textContent`); got != string(order) {
			t.Errorf("a tab shows the order %s, want %s", got, order)
		}
		b.do(chromedp.Evaluate[chromedp.Void]("hide = false; undefined"))
	}
	// The next purchase is another one, with another key, and one for both tabs again.
	first.says("buy", "Buy another")
	first.click("#buy")
	s.orders(t, sale, 2)
	second.wait(`document.getElementById("order-id").textContent !== "` + string(order) + `" && ` + payNow)
	if first.text("keys.length === 2 && keys[0] !== keys[1]") != "true" {
		t.Errorf("keys: %s", first.text("keys"))
	}
}

// A phone that is back in reach does not trust the connection it had: it is not
// told when that is dead.
func TestBackOnlineAsksAnew(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t, units(10), unlimited)
	b := visit(t, s, "commuter").tab(`
		window.made = 0;
		const real = window.fetch;
		window.fetch = async (path, options) => {
			if (!path.endsWith("/events")) return real(path, options);
			const first = await (await real("/v1/sales/" + path.split("/").at(-2))).text();
			window.made++;
			return new Response(new ReadableStream({ start(out) { out.enqueue(new TextEncoder().encode("data: " + first + "\n\n")); } }));
		};`)
	b.openSale(sale, "commuter")
	b.wait(`window.made === 1 && document.body.innerText.includes("10 left")`)
	s.claim(t, sale, "somebody")
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if seen, err := s.merchant.Sale(t.Context(), sale); err == nil && *seen.Available == 9 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", seen, err)
		}
	}
	b.is(`dispatchEvent(new Event("online"))`)
	b.wait(`window.made === 2 && document.body.innerText.includes("9 left")`)
}
