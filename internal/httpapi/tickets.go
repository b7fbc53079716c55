package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/tickets"
)

// Eligibility is what stands before a sale that not everybody may enter as they
// tickets, lists and a risk service. Without Tickets there are none to be had.
type Eligibility struct {
	Check   *admission.Eligibility
	Lists   *admission.Lists // refreshed when this server has changed one; nil: no lists are checked
	Tickets *tickets.Keys
	// Risk asks the merchant's own service, and always comes to a verdict.
	Risk func(ctx context.Context, rule sluice.Risk, sale sluice.SaleID, buyer sluice.BuyerID, address,
		token string) (allow bool, reason string)
	// Count receives the outcome of each request for a ticket: "handed_out", a
	// reason of a refusal, or a code. Nil: no counting.
	Count func(outcome string)
}

// Reasons why no ticket is handed out, besides those of admission.
const (
	reasonChallengeMissing  = "challenge_missing"
	reasonChallengeInvalid  = "challenge_invalid"
	reasonChallengeExpired  = "challenge_expired"
	reasonChallengeUnsolved = "challenge_unsolved"
	reasonRisk              = "risk"
)

// TicketReason says what is wrong with a ticket, as admission.Eligibility wants it.
func TicketReason(keys *tickets.Keys) func(string, sluice.SaleID, sluice.BuyerID, time.Time) admission.Reason {
	return func(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) admission.Reason {
		switch err := keys.CheckTicket(ticket, sale, buyer, now); {
		case err == nil:
			return ""
		case errors.Is(err, tickets.ErrExpired):
			return admission.TicketExpired
		}
		return admission.TicketInvalid
	}
}

// noTicket ends a request for a ticket or a challenge.
func (s *Server) noTicket(w http.ResponseWriter, p api.Problem) {
	if p.Reason != "" {
		s.countTicket(p.Reason)
	} else {
		s.countTicket(p.Code)
	}
	writeProblem(w, p)
}

func (s *Server) countTicket(outcome string) {
	if s.Eligibility.Count != nil {
		s.Eligibility.Count(outcome)
	}
}

// mayAskForTicket finds the sale and says whether its tickets are handed out
// now, and to this buyer; otherwise it answers. Kind is what is asked for, which
// counts by the sale's rates. Now is the ledger's clock.
func (s *Server) mayAskForTicket(w http.ResponseWriter, r *http.Request, kind string,
	token auth.Token,
) (view *admission.View, now time.Time, ok bool) {
	view, ok = s.view(w, r)
	if !ok {
		return nil, now, false
	}
	rules := &view.Sale.Rules
	if rules.Ticket == (sluice.Ticket{}) {
		s.noTicket(w, api.Problem{Code: api.CodeSaleState, Detail: "this sale asks for no ticket: claim without one"})
		return nil, now, false
	}
	now = view.LedgerTime(s.Now())
	terms := &view.Sale.Terms
	if view.Reading.Loaded {
		terms = &view.Reading.Terms
	}
	from := tickets.From(terms.OpensAt, time.Duration(rules.Ticket.BeforeS)*time.Second)
	switch {
	case view.Archived() || !terms.ClosesAt.IsZero() && !now.Before(terms.ClosesAt):
		s.noTicket(w, api.Problem{Code: sluice.Closed.String()})
		return nil, now, false
	case now.Before(from):
		s.noTicket(w, api.Problem{
			Code: sluice.NotOpen.String(), OpensAt: api.AtOrNull(terms.OpensAt), TicketsFrom: api.AtOrNull(from),
			Detail: "tickets are handed out from " + api.At(from).String(),
		})
		return nil, now, false
	}
	if !s.mayTry(w, r, kind, view, token.Buyer) {
		return nil, now, false
	}
	var refused *admission.RefusedError
	err := s.Eligibility.Check.Eligible(view, token.Buyer, &admission.Caller{Sales: token.Sales})
	switch {
	case errors.As(err, &refused):
		s.noTicket(w, api.Problem{Code: api.CodeForbidden, Reason: string(refused.Reason), Detail: refused.Detail})
		return nil, now, false
	case err != nil:
		s.noTicket(w, api.Problem{Code: sluice.Unavailable.String(), Detail: "the lists of the sale are not loaded yet"})
		return nil, now, false
	}
	return view, now, true
}

// mayTry counts a try by the sale's rates, and answers one that is not within
// them, or that cannot be counted.
func (s *Server) mayTry(w http.ResponseWriter, r *http.Request, kind string, view *admission.View,
	buyer sluice.BuyerID,
) bool {
	wait, err := s.Gate.Try(r.Context(), kind, view, buyer, s.Proxies.client(r))
	switch {
	case wait > 0:
		w.Header()["Retry-After"] = retryIn(wait)
		s.noTicket(w, api.Problem{Code: sluice.RateLimited.String()})
	case err != nil:
		s.noTicket(w, api.Problem{Code: sluice.Overloaded.String()})
	}
	return wait <= 0 && err == nil
}

