package browser

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// stubs lets a test say what the server answers where that is hard to bring
// about. What a stub does not name is the real server's answer.
const stubs = `
	window.stub = {};
	window.jumps = [];
	window.sawJumps = (entries) => entries.filter((e) => !e.hadRecentInput).forEach((e) => window.jumps.push([e.value,
		...e.sources.map(({ node, previousRect: a, currentRect: b }) => (node?.id || node?.className || node?.nodeName) + " " +
			[a.x, a.y, a.width, a.height] + " -> " + [b.x, b.y, b.width, b.height])]));
	window.watchJumps = new PerformanceObserver((list) => sawJumps(list.getEntries()));
	watchJumps.observe({ type: "layout-shift", buffered: true });
	addEventListener("pointerdown", () => { // what moves from now on, the visitor has moved
		sawJumps(watchJumps.takeRecords());
		watchJumps.disconnect();
	}, { capture: true, once: true });
	{
		const real = window.fetch, never = new Promise(() => {});
		const json = (body, status = 200, headers = {}) => new Response(JSON.stringify(body), { status, headers });
		const problem = ({ status = 409, after, ...body }) => json({ status, ...body }, status,
			{ "Content-Type": "application/problem+json", ...(after && { "Retry-After": String(after) }) });
		const changed = async (answer, change) => (change && answer.ok ? json({ ...await answer.json(), ...change }) : answer);
		window.fetch = async (path, options) => {
			if (stub.gone || path.endsWith("/events") && (stub.sale || stub.noEvents)) throw new TypeError("network error");
			if (options?.method === "POST") {
				const what = path.split("/").at(-1); // orders, ticket, challenge, cancel
				if (stub[what] === "never") return never;
				if (stub[what] === "lost") throw new TypeError("network error");
				if (stub[what]?.code) return problem(stub[what]);
				return changed(await real(path, options), stub[what]);
			}
			if (path === "/v1/sales" && stub.list) return json({ sales: stub.list });
			if (/^\/v1\/sales\/[^/]+$/.test(path)) return changed(await real(path, options), stub.sale);
			if (/^\/v1\/orders\/[^/]+$/.test(path)) return changed(await real(path, options), stub.order);
			return real(path, options);
		};
	}`

// state is something that a buyer may see, and how it comes about.
type state struct {
	name    string
	before  string // a script after stubs, before the page's own
	arrange func(t *testing.T, s *site, b *tab)
	foreign string // a regular expression of the words that are the same in both languages, beside the usual ones
	mixed   bool   // both languages are in it on purpose
}

const lamp = "Aurora lamp"

func named(title string) saleOption { return func(c *api.CreateSale) { c.Title = title } }

// shows is a state of a sale's page, reached when an element has the words.
func shows(name, before, id, words string, options ...saleOption) state {
	return state{name: name, before: before, arrange: func(t *testing.T, s *site, b *tab) {
		b.openSale(s.sale(t, append([]saleOption{named(lamp), units(40)}, options...)...), "alice")
		b.says(id, words)
	}}
}

// pressed is one that a press of the button leads to.
func pressed(name, before, id, words string, options ...saleOption) state {
	return state{name: name, before: before, arrange: func(t *testing.T, s *site, b *tab) {
		b.openSale(s.sale(t, append([]saleOption{named(lamp), units(40)}, options...)...), "alice")
		b.wait(canBuy)
		b.click("#buy")
		b.says(id, words)
	}}
}

// bought is one of an order.
func bought(name, order, words string) state {
	return pressed("order-"+name, "stub.order = "+order+";", "order-title", words)
}

func closesIn(d time.Duration) saleOption {
	return func(c *api.CreateSale) { c.ClosesAt = api.Value(api.At(time.Now().Add(d))) }
}

func anyTotal(c *api.CreateSale)    { c.Total = api.Null[int64]() }
func noListPrice(c *api.CreateSale) { c.ListPrice = api.Null[sluice.Money]() }

