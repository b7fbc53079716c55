package browser

import (
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/must"
)

// asksTicket makes a sale ask for a ticket and a proof of work before it.
func asksTicket(c *api.CreateSale) {
	c.Ticket = api.Value(sluice.Ticket{BeforeS: 7200})
	c.Challenge = api.Value(sluice.Challenge{Difficulty: 12})
}

// The ticket is there before the opening, the work done in a worker, and the
// press of the button needs nothing more.
func TestATicketIsFetchedBeforeTheOpening(t *testing.T) {
	t.Parallel()
	s := start(t)
	b := visit(t, s, "early").tab()
	sale := s.sale(t, asksTicket, opensIn(time.Hour))
	b.openSale(sale, "early")
	const here = `Object.keys(localStorage).some((k) => k.startsWith("sluice_ticket:"))`
	b.wait(here)
	b.says("said", "Your ticket is here")
	must.Get(s.merchant.OpenSale(t.Context(), sale))(t)
	b.wait(canBuy)
	b.click("#buy")
	b.says("order-title", yours)
	s.orders(t, sale, 1)
}

// Who comes late gets a ticket on the way; and one whose kept ticket is not
// good any more gets another, and buys with the same attempt.
func TestATicketIsFetchedOnTheWay(t *testing.T) {
	t.Parallel()
	s := start(t)
	sale := s.sale(t, asksTicket, units(2))
	b := visit(t, s, "late").tab(`{
		const expires = new Date().getTime() + 3600e3;
		localStorage.setItem("sluice_ticket:" + location.pathname.slice(3) + ":late", JSON.stringify({ ticket: "t1.spoilt", expires }));
	}`)
	b.openSale(sale, "late")
	b.wait(canBuy)
	b.click("#buy")
	b.says("order-title", yours)
	s.orders(t, sale, 1)
}
