package httpapi

import (
	"cmp"
	"context"
	"errors"
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
	// Risk asks the merchant's own service: tickets.Asker.Ask.
	Risk func(ctx context.Context, rule sluice.Risk, q tickets.Question, proof string) (tickets.Verdict, error)
	// TryRisk asks it once, beside all questions of buyers; an error says why it did not
	// judge. Nil: there is none.
	TryRisk func(ctx context.Context, rule sluice.Risk, sale sluice.SaleID, buyer sluice.BuyerID) (allow bool, err error)
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
func TicketReason(keys *tickets.Keys) func(string, sluice.SaleID, sluice.BuyerID, time.Time) sluice.Reason {
	return func(ticket string, sale sluice.SaleID, buyer sluice.BuyerID, now time.Time) sluice.Reason {
		switch err := keys.CheckTicket(ticket, sale, buyer, now); {
		case err == nil:
			return ""
		case errors.Is(err, tickets.ErrExpired):
			return sluice.TicketExpired
		}
		return sluice.TicketInvalid
	}
}

// noTicket counts why a buyer gets no ticket or no challenge, and returns the answer.
func (s *Server) noTicket(p api.Problem, after ...string) error {
	s.countTicket(cmp.Or(p.Reason, p.Code))
	return &fault{p, after}
}

// noTicketOf is noTicket with a code and a detail.
func (s *Server) noTicketOf(code, detail string, after ...string) error {
	return s.noTicket(api.Problem{Code: code, Detail: detail}, after...)
}

func (s *Server) countTicket(outcome string) {
	if s.Eligibility.Count != nil {
		s.Eligibility.Count(outcome)
	}
}

// mayAskForTicket finds the sale and says whether its tickets are handed out
// now, and to this buyer. Kind is what is asked for, which counts by the sale's
// rates. Now is the ledger's clock.
func (s *Server) mayAskForTicket(r *http.Request, kind string, token auth.Token) (view *admission.View, now time.Time,
	err error,
) {
	if view, err = s.view(r); err != nil {
		return nil, now, err
	}
	rules := &view.Sale.Rules
	if rules.Ticket == (sluice.Ticket{}) {
		return nil, now, s.noTicketOf(api.CodeSaleState, "this sale asks for no ticket: claim without one")
	}
	now = view.LedgerTime(s.Now())
	terms := &view.Sale.Terms
	if view.Reading.Loaded {
		terms = &view.Reading.Terms
	}
	from := tickets.From(terms.OpensAt, time.Duration(rules.Ticket.BeforeS)*time.Second)
	switch {
	case view.Archived() || !terms.ClosesAt.IsZero() && !now.Before(terms.ClosesAt):
		return nil, now, s.noTicketOf(sluice.Closed.String(), "")
	case now.Before(from):
		return nil, now, s.noTicket(api.Problem{
			Code: sluice.NotOpen.String(), OpensAt: api.AtOrNull(terms.OpensAt), TicketsFrom: api.AtOrNull(from),
			Detail: "tickets are handed out from " + api.At(from).String(),
		})
	}
	// A try that is not within the sale's rates, or cannot be counted, ends here.
	switch wait, err := s.Gate.Try(r.Context(), kind, view, token.Buyer, s.Proxies.client(r)); {
	case wait > 0:
		return nil, now, s.noTicketOf(sluice.RateLimited.String(), tooOften, retryIn(wait)...)
	case errors.Is(err, admission.ErrUnanswered):
		return nil, now, s.noTicketOf(sluice.Unavailable.String(), s.ledgerName()+" does not answer")
	case err != nil:
		return nil, now, s.noTicketOf(sluice.Overloaded.String(), "")
	}
	err = s.Eligibility.Check.Eligible(view, token.Buyer, &sluice.Caller{Sales: token.Sales, Signed: token.Signed})
	if refused, ok := errors.AsType[*sluice.RefusedError](err); ok {
		err = s.noTicket(notLetIn(refused))
	} else if err != nil {
		err = s.noTicketOf(sluice.Unavailable.String(), "the lists of the sale are not loaded yet")
	}
	return view, now, err
}

// makeChallenge hands out a proof of work to be done.
func (s *Server) makeChallenge(w http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	if err := readBody(w, r, maxAskTicket, &struct{}{}, true); err != nil {
		return nil, err
	}
	view, now, err := s.mayAskForTicket(r, "challenge", token)
	if err != nil {
		return nil, err
	}
	difficulty := view.Sale.Rules.Challenge.Difficulty
	if difficulty == 0 {
		return nil, s.noTicketOf(api.CodeSaleState, "this sale asks for no proof of work: ask for the ticket without one")
	}
	challenge, expires := s.Eligibility.Tickets.Challenge(view.Sale.ID, token.Buyer, int(difficulty), now)
	return api.Challenge{Challenge: challenge, Difficulty: difficulty, ExpiresAt: api.At(expires)}, nil
}

// Bounds of what a page may send for a ticket, in bytes. A challenge and its
// nonce are short.
const (
	maxRiskToken = 4096
	maxAskTicket = 8 << 10 // the whole body
)

// makeTicket hands out a purchase ticket.
func (s *Server) makeTicket(w http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	var ask api.AskTicket
	if err := readBody(w, r, maxAskTicket, &ask, true); err != nil {
		return nil, err
	}
	if len(ask.Token) > maxRiskToken {
		return nil, badRequest("token: want at most 4096 bytes")
	}
	view, now, err := s.mayAskForTicket(r, "ticket", token)
	if err == nil {
		err = s.solved(view, token.Buyer, &ask, now)
	}
	if err != nil {
		return nil, err
	}
	if rule := view.Sale.Rules.Risk; rule != (sluice.Risk{}) {
		proof := ""
		if view.Sale.Rules.Challenge.Difficulty > 0 {
			proof = ask.Challenge
		}
		switch verdict, err := s.Eligibility.Risk(r.Context(), rule, tickets.Question{
			Sale: view.Sale.ID, Buyer: token.Buyer, Address: addressText(s.Proxies.client(r)), Token: ask.Token,
		}, proof); {
		case err != nil:
			return nil, s.noTicketOf(sluice.Overloaded.String(), err.Error(), retryIn(time.Second)...)
		case !verdict.Allow && verdict.Failed != nil: // which is no verdict about this buyer
			return nil, s.noTicketOf(sluice.Unavailable.String(), "the shop's risk service has not judged yet: ask again",
				retryIn(time.Second)...)
		case !verdict.Allow:
			reason := cmp.Or(verdict.Reason, "the shop does not hand out a ticket to this buyer now")
			return nil, s.noTicket(api.Problem{Code: api.CodeForbidden, Reason: reasonRisk, Detail: reason})
		}
	}
	opens := view.Sale.OpensAt
	if view.Reading.Loaded {
		opens = view.Reading.Terms.OpensAt
	}
	ticket, expires := s.Eligibility.Tickets.Ticket(view.Sale.ID, token.Buyer, opens, now)
	s.countTicket("handed_out")
	return api.Ticket{Ticket: ticket, ExpiresAt: api.At(expires)}, nil
}

// solved returns nil if the proof of work is done, or none is asked for.
func (s *Server) solved(view *admission.View, buyer sluice.BuyerID, ask *api.AskTicket, now time.Time) error {
	difficulty := view.Sale.Rules.Challenge.Difficulty
	if difficulty == 0 {
		return nil
	}
	const again = "; POST /v1/sales/{sale}/challenge gives a new one"
	no := func(reason, detail string) error {
		return s.noTicket(api.Problem{Code: api.CodeForbidden, Reason: reason, Detail: detail})
	}
	if ask.Challenge == "" {
		return no(reasonChallengeMissing, "this sale wants a proof of work before a ticket: challenge and nonce"+again)
	}
	switch err := s.Eligibility.Tickets.CheckSolution(ask.Challenge, ask.Nonce, view.Sale.ID, buyer, int(difficulty),
		now); {
	case err == nil:
		return nil
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

// ticketHeader carries a purchase ticket with a claim.
const ticketHeader = "Sluice-Ticket"

// caller is what a buyer brings along with a claim.
func (s *Server) caller(r *http.Request, sale sluice.SaleID, token auth.Token) sluice.Caller {
	caller := sluice.Caller{Address: s.clientOf(r, sale), Sales: token.Sales, Signed: token.Signed}
	if values := r.Header[ticketHeader]; len(values) == 1 {
		caller.Ticket = values[0]
	}
	return caller
}

// notLetIn is the answer to a buyer whom the sale does not let in.
func notLetIn(refused *sluice.RefusedError) api.Problem {
	return api.Problem{Code: api.CodeForbidden, Reason: string(refused.Reason), Detail: refused.Detail}
}