// allStates are what a buyer may see.
func allStates() []state {
	soon := fmt.Sprintf("new Date(Date.now() + %d).toISOString()", 42_000)
	signedOut := func(name, before, id, words string, options ...saleOption) state {
		return state{name: name, before: before, arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, append([]saleOption{named(lamp), units(40)}, options...)...), "")
			b.says(id, words)
		}}
	}
	return []state{
		shows("upcoming", "", "countdown-label", "Opens in", opensIn(26*time.Hour), closesIn(50*time.Hour)),
		shows("upcoming-quantity", "", "quantity-row", "Quantity", opensIn(time.Hour), unlimited),
		shows("open", "", "buy", "Buy now", closesIn(40*time.Minute)),
		shows("open-no-total", "", "buy", "Buy now", anyTotal, unlimited),
		shows("open-no-list-price", "", "buy", "Buy now", noListPrice),
		shows("sold-out", `stub.sale = { state: "sold_out", available: 0 };`, "badge", "Sold out", closesIn(5*time.Hour)),
		shows("paused", `stub.sale = { state: "paused" };`, "badge", "Paused"),
		shows("closed", `stub.sale = { state: "closed" };`, "badge", "Over"),
		shows("unavailable", `stub.sale = { state: "unavailable" };`, "badge", "Checking"),
		shows("ticket-failed", `stub.ticket = { code: "overloaded", status: 503 };`, "status", "could not be fetched",
			opensIn(time.Hour), asksTicket),
		shows("ticket-proving", `stub.challenge = { difficulty: 30 };`, "status", "small task", opensIn(time.Hour),
			asksTicket),
		shows("ticket-not-eligible", `stub.ticket = { code: "forbidden", status: 403, reason: "not_eligible" };`, "status",
			"not for this account", opensIn(time.Hour), asksTicket),
		shows("ticket-here", "", "status", "Your ticket is here", opensIn(time.Hour), asksTicket),
		signedOut("signed-out", "", "login", "Sign in to buy"),
		signedOut("signed-out-upcoming", "", "login", "Sign in to buy", opensIn(time.Hour)),
		signedOut("signed-out-no-link",
			`addEventListener("readystatechange", () => { delete document.body?.dataset.login; }, true);`, "status",
			"at the shop"),
		{name: "asked", arrange: func(t *testing.T, s *site, b *tab) {
			b.open("/s/"+string(s.sale(t, named(lamp), units(40)))+"#token="+s.token("bob"), "")
			b.says("ask", "Sign in as bob?")
		}},
		{name: "asked-change", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40))
			b.openSale(sale, "alice")
			b.wait(canBuy)
			b.open("/s/"+string(sale)+"#token="+s.token("bob"), "")
			b.says("ask", "You are signed in as alice. Change to bob?")
		}},
		{name: "token-expired", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40))
			old := jwt.RegisteredClaims{Subject: "alice", ExpiresAt: jwt.NewNumericDate(time.Now().Add(-time.Minute))}
			token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, old).SignedString([]byte(s.engine.BuyerSecret()))
			if err != nil {
				t.Fatal(err)
			}
			b.openToken("/s/"+string(sale), token)
			b.says("status", "expired")
		}},
		shows("server-gone", `addEventListener("load", () => setTimeout(() => { stub.gone = true; stub.sale = {}; }, 1500));
			stub.noEvents = true;`, "status", "does not answer"),
		shows("server-gone-at-start", `stub.gone = true;`, "status", "does not answer"),
		pressed("sending", `stub.orders = "never";`, "status", "Sent."),
		pressed("outcome-unknown", `stub.orders = "lost";`, "status", "outcome is unknown"),
		pressed("rate-limited", `stub.orders = { code: "rate_limited", status: 429, title: "Too many requests", after: 30 };`,
			"status", "Too many tries"),
		pressed("overloaded", `stub.orders = { code: "overloaded", status: 503, title: "Too busy", after: 30 };`, "status",
			"too busy"),
		pressed("claim-unavailable", `stub.orders = { code: "unavailable", status: 503, title: "Unavailable", after: 30 };`,
			"status", "being checked"),
		pressed("offline", `stub.orders = "lost"; Object.defineProperty(navigator, "onLine", { get: () => false });`,
			"status", "offline"),
		pressed("claim-sold-out", `stub.orders = { code: "sold_out" };`, "badge", "Sold out"),
		{name: "insufficient", arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, named(lamp), units(2), unlimited), "alice")
			b.wait(canBuy)
			b.do(chromedp.SetValue(chromedp.CSS("#quantity"), "5"))
			b.click("#buy")
			b.says("status", "Only 2 left")
		}},
		pressed("limit", `stub.orders = { code: "buyer_limit", order_ids: [] };`, "status", "as many as"),
		pressed("not-eligible", `stub.orders = { code: "forbidden", status: 403, reason: "not_eligible" };`, "status",
			"not for this account"),
		pressed("ticket-risk",
			`stub.ticket = { code: "forbidden", status: 403, reason: "risk", title: "Forbidden", detail: "the shop does not hand out a ticket to this buyer now" };`, "status", "ticket", asksTicket),
		pressed("ticket-refused",
			`stub.orders = { code: "forbidden", status: 403, reason: "ticket_invalid", title: "Forbidden", detail: "the purchase ticket is not one of ours" };`, "status", "ticket", asksTicket),
		pressed("unauthenticated", `stub.orders = { code: "unauthenticated", status: 401, title: "Unauthenticated" };`,
			"status", "expired"),
		pressed("bad-request",
			`stub.orders = { code: "bad_request", status: 400, title: "Bad request", detail: "quantity: want a whole number" };`,
			"status", "understand"),
		pressed("unknown-code",
			`stub.orders = { code: "on_the_moon", status: 418, title: "The sale is on the moon", detail: "come back at full moon" };`, "status", "full moon").words("on_the_moon"),
		pressed("no-such-sale", `stub.orders = { code: "sale_not_found", status: 404 };`, "status", "no such sale"),
		{name: "limit-order", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40))
			b.openSale(sale, "alice")
			b.wait(canBuy)
			s.claim(t, sale, "alice") // on another device
			b.click("#buy")
			b.wait(payNow)
		}},
		{name: "woken", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp))
			order := s.claim(t, sale, "quick")
			b.openSale(sale, "alice")
			b.wait(soldOut)
			s.orders(t, sale, 1)
			must.Get(s.merchant.AdminCancelOrder(t.Context(), order))(t)
			b.says("status", "A unit has come back")
		}},
		{name: "other-tab", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40))
			b.openSale(sale, "alice")
			b.wait(canBuy)
			b.do(chromedp.Evaluate[chromedp.Void](`(() => {
				const name = "sluice_attempt:" + document.getElementById("main").dataset.sale + ":alice";
				navigator.locks.request(name, () => new Promise(() => {}));
				localStorage.setItem(name, JSON.stringify({ key: "k".repeat(24), quantity: 1, since: Date.now(), sent: true }));
				dispatchEvent(new StorageEvent("storage", { key: name }));
			})()`))
			b.says("status", "another tab")
		}},
		{name: "pictured", arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.dress(t, s.sale(t, named(lamp), units(40), closesIn(40*time.Minute)), "lamp", "teapot"), "alice")
			b.wait(canBuy)
			b.wait(`[...document.querySelectorAll(".gallery img")].every((img) => img.loading === "lazy" || img.naturalWidth > 0)`)
		}},
		{name: "described", arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.dress(t, s.sale(t, named(lamp), units(40))), "alice")
			b.wait(canBuy)
		}},
		{name: "other-device", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40))
			s.claim(t, sale, "alice")
			s.orders(t, sale, 1)
			b.openSale(sale, "alice")
			b.wait(payNow) // without a press of the button
		}},
		{name: "other-device-after-a-refusal", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40))
			b.openSale(sale, "alice")
			b.wait(canBuy)
			b.text(fmt.Sprintf(`localStorage.setItem("sluice_attempt:%s:alice", JSON.stringify({ key: "a-refused-attempt",
				quantity: 1, since: 1, sent: false }))`, sale))
			s.claim(t, sale, "alice")
			s.orders(t, sale, 1)
			b.do(chromedp.Reload())
			b.wait(payNow)
		}},
		{name: "next", before: `stub.sale = { state: "sold_out", available: 0 };
			stub.list = [{ id: "s1", title: "` + lamp + `", state: "upcoming", price: { amount: 1, currency: "CNY" }, list_price: null,
			opens_at: new Date(Date.now() + 3600e3).toISOString() }];`, arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, named(lamp), units(40)), "alice")
			b.says("next", lamp)
		}},
		{name: "orders", foreign: "dora", arrange: func(t *testing.T, s *site, b *tab) {
			for _, buys := range []saleOption{units(40), units(1)} {
				sale := s.sale(t, named(lamp), buys)
				s.claim(t, sale, "dora")
				s.orders(t, sale, 1)
			}
			b.open("/orders", "dora")
			b.says("orders", lamp)
		}},
		{name: "orders-none", foreign: "nobody", arrange: func(_ *testing.T, _ *site, b *tab) {
			b.open("/orders", "nobody")
			b.says("status", "no orders yet")
		}},
		{name: "orders-signed-out", arrange: func(_ *testing.T, _ *site, b *tab) {
			b.open("/orders", "")
			b.says("status", "Sign in")
		}},
		{name: "limit-many", arrange: func(t *testing.T, s *site, b *tab) {
			sale := s.sale(t, named(lamp), units(40), func(c *api.CreateSale) { c.MaxPerBuyer = api.Value(int64(3)) })
			s.claim(t, sale, "alice") // on another device
			b.openSale(sale, "alice")
			b.wait(canBuy)
			b.do(chromedp.SetValue(chromedp.CSS("#quantity"), "3"))
			b.click("#buy")
			b.wait(payNow)
			b.says("status", "Together with what you already have")
		}},
		{name: "focus", arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, named(lamp), units(40)), "alice")
			b.wait(canBuy)
			b.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("buy").focus({ focusVisible: true })`))
			b.wait(`getComputedStyle(document.getElementById("buy")).outlineStyle === "solid"`)
		}},
		bought("queued", `{ status: "queued", expires_at: null, stored_at: null }`, yours),
		bought("pending", "null", yours),
		bought("urgent", `{ get expires_at() { return window.until ??= `+soon+`; } }`, yours),
		bought("late", `{ expires_at: "2026-01-01T00:00:00.000Z" }`, "time to pay is over"),
		bought("paid", `{ status: "paid" }`, "Paid"),
		bought("cancelled", `{ status: "cancelled" }`, "Cancelled"),
		bought("expired", `{ status: "expired" }`, "Not paid in time"),
		bought("refunded", `{ status: "refunded" }`, "Refunded"),
		bought("refund-due", `{ status: "refund_due" }`, "Refund on its way"),
		bought("rejected", `{ status: "rejected", reason: "XXXX" }`, "Could not be delivered").words("XXXX"),
		{name: "order-more", arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, named(lamp), units(40), unlimited), "alice")
			b.wait(canBuy)
			b.click("#buy")
			b.says("buy", "Buy another")
			b.wait(payNow)
		}},
		{name: "order-sure", arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, named(lamp), units(40)), "alice")
			b.wait(canBuy)
			b.click("#buy")
			b.click("#cancel")
			b.says("sure", "Give it back?")
		}},
		{name: "order-page", arrange: func(t *testing.T, s *site, b *tab) {
			b.open("/o/"+string(s.claim(t, s.sale(t, named(lamp), units(40)), "alice")), "alice")
			b.wait(payNow)
		}},
		{name: "order-page-none", arrange: func(t *testing.T, s *site, b *tab) {
			b.open("/o/"+string(s.claim(t, s.sale(t, named(lamp), units(40)), "bob")), "alice")
			b.says("status", "no such order")
		}},
		{name: "order-page-signed-out", arrange: func(t *testing.T, s *site, b *tab) {
			b.open("/o/"+string(s.claim(t, s.sale(t, named(lamp), units(40)), "alice")), "")
			b.says("status", "Sign in")
		}},
		{name: "list-empty", before: "stub.list = [];", arrange: func(_ *testing.T, _ *site, b *tab) {
			b.open("/", "")
			b.says("empty", "Nothing")
		}},
		{
			name: "list",
			before: `stub.list = ["open", "sold_out", "paused", "upcoming", "upcoming"].map((state, i) => ({ id: "s" + i, title: "` + lamp + `", state,
			price: { amount: 19900, currency: "CNY" }, list_price: i % 2 ? { amount: 29900, currency: "CNY" } : null, total: 5, available: state === "sold_out" ? 0 : 1,
			opens_at: new Date(Date.now() + (state === "upcoming" ? i * 9 * 3600e3 : -60e3)).toISOString(), closes_at: null, server_time: new Date().toISOString() }));`,
			arrange: func(_ *testing.T, _ *site, b *tab) {
				b.open("/", "alice")
				b.wait(`document.querySelectorAll(".tile .badge").length === 5`)
			},
		},
		{name: "no-such-page-sale", arrange: func(_ *testing.T, _ *site, b *tab) {
			b.open("/s/nowhere", "")
			b.wait(`document.body.innerText.includes("no such sale")`)
		}},
		{name: "no-such-page-order", arrange: func(_ *testing.T, _ *site, b *tab) {
			b.open("/o/nothing", "")
			b.wait(`document.body.innerText.includes("no such order")`)
		}},
		{name: "long-title", foreign: `a{9,}`, arrange: func(t *testing.T, s *site, b *tab) {
			b.openSale(s.sale(t, named(strings.Repeat("a", 150)), units(1_234_567), unlimited, func(c *api.CreateSale) {
				c.Price = api.Some(sluice.Money{Amount: 123_456_789_00, Currency: "CNY"})
				c.ListPrice = api.Value(sluice.Money{Amount: 223_456_789_00, Currency: "CNY"})
			}), strings.Repeat("a", 100))
			b.wait(canBuy)
		}},
		{name: "no-script-sale", mixed: true, arrange: func(t *testing.T, s *site, b *tab) {
			b.noScripts()
			b.openSale(s.sale(t, named(lamp), opensIn(time.Hour), closesIn(2*time.Hour)), "")
		}},
		{name: "no-script-list", mixed: true, arrange: func(t *testing.T, s *site, b *tab) {
			s.sale(t, named(lamp))
			b.noScripts()
			b.open("/", "")
		}},
		{name: "no-script-order", mixed: true, arrange: func(t *testing.T, s *site, b *tab) {
			b.noScripts()
			b.open("/o/"+string(s.claim(t, s.sale(t, named(lamp)), "alice")), "")
		}},
		shopPage("home", func(*testing.T, *site) string { return "/" }),
		shopPage("login", func(_ *testing.T, s *site) string { return "/login?return=" + url.QueryEscape(s.url+"/") }),
		shopPage("pay", func(t *testing.T, s *site) string {
			sale := s.sale(t, named(lamp))
			order := s.claim(t, sale, "alice")
			s.orders(t, sale, 1)
			return "/pay?order=" + url.QueryEscape(string(order))
		}),
		shopPage("problem", func(*testing.T, *site) string { return "/pay?order=nothing" }),
	}
}

func shopPage(name string, path func(*testing.T, *site) string) state {
	return state{name: "shop-" + name, mixed: true, arrange: func(t *testing.T, s *site, b *tab) {
		b.do(chromedp.Navigate(s.shop + path(t, s)))
	}}
}

func (s state) words(foreign string) state {
	s.foreign = foreign
	return s
}

// TestEveryState brings about everything that a buyer may see, and looks at it
// as a phone of 320 pixels and a desktop do, in light and dark, in both
// languages: nothing is cut off, nothing is pale, and no language is mixed with
// the other. With SLUICE_TEST_PICTURES it leaves pictures there, for people to
// look at.
func TestEveryState(t *testing.T) {
	s := start(t)
	folder := os.Getenv("SLUICE_TEST_PICTURES")
	looks := allLooks
	if folder == "" { // the same with fewer
		looks = looks[len(looks)-2:]
	}
	for _, state := range allStates() {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			var b *tab
			var jumps string
			for range 2 { // on a busy machine what comes later may take longer than the page keeps its place
				b = visit(t, s, "alice").tab(stubs + state.before)
				b.emulate(390, 844, "light")
				state.arrange(t, s, b)
				if jumps = b.text(jumped); jumps == "" {
					break
				}
			}
			if jumps != "" {
				t.Errorf("the page jumps, by more than 0.05: %s", jumps)
			}
			for _, look := range looks {
				b.emulate(look.width, look.height, look.scheme)
				if !state.mixed {
					b.speak(look.lang)
				}
				b.looks(t, look.name, look.lang, &state)
				if folder != "" {
					b.picture(filepath.Join(folder, state.name+"-"+look.name+".png"))
				}
			}
		})
	}
}

// jumped lists what has moved by itself on a page, if it is much: its cumulative layout shift.
const jumped = `(() => {
	if (!window.jumps) return "";
	sawJumps(watchJumps.takeRecords());
	return jumps.reduce((sum, [value]) => sum + value, 0) < 0.05 ? "" : jumps.map((jump) => jump.join("\\n\\t")).join("\\n");
})()`

var allLooks = []struct {
	name          string
	width, height int64
	scheme, lang  string
}{
	{"phone-light-en", 390, 844, "light", "en"},
	{"phone-dark-zh", 390, 844, "dark", "zh-CN"},
	{"zoom-light-en", 640, 400, "light", "en"}, // 200 % of 1280
	{"desktop-light-zh", 1280, 800, "light", "zh-CN"},
	{"desktop-dark-en", 1280, 800, "dark", "en"},
	{"small-light-zh", 320, 568, "light", "zh-CN"},
	{"small-dark-en", 320, 568, "dark", "en"},
}

// speak switches the language, as a visitor does.
func (b *tab) speak(lang string) {
	b.t.Helper()
	if b.is(fmt.Sprintf("document.documentElement.lang !== %q", lang)) {
		b.click(fmt.Sprintf("[data-lang=%q]", lang))
	}
	b.wait(fmt.Sprintf("document.documentElement.lang === %q && "+
		"document.querySelector('[data-lang=%q]').getAttribute('aria-current') === 'true'", lang, lang))
}

// looks reports what is wrong with what the page shows.
func (b *tab) looks(t *testing.T, name, lang string, s *state) {
	t.Helper()
	if !b.is(`document.documentElement.scrollWidth <= innerWidth`) {
		t.Errorf("%s: the page scrolls sideways", name)
	}
	if bad := b.text(contrast); bad != "" {
		t.Errorf("%s: too little contrast:\n%s", name, bad)
	}
	if bad := b.text(
		`[...document.querySelectorAll("button, .button, .langs a, input")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 36).map((e) => e.outerHTML).join("\n")`); bad != "" {
		t.Errorf("%s: too small for a finger:\n%s", name, bad)
	}
	if s.mixed {
		return
	}
	if bad := b.text(fmt.Sprintf("(%s)(%q, %q)", otherLanguage, lang, s.foreign)); bad != "" {
		t.Errorf("%s: in the other language:\n%s", name, bad)
	}
}

// otherLanguage lists the texts, titles and labels that are not in the page's
// language. Names, the merchant's titles, ids and currencies belong to none.
const otherLanguage = `(lang, foreign) => {
	const usual = /Aurora lamp|alice|\bbob\b|EN|中文|s\d+\.[0-9a-f]+|CNY|CN¥|Language|语言/g;
	const wrong = lang === "en" ? /[\u3000-\u9fff\uff00-\uffef]/ : /[A-Za-z]{2,}/;
	const texts = [document.title];
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) if (walk.currentNode.parentElement.checkVisibility() && !walk.currentNode.parentElement.closest("noscript")) texts.push(walk.currentNode.data);
	for (const e of document.querySelectorAll("[aria-label], [title], [alt]")) if (e.checkVisibility()) texts.push(e.getAttribute("aria-label"), e.getAttribute("title"), e.getAttribute("alt"));
	return texts.filter(Boolean).map((text) => foreign ? text.replaceAll(new RegExp(foreign, "g"), "") : text)
		.filter((text) => wrong.test(text.replaceAll(usual, ""))).map((text) => text.trim()).join("\n");
}`

// picture writes all of the page into a file.
func (b *tab) picture(file string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(file, picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
