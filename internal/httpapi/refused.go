package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/loglimit"
)

// Reasons why claims are refused for who or what sends them, besides those of
// sluice.RefusedError. Buyers come and are sent away, and nothing in the ledger
// shows it: these are counted, and logged, so that an operator sees the difference
// from a sale that no buyer comes to.
const (
	reasonNoToken   = "token_missing"
	reasonToken     = "token_invalid"
	reasonSignature = "token_signature"
	reasonTime      = "token_time"
	reasonNoKeys    = "token_keys"
	reasonAdminKey  = "admin_key"
	reasonKey       = "idempotency_key"
	reasonBody      = "body"
	reasonTooLarge  = "too_large"
	reasonOrigin    = "origin"
)

// RefusalReasons are all that claims are refused for.
func RefusalReasons() []string {
	return []string{
		reasonNoToken, reasonToken, reasonSignature, reasonTime, reasonNoKeys, reasonAdminKey, reasonKey, reasonBody,
		reasonTooLarge, reasonOrigin, string(sluice.Denied), string(sluice.NotEligible),
		string(sluice.TicketMissing), string(sluice.TicketInvalid), string(sluice.TicketExpired),
		string(sluice.LimitMissing),
	}
}

// ClaimCodes returns the codes that claims are answered with besides the domain's.
func ClaimCodes() []string {
	return []string{
		api.CodeOutcomeUnknown, api.CodeForbidden, api.CodeUnauthenticated, api.CodeBadRequest, api.CodeTooLarge,
	}
}

// ClaimCounter counts what became of claims, by sale. A sale that does not exist
// must not cost memory.
type ClaimCounter interface {
	Decided(sale sluice.SaleID, code sluice.Code) // an answer of the domain
	Count(sale sluice.SaleID, code string)        // an answer, by its code
	Refused(sale sluice.SaleID, reason string)    // one of RefusalReasons
	Label(sale sluice.SaleID) string              // the sale, or what stands for those that are not counted apart
	// Of returns what was counted of a sale; false: it is not counted apart.
	Of(sale sluice.SaleID) (codes, reasons map[string]int64, ok bool)
	Unnamed(sale sluice.SaleID) // a claim that came through a proxy that is not named
	// Recent is what was counted of a sale in the last minutes: since when, or since the
	// start.
	Recent(sale sluice.SaleID) (codes, reasons map[string]int64, unnamed int64, since time.Time)
}

type noClaims struct{}

func (noClaims) Decided(sluice.SaleID, sluice.Code) {}
func (noClaims) Count(sluice.SaleID, string)        {}
func (noClaims) Refused(sluice.SaleID, string)      {}
func (noClaims) Label(sluice.SaleID) string         { return "" }
func (noClaims) Of(sluice.SaleID) (codes, reasons map[string]int64, ok bool) {
	return nil, nil, false
}
func (noClaims) Unnamed(sluice.SaleID) {}
func (noClaims) Recent(sluice.SaleID) (codes, reasons map[string]int64, unnamed int64, since time.Time) {
	return nil, nil, 0, time.Time{}
}

// refusedLines bound the log's lines about refused claims: one per reason and minute.
type refusedLines map[string]*loglimit.Sample

func newRefusedLines() refusedLines {
	lines := refusedLines{}
	for _, reason := range RefusalReasons() {
		lines[reason] = &loglimit.Sample{}
	}
	return lines
}

// claimedSale is the sale that a request claims at; false: it is no claim. A preflight
// counts as the claim that it asks for.
func claimedSale(r *http.Request) (sluice.SaleID, bool) {
	if r.Method != http.MethodPost && r.Method != http.MethodOptions {
		return "", false
	}
	sale, orders, _ := hotSale(r.URL.Path)
	return sale, orders
}

// refusedClaim counts and logs a claim that was refused for who or what sent it.
// Requests that are no claims are not counted; a code or a reason that is empty is
// not, either.
func (s *Server) refusedClaim(r *http.Request, code, reason, detail string) {
	sale, ok := claimedSale(r)
	if !ok {
		return
	}
	if code != "" {
		s.Claims.Count(sale, code)
	}
	if reason == "" {
		return
	}
	s.Claims.Refused(sale, reason)
	n := s.refusedLines[reason].Take(s.Now())
	if n == 0 {
		return
	}
	const most = 200 // of what may repeat what a client has sent
	if len(detail) > most {
		detail = detail[:most] + "…"
	}
	s.Log.Warn("claims are refused before they are decided; this is one of them", "reason", reason, "claims", n,
		"sale", s.Claims.Label(sale), "detail", detail, "address", s.address(r))
}

// refuseBuyer answers a request that comes from no buyer.
func (s *Server) refuseBuyer(w http.ResponseWriter, r *http.Request, code, reason, detail string) {
	s.refusedClaim(r, code, reason, detail)
	s.problem(w, code, detail)
}

// tokenReason is why a token is not good.
func tokenReason(err error) string {
	switch {
	case errors.Is(err, auth.ErrSignature):
		return reasonSignature
	case errors.Is(err, auth.ErrExpired), errors.Is(err, auth.ErrNotYet):
		return reasonTime
	}
	return reasonToken
}

// keyError is a bad request for its Idempotency-Key.
type keyError struct{ error }

func (e keyError) Unwrap() error { return e.error }

func badKey(format string, args ...any) error { return keyError{badRequest(format, args...)} }

// refusedUnread counts a claim that readClaim has refused.
func (s *Server) refusedUnread(r *http.Request, err error) {
	known, ok := errors.AsType[*fault](err)
	if !ok {
		return
	}
	reason := reasonBody
	if _, key := errors.AsType[keyError](err); key {
		reason = reasonKey
	} else if known.Code == api.CodeTooLarge {
		reason = reasonTooLarge
	}
	s.refusedClaim(r, known.Code, reason, known.Detail)
}

// refusedOrigin counts a preflight of a claim that a browser will not send now.
func (s *Server) refusedOrigin(r *http.Request) {
	if origin := r.Header.Get("Origin"); origin != "" && r.Method == http.MethodOptions {
		s.refusedClaim(r, "", reasonOrigin,
			fmt.Sprintf("pages of %q may not use the API: cors_origins does not have it", origin))
	}
}

// unnamed is what comes through proxies that trusted_proxies does not name: all of
// their buyers count as one address.
type unnamed struct {
	line loglimit.Sample
	last atomic.Pointer[netip.Addr] // one that was logged
}

// clientOf is where a claim comes from. It warns of a peer that says it is not from
// itself, and is not named.
func (s *Server) clientOf(r *http.Request, sale sluice.SaleID) netip.Addr {
	client, unnamed := s.Proxies.find(r)
	if !unnamed {
		return client
	}
	s.Claims.Unnamed(sale)
	if n := s.unnamed.line.Take(s.Now()); n > 0 {
		peer := client
		s.unnamed.last.Store(&peer)
		s.Log.Warn("claims name another address than their peer's, which is not among trusted_proxies: if it is your "+
			"proxy, all buyers behind it count as one address", "peer", peer, "claims", n, "header", s.Proxies.header())
	}
	return client
}

// claimCounts is what became of the claims on a sale on this server, if it is known.
func (s *Server) claimCounts(sale sluice.SaleID) *api.ClaimCounts {
	answers, refused, ok := s.Claims.Of(sale)
	if !ok {
		return nil
	}
	return &api.ClaimCounts{Node: s.Kinds.Node, Since: api.At(s.limits.start), Answers: answers, Refused: refused}
}
