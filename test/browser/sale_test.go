package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// What a buyer hears.
const (
	yours   = "It is yours"
	payNow  = `document.getElementById("pay")?.checkVisibility()`
	soldOut = `document.getElementById("badge")?.dataset.state === "sold_out"`
)

// The visitor's own clock is an hour slow, the wall clock jumps, and the
// button still opens at the server's moment: not before it, and at once.
func TestOpensAtTheServersMoment(t *testing.T) {
	s := start(t)
	const wrongClock = `{
		const real = Date.now.bind(Date), RealDate = Date, slow = () => real() - 3600e3;
		Date = class extends RealDate { constructor(...a) { a.length ? super(...a) : super(slow()); } static now() { return slow(); } };
		window.realNow = real;
		addEventListener("DOMContentLoaded", () => {
			const button = document.getElementById("buy");
			if (!button) return;
			new MutationObserver(() => {
				if (button.getAttribute("aria-disabled") === "false" && !window.openedAt) window.openedAt = real();
			}).observe(button, { attributes: true });
		});
	}`
	b := visit(t, s, "punctual").tab(wrongClock)
	open := func() (sale sluice.SaleID, late float64) {
		var opens time.Time
		// On a busy machine the page may come too late to count down.
		for lead := 4 * time.Second; ; lead *= 3 {
			opens = time.Now().Add(lead).Truncate(time.Millisecond)
			sale = s.sale(t, func(c *api.CreateSale) { c.OpensAt = api.Some(api.At(opens)) })
			b.openSale(sale, "punctual")
			b.wait(`["upcoming", "open"].includes(document.body.dataset.state)`)
			seen := b.is(
				`document.getElementById("countdown-label").textContent === "Opens in" && document.getElementById("countdown").checkVisibility() && !window.openedAt`)
			if seen && time.Now().Before(opens) || lead > patience {
				break
			}
		}
		// This machine's clock is the server's.
		b.wait("window.openedAt")
		late = b.number("openedAt") - float64(opens.UnixMilli())
		doubt := b.number(`(await import(document.querySelector('link[href$="/here.js"]').href)).clock.doubt`)
		t.Logf("the button opened %.0f ms after the server's moment; the page knew the server's clock to %.1f ms", late,
			doubt)
		if late < -doubt-20 {
			t.Errorf("the button opened %.0f ms before the server's moment", -late)
		}
		return sale, late
	}
	// The first of a few that is in time is enough: a busy machine may let the
	// page wait, but a page that is late by itself is late each time.
	sale, late := open()
	for range 4 {
		if late <= 200 {
			break
		}
		sale, late = open()
	}
	if late > 200 {
		t.Errorf("the button opens %.0f ms after the server's moment, and was no faster in five openings; want 200 at most",
			late)
	}
	b.says("said", "The sale is open")
	b.click("#buy")
	b.says("order-title", yours)
	s.orders(t, sale, 1)
}

