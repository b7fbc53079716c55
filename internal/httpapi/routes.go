package httpapi

import (
	"net/http"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

// Access says who may ask for a route.
type Access string

// Anyone needs no token. The other kinds send Authorization: Bearer, with a
// buyer's token or with an admin's key of this role or a stronger one.
const (
	Anyone    Access = "anyone"
	Buyers    Access = "buyer"
	Viewers   Access = "viewer"
	Operators Access = "operator"
	Owners    Access = "owner"
)

// Role is the weakest role of an admin who may ask, 0 where it is not for
// admins.
func (a Access) Role() sluice.Role {
	switch a {
	case Viewers:
		return sluice.Viewer
	case Operators:
		return sluice.Operator
	case Owners:
		return sluice.Owner
	case Anyone, Buyers:
	}
	return 0
}

// Route is one row of the API: what the documentation and the authorization
// matrix are made from.
type Route struct {
	Pattern string // as http.ServeMux has it: "GET /v1/sales/{sale}"
	Access  Access
}

// Routes lists the whole API.
func Routes() []Route {
	table := new(Server).routes()
	all := make([]Route, len(table))
	for i := range table {
		all[i] = table[i].Route
	}
	return all
}

// route is a Route with what answers it.
type route struct {
	Route
	handler http.Handler
}

// routes is the whole API in one table. Whatever the server answers stands
// here, with who may ask for it. A new row also wants one in the test
// TestAuthorization. It is called without a running server, too: it must not
// look into the Options.
func (s *Server) routes() []route {
	pages := s.orNotFound(func() http.Handler { return s.Pages })
	metrics := s.orNotFound(func() http.Handler { return s.Metrics })
	return []route{
		s.anyone("GET /v1/sales", s.listSales),
		s.anyone("GET /v1/sales/{sale}", s.showSale),
		s.anyone(streamPattern, s.saleEvents),
		s.anyone("GET /v1/time", s.time),
		s.buyer("POST /v1/sales/{sale}/orders", s.placeOrder),
		s.buyer("POST /v1/sales/{sale}/challenge", s.buyers(s.makeChallenge)),
		s.buyer("POST /v1/sales/{sale}/ticket", s.buyers(s.makeTicket)),
		s.buyer("GET /v1/buyer", s.metered(s.buyers(showBuyer))),
		s.buyer("GET /v1/orders", s.metered(s.buyers(s.listOwnOrders))),
		s.buyer("GET /v1/orders/{order}", s.metered(s.buyers(s.showOwnOrder))),
		s.buyer("POST /v1/orders/{order}/cancel", s.metered(s.buyers(s.cancelOwnOrder))),

		s.admin(Viewers, "GET /v1/admin/status", get(s.showStatus)),
		s.admin(Viewers, "GET /v1/admin/actions", get(s.listActions)),
		s.admin(Owners, "POST /v1/admin/buyers/erase", with(s.eraseBuyer)),
		s.admin(Owners, "POST /v1/admin/sales", with(s.createSale)),
		s.admin(Viewers, "GET /v1/admin/sales", get(s.adminListSales)),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}", get(s.adminShowSale)),
		s.admin(Operators, "PATCH /v1/admin/sales/{sale}", with(s.patchSale)),
		s.admin(Owners, "DELETE /v1/admin/sales/{sale}", bare(s.deleteSale)),
		s.admin(Owners, "POST /v1/admin/sales/{sale}/pictures", s.addPicture),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/open", s.changeSale(sluice.Control.Open)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/pause", s.changeSale(sluice.Control.Pause)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/resume", s.changeSale(sluice.Control.Resume)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/close", s.changeSale(sluice.Control.Close)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/restock", with(s.restockSale)),
		s.admin(Owners, "POST /v1/admin/sales/{sale}/recover", s.recoverSale),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/reconcile", s.reconcileSale),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/audit", get(s.auditSale)),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/curve", get(s.showCurve)),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/check", get(s.checkSale)),
		s.admin(Operators, "PUT /v1/admin/sales/{sale}/lists/{list}", s.putList),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/lists/{list}", get(s.showList)),
		s.admin(Operators, "DELETE /v1/admin/sales/{sale}/lists/{list}", bare(s.deleteList)),
		s.admin(Viewers, "GET /v1/admin/orders", get(s.listOrders)),
		s.admin(Viewers, "GET /v1/admin/orders/{order}", get(s.showOrder)),
		s.admin(Viewers, "GET /v1/admin/orders/{order}/history", get(s.orderHistory)),
		s.admin(Operators, "POST /v1/admin/orders/{order}/pay", with(s.payOrder)),
		s.admin(Operators, "POST /v1/admin/orders/{order}/extend", with(s.extendOrder)),
		s.admin(Operators, "POST /v1/admin/orders/{order}/cancel", s.merchantAction(sluice.Cancel)),
		s.admin(Operators, "POST /v1/admin/orders/{order}/refund", s.merchantAction(sluice.Refund)),
		s.admin(Operators, "POST /v1/admin/orders/{order}/reject", with(s.rejectOrder)),
		s.admin(Viewers, "GET /v1/admin/dead-letters", get(s.listDeadLetters)),
		s.admin(Viewers, "GET /v1/admin/dead-letters/{id}", get(s.showDeadLetter)),
		s.admin(Operators, "POST /v1/admin/dead-letters/{id}/replay", bare(s.replayDeadLetter)),
		s.admin(Viewers, "GET /v1/admin/events", get(s.listEvents)),
		s.admin(Owners, "POST /v1/admin/webhooks", with(s.createWebhook)),
		s.admin(Viewers, "GET /v1/admin/webhooks", get(s.listWebhooks)),
		s.admin(Viewers, "GET /v1/admin/webhooks/{webhook}", get(s.showWebhook)),
		s.admin(Owners, "DELETE /v1/admin/webhooks/{webhook}", bare(s.deleteWebhook)),
		s.admin(Operators, "POST /v1/admin/webhooks/{webhook}/enable", bare(s.enableWebhook)),
		s.admin(Operators, "POST /v1/admin/webhooks/{webhook}/disable", bare(s.disableWebhook)),
		s.admin(Operators, "POST /v1/admin/webhooks/{webhook}/replay", with(s.replayWebhook)),
		s.admin(Operators, "POST /v1/admin/webhooks/{webhook}/test", bare(s.testWebhook)),
		s.admin(Viewers, "GET /v1/admin/webhooks/{webhook}/deliveries", get(s.listDeliveries)),

		s.admin(Owners, "PUT /v1/admin/log-level", with(s.setLogLevel)),
		{Route{profilePattern, Owners}, s.asAdmin(Route{profilePattern, Owners}, s.takeProfile)},

		s.anyone("GET /{$}", pages),
		s.anyone("GET /s/{sale}", pages),
		s.anyone("GET /s/{sale}/pictures/{picture}", pages),
		s.anyone("GET /s/{sale}/remind.ics", pages),
		s.anyone("GET /orders", pages),
		s.anyone("GET /o/{order}", pages),
		s.anyone("GET /assets/{build}/{file}", pages),

		s.anyone("GET /docs", s.reference),
		s.anyone("GET /openapi.json", s.openAPI),
		s.anyone("GET /healthz", s.health),
		s.anyone("GET /readyz", s.ready),
		s.anyone("GET /metrics", metrics),
		s.anyone("/", s.notFound), // what it answers knows the other routes of its listener: see side
	}
}

