package httpapi

import (
	"net/http"
	"strings"

	"github.com/sluicehq/sluice"
)

// Two routes get nearly all of a crowd's requests: a sale that is read, and a
// claim. They are found without http.ServeMux, which costs more than the
// answer. Whatever is not exactly one of them is the mux's.

const (
	readPattern  = "GET /v1/sales/{sale}"
	claimPattern = "POST /v1/sales/{sale}/orders"
)

// hotRoutes are the handlers of these two routes.
type hotRoutes struct{ read, claim http.Handler }

// add takes a row of the table, if it is one of them.
func (h *hotRoutes) add(r route) {
	switch r.Pattern {
	case readPattern:
		h.read = r.handler
	case claimPattern:
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
		return h.claim
	case !orders && r.Method == http.MethodGet:
		return h.read
	}
	return nil
}

// hotSale takes the sale out of a path, which is that of a sale or of its orders.
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