// A double click in one tab and a click in another are one purchase.
func TestTwoTabsAndADoubleClickBuyOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	v := visit(t, s, "hasty")
	first := v.tab(`
		const real = window.fetch;
		window.fetch = async (path, options) => options?.method === "POST" && window.refuse
			? new Response('{"code":"forbidden","reason":"not_eligible","title":"No","status":403}',
				{ status: 403, headers: { "Content-Type": "application/problem+json" } })
			: real(path, options);`)
	sale := s.sale(t, units(10), unlimited)
	first.openSale(sale, "hasty")
	first.wait(canBuy)
	// What this tab learns of the other one's lock comes late.
	second := v.tab(`
		const query = navigator.locks.query.bind(navigator.locks);
		navigator.locks.query = async () => {
			const seen = await query();
			await new Promise((done) => setTimeout(done, 500));
			return seen;
		};`)
	second.openSale(sale, "") // the tabs share who is signed in
	second.wait(canBuy)
	const hasty = `(() => { const b = document.getElementById("buy"); b.click(); b.click(); return true; })()`
	first.do(chromedp.Evaluate[chromedp.Void](hasty))
	second.do(chromedp.Evaluate[chromedp.Void](hasty))
	first.wait(payNow)
	second.wait(payNow)
	orders := s.orders(t, sale, 1)
	for _, b := range []*tab{first, second} {
		if got := b.text(`document.getElementById("order-id").textContent`); got != string(orders[0].OrderID) {
			t.Errorf("a tab shows the order %s, want %s", got, orders[0].OrderID)
		}
	}
	// No more was taken than that one order's unit.
	if now, err := s.merchant.AdminSale(t.Context(), sale); err != nil || now.Taken != 1 {
		t.Errorf("taken %d, %v", now.Taken, err)
	}
	// On purpose, another one may be bought: there is no limit here.
	first.says("buy", "Buy another")
	first.click("#buy")
	s.orders(t, sale, 2)
	first.wait(`document.getElementById("order-id").textContent !== "` + string(orders[0].OrderID) + `" && ` + payNow)
	// One that is refused takes nothing from sight.
	had := first.text(`document.getElementById("order-id").textContent`)
	first.do(chromedp.Evaluate[chromedp.Void]("window.refuse = true; undefined"))
	first.wait(canBuy)
	first.click("#buy")
	first.says("status", "not for this account")
	first.do(chromedp.Reload())
	first.wait(payNow)
	if got := first.text(`document.getElementById("order-id").textContent`); got != had {
		t.Errorf("after a refused third purchase the page shows the order %s, want %s", got, had)
	}
}

// The page is loaded again while the answer is on its way, and the answer is
// lost: the page goes on by itself with the same key, and it is one order.
func TestReloadInTheMiddle(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "unlucky").tab(`
		const real = window.fetch;
		window.fetch = async (path, options) => {
			const answer = await real(path, options);
			if (options?.method === "POST" && !sessionStorage.lost) {
				sessionStorage.lost = "yes";
				return new Promise(() => {}); // it never comes
			}
			return answer;
		};`)
	sale := s.sale(t, units(5), unlimited) // only the key keeps it one
	b.openSale(sale, "unlucky")
	b.wait(canBuy)
	b.click("#buy")
	b.wait(`sessionStorage.lost && Object.keys(localStorage).some((k) => k.startsWith("sluice_attempt:") && JSON.parse(localStorage[k]).sent)`)
	b.says("status", "Sent. Waiting")
	orders := s.orders(t, sale, 1)
	b.do(chromedp.Reload())
	b.wait(payNow)
	if got := b.text(`document.getElementById("order-id").textContent`); got != string(orders[0].OrderID) {
		t.Errorf("after the reload the page shows the order %s, want %s", got, orders[0].OrderID)
	}
	// And a reload afterwards shows it as well, without asking again.
	posts := b.asked("/orders")
	b.do(chromedp.Reload())
	b.wait(payNow)
	if b.asked("/orders") != posts {
		t.Error("the page claimed again although it has the order")
	}
	s.orders(t, sale, 1)
}

// A proxy says 404 while the server is away: the page forgets no order for that.
func TestAProxysAnswerForgetsNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "patient").tab(`
		const real = window.fetch;
		window.fetch = async (path, options) => {
			if (sessionStorage.away > 0 && /orders\/[^/]+$/.test(path)) {
				sessionStorage.away--;
				return new Response("default backend - 404", { status: 404 });
			}
			return real(path, options);
		};`)
	sale := s.sale(t, units(5), unlimited)
	b.openSale(sale, "patient")
	b.wait(canBuy)
	b.click("#buy")
	b.wait(payNow)
	b.do(chromedp.Evaluate[chromedp.Void](`sessionStorage.away = 3`), chromedp.Reload())
	b.wait(`sessionStorage.away === "0"`)
	b.wait(payNow)
	s.orders(t, sale, 1)
}

