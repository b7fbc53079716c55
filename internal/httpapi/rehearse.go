package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
)

// rehearsedBuyer is the buyer of a rehearsal without a token, and the one that the risk
// service is asked about. No login gives a token to this buyer, so it owns no orders.
const rehearsedBuyer sluice.BuyerID = "sluice-check"

// rehearsePattern is no GET, since a token comes in its body; it changes nothing.
const rehearsePattern = "POST /v1/admin/sales/{sale}/rehearse"

// rehearseClaim tries what a buyer would have to get through: a token, the risk
// service, and a claim, which takes nothing and counts nowhere (Gate.Rehearse).
func (s *Server) rehearseClaim(r *http.Request, message *api.Rehearse) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), rehearsing)
	defer cancel()
	view, err := s.Board.Lookup(ctx, saleOf(r))
	if err != nil {
		return nil, err
	}
	c := &saleCheck{server: s, view: view}
	caller := c.token(ctx, message.Token)
	c.risk(ctx)
	if caller != nil {
		c.rehearse(ctx, caller)
	}
	return api.Rehearsal{SaleID: view.Sale.ID, Node: s.Kinds.Node, Checks: c.answer.Checks}, nil
}

// rehearsing bounds a rehearsal: a risk service may take ten seconds.
const rehearsing = 15 * time.Second

// rehearsed is who claims in a rehearsal.
type rehearsed struct {
	buyer sluice.BuyerID
	sales []string
}

// token verifies a token, or one that it makes: of a buyer who may buy at the sale, if
// only some may. Nil: there is none that is good.
func (c *saleCheck) token(ctx context.Context, text string) *rehearsed {
	s, name := c.server, "the token"
	if text == "" {
		buyer := rehearsedBuyer
		if c.view.Sale.Rules.Eligibility == sluice.EligibleList {
			buyer = cmp.Or(c.invited(ctx), buyer)
		}
		var err error
		if text, err = s.Buyers.Mint(buyer, c.view.Sale.ID); text == "" || err != nil {
			c.find(noToken, "this server has no secret to make a token with, only the keys of buyer_jwks")
			return nil
		}
		name = "a token that this server made"
	}
	token, err := s.Buyers.Verify(ctx, text)
	if err != nil {
		f := unread[tokenReason(err)]
		f.name = "token"
		c.find(f, "%s is refused: %v", name, err)
		return nil
	}
	if ahead := token.Issued.Sub(s.Now()); ahead > clockTolerance {
		c.find(tokenAhead, "%s is good, of buyer %s, and will be issued in %s", name, token.Buyer, ahead.Round(time.Second))
	} else {
		c.ok("token", "%s is good, of buyer %s", name, token.Buyer)
	}
	return &rehearsed{token.Buyer, token.Sales}
}

// invited is a buyer on the sale's allow list; empty: none is known.
func (c *saleCheck) invited(ctx context.Context) sluice.BuyerID {
	all, err := c.server.Store.Lists(ctx)
	i := slices.IndexFunc(all, func(l sluice.BuyerList) bool {
		return l.Sale == c.view.Sale.ID && l.Kind == sluice.AllowList
	})
	if err != nil || i < 0 {
		return ""
	}
	buyers, err := c.server.Store.Listed(ctx, all[i], "", 1)
	if err != nil || len(buyers) == 0 {
		return ""
	}
	return buyers[0]
}

// risk asks the sale's risk service once, about no buyer.
func (c *saleCheck) risk(ctx context.Context) {
	rule, try := c.view.Sale.Rules.Risk, c.server.Eligibility.TryRisk
	if rule == (sluice.Risk{}) || try == nil {
		return
	}
	began := time.Now()
	allow, err := try(ctx, rule, c.view.Sale.ID, rehearsedBuyer)
	took := time.Since(began).Round(time.Millisecond)
	f := riskFails
	if rule.OnFailure == sluice.Allow {
		f = riskOpen
	}
	switch {
	case err != nil:
		c.find(f, "it did not judge, after %s: %v", took, err)
	case !allow:
		c.ok("risk service", "it answers after %s, and denies the unknown buyer %s a ticket", took, rehearsedBuyer)
	default:
		c.ok("risk service", "it answers after %s", took)
	}
}

