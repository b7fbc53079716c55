package browser

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluicehq/sluice/api"
)

// TestLooks takes pictures of the pages into the folder SLUICE_TEST_PICTURES, for
// people to look at.
func TestLooks(t *testing.T) {
	folder := os.Getenv("SLUICE_TEST_PICTURES")
	if folder == "" {
		t.Skip("SLUICE_TEST_PICTURES names no folder")
	}
	s := start(t)
	title := func(text string) saleOption { return func(c *api.CreateSale) { c.Title = text } }
	closes := func(d time.Duration) saleOption {
		return func(c *api.CreateSale) { c.ClosesAt = api.Value(api.At(time.Now().Add(d))) }
	}
	upcoming := s.sale(t, title("Aurora desk lamp, limited edition"), opensIn(3*time.Hour+25*time.Minute), units(500),
		closes(30*time.Hour))
	s.dress(t, upcoming, "lamp", "teapot")
	open := s.dress(t, s.sale(t, title("Red clay teapot"), units(500), closes(40*time.Minute)), "teapot")
	plain := s.sale(t, title("Aurora desk lamp, limited edition"), units(500), closes(40*time.Minute))
	for i := range 163 {
		s.claim(t, open, "crowd-"+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	soldOut := s.dress(t, s.sale(t, title("Dawn runners"), units(1), closes(5*time.Hour)), "sneaker")
	s.claim(t, soldOut, "quick")
	s.sale(t, title("耳机 Pro 降噪版"), opensIn(26*time.Hour), units(80))

	shot := func(name string, b *tab) { b.picture(filepath.Join(folder, name+".png")) }
	for _, size := range []struct {
		name          string
		width, height int64
	}{{"phone", 390, 844}, {"desktop", 1280, 800}} {
		for _, scheme := range []string{"light", "dark"} {
			for _, lang := range []string{"en", "zh"} {
				name := func(what string) string { return what + "-" + size.name + "-" + scheme + "-" + lang }
				b := visit(t, s, "looker").tab()
				b.emulate(size.width, size.height, scheme)
				b.open("/?lang="+lang, "")
				b.wait(`document.querySelector(".badge")`)
				shot(name("1-list"), b)
				b.openSale(upcoming, "alice")
				b.wait(`document.getElementById("countdown").checkVisibility()`)
				shot(name("2-upcoming"), b)
				b.openSale(open, "")
				b.wait(canBuy)
				shot(name("3-open"), b)
				b.openSale(plain, "")
				b.wait(canBuy)
				shot(name("3-plain"), b)
				b.openSale(soldOut, "")
				b.wait(`document.getElementById("badge").dataset.state === "sold_out"`)
				shot(name("4-sold-out"), b)
				b.openSale(s.dress(t, s.sale(t, title("Sea Breeze headphones"), units(500)), "headphones"), "")
				b.wait(canBuy)
				b.click("#buy")
				b.wait(`document.getElementById("pay").checkVisibility()`)
				shot(name("5-yours"), b)
				b.click("#order-id")
				b.wait(`location.pathname.startsWith("/o/") && document.getElementById("pay")?.checkVisibility()`)
				shot(name("6-order"), b)
				b.open("/orders", "")
				b.wait(`document.querySelector(".mine img")?.naturalWidth > 0`)
				shot(name("7-orders"), b)
			}
		}
	}
}
