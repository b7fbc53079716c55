// Package browser tests the buyer's pages in a real Chromium, against a real
// engine: what a person sees, presses and hears.
//
// Nothing here waits for a time to pass: a test looks again and again until
// what it wants to see is there, for as long as patience lasts. What every
// page must keep (no exception, no violation of its own security policy, no
// request to another host) is checked of every tab when its test ends.
package browser

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/golang-jwt/jwt/v5"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/demo"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// patience is how long anything may take on a busy machine.
const patience = 40 * time.Second

func TestMain(m *testing.M) {
	code := m.Run()
	stop()
	os.Exit(code)
}

// shared is what all tests use: one browser, one engine, and the mock shop.
var shared struct {
	sync.Mutex
	err     error
	browser context.Context // a chromedp context; nil before the first test
	shop    *site
	ends    []func() // last first
}

func stop() {
	for i := len(shared.ends) - 1; i >= 0; i-- {
		shared.ends[i]()
	}
}

// site is a running engine.
type site struct {
	url      string
	shop     string // the mock shop's URL
	engine   *engine.Engine
	merchant *client.Client
}

// start returns the engine, with the browser running, or skips the test.
func start(t *testing.T) *site {
	t.Helper()
	program := servertest.Chromium(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.browser == nil && shared.err == nil {
		shared.err = startAll(program)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.shop
}

func startAll(program string) error {
	dir, err := os.MkdirTemp("", "sluice-browser-")
	if err != nil {
		return err
	}
	atEnd(func() { _ = os.RemoveAll(dir) })
	if shared.shop, err = startSite(dir + "/data"); err != nil {
		return err
	}
	return startBrowser(program, dir+"/profile")
}

func atEnd(end func()) { shared.ends = append(shared.ends, end) }

// startSite starts an engine and the mock shop that its pages link to.
func startSite(dir string) (*site, error) {
	pages, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	counter, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &site{url: "http://" + pages.Addr().String(), shop: "http://" + counter.Addr().String()}
	s.engine, err = engine.Open(context.Background(), engine.Config{
		DataDir: dir, Pages: engine.Pages{LoginURL: s.shop + "/login?return={return}", PayURL: s.shop + "/pay?order={order}"},
	})
	if err != nil {
		return nil, err
	}
	shop, err := demo.NewShop(demo.ShopOptions{
		Pages: s.url, BuyerSecret: s.engine.BuyerSecret(),
		AdminKey: s.engine.AdminKey(),
	})
	if err != nil {
		return nil, err
	}
	server, shopServer := s.engine.NewServer(), &http.Server{Handler: shop, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(pages) }()
	go func() { _ = shopServer.Serve(counter) }()
	atEnd(func() {
		_ = shopServer.Close()
		_ = server.Close()
		_ = s.engine.Close(context.Background())
	})
	s.merchant, err = client.New(s.url, client.Options{AdminKey: s.engine.AdminKey()})
	return s, err
}

const plainHost = "pages.lan.test"

// startBrowser starts Chromium with a profile of its own. It dies with the
// test binary.
func startBrowser(program, profile string) error {
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(profile),
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-extensions", true),
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-renderer-backgrounding", true),
		// A name of this machine that browsers do not trust, as one in a house's network.
		chromedp.Flag("host-resolver-rules", "MAP "+plainHost+" 127.0.0.1"),
		chromedp.Flag("disable-backgrounding-occluded-windows", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.WSURLReadTimeout(patience),
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	browser, endBrowser := chromedp.NewContext(allocator)
	atEnd(func() {
		_ = chromedp.Cancel(browser)
		endBrowser()
		endAllocator()
	})
	shared.browser = browser
	if err := chromedp.Do(browser); err != nil {
		return fmt.Errorf("start chromium: %w", err)
	}
	return nil
}

// saleOption changes the sale that a test asks for.
type saleOption func(*api.CreateSale)

// sale creates a sale: one unit, one per buyer, open, unless the options say
// otherwise.
func (s *site) sale(t *testing.T, options ...saleOption) sluice.SaleID {
	t.Helper()
	id := sluice.SaleID(fmt.Sprintf("s%d", time.Now().UnixNano()))
	sale := api.CreateSale{
		ID: api.Some(id), SKU: "LAMP-1", Title: "A lamp", Price: api.Some(sluice.Money{Amount: 19900, Currency: "CNY"}),
		ListPrice: api.Value(sluice.Money{Amount: 29900, Currency: "CNY"}), Total: api.Value(int64(1)),
		MaxPerBuyer: api.Value(int64(1)),
		OpensAt:     api.Some(api.At(time.Now().Add(-time.Minute))), ClosesAt: api.Null[api.Time](),
	}
	for _, change := range options {
		change(&sale)
	}
	must.Get(s.merchant.CreateSale(t.Context(), sale))(t)
	return id
}

// dress gives a sale pictures of the demo's, and a description in both languages.
func (s *site) dress(t *testing.T, sale sluice.SaleID, pictures ...string) sluice.SaleID {
	t.Helper()
	for _, name := range pictures {
		file := must.Get(os.Open("../../internal/demo/pictures/" + name + ".jpg"))(t)
		must.Get(s.merchant.AddPicture(t.Context(), sale, file))(t)
		_ = file.Close()
	}
	must.Get(s.merchant.PatchSale(t.Context(), sale, api.PatchSale{PatchShowcase: api.PatchShowcase{
		Descriptions: api.Some(sluice.Texts{
			EN: "Made for the **long nights**, by hand.\n\n# What it is\n\n- one of five hundred\n- with a certificate",
			ZH: "为**长夜**手工制作。\n\n# 产品信息\n\n- 限量五百件\n- 独立编号，附证书",
		}),
	}}))(t)
	return sale
}

func opensIn(d time.Duration) saleOption {
	return func(s *api.CreateSale) { s.OpensAt = api.Some(api.At(time.Now().Add(d))) }
}

func units(n int64) saleOption { return func(s *api.CreateSale) { s.Total = api.Value(n) } }

// unlimited lets a buyer buy as many as there are.
func unlimited(s *api.CreateSale) { s.MaxPerBuyer = api.Null[int64]() }

// token is a buyer's, as the shop's login would mint it.
func (s *site) token(buyer string) string {
	claims := jwt.RegisteredClaims{Subject: buyer, ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(s.engine.BuyerSecret()))
	if err != nil {
		panic(err)
	}
	return text
}

// claim buys a unit for a buyer without any browser.
func (s *site) claim(t *testing.T, sale sluice.SaleID, buyer string) sluice.OrderID {
	t.Helper()
	c := must.Get(client.New(s.url, client.Options{Token: s.token(buyer)}))(t)
	placed := must.Get(c.Place(t.Context(), sale, client.NewKey(), api.PlaceOrder{Quantity: 1}))(t)
	return placed.OrderID
}

// orders are the stored orders of a sale, once there are as many as wanted.
func (s *site) orders(t *testing.T, sale sluice.SaleID, want int) []api.Order {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		page := must.Get(s.merchant.AdminOrders(t.Context(), sluice.OrderFilter{Sale: sale}))(t)
		if len(page.Orders) >= want {
			if len(page.Orders) > want {
				t.Fatalf("%d orders, want %d: %+v", len(page.Orders), want, page.Orders)
			}
			return page.Orders
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d orders, want %d", len(page.Orders), want)
		}
	}
}
