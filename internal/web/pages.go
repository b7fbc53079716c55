// Package web holds the buyer's pages: a list of the sales, a page for each
// sale, and one for an order. They are embedded, need no build step, and ask no
// other host for anything.
//
// A page is the same bytes for every visitor and has both languages in it. Who
// the visitor is, the state of the sale and the button come from the script,
// which gets them from the API. So browsers and CDNs may keep it. Scripts and styles have the
// hash of their content in their address, and are kept for ever.
//
// Texts that never change are in the templates and in facts.go; what depends on
// the moment is in static/texts.js.
package web

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/content"
)

// Source is where the pages find the sales.
type Source interface {
	// Sale returns a sale, or sluice.ErrSaleNotFound.
	Sale(ctx context.Context, id sluice.SaleID) (api.Sale, error)
	// Sales returns those that are or will be open, by opening time.
	Sales() []api.Sale
	// Picture returns the JPEG of a picture that a sale names, or sluice.ErrNoPicture. Size is
	// SmallPicture or LargePicture.
	Picture(ctx context.Context, sale sluice.SaleID, picture string, size int) ([]byte, error)
	// Snapshot identifies what Sales reads from, by a value that can be compared:
	// as long as it is the same, Sales is not called again. It is another after
	// every change, also when a sale opens or closes by time.
	Snapshot() any
}

// Options are the settings of the pages. The zero value is complete.
type Options struct {
	// LoginURL is the shop's login. In it, {return} becomes the address, query
	// escaped, of the page that wants a buyer, with the one-time state that
	// lets this page sign in without asking. Empty: the page says that one has
	// to sign in, without a link.
	LoginURL string
	// PayURL is where the shop takes the money for an order. In it, {order}
	// becomes the order's id and {return} the page's address. Empty: no link.
	PayURL string
	// Base is the path under which the shop serves Sluice, without a slash at its end;
	// empty: none.
	Base string
	// Session: the visitor may be known by a session of the shop, and GET /v1/buyer says
	// who it is.
	Session bool
	// PublicURL is where buyers reach the pages: share cards and reminders need whole addresses.
	// Empty: they have no picture and no link.
	PublicURL string
	// PictureHosts are the hosts of other people's pictures that pages may show.
	PictureHosts []string
	Shop         Shop
	Log          *slog.Logger // default: silent
}

// Shop is whose pages they are: what stands at their top and bottom. All of it may be empty.
type Shop struct {
	Name    string
	Logo    string // address of a picture, or a path of the shop's own server
	Home    string // address of the shop
	Terms   string // address of its terms
	Imprint string // address of who is behind it
	Accent  string // colour of buttons and prices, #rrggbb; made darker or lighter until it can be read
}

// Pages answers GET / (the sales), /s/{sale}, its pictures and its reminder, /orders, /o/{order} and
// /assets/{build}/{file}. It is safe for concurrent use.
//
// No request is worth a rendering of its own: what does not depend on the sales
// is rendered by New, the list and the page of a sale when they are asked for
// the first time and when they have changed.
type Pages struct {
	source Source
	opts   Options
	header http.Header // of all answers
	mux    *http.ServeMux
	assets *assets
	tmpl   *template.Template

	lists    listPages
	sales    salePages
	pictures *pictures
	shell    *content.Answer // the order page, of all orders
	orders   *content.Answer // of all buyers

	noSale, noOrder, noAnswer *content.Answer // in place of what was asked for
}

//go:embed templates
var templates embed.FS

// How long a browser and a CDN may show a page without asking again. The page's
// script corrects what changes meanwhile.
const (
	keepSale  = "public, max-age=60, stale-while-revalidate=600"
	keepList  = "public, max-age=10, stale-while-revalidate=60"
	keepShell = "public, max-age=300, stale-while-revalidate=3600" // the order page knows nothing of the order
	keepError = "no-store"
)

// New returns the pages. The error is a link that is none.
func New(source Source, opts Options) (*Pages, error) {
	if err := checkLink(opts.LoginURL); err != nil {
		return nil, fmt.Errorf("login URL: %w", err)
	}
	if err := checkPayLink(opts.PayURL); err != nil {
		return nil, fmt.Errorf("pay URL: %w", err)
	}
	colours, err := coloursOf(opts.Shop.Accent)
	if err != nil {
		return nil, fmt.Errorf("accent: %w", err)
	}
	header, err := headerOf(&opts)
	if err != nil {
		return nil, err
	}
	opts.PublicURL = strings.TrimRight(opts.PublicURL, "/")
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	p := &Pages{
		source: source, opts: opts, header: header, mux: http.NewServeMux(), assets: loadAssets(opts.Base, colours.css()),
		sales: salePages{most: mostSalePages}, pictures: newPictures(source),
	}
	p.tmpl = template.Must(template.New("").Funcs(template.FuncMap{
		"base": func() string { return opts.Base }, "session": func() bool { return opts.Session },
		"asset": p.assets.path, "modules": p.assets.modules, "both": both,
		"money": money, "price": price, "clock": clock, "off": off, "shop": func() Shop { return opts.Shop },
		"light": func() string { return colours.light }, "dark": func() string { return colours.dark },
		"public": func() string { return opts.PublicURL }, "picture": p.pictureURL, "share": p.shareURL, "markdown": markdown,
		"inc": func(i int) int { return i + 1 }, "past": past,
	}).ParseFS(templates, "templates/*.html"))
	var button bytes.Buffer
	if err := p.tmpl.ExecuteTemplate(&button, "button", nil); err != nil {
		panic(err)
	}
	p.assets.add("button.html", button.Bytes())
	p.assets.seal()
	p.shell = p.render("order.html", page{Kind: "order"}, http.StatusOK, keepShell)
	p.orders = p.render("orders.html", page{Kind: "orders"}, http.StatusOK, keepShell)
	p.noSale = p.trouble(http.StatusNotFound, "There is no such sale.", "没有这个活动。")
	p.noOrder = p.trouble(http.StatusNotFound, "There is no such order.", "没有这个订单。")
	p.noAnswer = p.trouble(http.StatusServiceUnavailable,
		"The server cannot look this up at the moment. Please try again.", "服务器暂时无法查询，请稍后再试。")
	p.mux.HandleFunc("GET /{$}", p.list)
	p.mux.HandleFunc("GET /s/{sale}", p.sale)
	p.mux.HandleFunc("GET /s/{sale}/pictures/{picture}", p.picture)
	p.mux.HandleFunc("GET /s/{sale}/remind.ics", p.reminder)
	p.mux.Handle("GET /orders", p.orders)
	p.mux.HandleFunc("GET /o/{order}", p.order)
	p.mux.Handle("GET /assets/{build}/{file}", p.assets)
	return p, nil
}