// makeChallenge hands out a proof of work to be done.
func (s *Server) makeChallenge(w http.ResponseWriter, r *http.Request, token auth.Token) {
	r.Body = http.MaxBytesReader(w, r.Body, maxAskTicket)
	if !noBody(w, r) {
		return
	}
	view, now, ok := s.mayAskForTicket(w, r, "challenge", token)
	if !ok {
		return
	}
	difficulty := view.Sale.Rules.Challenge.Difficulty
	if difficulty == 0 {
		s.noTicket(w, api.Problem{
			Code:   api.CodeSaleState,
			Detail: "this sale asks for no proof of work: ask for the ticket without one",
		})
		return
	}
	challenge, expires := s.Eligibility.Tickets.Challenge(view.Sale.ID, token.Buyer, int(difficulty), now)
	writeJSON(w, http.StatusOK, api.Challenge{Challenge: challenge, Difficulty: difficulty, ExpiresAt: api.At(expires)})
}

// Bounds of what a page may send for a ticket, in bytes. A challenge and its
// nonce are short.
const (
	maxRiskToken = 4096
	maxAskTicket = 8 << 10 // the whole body
)

// makeTicket hands out a purchase ticket.
func (s *Server) makeTicket(w http.ResponseWriter, r *http.Request, token auth.Token) {
	ask, ok := readAskTicket(w, r)
	if !ok {
		return
	}
	view, now, ok := s.mayAskForTicket(w, r, "ticket", token)
	if !ok || !s.solved(w, view, token.Buyer, &ask, now) {
		return
	}
	if rule := view.Sale.Rules.Risk; rule != (sluice.Risk{}) {
		allow, reason := s.Eligibility.Risk(r.Context(), rule, view.Sale.ID, token.Buyer, addressText(s.Proxies.client(r)),
			ask.Token)
		if !allow {
			if reason == "" {
				reason = "the shop does not hand out a ticket to this buyer now"
			}
			s.noTicket(w, api.Problem{Code: api.CodeForbidden, Reason: reasonRisk, Detail: reason})
			return
		}
	}
	opens := view.Sale.OpensAt
	if view.Reading.Loaded {
		opens = view.Reading.Terms.OpensAt
	}
	ticket, expires := s.Eligibility.Tickets.Ticket(view.Sale.ID, token.Buyer, opens, now)
	s.countTicket("handed_out")
	writeJSON(w, http.StatusOK, api.Ticket{Ticket: ticket, ExpiresAt: api.At(expires)})
}

// readAskTicket reads the body, which may be empty.
func readAskTicket(w http.ResponseWriter, r *http.Request) (ask api.AskTicket, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAskTicket))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		problem(w, api.CodeTooLarge, "the body of a request for a ticket is at most 8192 bytes")
		return ask, false
	}
	if err != nil {
		bodyProblem(w, err)
		return ask, false
	}
	if len(body) > 0 {
		if err := api.Decode(body, &ask); err != nil {
			problem(w, api.CodeBadRequest, err.Error())
			return ask, false
		}
	}
	if len(ask.Token) > maxRiskToken {
		problem(w, api.CodeBadRequest, "token: want at most 4096 bytes")
		return ask, false
	}
	return ask, true
}

// solved reports whether the proof of work is done, if one is asked for, or
// answers why it is not.
func (s *Server) solved(w http.ResponseWriter, view *admission.View, buyer sluice.BuyerID, ask *api.AskTicket,
	now time.Time,
) bool {
	difficulty := view.Sale.Rules.Challenge.Difficulty
	if difficulty == 0 {
		return true
	}
	const again = "; POST /v1/sales/{sale}/challenge gives a new one"
	no := func(reason, detail string) bool {
		s.noTicket(w, api.Problem{Code: api.CodeForbidden, Reason: reason, Detail: detail})
		return false
	}
	if ask.Challenge == "" {
		return no(reasonChallengeMissing, "this sale wants a proof of work before a ticket: challenge and nonce"+again)
	}
	switch err := s.Eligibility.Tickets.CheckSolution(ask.Challenge, ask.Nonce, view.Sale.ID, buyer, int(difficulty),
		now); {
	case err == nil:
		return true
	case errors.Is(err, tickets.ErrExpired):
		return no(reasonChallengeExpired, "the challenge has expired, or the sale asks for more work now"+again)
	case errors.Is(err, tickets.ErrUnsolved):
		return no(reasonChallengeUnsolved, "the nonce does not solve the challenge: SHA-256 of challenge, a dot and nonce "+
			"must begin with the zero bits asked for")
	default:
		return no(reasonChallengeInvalid, "the challenge is not one of ours, or another buyer's or another sale's"+again)
	}
}

// addressText is empty for an unknown address.
func addressText(address netip.Addr) string {
	if !address.IsValid() {
		return ""
	}
	return address.String()
}
