package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// The reference tries requests on its own server: a buyer's, a merchant's, and a stream,
// of which it shows the first seconds.
func TestReferenceTries(t *testing.T) {
	s := start(t)
	sale := s.sale(t, units(3))
	b := visit(t, s, "reader").tab()
	b.open("/docs", "")
	try := func(operation string, wants ...string) {
		t.Helper()
		b.click("#" + operation + " summary")
		b.wait(fmt.Sprintf(`document.querySelector("#%s form")`, operation))
		if b.is(fmt.Sprintf(`document.querySelector("#%s [required]")`, operation)) {
			b.do(chromedp.SetValue(chromedp.CSS("#"+operation+" [required]"), string(sale)))
		}
		b.click("#" + operation + " form button")
		for _, want := range wants {
			b.wait(fmt.Sprintf(`document.querySelector("#%s form pre").textContent.includes(%q)`, operation, want))
		}
	}
	try("getPublicSale", "200", "etag: ", `"id": "`+string(sale)+`"`)
	try("streamSale", "text/event-stream", "data: ")
	try("createSale", "401", `"code": "unauthenticated"`)
	b.text(fmt.Sprintf(`document.getElementById("key").value = %q`, s.token("reader")))
	try("placeOrder", "202", "location: /v1/orders/", `"status": "queued"`)
	s.orders(t, sale, 1)
	if folder := os.Getenv("SLUICE_TEST_PICTURES"); folder != "" {
		b.text(`document.querySelectorAll("article:not(#placeOrder), nav, main > h2, tr[id]").forEach((e) => e.hidden = true)`)
		b.emulate(1100, 800, "light")
		b.picture(filepath.Join(folder, "reference.png"))
	}
	b.open("/docs", "")
	b.text(fmt.Sprintf(`document.getElementById("key").value = %q`, s.engine.AdminKey()))
	try("pauseSale", "200", `"state": "paused"`)
}
