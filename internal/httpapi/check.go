package httpapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// checkSale reports what keeps a sale from being bought, as this server sees it. It changes nothing.
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
		SaleID: view.Sale.ID, Node: s.Kinds.Node,
	}}
	for _, check := range []func(context.Context){
		c.ledgerClock, c.storeClock, c.ledgerSettings, c.storeSettings, c.replicas, c.lists, c.servers,
	} {
		ctx, cancel := context.WithTimeout(r.Context(), patience) // each its own: one that hangs leaves the others theirs
		check(ctx)
		cancel()
	}
	c.risk(r.Context()) // which has the sale's own timeout
	for _, check := range []func(){c.loaded, c.opening, c.units, c.visibility, c.tokenKeys, c.addresses, c.claims} {
		check()
	}
	slices.SortStableFunc(c.answer.Checks, func(a, b api.Check) int { return order(a) - order(b) })
	c.answer.Status = c.answer.Checks[0].Status
	return c.answer, nil
}

// order puts first what fails; what was counted may follow from what was found.
func order(c api.Check) int {
	place := 2 * slices.Index([]api.CheckStatus{fail, warn, api.CheckOK}, c.Status)
	if c.Name == "claims" {
		place++
	}
	return place
}

// saleCheck gathers findings.
type saleCheck struct {
	server *Server
	view   *admission.View
	answer api.SaleCheck
}

// A sale that cannot be bought fails; what only may be wrong is a warning.
const (
	warn = api.CheckWarn
	fail = api.CheckFail
)

// find records what is wrong, where it is to be changed, and what would be right.
func (c *saleCheck) find(status api.CheckStatus, name, where, right, detail string, args ...any) {
	c.answer.Checks = append(c.answer.Checks, api.Check{
		Name: name, Status: status, Detail: fmt.Sprintf(detail, args...), Where: where, Right: right,
	})
}

func (c *saleCheck) ok(name, detail string, args ...any) {
	c.find(api.CheckOK, name, "", "", detail, args...)
}

// hasOpened compares with the ledger's clock, which opens the sale.
func (c *saleCheck) hasOpened() bool {
	return !c.view.LedgerTime(c.server.Now()).Before(c.view.Sale.OpensAt)
}

const ledgerAnswers = "the ledger answers; look at its server and the network"

func (c *saleCheck) ledgerClock(ctx context.Context) {
	c.clock(ctx, "ledger clock", "the ledger (--ledger)", ledgerAnswers,
		"NTP here and there: the sale opens and countdowns run by the ledger's, buyers' tokens are judged by this server's",
		c.server.Now, func(ctx context.Context) (time.Time, error) {
			readings, err := c.server.Ledger.Read(ctx, []sluice.SaleID{c.view.Sale.ID})
			if err != nil {
				return time.Time{}, err
			}
			return readings[0].Now, nil
		})
}

func (c *saleCheck) storeClock(ctx context.Context) {
	c.clock(ctx, "store clock", "the database (--store)",
		"the database answers; until then orders wait in the journal, payments and cancels fail",
		"NTP here and there: the database's judges payments and expiry, and pages count down to them by the ledger's",
		func() time.Time { return c.server.Board.LedgerTime(c.server.Now()) }, c.server.Store.Clock)
}

// clock compares two clocks, and allows for the time that asking takes. A difference of half a second is
// worth a look, and fails no check: claims are judged by the ledger's clock alone (Board.LedgerTime).
func (c *saleCheck) clock(ctx context.Context, name, where, answers, ntp string, ours func() time.Time,
	theirs func(context.Context) (time.Time, error),
) {
	before := ours().Truncate(time.Millisecond)
	there, err := theirs(ctx)
	after := ours()
	differs := max(0, there.Sub(after)) + min(0, there.Sub(before)) // at least
	if err != nil {
		c.find(fail, name, where, answers, "it does not answer")
	} else if differs.Abs() > time.Second/2 {
		c.find(warn, name, where, ntp, "differs by %s", differs.Round(time.Millisecond))
	} else {
		c.ok(name, "differs by %s", differs.Round(time.Millisecond))
	}
}

// ledgerSettings asks the ledger whether it takes claims and keeps what it accepts.
func (c *saleCheck) ledgerSettings(ctx context.Context) {
	const name = "ledger settings"
	if refusing := c.server.Refusing; refusing != nil {
		if err := refusing(ctx); err != nil {
			c.find(fail, name, "disk and memory of the ledger", "room: df; INFO memory of Redis",
				"claims are not accepted: %v", err)
		}
	}
	if c.server.LedgerRisks == nil {
		return
	}
	risks, err := c.server.LedgerRisks(ctx)
	const safe = "appendonly yes, appendfsync always, maxmemory-policy noeviction"
	if err != nil {
		c.find(warn, name, "the user of Redis (ACL)", "+config|get, or see by hand to "+safe, "cannot be read: %v", err)
	}
	for _, risk := range risks {
		status := warn
		if risk.Evicts {
			status = fail
		}
		c.find(status, name, "the settings of Redis", safe, "%s", risk.Text())
	}
	if err == nil && len(risks) == 0 {
		c.ok(name, "it keeps what it accepts")
	}
}

