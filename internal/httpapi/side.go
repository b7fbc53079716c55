package httpapi

import (
	"net/http"

	"github.com/sluicehq/sluice/api"
)

// side is what one listener serves: the whole API, or the public or the admin
// part of it.
type side struct {
	server *Server
	mux    *http.ServeMux
	hot    hotRoutes
}

// Public returns the handler of a listener for buyers: all routes but those for
// admins and the metrics.
func (s *Server) Public() http.Handler {
	public := s.side(func(r Route) bool { return !r.internal() })
	return &public
}

// Admin returns the handler of a listener that the merchant alone can reach: the
// merchant's routes, the metrics, the probes and the reference.
func (s *Server) Admin() http.Handler {
	admin := s.side(func(r Route) bool { return r.internal() || r.everywhere() })
	return &admin
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

func (s *Server) side(has func(Route) bool) side {
	d := side{server: s, mux: http.NewServeMux()}
	for _, r := range s.routes() {
		if has(r.Route) && r.Pattern != "/" {
			d.mux.Handle(r.Pattern, r.handler)
			d.hot.add(r)
		}
	}
	d.mux.HandleFunc("/", d.notFound)
	return d
}

// hsts has browsers come by HTTPS only, for a year. A server behind a proxy with
// TLS leaves it to the proxy.
var hsts = []string{"max-age=31536000"}

// ServeHTTP answers a request. A panic is a bug: it is logged, and the client
// gets "the outcome is unknown".
func (d *side) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			if d.server.panics.admit(d.server.Now()) {
				d.server.Log.Error("a request panicked", "method", r.Method, "path", r.URL.Path, "panic", p)
			}
			problem(w, api.CodeOutcomeUnknown, "an unexpected error; it is in the server's log")
		}
	}()
	h := w.Header()
	h["X-Content-Type-Options"] = noSniff
	if r.TLS != nil {
		h["Strict-Transport-Security"] = hsts
	}
	if d.server.cors != nil && d.server.cors.handle(w, r) {
		return
	}
	if hot := d.hot.find(r); hot != nil {
		hot.ServeHTTP(w, r)
		return
	}
	d.mux.ServeHTTP(w, r)
}

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
		w.Header()["Allow"] = allowed
		problem(w, api.CodeMethodNotAllowed, r.Method+" is not for this path")
		return
	}
	if _, pattern := d.server.whole.mux.Handler(r); pattern != "/" {
		problem(w, api.CodeNotFound,
			"not on this listener: buyers' paths are at the server's listen address, the merchant's API and the metrics "+
				"at admin_listen (commands take it from --admin-url or SLUICE_ADMIN_URL)")
		return
	}
	notFound(w, r)
}

// orNotFound is a handler that a server need not have.
func orNotFound(h func() http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if have := h(); have != nil {
			have.ServeHTTP(w, r)
			return
		}
		notFound(w, r)
	}
}

// notFound answers for a path that is not there.
func notFound(w http.ResponseWriter, _ *http.Request) {
	problem(w, api.CodeNotFound, "no such path; see the API reference")
}