// A lost reply: the page says that the outcome is unknown, asks again with the
// same key, and gets the same order.
func TestLostReply(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "lossy").tab(`
		const real = window.fetch;
		window.keys = [];
		window.fetch = async (path, options) => {
			if (options?.method !== "POST") return real(path, options);
			keys.push(options.headers["Idempotency-Key"]);
			const answer = await real(path, options);
			if (keys.length === 1) throw new TypeError("connection reset");
			return answer;
		};
		window.told = [];
		addEventListener("DOMContentLoaded", () => new MutationObserver(() => told.push(document.getElementById("status").textContent))
			.observe(document.getElementById("status") ?? document.body, { childList: true, characterData: true, subtree: true }));`)
	sale := s.sale(t, units(5), unlimited)
	b.openSale(sale, "lossy")
	b.wait(canBuy)
	b.click("#buy")
	b.wait(payNow)
	if !b.is(`told.some((text) => text.includes("outcome is unknown"))`) {
		t.Errorf("the page did not say that the outcome was unknown: %s", b.text("told.join(' / ')"))
	}
	if !b.is(`keys.length === 2 && keys[0] === keys[1] && /^[A-Za-z0-9_-]{24}$/.test(keys[0])`) {
		t.Errorf("keys: %s", b.text("keys"))
	}
	s.orders(t, sale, 1)
}

// Sold out is shown; a unit that comes back wakes the page, which can buy it.
func TestReturnedUnitWakesTheWaitingPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t)
	winner := visit(t, s, "winner").tab()
	winner.openSale(sale, "winner")
	winner.wait(canBuy)
	winner.click("#buy")
	winner.wait(payNow)

	waiting := visit(t, s, "waiting").tab()
	waiting.openSale(sale, "waiting")
	waiting.wait(soldOut)
	waiting.says("status", "Sold out")
	waiting.says("buy", "Sold out")
	waiting.says("stock-text", "0 left")
	if waiting.is(canBuy) {
		t.Fatal("the button of a sold-out sale can be pressed")
	}

	winner.click("#cancel")
	winner.says("sure", "Give it back?")
	winner.click("#sure-yes")
	winner.says("order-title", "Cancelled")

	waiting.wait(canBuy)
	waiting.says("status", "A unit has come back")
	waiting.says("said", "A unit has come back")
	waiting.wait(`document.title.startsWith("● Available!")`)
	waiting.click("#buy")
	waiting.wait(payNow)
	orders := s.orders(t, sale, 2)
	if orders[0].BuyerID != "winner" || orders[0].Status != sluice.Cancelled || orders[1].BuyerID != "waiting" ||
		orders[1].Status != sluice.Pending {
		t.Errorf("orders: %+v", orders)
	}
	// Who gave it back may try again, as a new attempt, and hears the truth.
	winner.wait(soldOut)
}

// Who loses hears it, although the page still believed that there was one; and
// an old copy of the sale, from a cache on the way, is not taken for a return.
func TestSoldOutOnTheWay(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t)
	b := visit(t, s, "late").tab(`
		const real = window.fetch;
		let copy;
		window.copies = 0;
		window.fetch = async (path, options) => {
			if (path.endsWith("/events")) throw new TypeError("no streams here");
			if (!/^\/v1\/sales\/[^/]+$/.test(path) || window.copies) return real(path, options);
			if (window.posted) window.copies++;
			copy ??= await (await real(path, options)).text();
			return new Response(copy, { headers: { "Content-Type": "application/json" } });
		};
		window.states = [];
		addEventListener("DOMContentLoaded", () => new MutationObserver(() => states.push(document.body.dataset.state))
			.observe(document.body, { attributes: true, attributeFilter: ["data-state"] }));`)
	b.openSale(sale, "late")
	b.wait(canBuy)
	s.claim(t, sale, "quick")
	b.do(chromedp.Evaluate[chromedp.Void](
		`document.getElementById("buy").addEventListener("click", () => { window.posted = true; })`))
	b.click("#buy")
	b.says("badge", "Sold out")
	b.says("status", "Units may come back")
	b.wait("copies === 1")
	b.says("badge", "Sold out")
	if b.is(`states.lastIndexOf("open") > states.indexOf("sold_out")`) {
		t.Errorf("an old copy was believed: %s", b.text("states"))
	}
	s.orders(t, sale, 1)
}

