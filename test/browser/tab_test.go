package browser

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

// visitor is a person with a browser of their own: no cookies and no storage
// of anybody else's. All their tabs share those.
type visitor struct {
	t    *testing.T
	site *site
	id   string
	ctx  context.Context // of the first tab
	tabs int
}

// visit returns a new visitor, who speaks English.
func visit(t *testing.T, s *site, id string) *visitor {
	t.Helper()
	ctx, end := chromedp.NewContext(shared.browser, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	return &visitor{t: t, site: s, id: id, ctx: ctx}
}

// tab is one tab of a visitor's.
type tab struct {
	t    *testing.T
	site *site
	ctx  context.Context

	mu       sync.Mutex
	requests []string // URLs, in order
	wrong    []string // what no page may do
}

// tab opens a tab, with scripts that run before the page's own.
func (v *visitor) tab(before ...string) *tab {
	v.t.Helper()
	ctx := v.ctx
	if v.tabs > 0 {
		var end context.CancelFunc
		ctx, end = chromedp.NewContext(v.ctx)
		v.t.Cleanup(end)
	}
	v.tabs++
	b := &tab{t: v.t, site: v.site, ctx: ctx}
	must.Succeed(v.t, chromedp.Listen(ctx, b.listen))
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
			return err
		}
		if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
			return err
		}
		if _, err := chromedp.Call(ctx, emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{
			UserAgent: "Mozilla/5.0 (X11; Linux x86_64) Chrome", AcceptLanguage: "en-GB",
		}); err != nil {
			return err
		}
		for _, script := range append([]string{watchPolicy}, before...) {
			if _, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
				page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
				return err
			}
		}
		return nil
	}))
	v.t.Cleanup(b.check)
	return b
}

// watchPolicy makes violations of the page's policy errors that the test sees.
const watchPolicy = `addEventListener("securitypolicyviolation", (e) => console.error("policy: " + e.violatedDirective + " " + e.blockedURI));`

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		// Following a link to the shop is the visitor's own doing, and what the
		// shop asks for is its own.
		if !strings.HasPrefix(e.DocumentURL, b.site.shop+"/") {
			b.requests = append(b.requests, e.Request.URL)
		}
		if strings.HasPrefix(e.DocumentURL, b.site.url) {
			b.leaks(e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		// Refusals are 4xx, which Chromium notes as sources of "network"; those of another
		// origin's page it notes twice. Of a page that came without HTTPS it notes that it has
		// no use for one header.
		if e.Entry.Source != log.EntrySourceNetwork && !strings.Contains(e.Entry.Text, "blocked by CORS policy") &&
			!strings.Contains(e.Entry.Text, "Cross-Origin-Opener-Policy") {
			b.wrong = append(b.wrong, fmt.Sprintf("console: %s: %s", e.Entry.Source, e.Entry.Text))
		}
	case *runtime.EventConsoleAPICalled:
		if len(e.Args) > 0 && strings.Contains(string(e.Args[0].Value), "policy: ") {
			b.wrong = append(b.wrong, string(e.Args[0].Value))
		}
	}
}

// leaks notes a token that a server would see in an address.
func (b *tab) leaks(request string) {
	if address, _, _ := strings.Cut(request, "#"); strings.Contains(address, "eyJ") {
		b.wrong = append(b.wrong, "a token is in an address: "+request)
	}
}

// check is what every tab must have kept.
func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, wrong := range b.wrong {
		b.t.Errorf("the page did wrong: %s", wrong)
	}
	for _, request := range b.requests {
		u, err := url.Parse(request)
		if err != nil || u.Scheme != "data" && u.Scheme != "blob" && "http://"+u.Host != b.site.url {
			b.t.Errorf("a request to another host: %s", request)
		}
	}
}

// asked counts the requests whose address ends so.
func (b *tab) asked(suffix string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, request := range b.requests {
		if strings.HasSuffix(request, suffix) {
			n++
		}
	}
	return n
}

// do runs actions within the patience.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must.Succeed(b.t, chromedp.Do(b.ctx, actions...))
}

// open opens a path; with a buyer, as the shop's login sends them there.
func (b *tab) open(path, buyer string) {
	b.t.Helper()
	if buyer != "" {
		b.openToken(path, b.site.token(buyer))
		return
	}
	b.do(chromedp.Navigate(b.site.url + path))
}

// openToken opens a path with a token and a state that the browser has, as if
// one of its pages had begun the login.
func (b *tab) openToken(path, token string) {
	b.t.Helper()
	state := strconv.FormatInt(time.Now().UnixMilli(), 36) + ".begun"
	b.openState(path+"?state="+state+"#token="+token, state)
}

// openState opens a link in a browser that has this state when the page begins.
func (b *tab) openState(link, state string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		added, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: fmt.Sprintf(`localStorage.setItem("sluice_state", %q)`, state),
		})
		if err != nil {
			return err
		}
		if err := chromedp.Do(ctx, chromedp.Navigate(b.site.url+link)); err != nil {
			return err
		}
		_, err = chromedp.Call(ctx, page.RemoveScriptToEvaluateOnNewDocument,
			page.RemoveScriptToEvaluateOnNewDocumentParams(added))
		return err
	}))
}

func (b *tab) openSale(sale sluice.SaleID, buyer string) {
	b.t.Helper()
	b.open("/s/"+string(sale), buyer)
}

// is evaluates an expression of JavaScript, once. A page that is being loaded
// is not so.
func (b *tab) is(expression string) bool {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
	return err == nil && yes
}

// wait waits until an expression is so.
func (b *tab) wait(expression string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !b.is(expression); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s\nis not so; the page says:\n%s", expression, b.text("document.body.innerText"))
		}
	}
}

// says waits until an element's text has the words.
func (b *tab) says(id, words string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(
		"document.getElementById(%q)?.checkVisibility() && document.getElementById(%q).textContent.includes(%q)", id, id,
		words))
}

func (b *tab) text(expression string) string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("(async () => String("+expression+"))()",
		chromedp.EvalAwaitPromise))
	if err != nil {
		return err.Error()
	}
	return text
}

func (b *tab) number(expression string) float64 {
	b.t.Helper()
	n := must.Get(chromedp.Run(b.ctx, chromedp.Evaluate[float64]("(async () => Number("+expression+"))()",
		chromedp.EvalAwaitPromise)))(b.t)
	return n
}

// click clicks an element that is there and visible, with the mouse.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.querySelector(%q)?.checkVisibility()", selector))
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// emulate makes the tab as large as a device, in light or dark.
func (b *tab) emulate(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// noScripts turns the page's scripts off.
func (b *tab) noScripts() {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true})
		return err
	}))
}

// press presses a key.
func (b *tab) press(key string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(key))
}

// canBuy waits until the button can be pressed.
const canBuy = `(document.getElementById("buy")?.getAttribute("aria-disabled") === "false" &&
	document.getElementById("buy").checkVisibility({ visibilityProperty: true }))`