// rehearse makes a claim of one unit that takes nothing.
func (c *saleCheck) rehearse(ctx context.Context, by *rehearsed) {
	s, sale := c.server, &c.view.Sale
	caller := admission.Caller{Sales: by.sales}
	if keys := s.Eligibility.Tickets; keys != nil && sale.Rules.Ticket != (sluice.Ticket{}) {
		caller.Ticket, _ = keys.Ticket(sale.ID, by.buyer, sale.OpensAt, c.view.LedgerTime(s.Now()))
	}
	order, err := parsePlaceOrder(plainOrder)
	if err != nil {
		panic(err)
	}
	claim := sluice.Claim{Buyer: by.buyer, Key: "sluice-check", Quantity: order.Quantity}
	decision, err := s.Gate.Rehearse(ctx, sale.ID, claim, caller)
	if refused, ok := errors.AsType[*admission.RefusedError](err); ok {
		f := unread[string(refused.Reason)]
		f.name = "claim"
		c.find(f, "a claim of %s would be refused: %s: %s", by.buyer, refused.Reason, refused.Detail)
		return
	}
	switch {
	case errors.Is(err, admission.ErrUnready):
		c.find(finding{"claim", fail, listLate.where, listLate.right}, "a claim would be refused: %v", err)
	case err != nil:
		c.find(finding{"claim", fail, ledgerDown.where, ledgerDown.right}, "the ledger does not answer")
	case decision.Code == sluice.Accepted && c.view.LedgerTime(s.Now()).Before(sale.OpensAt):
		c.ok("claim", "a claim of %s would be accepted when the sale has opened; nothing was taken", by.buyer)
	case decision.Code == sluice.Accepted:
		c.ok("claim", "a claim of %s would be accepted now; nothing was taken", by.buyer)
	default:
		f, known := refusedBy[decision.Code]
		if !known {
			f = claimRefused
		}
		if decision.Code == sluice.SaleNotFound {
			f = c.unlessUpcoming(f)
		}
		c.find(f, "a claim of %s would be refused: %s", by.buyer, decision.Code)
	}
}

// settings asks the ledger whether its own settings keep what it accepts.
func (c *saleCheck) settings(ctx context.Context) {
	s := c.server
	if s.Refusing != nil {
		if err := s.Refusing(ctx); err != nil {
			c.find(ledgerFull, "claims are not accepted: %v", err)
		}
	}
	if s.LedgerRisks == nil {
		return
	}
	risks, err := s.LedgerRisks(ctx)
	if err != nil {
		c.find(ledgerUnknown, "cannot be read: %v", err)
	}
	for _, risk := range risks {
		f := ledgerForgets
		if risk.Evicts {
			f = ledgerEvicts
		}
		c.find(f, "%s is %s: %s", risk.Setting, risk.Value, risk.Harm)
	}
	if err == nil && len(risks) == 0 {
		c.ok("ledger settings", "it keeps what it accepts")
	}
}

// visibility: a sale that has not opened may well be hidden until it is announced.
func (c *saleCheck) visibility() {
	if c.view.Hidden() {
		c.find(c.unlessUpcoming(notShown), "the sale is hidden: to buyers it does not exist (404)")
	}
}

// unlessUpcoming is a finding that is only a warning before the sale opens.
func (c *saleCheck) unlessUpcoming(f finding) finding {
	if c.view.LedgerTime(c.server.Now()).Before(c.view.Sale.OpensAt) {
		f.status = warn
	}
	return f
}

