package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/meters"
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
		if text == "" && s.Identify != nil {
			if token, ok := s.session(w, r); ok {
				s.answerBuyer(w, r, token, next)
			}
			return
		}
		if text == "" {
			s.refuseBuyer(w, r, api.CodeUnauthenticated, reasonNoToken,
				"want the header Authorization: Bearer TOKEN, with a buyer's token")
			return
		}
		token, err := s.Buyers.Verify(r.Context(), text)
		if err == nil {
			s.answerBuyer(w, r, token, next)
			return
		}
		if !looksLikeToken(text) {
			if _, ok, _ := s.guesses.public.find(text, s.Proxies.client(r), s.Now()); ok {
				s.refuseBuyer(w, r, api.CodeForbidden, reasonAdminKey, "this is for buyers; an admin's key is not a buyer")
				return
			}
		}
		if errors.Is(err, auth.ErrNoKeys) { // it may be a good token: that is for later
			s.refuseBuyer(w, r, sluice.Unavailable.String(), reasonNoKeys,
				"the key of this token is not known here yet; try again in a moment")
			return
		}
		s.refuseBuyer(w, r, api.CodeUnauthenticated, tokenReason(err), err.Error())
	}
}

// answerBuyer answers a buyer who has not too many requests under way.
func (s *Server) answerBuyer(w http.ResponseWriter, r *http.Request, token auth.Token, next tokenHandler) {
	if !s.limits.enter(token.Buyer) {
		s.refusedClaim(r, sluice.RateLimited.String(), "", "")
		s.encoded[sluice.RateLimited].write(w, retryIn(time.Second))
		return
	}
	defer s.limits.leave(token.Buyer)
	next(w, r, token)
}

// What the shop's Identify may take while it hangs, so that buyers with tokens still buy.
const (
	// identified is how long one call may take. The server's own context does not end with
	// the client's connection before the body has been read.
	identified = 5 * time.Second
	// mostIdentified is how many calls are under way.
	mostIdentified = 4096
)

// session returns, as if it were a token, the buyer whose session of the shop a request comes with, or answers
// it. Browsers send sessions with requests that other sites have them make as well: of
// those only what changes nothing is answered.
func (s *Server) session(w http.ResponseWriter, r *http.Request) (token auth.Token, ok bool) {
	if err := s.forged.Check(r); err != nil {
		s.refuseBuyer(w, r, api.CodeForbidden, reasonOrigin, "a page of another site may not act for a buyer of this one")
		return token, false
	}
	defer s.identifying.Add(-1)
	if s.identifying.Add(1) > mostIdentified {
		s.refuseBuyer(w, r, sluice.Overloaded.String(), "", "too many wait for the shop to say who asks; try again")
		return token, false
	}
	ctx, cancel := context.WithTimeout(r.Context(), identified)
	defer cancel()
	buyer, err := s.Identify(r.WithContext(ctx))
	if err != nil {
		s.Log.Warn("the shop cannot say who asks", "error", err)
		s.refuseBuyer(w, r, sluice.Unavailable.String(), reasonNoKeys, "who asks is not known now; try again in a moment")
		return token, false
	}
	if buyer == "" {
		s.refuseBuyer(w, r, api.CodeUnauthenticated, reasonNoToken, "want a session of the shop, or a buyer's token")
		return token, false
	}
	if buyer, err = s.Buyers.BuyerID(buyer); err == nil {
		err = auth.Visible(buyer)
	}
	if err != nil {
		s.refuseBuyer(w, r, api.CodeUnauthenticated, reasonToken, "the session's buyer: "+err.Error())
		return token, false
	}
	token.Buyer = buyer
	if s.Signed != nil {
		token.Signed = s.Signed(r.WithContext(ctx))
	}
	return token, true
}