// A shop that pauses, resumes, changes the price and closes is followed.
func TestFollowsTheShop(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "watcher").tab()
	sale := s.sale(t, units(5))
	b.openSale(sale, "watcher")
	b.wait(canBuy)
	must.Get(s.merchant.PauseSale(t.Context(), sale))(t)
	b.says("badge", "Paused")
	b.says("status", "has paused")
	if b.is(canBuy) {
		t.Error("the button of a paused sale can be pressed")
	}
	price := sluice.Money{Amount: 12300, Currency: "CNY"}
	must.Get(s.merchant.PatchSale(t.Context(), sale, api.PatchSale{Price: api.Some(price)}))(t)
	must.Get(s.merchant.ResumeSale(t.Context(), sale))(t)
	b.wait(canBuy)
	b.says("price", "¥123.00")
	must.Get(s.merchant.CloseSale(t.Context(), sale))(t)
	b.says("badge", "Over")
	b.says("status", "is over")
}

// A rate limit: the page waits as long as Retry-After says and tries again by
// itself.
func TestRateLimited(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "eager").tab(`
		const real = window.fetch;
		window.posts = [];
		window.fetch = async (path, options) => {
			if (options?.method !== "POST") return real(path, options);
			posts.push(performance.now());
			if (posts.length > 1) return real(path, options);
			return new Response('{"code":"rate_limited","title":"Too many requests","status":429}',
				{ status: 429, headers: { "Retry-After": "2", "Content-Type": "application/problem+json" } });
		};`)
	sale := s.sale(t, units(5))
	b.openSale(sale, "eager")
	b.wait(canBuy)
	b.click("#buy")
	b.says("status", "Too many tries")
	b.wait(payNow)
	if waited := b.number("posts[1] - posts[0]"); waited < 2000 {
		t.Errorf("tried again after %.0f ms, Retry-After was 2 s", waited)
	}
}

// Both languages are in one document; ?lang= and the switch choose, and the
// choice is remembered.
func TestLanguages(t *testing.T) {
	t.Parallel()
	s := start(t)
	v := visit(t, s, "bilingual")
	b := v.tab()
	sale := s.sale(t, opensIn(time.Hour))
	b.openSale(sale, "bilingual")
	b.wait(`document.documentElement.lang === "en"`)
	b.says("badge", "Upcoming")
	b.wait(`document.body.innerText.includes("Per buyer") && !document.body.innerText.includes("每人限购")`)
	b.click(`[data-lang="zh-CN"]`)
	b.says("badge", "即将开始")
	b.says("countdown-label", "距开始")
	b.wait(`document.body.innerText.includes("每人限购") && !document.body.innerText.includes("Per buyer")`)
	b.wait(`document.querySelector('[data-lang="zh-CN"]').getAttribute("aria-current") === "true"`)
	b.do(chromedp.Reload()) // remembered
	b.says("badge", "即将开始")
	b.open("/s/"+string(sale)+"?lang=en", "")
	b.says("badge", "Upcoming")
	b.open("/", "")
	b.wait(`document.documentElement.lang === "en" && document.body.innerText.includes("Limited sales")`)

	// A browser that speaks Chinese gets Chinese without asking.
	c := visit(t, s, "zh").tab(`Object.defineProperty(navigator, "languages", { get: () => ["zh-TW", "en"] })`)
	c.open("/", "")
	c.wait(`document.documentElement.lang === "zh-CN" && document.body.innerText.includes("限时抢购")`)

	// Every text there is in both languages.
	wrong := b.text(`(await import(document.querySelector('link[href$="/texts.js"]').href).then(({ texts }) => {
		const keys = Object.values(texts).map((all) => new Set(Object.keys(all)));
		return [...keys[0].symmetricDifference(keys[1])].join(" ");
	}))`)
	if strings.TrimSpace(wrong) != "" {
		t.Errorf("texts in one language only: %s", wrong)
	}
}