// storeSettings asks the database whether what it commits survives a crash, and a failover if it has a standby.
func (c *saleCheck) storeSettings(ctx context.Context) {
	if c.server.StoreRisks == nil {
		return
	}
	risks, err := c.server.StoreRisks(ctx)
	if err != nil {
		return // storeClock says it
	}
	for _, risk := range risks {
		c.find(warn, "store settings", "the settings of the database", risk.Want, "%s", risk.Text())
	}
	if len(risks) == 0 {
		c.ok("store settings", "it keeps what it commits, as far as this server can see")
	}
}

// replicas writes and waits: with wait_replicas no claim is accepted that too few replicas have.
func (c *saleCheck) replicas(ctx context.Context) {
	if c.server.Confirmed == nil {
		return
	}
	began := time.Now()
	if err := c.server.Confirmed(ctx, c.view.Sale.ID); err != nil {
		c.find(fail, "replicas", "the ledger's replicas", "as many as wait_replicas are connected",
			"claims are not accepted: %v", err)
	} else {
		c.ok("replicas", "have what is written after %s", time.Since(began).Round(time.Millisecond))
	}
}

// lists compares those in force with what this server has in memory.
func (c *saleCheck) lists(ctx context.Context) {
	all, err := c.server.Store.Lists(ctx)
	if err != nil {
		return // storeClock says it
	}
	var allowed int64
	for _, l := range all {
		if l.Sale != c.view.Sale.ID {
			continue
		}
		if l.Kind == sluice.AllowList {
			allowed = l.Size
		}
		name, loaded := string(l.Kind)+" list", c.server.Eligibility.Lists
		if generation, _ := loaded.Loaded(l.Sale, l.Kind); generation == l.Generation {
			c.listed(ctx, name, l)
		} else {
			c.find(fail, name, "this server", "a moment later; else its log", "this server has not loaded it yet")
		}
	}
	switch who := c.view.Sale.Rules.Eligibility; {
	case who == sluice.EligibleList && allowed == 0:
		c.find(fail, "eligibility", "the allow list of the sale",
			"sluice sale allow SALE --file buyers.txt, or sluice sale patch SALE --eligibility none",
			"only buyers on the allow list may buy, and it is empty")
	case who == "" && allowed > 0:
		c.find(warn, "eligibility", "eligibility of the sale", "list, if the list is meant",
			"everybody: the sale does not ask for its allow list")
	default:
		c.ok("eligibility", "%s", cmp.Or(who, "everybody"))
	}
}

// listed looks at the first ids of a list. One that was read from a CSV file names no buyer, and neither do the others.
func (c *saleCheck) listed(ctx context.Context, name string, l port.BuyerList) {
	size := fmt.Sprintf("%d buyers", l.Size)
	if l.Size == 1 {
		size = "1 buyer"
	}
	ids, _ := c.server.Store.Listed(ctx, l, "", sluice.MaxPage) // none if the store does not answer, as above
	for _, id := range ids {
		if looks := looksWrong(id); looks != "" {
			c.find(warn, name, "the list of the sale", "the bare ids of the tokens, one a line",
				"%s; one is %q, which %s", size, id, looks)
			return
		}
	}
	c.ok(name, "%s", size)
}

// servers names those that the store has heard of lately, and what is not the same on all of them though it must.
func (c *saleCheck) servers(ctx context.Context) {
	live, _ := c.server.Store.LiveServers(ctx, 5*time.Second) // none if it does not answer
	var names []string
	for i := range live {
		s := &live[i]
		name := s.Node
		if slices.ContainsFunc(live, func(other port.Server) bool { return other.Version != s.Version }) {
			name += " (" + s.Version + ")"
		}
		names = append(names, name)
	}
	if c.server.Differ != nil {
		for _, d := range c.server.Differ() {
			where := "the settings of " + d.Node
			if d.Admin != "" {
				where += " at " + d.Admin
			}
			c.find(fail, "servers", where, "the same on every server",
				"%s than %s: all need the same, or one refuses what others accept", d, c.server.Kinds.Node)
		}
	}
	c.ok("servers", "live: %s", strings.Join(names, ", "))
}

