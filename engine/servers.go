package engine

import (
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/metrics"
)

// Handler returns everything that Sluice serves: the API of buyers and admins, the
// buyer's pages, metrics, probes and the reference. The other handlers are parts of it:
// PublicHandler leaves out what only admins need, and metrics; AdminHandler serves
// those and the probes; BuyerHandler serves the buyers' half of the API alone, under /v1/;
// PageHandler serves the buyer's pages alone, under /, /s/, /o/ and /assets/.
//
// A program that serves them with an http.Server of its own registers Drain:
// server.RegisterOnShutdown(e.Drain).
func (e *Engine) Handler() http.Handler       { return e.under(e.server) }
func (e *Engine) PublicHandler() http.Handler { return e.under(e.server.Public()) }
func (e *Engine) AdminHandler() http.Handler  { return e.under(e.server.Admin()) }
func (e *Engine) BuyerHandler() http.Handler  { return e.under(e.server.Buyer()) }
func (e *Engine) PageHandler() http.Handler   { return e.under(e.server.Page()) }

// under takes the base path off requests that have it. A path that is not the shortest is
// answered with the one that is, base path included: of the rest the router would make one
// that leads out of it.
func (e *Engine) under(handler http.Handler) http.Handler {
	base := e.cfg.BasePath
	if base == "" {
		return handler
	}
	without := http.StripPrefix(base, handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, found := strings.CutPrefix(r.URL.Path, base)
		if !found || rest != "" && rest[0] != '/' {
			handler.ServeHTTP(w, r)
			return
		}
		shortest := path.Join("/", rest)
		if strings.HasSuffix(rest, "/") && shortest != "/" {
			shortest += "/"
		}
		if rest != shortest {
			to := url.URL{Path: base + shortest, RawQuery: r.URL.RawQuery}
			http.Redirect(w, r, to.String(), http.StatusTemporaryRedirect)
			return
		}
		without.ServeHTTP(w, r)
	})
}

// Drain ends all event streams, soon, and lets no more in. An http.Server that shuts
// down waits for streams over HTTP/2, and for those that a middleware keeps from taking
// their connection over, until it is called; and it never learns of the others. It is
// idempotent; servers of NewServer call it, and so does Close.
func (e *Engine) Drain() { e.server.CloseStreams() }

// NewServer returns an http.Server for the whole API, with limits that keep slow,
// idle and too many clients from holding it. NewPublicServer and NewAdminServer
// return one for each of two listeners: the first has no routes for admins and no
// metrics; the second has those, and the probes like the first. The caller serves
// them and shuts them down, may change their timeouts and handlers before the first
// connection, and calls the ConnState that was there in one of its own.
func (e *Engine) NewServer() *http.Server { return e.newServer(e.Handler(), e.connections.public) }

func (e *Engine) NewPublicServer() *http.Server {
	return e.newServer(e.PublicHandler(), e.connections.public)
}

func (e *Engine) NewAdminServer() *http.Server {
	return e.newServer(e.AdminHandler(), e.connections.admin)
}

func (e *Engine) newServer(handler http.Handler, limit *httpapi.Connections) *http.Server {
	server := httpapi.NewServer(handler, limit)
	server.RegisterOnShutdown(e.Drain)
	return server
}

// listeners are the limits of what may connect.
type listeners struct{ public, admin *httpapi.Connections }

func (l *listeners) compose(e *Engine, proxies httpapi.Proxies, counts *metrics.Metrics) {
	public, admin := httpapi.MostConnections()
	l.public = httpapi.NewConnections(public, proxies, e.cfg.Log.With("listener", "public"))
	l.admin = httpapi.NewConnections(admin, proxies, e.cfg.Log.With("listener", "admin"))
	both := map[string]*httpapi.Connections{"public": l.public, "admin": l.admin}
	counts.Connections(func() []metrics.Listener {
		var all []metrics.Listener
		for name, l := range both {
			open, c := l.Counts()
			all = append(all, metrics.Listener{
				Name: name, Open: open, RefusedTotal: c.Total, RefusedAddress: c.Address,
				ClosedIdle: c.Idle, AcceptErrors: c.Errors,
			})
		}
		return all
	})
}