// anyone is a row that needs no token.
func (s *Server) anyone(pattern string, h http.HandlerFunc) route {
	return route{Route{pattern, Anyone}, h}
}

// buyer is a row for buyers: the handler receives the token of the one who asks.
func (s *Server) buyer(pattern string, h tokenHandler) route {
	return route{Route{pattern, Buyers}, s.asBuyer(h)}
}

// buyers makes a handler of one that answers with a message or an error.
func (s *Server) buyers(do func(http.ResponseWriter, *http.Request, auth.Token) (any, error)) tokenHandler {
	return func(w http.ResponseWriter, r *http.Request, token auth.Token) {
		message, err := do(w, r, token)
		s.reply(w, r, message, err)
	}
}

// admin is a row for admins with this role or a stronger one.
func (s *Server) admin(access Access, pattern string, do handler) route {
	return route{Route{pattern, access}, s.asAdmin(Route{pattern, access}, func(w http.ResponseWriter, r *http.Request) {
		message, err := do(w, r)
		s.reply(w, r, message, err)
	})}
}

// side is what one listener serves: the whole API, or the public or the admin
// part of it.
type side struct {
	server  *Server
	mux     *http.ServeMux
	hot     hotRoutes
	counted exchanges
}

// Public returns the handler of a listener for buyers: all routes but those for
// admins and the metrics.
func (s *Server) Public() http.Handler {
	return s.side(func(r Route) bool { return !r.internal() })
}

// Admin returns the handler of a listener that the merchant alone can reach: the
// merchant's routes, the metrics, the probes and the reference.
func (s *Server) Admin() http.Handler {
	return s.side(func(r Route) bool { return r.internal() || r.everywhere() })
}

// Buyer returns the handler of the buyers' half of the API, and Page that of their pages.
func (s *Server) Buyer() http.Handler {
	return s.side(func(r Route) bool { return !r.internal() && strings.Contains(r.Pattern, " /v1/") })
}

func (s *Server) Page() http.Handler {
	return s.side(func(r Route) bool {
		return !r.internal() && !r.everywhere() && !strings.Contains(r.Pattern, " /v1/")
	})
}

// internal reports whether the public has no business with a route.
func (r Route) internal() bool { return r.Access.Role() != 0 || r.Pattern == "GET /metrics" }

// everywhere reports whether both listeners have a route.
func (r Route) everywhere() bool {
	switch r.Pattern {
	case "GET /healthz", "GET /readyz", "GET /docs", "GET /openapi.json":
		return true
	}
	return false
}