// Without a mouse: the focus waits on the button before the opening, Enter
// buys, and the order has the focus.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "keys").tab()
	sale := s.sale(t, opensIn(time.Hour))
	b.openSale(sale, "keys")
	b.wait(`document.getElementById("buy")?.checkVisibility()`)
	for range 12 {
		if b.is(`document.activeElement.id === "buy"`) {
			break
		}
		b.press("\t")
	}
	if !b.is(`document.activeElement.id === "buy"`) {
		t.Fatalf("Tab does not come to the button, but to %s", b.text("document.activeElement.outerHTML"))
	}
	b.press("\r") // too early: it says so
	b.wait(`document.getElementById("said").textContent === "Not open yet."`)
	must.Get(s.merchant.OpenSale(t.Context(), sale))(t)
	b.wait(canBuy)
	if !b.is(`document.activeElement.id === "buy"`) {
		t.Error("the button lost the focus when it opened")
	}
	b.press("\r")
	b.says("order-title", yours)
	b.wait(`document.activeElement.id === "order-title"`)
	b.wait(payNow)
	// On to the buttons of the order; Escape takes a question back.
	for range 6 {
		b.press("\t")
		if b.is(`document.activeElement.id === "cancel"`) {
			break
		}
	}
	b.press("\r")
	b.wait(`document.activeElement.id === "sure-yes"`)
	b.press("\u001b")
	b.wait(`document.activeElement.id === "cancel"`)
	b.press("\r")
	b.wait(`document.activeElement.id === "sure-yes"`)
	b.press("\r")
	b.says("order-title", "Cancelled")
	if orders := s.orders(t, sale, 1); orders[0].Status != sluice.Cancelled {
		t.Errorf("the order is %s", orders[0].Status)
	}
}

// Signing in and out, an expired token, and the order's own page.
func TestBuyerAndOrderPage(t *testing.T) {
	t.Parallel()
	s := start(t)
	v := visit(t, s, "anna")
	b := v.tab()
	sale := s.sale(t, units(5))
	b.openSale(sale, "")
	b.says("login", "Sign in to buy")
	b.wait(`document.getElementById("login").getAttribute("href") === "` + s.shop + `/login?return=" +
		encodeURIComponent(location.origin + location.pathname + "?state=" + localStorage.getItem("sluice_state"))`)
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`location.hash = "token=" + %q`, s.token("anna"))))
	b.click("#ask-yes")
	b.says("buyer", "Signed in as anna")
	b.wait(`location.hash === ""`)
	b.wait(canBuy)
	b.click("#buy")
	b.wait(payNow)
	b.wait(`document.getElementById("pay").getAttribute("href") === "` + s.shop +
		`/pay?order=" + document.getElementById("order-id").textContent`)
	order := s.orders(t, sale, 1)[0].OrderID
	b.click("#order-id")
	b.wait(`location.pathname === "/o/` + string(order) + `"`)
	b.says("order-title", yours)
	b.says("order-left", "left to pay")
	must.Get(s.merchant.PayOrder(t.Context(), order, "pay-1"))(t)
	b.says("order-title", "Paid")
	b.click("#to-sale")
	b.says("order-title", "Paid")

	// Another buyer of the same browser sees nothing of it.
	b.click("#buyer button")
	b.says("login", "Sign in")
	b.wait(`!document.getElementById("order").checkVisibility()`)
	b.open("/o/"+string(order), "bert")
	b.says("status", "no such order for this account")
	b.wait(`!document.getElementById("order").checkVisibility()`)
	b.openSale(sale, "")
	b.says("buyer", "Signed in as bert")
	b.wait(canBuy)
}

