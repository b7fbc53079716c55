package httpapi

import (
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
)

// ticketHeader carries a purchase ticket with a claim.
const ticketHeader = "Sluice-Ticket"

// caller is what a buyer brings along with a claim. What the token says is
// looked up only where it matters.
func (s *Server) caller(r *http.Request, sale sluice.SaleID) admission.Caller {
	caller := admission.Caller{Address: s.Proxies.client(r)}
	if values := r.Header[ticketHeader]; len(values) == 1 {
		caller.Ticket = values[0]
	}
	if view := s.Board.View(sale); view == nil || view.Sale.Rules.Eligibility == sluice.EligibleToken {
		caller.Sales = s.tokenSales(r)
	}
	return caller
}

// notLetIn is the answer to a buyer whom the sale does not let in.
func notLetIn(refused *admission.RefusedError) api.Problem {
	return api.Problem{Code: api.CodeForbidden, Reason: string(refused.Reason), Detail: refused.Detail}
}

// tokenSales are the sales that the buyer's token names. It was verified a
// moment ago, and is remembered.
func (s *Server) tokenSales(r *http.Request) []string {
	token, err := s.Buyers.Verify(r.Context(), bearer(r))
	if err != nil {
		return nil
	}
	return token.Sales
}
