package browser

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice/internal/must"
)

// A page whose clock is far behind the one that opens the sale, for whatever
// reason, does not keep the button shut: it believes the server that says that
// the sale is open, or sold out.
func TestTheServersWordBeatsTheCountdown(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "behind").tab(`
		const real = window.fetch;
		window.fetch = async (path, options) => path === "/v1/time"
			? new Response(JSON.stringify({ server_time: new Date(Date.now() - 3600e3).toISOString() })) : real(path, options);`)
	sale := s.sale(t, opensIn(time.Hour))
	b.openSale(sale, "behind")
	b.says("countdown-label", "Opens in")
	must.Get(s.merchant.OpenSale(t.Context(), sale))(t)
	b.wait(canBuy)
	b.says("badge", "On sale")
	b.do(chromedp.Reload())
	b.wait(canBuy)
	s.claim(t, sale, "quick")
	b.wait(soldOut)
	s.orders(t, sale, 1)
}