// asAdmin answers the request if it comes with the key of an admin whose role
// is enough for the route, and keeps a record of changes and of who was refused.
func (s *Server) asAdmin(route Route, next http.HandlerFunc) http.HandlerFunc {
	needed := route.Access.Role()
	return func(w http.ResponseWriter, r *http.Request) {
		if admin, ok := auth.SignedIn(r.Context()); ok {
			s.permit(route, needed, admin, next, w, r)
			return
		}
		key := bearer(r)
		if key == "" {
			s.problem(w, api.CodeUnauthenticated, "want the header Authorization: Bearer ADMIN_KEY")
			return
		}
		if looksLikeToken(key) {
			if token, err := s.Buyers.Verify(r.Context(), key); err == nil {
				s.refused(route, r, "buyer:"+string(token.Buyer))
				s.problem(w, api.CodeForbidden, "this is for the merchant; a buyer's token is not an admin's key")
				return
			}
		}
		admin, ok, held := s.guesses.admin.find(key, s.Proxies.client(r), s.Now())
		switch {
		case held:
			s.problem(w, api.CodeUnauthenticated, "too many wrong admin keys from this address; try again in a minute")
		case !ok:
			s.problem(w, api.CodeUnauthenticated, "the admin key is not right")
		default:
			s.permit(route, needed, admin, next, w, r)
		}
	}
}

// permit answers the request of an admin, if the role is enough.
func (s *Server) permit(route Route, needed sluice.Role, admin auth.Admin, next http.HandlerFunc, w http.ResponseWriter,
	r *http.Request,
) {
	if admin.Role.May(needed) {
		s.asked(route, admin, next, w, r)
		return
	}
	s.refused(route, r, admin.Name)
	s.problem(w, api.CodeForbidden, fmt.Sprintf("this needs the role %s; the key %s has the role %s", needed, admin.Name,
		admin.Role))
}

// guesses bounds how often one address may try keys of admins at one listener. Only
// wrong keys count, and every key is looked up, in the same time.
//
// On the merchant's listener the limit names those who try, and refuses no right key: whoever
// shares an address with the merchant could keep the shop's backend from its payments otherwise.
// What keeps keys from being guessed is their length (auth.ValidateKey, auth.Secrets).
//
// Strangers ask at the public one, where an admin's key buys nothing. A right one gets a reason
// of its own; beyond the limit it is answered like a wrong one, so that trying on finds nothing.
// Requests from this machine are counted and logged there but never held back: a proxy here that
// is not among the trusted ones makes all of the public one address.
type guesses struct {
	strangers bool // it is the public listener's
	wrong     admission.NetworkMeters
	quiet     burst // of log lines
	count     Counter
	log       *slog.Logger
	admins    *auth.Admins
}

// guessRate is how many wrong keys an address may try (of IPv6: a /64; a /56 twice, a /48 four times as many).
var guessRate = sluice.AddressRate{Requests: 20, PerS: 60}

// maxGuessers bounds the memory: some 9 MB for each listener.
const maxGuessers = 1 << 16

// newGuesses admits newcomers to a full table: who has as many addresses as it has room for may try
// a million keys a minute anyway.
func newGuesses(o *Options, strangers bool) *guesses {
	g := &guesses{strangers: strangers, count: o.AdminDecided, log: o.Log, admins: o.Admins}
	for i := range g.wrong {
		g.wrong[i] = meters.NewOpen(maxGuessers)
	}
	return g
}

// find returns whose key this is. Held: its address has tried too many wrong ones.
func (g *guesses) find(key string, from netip.Addr, now time.Time) (admin auth.Admin, ok, held bool) {
	tries, at := g.wrong.Attempts(guessRate, "", from), now.UnixMicro()
	waits := meters.TryAll(at, tries[:]...)
	tooMany := slices.Max(waits[:]) > 0
	held = tooMany && !(g.strangers && from.IsLoopback())
	if admin, ok = g.admins.Find(key); ok && !(g.strangers && held) {
		if !tooMany {
			for _, try := range tries {
				try.Denied(at, 0)
			}
		}
		return admin, true, false
	}
	g.count.Count("wrong_key")
	if tooMany && g.quiet.admit(now) {
		g.log.Warn("an address tries keys of admins", "address", from)
	}
	return auth.Admin{}, false, held
}

// looksLikeToken reports whether a text has the three parts of a JWT: then it is
// no try of a key.
func looksLikeToken(text string) bool { return strings.Count(text, ".") == 2 }
