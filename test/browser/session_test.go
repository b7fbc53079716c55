package browser

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// In a shop that embeds Sluice under a path of its own and knows its visitors by a
// cookie, a visitor buys without any token, and reads the order; who is not signed in
// there cannot buy.
func TestSessionOfTheShop(t *testing.T) {
	s := start(t)
	e := must.Get(engine.Open(t.Context(), engine.Config{
		DataDir: t.TempDir(), BasePath: "/flash",
		Identify: func(r *http.Request) (sluice.BuyerID, error) {
			session, err := r.Cookie("session")
			if errors.Is(err, http.ErrNoCookie) {
				return "", nil
			}
			return sluice.BuyerID(session.Value), err
		},
	}))(t)
	defer func() { _ = e.Close(context.Background()) }()
	shop := http.NewServeMux()
	shop.Handle("/flash/", e.PublicHandler())
	shop.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "ann", Path: "/", HttpOnly: true})
		http.Redirect(w, r, "/flash/s/lamp", http.StatusSeeOther)
	})
	server := httptest.NewServer(shop)
	defer server.Close()
	defer e.Drain()
	sale := sluice.NewSale(1, 1)
	sale.ID, sale.SKU, sale.Title, sale.Price = "lamp", "LAMP-1", "A lamp", sluice.Money{Amount: 19900, Currency: "CNY"}
	sale.OpensAt = time.Now().Add(-time.Minute)
	must.Get(e.Control().Create(t.Context(), sale))(t)

	b := visit(t, &site{url: server.URL, shop: s.shop}, "ann").tab()
	b.open("/flash/", "")
	b.wait(`document.querySelector('a[href="/flash/s/lamp"]')`)
	b.open("/flash/s/lamp", "")
	b.wait(`document.body.dataset.state === "open" && document.getElementById("buyer").hidden`)
	b.open("/login", "")
	b.wait(`document.getElementById("buyer").textContent.includes("ann") && !document.querySelector("#buyer button")`)
	b.click("#buy")
	b.says("order-title", yours)
	b.wait(`document.getElementById("order-id").href.includes("/flash/o/lamp.")`)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for event, err := range e.Events(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == sluice.EventOrderCreated {
			if event.Order.Buyer != "ann" {
				t.Errorf("the order is %s's", event.Order.Buyer)
			}
			break
		}
	}
	for _, request := range b.requests {
		if path := strings.TrimPrefix(request, server.URL); !strings.HasPrefix(path, "/flash/") && path != "/login" {
			t.Errorf("the page asks for %s, outside the path", request)
		}
	}
}
