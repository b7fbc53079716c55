package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

// bearer returns the token of the Authorization header, empty if there is none.
func bearer(r *http.Request) string {
	values := r.Header["Authorization"]
	if len(values) != 1 {
		return ""
	}
	const scheme = "Bearer "
	if v := values[0]; len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		return v[len(scheme):]
	}
	return ""
}

// tokenHandler answers the request of a buyer.
type tokenHandler func(http.ResponseWriter, *http.Request, auth.Token)

// asBuyer answers the request as the buyer who asks, or says why not.
func (s *Server) asBuyer(next tokenHandler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		text := bearer(r)
		if text == "" {
			problem(w, api.CodeUnauthenticated, "want the header Authorization: Bearer TOKEN, with a buyer's token")
			return
		}
		token, err := s.Buyers.Verify(r.Context(), text)
		if err == nil {
			if !s.shares.enter(token.Buyer) {
				refusals[sluice.RateLimited].write(w, retryIn(time.Second))
				return
			}
			defer s.shares.leave(token.Buyer)
			next(w, r, token)
			return
		}
		if !looksLikeToken(text) {
			if _, ok, _ := s.guesses.find(text, s.Proxies.client(r), s.Now()); ok {
				problem(w, api.CodeForbidden, "this is for buyers; an admin's key is not a buyer")
				return
			}
		}
		if errors.Is(err, auth.ErrNoKeys) { // it may be a good token: that is for later
			problem(w, sluice.Unavailable.String(), "the key of this token is not known here yet; try again in a moment")
			return
		}
		problem(w, api.CodeUnauthenticated, err.Error())
	}
}

// asAdmin answers the request if it comes with the key of an admin whose role
// is enough for the route, and keeps a record of changes and of who was refused.
func (s *Server) asAdmin(route Route, next http.HandlerFunc) http.HandlerFunc {
	needed := route.Access.Role()
	return func(w http.ResponseWriter, r *http.Request) {
		key := bearer(r)
		if key == "" {
			problem(w, api.CodeUnauthenticated, "want the header Authorization: Bearer ADMIN_KEY")
			return
		}
		if looksLikeToken(key) {
			if token, err := s.Buyers.Verify(r.Context(), key); err == nil {
				s.refused(route, r, "buyer:"+string(token.Buyer))
				problem(w, api.CodeForbidden, "this is for the merchant; a buyer's token is not an admin's key")
				return
			}
		}
		admin, ok, held := s.guesses.find(key, s.Proxies.client(r), s.Now())
		switch {
		case held:
			problem(w, api.CodeUnauthenticated, "too many wrong admin keys from this address; try again in a minute")
		case !ok:
			problem(w, api.CodeUnauthenticated, "the admin key is not right")
		case !admin.Role.May(needed):
			s.refused(route, r, admin.Name)
			problem(w, api.CodeForbidden, fmt.Sprintf("this needs the role %s; the key %s has the role %s", needed, admin.Name,
				admin.Role))
		default:
			s.asked(route, admin, next, w, r)
		}
	}
}
