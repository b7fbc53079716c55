package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/sluicehq/sluice/api"
)

// cors lets the pages of configured origins, the shop's own, use the buyers'
// half of the API. Credentials are never allowed: buyers' tokens travel in a
// header that the page sets itself. The admins' half has no CORS at all.
type cors struct {
	origins map[string][]string // an origin, and the header value that allows it
}

// newCORS returns nil if no origin is allowed.
func newCORS(origins []string) *cors {
	if len(origins) == 0 {
		return nil
	}
	c := &cors{origins: map[string][]string{}}
	for _, origin := range origins {
		c.origins[origin] = []string{origin}
	}
	return c
}

var (
	varyOrigin    = []string{"Origin"}
	varyPreflight = []string{"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"}
	corsMethods   = []string{"GET, HEAD, POST"}
	corsHeaders   = []string{"Authorization, Content-Type, Idempotency-Key, If-None-Match, Sluice-Ticket"}
	corsExposed   = []string{"Deprecation, ETag, Idempotent-Replayed, Link, Location, Retry-After, Sunset"}
	corsMaxAge    = []string{"600"}
)

// handle adds what a page of an allowed origin needs to read the answer. It
// reports whether the request was a preflight, and is answered.
func (c *cors) handle(w http.ResponseWriter, r *http.Request, problems *problems) bool {
	path := r.URL.Path
	if !strings.HasPrefix(path, "/v1/") || path == "/v1/admin" || strings.HasPrefix(path, "/v1/admin/") {
		return false
	}
	h := w.Header()
	h["Vary"] = varyOrigin // also without an Origin: caches keep one answer for all otherwise
	origin := r.Header["Origin"]
	preflight := r.Method == http.MethodOptions && len(origin) == 1 && len(r.Header["Access-Control-Request-Method"]) > 0
	var allow []string
	if len(origin) == 1 {
		allow = c.origins[origin[0]]
	}
	if allow != nil {
		h["Access-Control-Allow-Origin"] = allow
	}
	if !preflight {
		if allow != nil {
			h["Access-Control-Expose-Headers"] = corsExposed
		}
		return false
	}
	h["Vary"] = varyPreflight
	if allow == nil {
		problems.problem(w, api.CodeForbidden, "pages of this origin may not use the API; see the setting cors_origins")
		return true
	}
	h["Access-Control-Allow-Methods"], h["Access-Control-Allow-Headers"], h["Access-Control-Max-Age"] = corsMethods,
		corsHeaders, corsMaxAge
	w.WriteHeader(http.StatusNoContent)
	return true
}

// CheckOrigins says what is wrong with the first origin that is not exactly as
// browsers send it. An empty list is right: no other site's pages are let in.
func CheckOrigins(origins []string) error {
	for _, origin := range origins {
		if err := checkOrigin(origin); err != nil {
			return fmt.Errorf("origin %q: %w", origin, err)
		}
	}
	return nil
}

func checkOrigin(origin string) error {
	u, err := url.Parse(origin)
	if strings.Contains(origin, "*") {
		return errors.New("want exact origins, without wildcards")
	}
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return errors.New("want scheme and host, like https://shop.example")
	}
	if plain := strings.ToLower(u.Scheme + "://" + u.Host); origin != plain {
		return fmt.Errorf("want scheme and host alone, in lower case: %s", plain)
	}
	if u.Scheme == "http" && u.Port() == "80" || u.Scheme == "https" && u.Port() == "443" ||
		strings.HasSuffix(u.Host, ":") {
		return fmt.Errorf("want no port, as browsers send it: %s://%s", u.Scheme, u.Hostname())
	}
	return nil
}
