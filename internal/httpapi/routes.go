package httpapi

import (
	"net/http"

	"github.com/sluicehq/sluice"
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
	pages := orNotFound(func() http.Handler { return s.Pages })
	metrics := orNotFound(func() http.Handler { return s.Metrics })
	return []route{
		s.anyone("GET /v1/sales", s.listSales),
		s.anyone("GET /v1/sales/{sale}", s.showSale),
		s.anyone("GET /v1/sales/{sale}/events", s.saleEvents),
		s.anyone("GET /v1/time", s.time),
		s.buyer("POST /v1/sales/{sale}/orders", s.placeOrder),
		s.buyer("POST /v1/sales/{sale}/challenge", s.buyers(s.makeChallenge)),
		s.buyer("POST /v1/sales/{sale}/ticket", s.buyers(s.makeTicket)),
		s.buyer("GET /v1/orders", s.metered(s.buyers(s.listOwnOrders))),
		s.buyer("GET /v1/orders/{order}", s.metered(s.buyers(s.showOwnOrder))),
		s.buyer("POST /v1/orders/{order}/cancel", s.metered(s.buyers(s.cancelOwnOrder))),

		s.admin(Viewers, "GET /v1/admin/actions", get(s.listActions)),
		s.admin(Owners, "POST /v1/admin/buyers/erase", with(s.eraseBuyer)),
		s.admin(Owners, "POST /v1/admin/sales", with(s.createSale)),
		s.admin(Viewers, "GET /v1/admin/sales", get(s.adminListSales)),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}", get(s.adminShowSale)),
		s.admin(Operators, "PATCH /v1/admin/sales/{sale}", with(s.patchSale)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/open", s.changeSale(sluice.Control.Open)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/pause", s.changeSale(sluice.Control.Pause)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/resume", s.changeSale(sluice.Control.Resume)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/close", s.changeSale(sluice.Control.Close)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/restock", with(s.restockSale)),
		s.admin(Owners, "POST /v1/admin/sales/{sale}/rebuild", bare(s.rebuildSale)),
		s.admin(Operators, "POST /v1/admin/sales/{sale}/reconcile", s.reconcileSale),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/audit", get(s.auditSale)),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/check", get(s.checkSale)),
		s.admin(Operators, "PUT /v1/admin/sales/{sale}/lists/{list}", s.putList),
		s.admin(Viewers, "GET /v1/admin/sales/{sale}/lists/{list}", get(s.showList)),
		s.admin(Operators, "DELETE /v1/admin/sales/{sale}/lists/{list}", bare(s.deleteList)),
		s.admin(Viewers, "GET /v1/admin/orders", get(s.listOrders)),
		s.admin(Viewers, "GET /v1/admin/orders/{order}", get(s.showOrder)),
		s.admin(Viewers, "GET /v1/admin/orders/{order}/history", get(s.orderHistory)),
		s.admin(Operators, "POST /v1/admin/orders/{order}/pay", with(s.payOrder)),
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
		s.admin(Viewers, "GET /v1/admin/webhooks/{webhook}/deliveries", get(s.listDeliveries)),

		s.anyone("GET /{$}", pages),
		s.anyone("GET /s/{sale}", pages),
		s.anyone("GET /o/{order}", pages),
		s.anyone("GET /assets/{build}/{file}", pages),

		s.anyone("GET /docs", s.reference),
		s.anyone("GET /openapi.json", s.openAPI),
		s.anyone("GET /healthz", s.health),
		s.anyone("GET /readyz", s.ready),
		s.anyone("GET /metrics", metrics),
		s.anyone("/", notFound), // what it answers knows the other routes of its listener: see side
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