// A link with another buyer's token changes nothing unless the visitor agrees:
// without a state, with a forged one, with one that was used, and with this
// browser's own as long as another buyer is signed in.
func TestLinkWithAnotherBuyersToken(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "victim").tab()
	path := "/s/" + string(s.sale(t, units(5)))
	mallory := s.token("mallory")
	// asks opens a link, and wants a question and no other token than before.
	const signedIn = `localStorage.getItem("sluice_token")`
	asks := func(name, link, question string, has ...string) {
		t.Helper()
		before := b.text(signedIn)
		if len(has) > 0 { // the state of this browser
			b.openState(link, has[0])
		} else {
			b.open(link, "")
		}
		b.wait(`location.hash + location.search === ""`)
		if !b.is(`document.getElementById("ask")?.textContent.includes("`+question+
			`") && document.activeElement.id === "ask-no"`) ||
			b.text(signedIn) != before {
			t.Fatalf("%s: not asked; the page says:\n%s", name, b.text("document.body.innerText"))
		}
		b.press("\u001b")
		b.wait(`!document.getElementById("ask").checkVisibility()`)
		if b.text(signedIn) != before {
			t.Fatalf("%s: Escape signed in", name)
		}
	}
	const state = `new URL(new URL(document.getElementById("login").href).searchParams.get("return")).searchParams.get("state")`

	b.open(path, "")
	asks("signed out", path+"#token="+mallory, "Sign in as mallory?")
	asks("signed out, forged state", path+"?state=forged#token="+mallory, "Sign in as mallory?")
	b.says("login", "Sign in to buy")
	own := b.text(state)
	b.open(path+"#state="+own+"&token="+s.token("victim"), "")
	b.says("buyer", "Signed in as victim")

	change := "You are signed in as victim. Change to mallory?"
	for name, link := range map[string]string{
		"no state": "#token=" + mallory, "forged state": "?state=forged#token=" + mallory,
		"forged state in the fragment": "#token=" + mallory + "&state=forged", "empty state": "#state=&token=" + mallory,
		"null": "#state=null&token=" + mallory, "used state": "?state=" + own + "#token=" + mallory,
	} {
		asks(name, path+link, change)
		asks(name+", on the list", "/"+link, change)
	}
	b.open(path, "")
	b.wait(`document.getElementById("login").href`)
	asks("own state, change of buyer", path+"?state="+b.text(state)+"#token="+mallory, change)
	b.says("buyer", "Signed in as victim")

	asks("another token of the same buyer", path+"#token="+s.token("victim")+"forged", "Sign in as victim?")

	// Agreeing signs in; by the keyboard here.
	b.open(path+"#token="+mallory, "")
	b.wait(`document.activeElement.id === "ask-no"`)
	b.press("\t")
	b.wait(`document.activeElement.id === "ask-yes"`)
	b.press("\r")
	b.says("buyer", "Signed in as mallory")
	b.wait(canBuy)

	// A state is good for one login, and for a day.
	b.click("#buyer button")
	asks("signed out, used state", path+"?state="+own+"#token="+mallory, "Sign in as mallory?")
	old := strconv.FormatInt(time.Now().Add(-25*time.Hour).UnixMilli(), 36) + ".old"
	asks("old state", path+"?state="+old+"#token="+mallory, "Sign in as mallory?", old)
	b.wait(`localStorage.getItem("sluice_state") !== "` + old + `"`)
}

// From the shop's login to the payment, with the mouse only, as a visitor of
// `sluice demo --keep` does it.
func TestThroughTheShop(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "carol").tab()
	sale := s.sale(t, units(5))
	b.openSale(sale, "")
	b.click("#login")
	b.wait(`document.querySelector("h1")?.textContent.startsWith("Log in")`)
	b.do(chromedp.SetValue(chromedp.CSS(`input[name="name"]`), "carol"))
	b.click("#go")
	b.says("buyer", "Signed in as carol")
	b.wait(`location.pathname === "/s/` + string(sale) + `" && location.hash + location.search === ""`)
	b.wait(canBuy)
	b.click("#buy")
	b.wait(payNow)
	b.click("#pay")
	b.wait(`document.querySelector("h1")?.textContent.startsWith("Pay")`)
	b.click("#go")
	b.says("order-title", "Paid")
	if orders := s.orders(t, sale, 1); orders[0].BuyerID != "carol" || orders[0].Status != sluice.Paid {
		t.Errorf("orders: %+v", orders)
	}
	// The shop hands a token to no other site's pages.
	for _, elsewhere := range []string{
		"https://evil.example/", s.url + ".evil.example/", "//evil.example/",
		"javascript:alert(1)",
	} {
		r := must.Get(http.Post(s.shop+"/login?return="+url.QueryEscape(elsewhere), "application/x-www-form-urlencoded",
			strings.NewReader("name=dora")))(t)
		r.Body.Close()
		if got := r.Request.URL.String(); !strings.HasPrefix(got, s.url+"/#token=") {
			t.Errorf("return to %s: the token went to %s", elsewhere, got)
		}
	}
}

