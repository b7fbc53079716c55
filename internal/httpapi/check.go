package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/tickets"
)

// checkSale says whether a sale is ready to be sold, as this server sees it.
// It changes nothing.
func (s *Server) checkSale(r *http.Request) (any, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	view, err := s.Board.Reload(ctx, saleOf(r))
	cancel()
	if err != nil && !errors.Is(err, sluice.ErrSaleNotFound) {
		if known := s.Board.View(saleOf(r)); known != nil { // the store does not answer, which the checks say
			view, err = known, nil
		}
	}
	if err != nil {
		return nil, err
	}
	c := &saleCheck{server: s, view: view, answer: api.SaleCheck{
		SaleID: view.Sale.ID, Node: s.Kinds.Node, OpensAt: api.At(view.Sale.OpensAt),
		Epoch: view.Sale.Epoch, Terms: view.Sale.Version, LiveNodes: []string{},
	}}
	ctx = r.Context()
	c.clocks(ctx)
	c.settings(ctx)
	c.loaded()
	c.replicas(ctx)
	c.opening()
	c.units()
	c.visibility()
	c.addresses()
	c.eligibility()
	c.lists(ctx)
	c.pages()
	c.claims()
	ctx, cancel = context.WithTimeout(ctx, patience)
	defer cancel()
	if nodes, err := s.Store.LiveNodes(ctx, liveWithin); err == nil {
		c.answer.LiveNodes = append(c.answer.LiveNodes, nodes...)
	}
	return c.answer, nil
}

// liveWithin: a server that was heard of so lately lives.
const liveWithin = 5 * time.Second

// saleCheck gathers what is found.
type saleCheck struct {
	server *Server
	view   *admission.View
	answer api.SaleCheck
}

// ok says that one thing is as it should be.
func (c *saleCheck) ok(name, format string, args ...any) {
	c.answer.Checks = append(c.answer.Checks, api.Check{
		Name: name, Status: api.CheckOK, Detail: fmt.Sprintf(format, args...),
	})
}

// find says that one is not.
func (c *saleCheck) find(f finding, format string, args ...any) {
	c.answer.Checks = append(c.answer.Checks, f.check(format, args...))
}

// Clocks that differ by more than this are worth a look. No sale opens or closes
// wrongly for it: claims are judged by the ledger's clock, and countdowns go by
// it (Board.LedgerTime).
const clockTolerance = 500 * time.Millisecond

// clocks compares this server's clock, which judges buyers' tokens, with the
// ledger's, and the ledger's, by which pages count down, with the store's, which
// judges payments. It allows for the time that asking took.
func (c *saleCheck) clocks(ctx context.Context) {
	c.answer.ServerTime = api.At(c.server.Now())
	ask := func(whose string, silent, apart finding, ours func() time.Time,
		clock func(context.Context) (time.Time, error),
	) *api.Time {
		ctx, cancel := context.WithTimeout(ctx, patience) // each its own: one that hangs leaves the other its time
		defer cancel()
		before := ours()
		there, err := clock(ctx)
		after := ours()
		if err != nil {
			c.find(silent, "it does not answer")
			return nil
		}
		differs := there.Sub(before) // at least; at most there - after
		switch {
		case there.After(after):
			differs = there.Sub(after)
		case there.Before(before.Truncate(time.Millisecond)):
		default:
			differs = 0
		}
		if differs.Abs() > clockTolerance {
			c.find(apart, "differs from %s by %s", whose, differs.Round(time.Millisecond))
		} else {
			c.ok(apart.name, "differs from %s by %s", whose, differs.Round(time.Millisecond))
		}
		return api.AtOrNull(there)
	}
	c.answer.LedgerTime = ask("this server's", ledgerSilent, ledgerClock, c.server.Now,
		func(ctx context.Context) (time.Time, error) {
			readings, err := c.server.Ledger.Read(ctx, []sluice.SaleID{c.view.Sale.ID})
			if err != nil {
				return time.Time{}, err
			}
			return readings[0].Now, nil
		})
	ledgers := func() time.Time { return c.server.Board.LedgerTime(c.server.Now()) }
	c.answer.StoreTime = ask("the ledger's", storeSilent, storeClock, ledgers, c.server.Store.Clock)
}

// loaded: claims are accepted only when ledger and store agree.
func (c *saleCheck) loaded() {
	row, reading := &c.view.Sale, &c.view.Reading
	switch {
	case c.view.Archived():
		c.find(archived, "the sale is archived: it is over")
	case c.view.Down:
		c.find(ledgerDown, "the ledger has not answered lately: %v", c.view.Cause)
	case row.Fence != "" || reading.Fence != "" && reading.Fence != sluice.FenceLoading:
		c.find(fenced, "fenced: %s%s", row.Fence, reading.Fence)
	case row.Epoch == 0 || row.LoadedEpoch < row.Epoch || !reading.Loaded || reading.Fence != "":
		c.find(fenced, "the ledger does not hold it yet; a server does that within seconds")
	case !c.view.InStep():
		c.find(fenced, "ledger and store disagree: epoch %d and %d", reading.Epoch, row.Epoch)
	case reading.Terms.Version < row.Terms.Version:
		c.find(termsLate, "the last change of its terms has not reached the ledger yet")
	default:
		c.ok("loaded", "epoch %d, terms %d", reading.Epoch, reading.Terms.Version)
	}
}

// replicas: with wait_replicas no claim is accepted that too few of them have.
func (c *saleCheck) replicas(ctx context.Context) {
	if c.server.Confirmed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	if err := c.server.Confirmed(ctx, c.view.Sale.ID); err != nil {
		c.find(replicasMissing, "claims are not accepted: %v", err)
		return
	}
	if took := time.Since(began); took > slowReplicas {
		c.find(replicasSlow, "have what is written after %s; each claim takes that much longer",
			took.Round(time.Millisecond))
	} else {
		c.ok("replicas", "have what is written after %s", took.Round(time.Millisecond))
	}
}