func (s *Server) side(has func(Route) bool) *side {
	d := &side{server: s, mux: http.NewServeMux()}
	d.counted = exchanges{http.HandlerFunc(d.timed)}
	for _, r := range s.routes() {
		if r.Pattern == "GET /readyz" && !has(Route{"GET /metrics", Anyone}) {
			r.handler = http.HandlerFunc(s.readyPublic)
		}
		if has(r.Route) && r.Pattern != "/" {
			d.mux.Handle(r.Pattern, r.handler)
			d.hot.add(r)
		}
	}
	if has(Route{"GET /metrics", Anyone}) && s.Console != nil { // pages that ask the API, and no part of it
		d.mux.Handle("/admin", s.Console)
		d.mux.Handle("/admin/", s.Console)
	}
	d.mux.HandleFunc("/", d.notFound)
	return d
}

// hsts has browsers come by HTTPS only, for a year. A server behind a proxy with
// TLS leaves it to the proxy.
var hsts = []string{"max-age=31536000"}

// serve answers a request. A panic is a bug: it is logged, and the client
// gets "the outcome is unknown".
func (d *side) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			if d.server.panics.admit(d.server.Now()) {
				d.server.Log.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "panic", p)
			}
			d.server.problem(w, api.CodeOutcomeUnknown, "an unexpected error; it is in the server's log")
		}
	}()
	h := w.Header()
	h["X-Content-Type-Options"] = noSniff
	if r.TLS != nil {
		h["Strict-Transport-Security"] = hsts
	}
	if d.server.cors != nil && d.server.cors.handle(w, r, &d.server.problems) {
		if h["Access-Control-Allow-Origin"] == nil {
			d.server.refusedOrigin(r)
		}
		return
	}
	if len(r.URL.Path) > maxPath {
		d.server.notFound(w, r)
		return
	}
	if hot := d.hot.find(r); hot != nil {
		hot.ServeHTTP(w, r)
		return
	}
	d.mux.ServeHTTP(w, r)
}

// maxPath is longer than the path of any route with any id, in bytes: taking a longer one apart, to find
// that it has no answer, costs most of all.
const maxPath = 512

// methods are tried to distinguish a wrong method from a wrong path.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

func (d *side) notFound(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range methods {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if _, pattern := d.mux.Handler(probe); pattern != "/" && pattern != "" {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) > 0 {
		d.server.refusedOrigin(r) // without cors_origins, that is what a preflight gets
		w.Header()["Allow"] = allowed
		d.server.problem(w, api.CodeMethodNotAllowed, r.Method+" is not for this path")
		return
	}
	if _, pattern := d.server.whole.mux.Handler(r); pattern != "/" {
		d.server.problem(w, api.CodeNotFound,
			"not on this listener: buyers' paths are at the server's listen address, the merchant's API and the metrics "+
				"at admin_listen (commands take it from --admin-url or SLUICE_ADMIN_URL)")
		return
	}
	d.server.notFound(w, r)
}

// orNotFound is a handler that a server need not have.
func (s *Server) orNotFound(h func() http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if have := h(); have != nil {
			have.ServeHTTP(w, r)
			return
		}
		s.notFound(w, r)
	}
}

// notFound answers for a path that is not there.
func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) {
	s.problem(w, api.CodeNotFound, "no such path; see the API reference")
}

// Two routes get nearly all of a crowd's requests: a sale that is read, and a
// claim. They are found without http.ServeMux, which costs more than the
// answer. Whatever is not exactly one of them is the mux's.

// ClaimPattern is the route of claims.
const ClaimPattern = "POST /v1/sales/{sale}/orders"

const (
	readPattern   = "GET /v1/sales/{sale}"
	streamPattern = "GET /v1/sales/{sale}/events"
)

// hotRoutes are the handlers of these two routes.
type hotRoutes struct{ read, claim http.Handler }

// add takes a row of the table, if it is one of them.
func (h *hotRoutes) add(r route) {
	switch r.Pattern {
	case readPattern:
		h.read = r.handler
	case ClaimPattern:
		h.claim = r.handler
	}
}

// find returns the handler of a request, or nil: ask the mux.
func (h *hotRoutes) find(r *http.Request) http.Handler {
	if r.URL.RawPath != "" {
		return nil
	}
	switch _, orders, ok := hotSale(r.URL.Path); {
	case !ok:
	case orders && r.Method == http.MethodPost:
		r.Pattern = ClaimPattern // as the mux would
		return h.claim
	case !orders && r.Method == http.MethodGet:
		r.Pattern = readPattern
		return h.read
	}
	return nil
}

// hotSale takes the sale out of the path of a sale or of its orders.
func hotSale(path string) (sale sluice.SaleID, orders, ok bool) {
	rest, ok := strings.CutPrefix(path, "/v1/sales/")
	if !ok {
		return "", false, false
	}
	rest, orders = strings.CutSuffix(rest, "/orders")
	sale = sluice.SaleID(rest)
	return sale, orders, sale.Validate() == nil
}

// pathSale is the sale in the path of a request, however its route was found.
func pathSale(r *http.Request) sluice.SaleID {
	if sale := r.PathValue("sale"); sale != "" {
		return sluice.SaleID(sale)
	}
	sale, _, _ := hotSale(r.URL.Path)
	return sale
}
