package browser

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// The button does not move at the moment when it opens: there is a finger over
// it.
func TestTheButtonStaysWhereItIs(t *testing.T) {
	t.Parallel()
	s := start(t)
	for name, width := range map[string]int64{"small": 320, "phone": 390, "desktop": 1280} {
		b := visit(t, s, "steady").tab()
		b.emulate(width, 800, "light")
		for _, option := range []saleOption{units(5), anyTotal, closesIn(30 * time.Minute)} {
			sale := s.sale(t, opensIn(20*time.Minute), option)
			b.openSale(sale, "steady")
			b.wait(`document.getElementById("countdown").checkVisibility() && document.getElementById("buy").checkVisibility()`)
			const top = `document.getElementById("buy").getBoundingClientRect().top + scrollY`
			before := b.number(top)
			must.Get(s.merchant.OpenSale(t.Context(), sale))(t)
			b.wait(canBuy)
			if after := b.number(top); after != before {
				t.Errorf("%s: the button moved from %.0f to %.0f when the sale opened", name, before, after)
			}
		}
	}
}

// listening notes what a screen reader says, and counts the seconds of the countdown.
const listening = `
	window.seconds = 0;
	window.heard = [];
	addEventListener("DOMContentLoaded", () => {
		const watch = (e, seen) => e && new MutationObserver(seen).observe(e, { childList: true, characterData: true, subtree: true });
		watch(document.getElementById("seconds"), () => seconds++);
		for (const e of document.querySelectorAll('[role="status"], [aria-live="polite"], [aria-live="assertive"]')) watch(e, () => heard.push(e.textContent));
	});`

// Who hears the page learns how long there is to pay, and once more when little is left.
func TestTheDeadlineToPayIsReadOut(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "payer").tab(listening)
	b.openSale(s.sale(t, units(5), func(c *api.CreateSale) { c.PaymentWindowS = api.Some[int64](63) }), "payer")
	b.wait(canBuy)
	b.click("#buy")
	b.wait(`heard.some((text) => /held for you.* 1 minute( \d seconds?)? left to pay$/.test(text))`)
	b.wait(`heard.some((text) => /^(1 minute|\d\d seconds) left to pay$/.test(text))`)
	b.wait(`parseInt(document.getElementById("order-left").textContent.slice(2)) < 55`)
	if n := b.number(`heard.filter((text) => /^(1 minute|\d\d seconds) left to pay$/.test(text)).length`); n != 1 {
		t.Errorf("it was read out %.0f times: %s", n, b.text("JSON.stringify(heard)"))
	}
}

// A countdown is not read out every second: what is announced is what happens.
func TestACountdownIsQuiet(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "listener").tab(listening)
	b.openSale(s.sale(t, opensIn(time.Hour)), "listener")
	b.wait("seconds >= 6")
	if b.number("heard.length") > 3 { // on a busy machine there may be news of the server
		t.Errorf("heard: %s", b.text("JSON.stringify(heard)"))
	}
	if bad := b.text(
		`[...document.querySelectorAll('[role="timer"]')].filter((e) => e.getAttribute("aria-live") !== "off").map((e) => e.outerHTML).join()`); bad != "" {
		t.Errorf("a timer that is read out: %s", bad)
	}
}

// Who wants no motion sees none: what moves is only for those who do not mind.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "still").tab()
	b.openSale(s.sale(t, units(5)), "still")
	b.wait(canBuy)
	if bad := b.text(`(() => {
		const bad = [];
		const look = (rules, calm) => {
			for (const rule of rules) {
				if (!calm && (rule.style?.transitionProperty || rule.style?.animationName)) bad.push(rule.cssText);
				if (rule.cssRules) look(rule.cssRules, calm || rule.conditionText === "(prefers-reduced-motion: no-preference)");
			}
		};
		for (const sheet of document.styleSheets) look(sheet.cssRules, false);
		return bad.join("\n");
	})()`); bad != "" {
		t.Errorf("moves for everybody:\n%s", bad)
	}
}
