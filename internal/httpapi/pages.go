package httpapi

import "net/http"

// page answers a path of the buyer's pages.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	if s.Pages == nil {
		notFound(w, r)
		return
	}
	s.Pages.ServeHTTP(w, r)
}
