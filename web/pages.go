package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"sync"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httpapi/wire"
)

// Source is where the pages find the sales.
type Source interface {
	// Sale returns a sale, or sluice.ErrSaleNotFound.
	Sale(ctx context.Context, id sluice.SaleID) (wire.Sale, error)
	// Sales returns those that are or will be open, by opening time.
	Sales() []wire.Sale
}

// Options are the settings of the pages. The zero value is complete.
type Options struct {
	// LoginURL is the shop's login. In it, {return} becomes the address, query
	// escaped, of the page that wants a buyer. Empty: the page says that one
	// has to sign in, without a link.
	LoginURL string
	// PayURL is where the shop takes the money for an order. In it, {order}
	// becomes the order's id and {return} the page's address. Empty: no link.
	PayURL string
	Log    *slog.Logger // default: silent
}

// Pages answers GET / (the sales), /s/{sale}, /o/{order} and
// /assets/{build}/{file}. It is safe for concurrent use.
type Pages struct {
	source Source
	opts   Options
	mux    *http.ServeMux
	assets *assets
	tmpl   *template.Template

	kept sync.Map // sluice.SaleID to *kept: the page of a sale as last rendered
}

//go:embed templates
var templates embed.FS

// How long a browser and a CDN may show a page without asking again. What may
// change meanwhile, the page's script sets right.
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
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pages{source: source, opts: opts, mux: http.NewServeMux(), assets: loadAssets()}
	p.tmpl = template.Must(template.New("").Funcs(template.FuncMap{
		"asset": p.assets.path, "modules": p.assets.modules, "both": both,
		"money": money, "clock": clock, "off": off,
	}).ParseFS(templates, "templates/*.html"))
	p.mux.HandleFunc("GET /{$}", p.list)
	p.mux.HandleFunc("GET /s/{sale}", p.sale)
	p.mux.HandleFunc("GET /o/{order}", p.order)
	p.mux.Handle("GET /assets/{build}/{file}", p.assets)
	return p, nil
}

// ServeHTTP answers a request for a page.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// page is what the templates are given.
type page struct {
	Kind     string // which script: list, sale, order, trouble
	Sale     *facts
	Days     []day
	Problem  *trouble
	LoginURL string
	PayURL   string
}

// sale is the page of one sale. It holds what seldom changes, so it is rendered
// once, and again when the merchant has changed the sale.
func (p *Pages) sale(w http.ResponseWriter, r *http.Request) {
	sale, err := p.source.Sale(r.Context(), sluice.SaleID(r.PathValue("sale")))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	f := factsOf(&sale)
	if k, ok := p.kept.Load(f.ID); ok && k.(*kept).facts == f {
		k.(*kept).doc.serve(w, r)
		return
	}
	doc := p.render("sale.html", page{Kind: "sale", Sale: &f}, keepSale)
	p.kept.Store(f.ID, &kept{facts: f, doc: doc})
	doc.serve(w, r)
}

// kept is a rendered page and what it was made of.
type kept struct {
	facts facts
	doc   *document
}

func (p *Pages) list(w http.ResponseWriter, r *http.Request) {
	p.render("list.html", page{Kind: "list", Days: daysOf(p.source.Sales())}, keepList).serve(w, r)
}

func (p *Pages) order(w http.ResponseWriter, r *http.Request) {
	if _, ok := sluice.OrderID(r.PathValue("order")).Sale(); !ok {
		p.fail(w, r, sluice.ErrOrderNotFound)
		return
	}
	p.render("order.html", page{Kind: "order"}, keepShell).serve(w, r)
}

// trouble is what a page says in place of what was asked for.
type trouble struct {
	status int
	EN, ZH string
}

func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	t := trouble{http.StatusServiceUnavailable, "The server cannot look this up at the moment. Please try again.", "服务器暂时无法查询，请稍后再试。"}
	switch {
	case errors.Is(err, sluice.ErrSaleNotFound):
		t = trouble{http.StatusNotFound, "There is no such sale.", "没有这个活动。"}
	case errors.Is(err, sluice.ErrOrderNotFound):
		t = trouble{http.StatusNotFound, "There is no such order.", "没有这个订单。"}
	case r.Context().Err() == nil:
		p.opts.Log.Warn("a page cannot be made", "path", r.URL.Path, "error", err)
	}
	doc := p.render("trouble.html", page{Kind: "trouble", Problem: &t}, keepError)
	doc.status = t.status
	doc.serve(w, r)
}

func (p *Pages) render(name string, content page, keep string) *document {
	content.LoginURL, content.PayURL = p.opts.LoginURL, p.opts.PayURL
	var b bytes.Buffer
	if err := p.tmpl.ExecuteTemplate(&b, name, content); err != nil {
		panic(err) // a template that does not fit its page: a bug
	}
	return newDocument(b.Bytes(), "text/html; charset=utf-8", keep)
}
