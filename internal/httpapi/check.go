package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/tickets"
)

// checkSale says whether a sale is ready to be sold, as this server sees it.
// It changes nothing.
func (s *Server) checkSale(r *http.Request) (any, error) {
	view, err := s.Board.Reload(r.Context(), saleOf(r))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	c := &saleCheck{server: s, view: view, answer: api.SaleCheck{
		SaleID: view.Sale.ID, Node: s.Kinds.Node, OpensAt: api.At(view.Sale.OpensAt),
		Epoch: view.Sale.Epoch, Terms: view.Sale.Version, LiveNodes: []string{},
	}}
	c.clocks(ctx)
	c.loaded()
	c.replicas(ctx)
	c.opening()
	c.units()
	c.eligibility()
	c.lists(ctx)
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

func (c *saleCheck) say(name string, status api.CheckStatus, format string, args ...any) {
	c.answer.Checks = append(c.answer.Checks, api.Check{Name: name, Status: status, Detail: fmt.Sprintf(format, args...)})
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
	ask := func(name, whose, harm string, ours func() time.Time, clock func() (time.Time, error)) *api.Time {
		before := ours()
		there, err := clock()
		after := ours()
		if err != nil {
			c.say(name, api.CheckFail, "it does not answer")
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
		status, rest := api.CheckOK, ""
		if differs.Abs() > clockTolerance {
			status, rest = api.CheckWarn, "; "+harm
		}
		c.say(name, status, "differs from %s by %s%s", whose, differs.Round(time.Millisecond), rest)
		return api.AtOrNull(there)
	}
	c.answer.LedgerTime = ask("ledger clock", "this server's",
		"the sale opens and countdowns run by the ledger's, so they agree; buyers' tokens are judged by this server's",
		c.server.Now, func() (time.Time, error) {
			readings, err := c.server.Ledger.Read(ctx, []sluice.SaleID{c.view.Sale.ID})
			if err != nil {
				return time.Time{}, err
			}
			return readings[0].Now, nil
		})
	ledgers := func() time.Time { return c.server.Board.LedgerTime(c.server.Now()) }
	c.answer.StoreTime = ask("store clock", "the ledger's",
		"it judges payments and expiry, and pages count down to them by the ledger's", ledgers, func() (time.Time, error) {
			return c.server.Store.Clock(ctx)
		})
}

// loaded: claims are accepted only when ledger and store agree.
func (c *saleCheck) loaded() {
	row, reading := &c.view.Sale, &c.view.Reading
	switch {
	case c.view.Archived():
		c.say("loaded", api.CheckFail, "the sale is archived: it is over")
	case c.view.Down:
		c.say("loaded", api.CheckFail, "the ledger has not answered lately: %v", c.view.Cause)
	case row.Fence != "" || reading.Fence != "" && reading.Fence != sluice.FenceLoading:
		c.say("loaded", api.CheckFail, "fenced: %s%s", row.Fence, reading.Fence)
	case row.Epoch == 0 || row.LoadedEpoch < row.Epoch || !reading.Loaded || reading.Fence != "":
		c.say("loaded", api.CheckFail, "the ledger does not hold it yet; a server does that within seconds")
	case !c.view.InStep():
		c.say("loaded", api.CheckFail, "ledger and store disagree: epoch %d and %d", reading.Epoch, row.Epoch)
	case reading.Terms.Version < row.Terms.Version:
		c.say("loaded", api.CheckWarn, "the last change of its terms has not reached the ledger yet")
	default:
		c.say("loaded", api.CheckOK, "epoch %d, terms %d", reading.Epoch, reading.Terms.Version)
	}
}

// replicas: with wait_replicas no claim is accepted that too few of them have.
func (c *saleCheck) replicas(ctx context.Context) {
	if c.server.Confirmed == nil {
		return
	}
	began := time.Now()
	if err := c.server.Confirmed(ctx, c.view.Sale.ID); err != nil {
		c.say("replicas", api.CheckFail, "claims are not accepted: %v", err)
		return
	}
	took, status, rest := time.Since(began), api.CheckOK, ""
	if took > slowReplicas {
		status, rest = api.CheckWarn, "; each claim takes that much longer"
	}
	c.say("replicas", status, "have what is written after %s%s", took.Round(time.Millisecond), rest)
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
		c.say("opening", api.CheckFail, "it closed at %s", api.At(terms.ClosesAt))
	case terms.Paused:
		c.say("opening", api.CheckFail, "paused by an admin; no buyer can buy until it is resumed")
	case now.Before(terms.OpensAt):
		c.say("opening", api.CheckOK, "opens in %s, at %s, %s", in, api.At(terms.OpensAt), closes)
	default:
		c.say("opening", api.CheckOK, "open since %s, %s", api.At(terms.OpensAt), closes)
	}
}

// units: what a typing error would look like.
func (c *saleCheck) units() {
	t := &c.view.Sale.Terms
	switch {
	case t.Total == 0:
		c.say("units", api.CheckFail, "the total is 0: there is nothing to sell")
	case t.Total == sluice.Unlimited && t.MaxPerBuyer == sluice.Unlimited:
		c.say("units", api.CheckWarn, "no total and no limit per buyer: everybody can buy everything")
	case t.MaxPerBuyer == sluice.Unlimited:
		c.say("units", api.CheckWarn, "no limit per buyer: one buyer can take all %d units", t.Total)
	case t.Total == sluice.Unlimited:
		c.say("units", api.CheckOK, "no total, at most %d per buyer", t.MaxPerBuyer)
	case t.MaxPerBuyer > t.Total:
		c.say("units", api.CheckWarn, "%d units in all, and %d for one buyer", t.Total, t.MaxPerBuyer)
	case t.Available(c.view.Reading.Taken) == 0:
		c.say("units", api.CheckWarn, "all %d units are taken", t.Total)
	default:
		c.say("units", api.CheckOK, "%d units, at most %d per buyer", t.Total, t.MaxPerBuyer)
	}
}

// eligibility: what the rules ask before a claim is heard.
func (c *saleCheck) eligibility() {
	rules := &c.view.Sale.Rules
	if keys := c.server.Eligibility.Tickets; keys != nil {
		c.answer.TicketKey = keys.ID()
	}
	if rules.Ticket == (sluice.Ticket{}) {
		c.say("tickets", api.CheckOK, "none are asked for")
		return
	}
	from := tickets.From(c.view.Sale.OpensAt, time.Duration(rules.Ticket.BeforeS)*time.Second)
	text := "handed out from " + api.At(from).String()
	if n := rules.Challenge.Difficulty; n > 0 {
		text += fmt.Sprintf(", for a proof of work of %d bits", n)
	}
	status := api.CheckOK
	if rules.Risk != (sluice.Risk{}) { // a question about a buyer who does not exist would prove little, and stay there
		status = api.CheckWarn
		text += fmt.Sprintf(", if the risk service agrees (%d ms, then %s); the risk service was not asked: try it with a "+
			"ticket of your own", rules.Risk.TimeoutMS, rules.Risk.OnFailure)
	}
	if n := rules.Challenge.Difficulty; n > hardWork {
		status = api.CheckWarn
		text += fmt.Sprintf("; more than %d bits take a phone minutes", hardWork)
	}
	c.say("tickets", status, "%s", text)
}

// hardWork is the difficulty beyond which honest buyers suffer.
const hardWork = 22

// lists: those in force, and whether this server has them in memory.
func (c *saleCheck) lists(ctx context.Context) {
	all, err := c.server.Store.Lists(ctx)
	if err != nil {
		c.say("lists", api.CheckFail, "the store does not answer")
		return
	}
	sizes := map[sluice.ListKind]int64{}
	for _, l := range all {
		if l.Sale != c.view.Sale.ID {
			continue
		}
		sizes[l.Kind] = l.Size
		name := string(l.Kind) + " list"
		if lists := c.server.Eligibility.Lists; lists != nil {
			if generation, _ := lists.Loaded(l.Sale, l.Kind); generation != l.Generation {
				c.say(name, api.CheckFail, "%d buyers; this server has not loaded it yet", l.Size)
				continue
			}
		}
		c.say(name, api.CheckOK, "%d buyers", l.Size)
	}
	switch c.view.Sale.Rules.Eligibility {
	case sluice.EligibleList:
		if sizes[sluice.AllowList] == 0 {
			c.say("eligibility", api.CheckFail, "only buyers on the allow list may buy, and it is empty")
			return
		}
		c.say("eligibility", api.CheckOK, "buyers on the allow list")
	case sluice.EligibleToken:
		c.say("eligibility", api.CheckOK, `buyers whose token names the sale in "sluice_sales"`)
	case "":
		if sizes[sluice.AllowList] > 0 {
			c.say("eligibility", api.CheckWarn,
				"everybody: there is an allow list, but the sale does not ask for it (eligibility: list)")
			return
		}
		c.say("eligibility", api.CheckOK, "everybody")
	}
}