// addresses: behind a proxy that is not named all buyers are one address.
func (c *saleCheck) addresses() {
	s, rate := c.server, c.view.Sale.Rules.AddressRate
	if rate == (sluice.AddressRate{}) {
		return
	}
	answers, _, unnamed, _ := s.Claims.Recent(c.view.Sale.ID)
	came := int64(0)
	for _, n := range answers {
		came += n
	}
	switch peer := s.unnamed.last.Load(); {
	case peer != nil && unnamed > 0:
		f := proxyUnnamed
		if unnamed <= came/2 || answers[sluice.RateLimited.String()] == 0 { // any client may send the header
			f.status = warn
		}
		c.find(f, "at most %d claims in %d s from one address; %d of the last %d claims came with %s, one of them "+
			"through %s, which is not named", rate.Requests, rate.PerS, unnamed, max(came, unnamed), s.Proxies.header(), peer)
	case len(s.Proxies.Trusted) == 0:
		c.find(proxyNone, "at most %d claims in %d s from one address, and no proxy is named", rate.Requests, rate.PerS)
	default:
		c.ok("addresses", "at most %d claims in %d s from one address, as the proxies that are named say", rate.Requests,
			rate.PerS)
	}
}

// pages: a visitor who can sign in must be able to pay, and the other way round.
func (c *saleCheck) pages() {
	switch links := c.server.Links; {
	case links.Login != "" && links.Pay == "":
		c.find(noPayLink, "the server's pages lead to the login, and to no payment")
	case links.Login == "" && links.Pay != "":
		c.find(noLoginLink, "the server's pages lead to the payment, and to no login")
	case links == Links{}:
		c.ok("pages", "the server's pages have no links to login and payment: your own pages sell")
	default:
		c.ok("pages", "the server's pages lead to login and payment")
	}
}

// Links are where the server's pages lead to.
type Links struct{ Login, Pay string }

// claims says what has become of the claims that came to this server.
func (c *saleCheck) claims() {
	counts := c.server.claimCounts(c.view.Sale.ID)
	if counts == nil {
		return // not counted apart
	}
	answers, refused, _, since := c.server.Claims.Recent(c.view.Sale.ID)
	from := counts.Since
	if !since.IsZero() {
		from = api.At(since)
	}
	accepted, most, top := counts.Answers[sluice.Accepted.String()], int64(0), ""
	for reason, n := range refused {
		if n > most || n == most && reason < top {
			most, top = n, reason
		}
	}
	came := len(counts.Answers)+len(counts.Refused) > 0
	text := fmt.Sprintf("%s since %s", countsText(counts.Answers, counts.Refused), counts.Since)
	recent := fmt.Sprintf("%s since %s", countsText(answers, refused), from)
	limited, decided := answers[sluice.RateLimited.String()], int64(0)
	for _, code := range sluice.Codes() {
		if code != sluice.RateLimited {
			decided += answers[code.String()]
		}
	}
	// Where some are accepted the sale can be bought, however many others are sent away.
	refusing := func(f finding) finding {
		if answers[sluice.Accepted.String()] > 0 {
			f.status = warn
		}
		return f
	}
	opened := !c.view.LedgerTime(c.server.Now()).Before(c.view.Sale.OpensAt)
	switch {
	case !came && opened && !c.view.Archived():
		c.find(noneCame, "no claim has come to this server since %s", counts.Since)
	case !came:
		c.ok("claims", "none have come since %s", counts.Since)
	case most > decided:
		c.find(refusing(unread[top]), "%s", recent)
	case limited > decided:
		c.find(refusing(limitedAll), "%s", recent)
	case accepted == 0 && opened:
		c.find(noneAccepted, "%s", text)
	default:
		c.ok("claims", "%s", text)
	}
}

// countsText lists answers and reasons by their number.
func countsText(all ...map[string]int64) (text string) {
	for _, counts := range all {
		for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
			return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
		}) {
			if text != "" {
				text += ", "
			}
			text += fmt.Sprint(counts[name], " ", name)
		}
	}
	return text
}