// A closed page: its own scripts only, no framing by other sites, and complete
// with a screen reader's landmarks and names.
func TestAccessible(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "listener").tab()
	sale := s.sale(t, units(5))
	b.openSale(sale, "listener")
	b.wait(canBuy)
	for name, expression := range map[string]string{
		"one main, one h1":         `document.querySelectorAll("main").length === 1 && document.querySelectorAll("h1").length === 1`,
		"banner, nav, contentinfo": `document.querySelector("body > header") && document.querySelector("nav[aria-labelledby]") && document.querySelector("body > footer")`,
		"a polite live region":     `document.querySelector('#said[role="status"][aria-live="polite"]')`,
		"the button's description": `document.getElementById(document.getElementById("buy").getAttribute("aria-describedby")).textContent`,
		"ids are unique":           `new Set([...document.querySelectorAll("[id]")].map((e) => e.id)).size === document.querySelectorAll("[id]").length`,
		"labels":                   `[...document.querySelectorAll("input")].every((i) => i.labels.length)`,
		"pictures have a text":     `[...document.images].every((i) => i.hasAttribute("alt"))`,
		"no wider than a phone":    `(document.documentElement.style, document.documentElement.scrollWidth <= innerWidth)`,
		"language":                 `["en", "zh-CN"].includes(document.documentElement.lang)`,
	} {
		if !b.is(expression) {
			t.Errorf("%s: not so", name)
		}
	}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1280} {
			b.emulate(width, 844, scheme)
			if bad := b.text(contrast); bad != "" {
				t.Errorf("%s, %d wide: too little contrast:\n%s", scheme, width, bad)
			}
			if !b.is(`document.documentElement.scrollWidth <= innerWidth`) {
				t.Errorf("%d wide: the page scrolls sideways", width)
			}
		}
	}
}

// contrast lists the texts that one sees whose contrast with what is behind
// them is below that of WCAG 2 AA.
const contrast = `(() => {
	const rgb = (c) => (c.match(/[\d.]+/g) ?? []).map(Number);
	const light = ([r, g, b]) => {
		const f = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const c = rgb(getComputedStyle(e).backgroundColor);
			if (c.length === 3 || c[3] === 1) return c;
		}
		return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
	};
	const bad = [];
	for (const e of document.body.querySelectorAll("*")) {
		const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
		if (!own || !e.checkVisibility() || e.closest(".sr, .skip, noscript")) continue;
		const style = getComputedStyle(e);
		const [a, b] = [light(rgb(style.color)), light(ground(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		const size = parseFloat(style.fontSize), big = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
		if (ratio < (big ? 3 : 4.5)) bad.push(e.textContent.trim() + ": " + ratio.toFixed(2));
	}
	return bad.join("\n");
})()`

// Without scripts the page is an honest one in both languages.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "noscript").tab()
	sale := s.sale(t, opensIn(time.Hour))
	b.noScripts()
	b.openSale(sale, "")
	text := b.text("document.body.innerText")
	for _, want := range []string{
		"A lamp", "199.00 CNY", "299.00 CNY", "UTC", "Buying needs JavaScript",
		"购买需要启用 JavaScript", "Per buyer每人限购",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if b.is(`document.getElementById("buy").checkVisibility() || document.getElementById("countdown").checkVisibility()`) {
		t.Error("there is a button or a countdown that cannot work")
	}
	if strings.Contains(b.text(`document.documentElement.innerHTML`), "undefined") {
		t.Error("undefined")
	}
}