// slowReplicas is how long replicas may take before it is worth a look.
const slowReplicas = 200 * time.Millisecond

// opening: the ledger opens the sale by its clock, no server has to act.
func (c *saleCheck) opening() {
	terms, now := &c.view.Sale.Terms, c.view.LedgerTime(c.server.Now())
	closes := "and does not close"
	if !terms.ClosesAt.IsZero() {
		closes = "and closes at " + api.At(terms.ClosesAt).String()
	}
	in := terms.OpensAt.Sub(now).Round(time.Second)
	switch {
	case !terms.ClosesAt.IsZero() && !now.Before(terms.ClosesAt):
		c.find(closed, "it closed at %s", api.At(terms.ClosesAt))
	case terms.Paused:
		c.find(paused, "paused by an admin; no buyer can buy until it is resumed")
	case now.Before(terms.OpensAt):
		c.ok("opening", "opens in %s, at %s, %s", in, api.At(terms.OpensAt), closes)
	default:
		c.ok("opening", "open since %s, %s", api.At(terms.OpensAt), closes)
	}
}

// units: what a typing error would look like.
func (c *saleCheck) units() {
	t := &c.view.Sale.Terms
	switch {
	case t.Total == 0:
		c.find(noUnits, "the total is 0: there is nothing to sell")
	case t.Total == sluice.Unlimited && t.MaxPerBuyer == sluice.Unlimited:
		c.find(noBound, "no total and no limit per buyer: one buyer can take any number of units")
	case t.MaxPerBuyer == sluice.Unlimited:
		c.find(noBound, "no limit per buyer: one buyer can take all %d units", t.Total)
	case t.Total == sluice.Unlimited:
		c.ok("units", "no total, at most %d per buyer", t.MaxPerBuyer)
	case t.MaxPerBuyer > t.Total:
		c.find(oddLimit, "%d units in all, and %d for one buyer", t.Total, t.MaxPerBuyer)
	case t.Available(c.view.Reading.Taken) == 0:
		c.find(allTaken, "all %d units are taken", t.Total)
	default:
		c.ok("units", "%d units, at most %d per buyer", t.Total, t.MaxPerBuyer)
	}
}

// settings are what another server would have to have, too. Proxies and origins may be
// other ones on purpose, on machines of other networks.
func (s *Server) sharedSettings() []api.SharedSetting {
	issuer, audience, buyerID := s.Buyers.Settings()
	return []api.SharedSetting{
		{Name: "buyer_secret", Value: s.Buyers.Fingerprint()},
		{Name: "buyer_issuer", Value: issuer},
		{Name: "buyer_audience", Value: audience},
		{Name: "buyer_id", Value: buyerID},
		{Name: "trusted_proxies", Value: fmt.Sprint(s.Proxies.Trusted)},
		{Name: "cors_origins", Value: strings.Join(s.Origins, " ")},
	}
}

// eligibility: what the rules ask before a claim is heard.
func (c *saleCheck) eligibility() {
	c.answer.Settings = c.server.sharedSettings()
	rules := &c.view.Sale.Rules
	if keys := c.server.Eligibility.Tickets; keys != nil {
		c.answer.TicketKey = keys.ID()
	}
	if rules.Ticket == (sluice.Ticket{}) {
		c.ok("tickets", "none are asked for")
		return
	}
	from := tickets.From(c.view.Sale.OpensAt, time.Duration(rules.Ticket.BeforeS)*time.Second)
	text := "handed out from " + api.At(from).String()
	if n := rules.Challenge.Difficulty; n > 0 {
		text += fmt.Sprintf(", for a proof of work of %d bits", n)
	}
	if rules.Risk != (sluice.Risk{}) {
		text += fmt.Sprintf(", if the risk service agrees (%d ms, then %s)", rules.Risk.TimeoutMS, rules.Risk.OnFailure)
	}
	if n := rules.Challenge.Difficulty; n > hardWork {
		c.find(tooHard, "%s; more than %d bits take a phone minutes", text, hardWork)
		return
	}
	c.ok("tickets", "%s", text)
}

// hardWork is the difficulty beyond which honest buyers suffer.
const hardWork = 22

// lists: those in force, and whether this server has them in memory.
func (c *saleCheck) lists(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := c.server.Store.Lists(ctx)
	if err != nil {
		c.find(listsUnread, "the store does not answer")
		return
	}
	sizes := map[sluice.ListKind]int64{}
	for _, l := range all {
		if l.Sale != c.view.Sale.ID {
			continue
		}
		sizes[l.Kind] = l.Size
		if lists := c.server.Eligibility.Lists; lists != nil {
			if generation, _ := lists.Loaded(l.Sale, l.Kind); generation != l.Generation {
				c.find(listLate, "the %s list has %d buyers; this server has not loaded it yet", l.Kind, l.Size)
				continue
			}
		}
		c.ok(string(l.Kind)+" list", "%d buyers", l.Size)
	}
	switch c.view.Sale.Rules.Eligibility {
	case sluice.EligibleList:
		if sizes[sluice.AllowList] == 0 {
			c.find(listEmpty, "only buyers on the allow list may buy, and it is empty")
			return
		}
		c.ok("eligibility", "buyers on the allow list")
	case sluice.EligibleToken:
		c.ok("eligibility", `buyers whose token names the sale in "sluice_sales"`)
	case "":
		if sizes[sluice.AllowList] > 0 {
			c.find(listUnused,
				"everybody: there is an allow list, but the sale does not ask for it (eligibility: list)")
			return
		}
		c.ok("eligibility", "everybody")
	}
}
