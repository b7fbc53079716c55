package engine

import (
	"cmp"
	"context"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/metrics"
	"github.com/sluicehq/sluice/internal/tickets"
)

// eligibility is what stands before sales: tickets, lists, a risk service.
type eligibility struct {
	keys  *tickets.Keys
	lists *admission.Lists
	asker *tickets.Asker
	check *admission.Eligibility
}

// openEligibility finds the secret of tickets: the one configured, or what all
// servers of a shop share anyway, the secret of buyers' tokens, or without that
// one of this server's own.
func (e *Engine) openEligibility() error {
	secret := cmp.Or(e.cfg.TicketSecret, e.secret)
	if secret == "" {
		var err error
		if secret, err = e.folder.secret("", "ticket.secret"); err != nil {
			return err
		}
	}
	var err error
	e.eligibility.keys, err = tickets.NewKeys(secret, e.cfg.TicketSecretPrevious)
	return err
}

// compose wires them, and returns what the API needs of it.
func (n *eligibility) compose(e *Engine, counts *metrics.Eligibility) httpapi.Eligibility {
	n.lists = admission.NewLists(e.store, e.board, e.cfg.Log)
	n.asker = tickets.NewAsker(e.cfg.Log)
	n.check = &admission.Eligibility{Lists: n.lists, Ticket: httpapi.TicketReason(n.keys)}
	return httpapi.Eligibility{
		Check: n.check, Lists: n.lists, Tickets: n.keys, Count: counts.Ticket,
		Risk: func(ctx context.Context, rule sluice.Risk, sale sluice.SaleID, buyer sluice.BuyerID, address,
			token string,
		) (bool, string) {
			v := n.asker.Ask(ctx, rule, tickets.Question{Sale: sale, Buyer: buyer, Address: address, Token: token})
			counts.Risk(v.Allow, v.Failed != nil, v.Took)
			return v.Allow, v.Reason
		},
	}
}

// first reads the lists before the first claim comes.
func (n *eligibility) first(ctx context.Context, e *Engine) {
	if err := n.lists.Refresh(ctx); err != nil {
		e.cfg.Log.Warn("the lists of buyers are not known yet", "error", err)
	}
}

func (n *eligibility) close() {
	if n.asker != nil {
		n.asker.Close()
	}
}