// The list shows what there is, with its state.
func TestList(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "browsing").tab()
	name := func(text string) saleOption { return func(c *api.CreateSale) { c.Title = text } }
	now := s.sale(t, units(7), name("Listed, on sale"))
	later := s.sale(t, opensIn(48*time.Hour), name("Listed, in two days"))
	tile := func(sale sluice.SaleID) string {
		return fmt.Sprintf(`document.querySelector('#days a[href="/s/%s"]')`, sale)
	}
	b.open("/", "")
	b.wait(tile(now) + `?.innerText.includes("7 left") && ` + tile(now) +
		`.closest("section").innerText.startsWith("Now")`)
	b.wait(tile(later) + `?.innerText.includes("Upcoming") && !` + tile(later) +
		`.closest("section").innerText.startsWith("Now")`)
	s.claim(t, now, "someone")
	b.wait(tile(now) + `?.innerText.includes("6 left")`)
	b.do(chromedp.Evaluate[chromedp.Void](tile(now) + ".click()"))
	b.wait(`document.getElementById("title")?.textContent === "Listed, on sale"`)
}

// The page comes from the browser's cache without a request: only the state is
// asked for.
func TestPageIsCached(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "again").tab()
	sale := s.sale(t, units(5))
	b.openSale(sale, "")
	b.says("login", "Sign in")
	b.open("/", "")
	b.wait(`document.querySelector(".badge")`)
	type entry struct {
		Name         string
		TransferSize int64
	}
	b.openSale(sale, "")
	b.says("login", "Sign in")
	var entries []entry
	must.Succeed(t, json.Unmarshal(
		[]byte(b.text(
			`JSON.stringify([...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
		.map((e) => ({ name: e.name, transferSize: e.transferSize })))`)), &entries))
	cached := 0
	for _, e := range entries {
		if strings.Contains(e.Name, "/v1/") {
			continue
		}
		if e.TransferSize > 0 {
			t.Errorf("%s was fetched again: %d bytes", e.Name, e.TransferSize)
		}
		cached++
	}
	if cached < 8 {
		t.Errorf("only %d entries: %+v", cached, entries)
	}
}

// A page weighs little without its picture, and nothing in it jumps: not when the script begins,
// nor when the state of the sale comes, nor the picture.
func TestPageIsLight(t *testing.T) {
	t.Parallel()
	s := start(t)
	over := s.sale(t, units(40))
	must.Get(s.merchant.CloseSale(t.Context(), over))(t)
	for name, c := range map[string]struct {
		sale    sluice.SaleID
		waitFor string
	}{
		"open": {
			s.dress(t, s.sale(t, units(40)), "lamp"),
			`document.getElementById("login").checkVisibility() && document.querySelector(".gallery img").naturalWidth > 0`,
		},
		"over": {over, `document.getElementById("status").textContent === "This sale is over."`},
	} {
		b := visit(t, s, "light "+name).tab(`window.shifts = 0; window.largest = 0;
			new PerformanceObserver((list) => { for (const e of list.getEntries()) window.shifts += e.value; })
				.observe({ type: "layout-shift", buffered: true });
			new PerformanceObserver((list) => { window.largest = Math.round(list.getEntries().at(-1).startTime); })
				.observe({ type: "largest-contentful-paint", buffered: true });`)
		b.emulate(390, 844, "light")
		b.openSale(c.sale, "")
		b.wait(c.waitFor + ` && window.largest > 0`)
		var page struct {
			Weight, Largest int64 // bytes as they were sent, and the milliseconds until the largest thing was painted
			Shifts          float64
		}
		must.Succeed(t, json.Unmarshal([]byte(b.text(`JSON.stringify({ weight: [...performance.getEntriesByType("navigation"),
			...performance.getEntriesByType("resource")].filter((e) => !e.name.endsWith(".jpg"))
			.reduce((sum, e) => sum + e.encodedBodySize, 0), shifts: window.shifts, largest: window.largest })`)), &page))
		if page.Weight < 10_000 || page.Weight > 120_000 || page.Shifts > 0.05 {
			t.Errorf("%s: %+v: want at most 120,000 bytes, and shifts of 0.05", name, page)
		}
		t.Logf("%s: %+v", name, page)
	}
}