// risk asks the sale's risk service once, about a buyer that does not exist.
func (c *saleCheck) risk(ctx context.Context) {
	rule, try := c.view.Sale.Rules.Risk, c.server.Eligibility.TryRisk
	if rule == (sluice.Risk{}) || try == nil {
		return
	}
	status := fail
	if rule.OnFailure == sluice.Allow {
		status = warn
	}
	if _, err := try(ctx, rule, c.view.Sale.ID, "sluice-check"); err != nil {
		c.find(status, "risk service", "risk of the sale, and the service behind its url",
			`it answers 200 {"allow": true} or false in time; until then on_failure decides who gets a ticket`,
			"it did not judge: %v", err)
	} else {
		c.ok("risk service", "it answers")
	}
}

// loaded compares the ledger with the store: claims are accepted only when they agree.
func (c *saleCheck) loaded() {
	row, reading := &c.view.Sale, &c.view.Reading
	const rebuilt = "a rebuild, by itself within seconds; else the log of the servers"
	switch {
	case c.view.Archived():
		c.find(fail, "loaded", "the sale", "a new sale: an archived one stays as it is", "the sale is archived: it is over")
	case c.view.Down:
		c.find(fail, "loaded", "the ledger (--ledger)", ledgerAnswers, "the ledger has not answered lately: %v", c.view.Cause)
	case c.server.Foreign != nil && c.server.Foreign(row):
		c.find(fail, "loaded", "the ledger of this server (--ledger)", "the sale's own; if that one was emptied, this one "+
			"takes the sale by itself within a minute, else by sluice recover --sale SALE", "%s%s",
			settle.OtherDecides, row.Ledger)
	case settle.Outdated(row):
		c.find(fail, "loaded", "the store: it is older than the ledger", "sluice recover --sale SALE",
			"fenced: %s", row.Fence)
	case !c.view.InStep():
		c.find(fail, "loaded", "the ledger", rebuilt, "the ledger has epoch %d, the store epoch %d; fence: %s",
			reading.Epoch, row.Epoch, cmp.Or(row.Fence, reading.Fence, "none"))
	case reading.Terms.Version < row.Terms.Version:
		c.find(warn, "loaded", "the ledger", "a moment later; else the log of the servers",
			"the last change of its terms has not reached the ledger yet")
	default:
		c.ok("loaded", "epoch %d, terms %d", reading.Epoch, reading.Terms.Version)
	}
}

// opening reports the window; the ledger opens the sale by its clock, no server has to act.
func (c *saleCheck) opening() {
	terms, now := &c.view.Sale.Terms, c.view.LedgerTime(c.server.Now())
	switch {
	case !terms.ClosesAt.IsZero() && !now.Before(terms.ClosesAt):
		c.find(fail, "opening", "closes_at of the sale", "sluice sale patch SALE --closes-at TIME, or a new sale",
			"it closed at %s", api.At(terms.ClosesAt))
	case terms.Paused:
		c.find(fail, "opening", "the sale", "sluice sale resume SALE",
			"paused by an admin; no buyer can buy until it is resumed")
	case !c.hasOpened():
		c.ok("opening", "opens in %s, at %s", terms.OpensAt.Sub(now).Round(time.Second), api.At(terms.OpensAt))
	default:
		c.ok("opening", "open since %s", api.At(terms.OpensAt))
	}
}

func (c *saleCheck) units() {
	const restock = "sluice sale restock SALE --delta N"
	switch t := &c.view.Sale.Terms; {
	case t.Total == 0:
		c.find(fail, "units", "total of the sale", restock, "the total is 0: there is nothing to sell")
	case t.Total != sluice.Unlimited && t.Available(c.view.Reading.Taken) == 0:
		c.find(warn, "units", "total of the sale", "nothing, or "+restock, "all %d units are taken", t.Total)
	case t.MaxPerBuyer == sluice.Unlimited:
		c.find(warn, "units", "max_per_buyer of the sale", "a limit", "one buyer can take all units")
	default:
		c.ok("units", "at most %d per buyer", t.MaxPerBuyer)
	}
}

// visibility warns before the opening only: until then a sale may well be hidden.
func (c *saleCheck) visibility() {
	if !c.view.Hidden() {
		return
	}
	status := warn
	if c.hasOpened() {
		status = fail
	}
	c.find(status, "visibility", "visibility of the sale", "sluice sale patch SALE --visibility listed",
		"the sale is hidden: to buyers it does not exist (404)")
}

// tokenKeys names keys of the login that cannot be used: their buyers are refused.
func (c *saleCheck) tokenKeys() {
	const name, where, right = "token keys", "the key set of your login (buyer_jwks)",
		"keys for RS256 (2048 to 8192 bits), ES256 or EdDSA, each with a kid of its own"
	passedOver, err := c.server.Buyers.KeysTrouble()
	for _, key := range passedOver {
		c.find(warn, name, where, right, "what this key signs is refused: %s", key)
	}
	if err != nil {
		c.find(warn, name, where, right, "those read before are used, if any: %v", err)
	}
}
