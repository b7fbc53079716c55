package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/httpapi"
	"github.com/sluicehq/sluice/internal/metrics"
	"github.com/sluicehq/sluice/internal/tickets"
)

// who is how an engine knows who asks.
type who struct {
	admins   *auth.Admins
	verifier *auth.Verifier
	keys     *auth.Keys // nil without a JWKS
}

// rereadFile is how often a JWKS file is read again.
const rereadFile = 10 * time.Second

// openIdentity reads the admins' keys and those of buyers' tokens. A file of
// keys must be good. A server that does not answer is only logged: the tokens
// that it answers for are refused as unavailable until it does.
func (e *Engine) openIdentity(ctx context.Context) (err error) {
	if err := e.shortSecrets(); err != nil {
		return err
	}
	if e.who.admins, err = auth.NewAdmins(e.adminKey, e.cfg.AdminKeys); err != nil {
		return err
	}
	if location := e.cfg.BuyerJWKS; location != "" {
		remote := strings.Contains(location, "://")
		o := auth.KeysOptions{Location: location, Log: e.cfg.Log}
		if !remote {
			o.Refresh = rereadFile
		}
		if e.who.keys, err = auth.NewKeys(o); err != nil {
			return err
		}
		if err := e.who.keys.Refresh(ctx); err != nil && (!remote || ctx.Err() != nil) {
			return err
		}
	}
	audience := e.cfg.BuyerAudience
	if audience == anyAudience {
		audience = ""
	}
	e.who.verifier = auth.NewVerifier(auth.Options{
		Secret: []byte(e.secret), Previous: []byte(e.cfg.BuyerSecretPrevious), Keys: e.who.keys,
		BuyerID: e.cfg.BuyerID, Issuer: e.cfg.BuyerIssuer, Audience: audience,
		Skew: e.cfg.ClockSkew, MaxLife: e.cfg.BuyerTokenLife,
	})
	return nil
}

// openSecret returns the secret of HS256 tokens. With a JWKS there is one only
// if it is given.
func (e *Engine) openSecret() (err error) {
	if e.cfg.BuyerSecret == "" && e.cfg.BuyerJWKS != "" {
		return nil
	}
	e.secret, err = e.folder.secret(e.cfg.BuyerSecret, "buyer.secret")
	if err == nil && e.secret == "" {
		err = errors.New("engine: the buyers' secret is empty")
	}
	return err
}

// shortSecrets logs the secrets that can be guessed, given or kept in the data
// folder. They are an error where other machines can reach this server; on
// loopback a shop's tests and first tries give short ones.
func (e *Engine) shortSecrets() (err error) {
	for _, s := range (auth.Secrets{
		AdminKey: e.adminKey, BuyerSecret: e.secret, BuyerSecretPrevious: e.cfg.BuyerSecretPrevious,
		TicketSecret: e.cfg.TicketSecret, TicketSecretPrevious: e.cfg.TicketSecretPrevious, WebhookKey: e.cfg.WebhookKey,
	}).Short() {
		from := "the settings"
		switch {
		case s.Setting == "admin_key" && e.cfg.AdminKey == "":
			from = "admin.key in the data folder"
		case s.Setting == "buyer_secret" && e.cfg.BuyerSecret == "":
			from = "buyer.secret in the data folder"
		}
		if !e.cfg.Exposed {
			e.cfg.Log.Warn(s.Setting+" is short: "+s.Harm, "from", from, "want",
				fmt.Sprintf("at least %d random bytes", s.Least))
			continue
		}
		err = errors.Join(err,
			fmt.Errorf("%s (from %s) is short: %s. Want at least %d random bytes where other machines can reach the server",
				s.Setting, from, s.Harm, s.Least))
	}
	return err
}

// run reads the keys of buyers' tokens again and again.
func (w *who) run(ctx context.Context) {
	if w.keys != nil {
		w.keys.Run(ctx)
	}
}

// measure reports the keys to the metrics.
func (w *who) measure(counts *metrics.Metrics) {
	if w.keys != nil {
		counts.TokenKeys(w.keys.Status)
	}
}

func (w *who) close() {
	if w.keys != nil {
		w.keys.Close()
	}
}

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
	e.ticketSecret = cmp.Or(e.cfg.TicketSecret, e.secret)
	var err error
	if e.ticketSecret == "" {
		if e.ticketSecret, err = e.folder.secret("", "ticket.secret"); err != nil {
			return err
		}
	}
	e.eligibility.keys, err = tickets.NewKeys(e.ticketSecret, e.previousTicketSecret())
	return err
}

// previousTicketSecret returns the secret whose tickets stay good; without one of their own, tickets follow the secret
// of buyers' tokens.
func (e *Engine) previousTicketSecret() string {
	if e.cfg.TicketSecret == "" {
		return cmp.Or(e.cfg.TicketSecretPrevious, e.cfg.BuyerSecretPrevious)
	}
	return e.cfg.TicketSecretPrevious
}

// compose wires them, and returns what the API needs of it.
func (n *eligibility) compose(e *Engine, counts *metrics.Eligibility) httpapi.Eligibility {
	n.lists = admission.NewLists(e.store, e.board, e.cfg.Log)
	n.asker = tickets.NewAsker(e.cfg.Log)
	n.check = &admission.Eligibility{Lists: n.lists, Ticket: httpapi.TicketReason(n.keys)}
	return httpapi.Eligibility{
		Check: n.check, Lists: n.lists, Tickets: n.keys, Count: counts.Ticket,
		Risk: func(ctx context.Context, rule sluice.Risk, q tickets.Question, proof string) (tickets.Verdict, error) {
			v, err := n.asker.Ask(ctx, rule, q, proof)
			if err == nil && (v.Took > 0 || v.Failed != nil) {
				counts.Risk(v.Allow, v.Failed != nil, v.Took)
				if ctx.Err() == nil { // a buyer who left says nothing
					e.conditions.judged(tickets.Address(rule.URL), v.Failed)
				}
			}
			return v, err
		},
		TryRisk: func(ctx context.Context, rule sluice.Risk, sale sluice.SaleID, buyer sluice.BuyerID) (bool, error) {
			asker := tickets.NewAsker(nil) // its own, so that no buyer's question waits for this one, or rests for it
			defer asker.Close()
			v, err := asker.Ask(ctx, rule, tickets.Question{Sale: sale, Buyer: buyer}, "")
			return v.Allow, cmp.Or(err, v.Failed)
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