// ServeHTTP answers a request for a page.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	maps.Copy(w.Header(), p.header)
	p.mux.ServeHTTP(w, r)
}

// page is what the templates are given.
type page struct {
	Kind     string // which script: list, sale, order, trouble
	Sale     *facts
	Days     []day
	Problem  *trouble
	LoginURL string
	PayURL   string
}

// trouble is what a page says in place of what was asked for.
type trouble struct{ EN, ZH string }

// list is the page of the sales.
func (p *Pages) list(w http.ResponseWriter, r *http.Request) { p.listPage().ServeHTTP(w, r) }

// sale is the page of one sale. It holds what seldom changes.
func (p *Pages) sale(w http.ResponseWriter, r *http.Request) {
	if f, ok := p.find(w, r); ok {
		p.salePage(f).ServeHTTP(w, r)
	}
}

// find returns what the path's sale says, or answers that it cannot be found.
func (p *Pages) find(w http.ResponseWriter, r *http.Request) (f facts, ok bool) {
	sale, err := p.source.Sale(r.Context(), sluice.SaleID(r.PathValue("sale")))
	if err != nil {
		p.failed(w, r, err)
		return f, false
	}
	return factsOf(&sale), true
}

func (p *Pages) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, sluice.ErrSaleNotFound) {
		p.noSale.ServeHTTP(w, r)
		return
	}
	if r.Context().Err() == nil {
		p.opts.Log.Warn("a page cannot be made", "path", r.URL.Path, "error", err)
	}
	p.noAnswer.ServeHTTP(w, r)
}

// order is the page of an order, which knows nothing of it but how ids look.
func (p *Pages) order(w http.ResponseWriter, r *http.Request) {
	if _, ok := sluice.OrderID(r.PathValue("order")).Sale(); !ok {
		p.noOrder.ServeHTTP(w, r)
		return
	}
	p.shell.ServeHTTP(w, r)
}

func (p *Pages) trouble(status int, en, zh string) *content.Answer {
	return p.render("trouble.html", page{Kind: "trouble", Problem: &trouble{en, zh}}, status, keepError)
}

func (p *Pages) render(name string, what page, status int, keep string) *content.Answer {
	what.LoginURL, what.PayURL = p.opts.LoginURL, p.opts.PayURL
	var b bytes.Buffer
	if err := p.tmpl.ExecuteTemplate(&b, name, what); err != nil {
		panic(err) // a template that does not fit its page: a bug
	}
	return content.New(content.Form{
		Type: "text/html; charset=utf-8", Cache: keep, Status: status,
		Level: gzip.BestCompression,
	}, b.Bytes())
}

// policy lets a page load its own scripts, styles and pictures, speak to its
// own server, and nothing else, but for pictures of the hosts that the shop names. No site may
// frame it: a frame could trick a buyer into pressing the button (clickjacking).
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:%s; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// headerOf is what all answers of the pages have.
func headerOf(o *Options) (http.Header, error) {
	from := ""
	for _, host := range o.PictureHosts {
		u, err := url.Parse("https://" + host)
		if err != nil || host == "" || u.Host != host || strings.ContainsAny(host, ";, *'") {
			return nil, fmt.Errorf("picture host %q: want a name like cdn.shop.example", host)
		}
		from += " https://" + host
	}
	for name, link := range map[string]string{
		"shop logo": o.Shop.Logo, "shop URL": o.Shop.Home, "terms URL": o.Shop.Terms, "imprint URL": o.Shop.Imprint,
	} {
		if err := checkLink(link); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if u, err := url.Parse(o.Shop.Logo); err == nil && u.Host != "" {
		from += " " + u.Scheme + "://" + u.Host
	}
	return http.Header{
		"Content-Security-Policy":      {fmt.Sprintf(policy, from)},
		"X-Content-Type-Options":       {"nosniff"},
		"X-Frame-Options":              {"DENY"},
		"Referrer-Policy":              {"no-referrer"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"Permissions-Policy":           {"camera=(), geolocation=(), microphone=(), payment=()"},
	}, nil
}
