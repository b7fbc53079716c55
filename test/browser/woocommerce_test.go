package browser

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// A guest of docs/beside-a-shop.md: from the shop's product to Sluice's page, through
// the plugin's login without a question, to the shop's payment page of the order.
func TestThroughWooCommerce(t *testing.T) {
	t.Parallel()
	start(t)
	folder := t.TempDir()
	plugin := must.Get(filepath.Abs(filepath.Join("..", "..", "examples", "woocommerce", "sluice.php")))(t)
	must.Succeed(t, os.Mkdir(filepath.Join(folder, "orders"), 0o700))
	shop, log := servertest.StartPHP(t, filepath.Join("..", "e2e", "testdata", "wordpress.php"),
		"SHOP="+folder, "SALE=poster", "PLUGIN="+plugin)
	pages := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &site{url: "http://" + pages.Addr().String(), shop: "http://" + shop}
	s.engine = must.Get(engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), Pages: engine.Pages{
		LoginURL: s.shop + "/?sluice_login={return}", PayURL: s.shop + "/?sluice_pay={order}",
	}}))(t)
	server := s.engine.NewServer()
	go func() { _ = server.Serve(pages) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = s.engine.Close(context.Background())
	})
	s.merchant = must.Get(client.New(s.url, client.Options{AdminKey: s.engine.AdminKey()}))(t)
	config := "<?php\n"
	for name, value := range map[string]string{
		"PAGES": s.url, "ADMIN_URL": s.url, "ADMIN_KEY": s.engine.AdminKey(), "BUYER_SECRET": s.engine.BuyerSecret(),
		"WEBHOOK_SECRET": "whsec_", "GUESTS": "1",
	} {
		config += fmt.Sprintf("define('SLUICE_%s', '%s');\n", name, value)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(folder, "wp-config.php"), []byte(config), 0o600))
	s.sale(t, units(5), func(sale *api.CreateSale) { sale.ID = api.Some(sluice.SaleID("poster")) })

	b := visit(t, s, "guest").tab()
	b.do(chromedp.Navigate(s.shop + "/product/poster"))
	b.click("a.button")
	b.click("#login")
	b.wait(`location.pathname === "/s/poster" && location.hash + location.search === ""`)
	b.wait(canBuy)
	b.click("#buy")
	b.wait(payNow)
	b.click("#pay")
	b.wait(`location.pathname.startsWith("/checkout/order-pay/") && document.body.textContent.includes(" CNY")`)
	if t.Failed() {
		t.Log(log())
	}
}
