package metrics

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicehq/sluice"
)

// mostCounted is for how many sales claims are counted apart. Claims of further sales,
// and of sales that are not for sale any more or never were, are counted together.
const mostCounted = 1000

// TurnEvery is how often Turn is to be called.
const TurnEvery = 5 * time.Minute

// other stands for a sale without counters of its own, and a code without one.
const other = "other"

// Claims counts what became of claims, by sale. Counting takes no lock and no
// memory, but for the first claim on a sale. Make it with Metrics.Claims, once.
type Claims struct {
	codes, reasons []string
	index          map[string]int // in tally, of a code; of a reason: after all codes
	byCode         [256]uint8     // the same of the domain's codes
	shown          map[int]bool   // indexes that a sale reports also at 0

	known   func(sluice.SaleID) bool
	mu      sync.Mutex // of those who add a sale
	sales   atomic.Pointer[map[sluice.SaleID]tally]
	rest    tally
	earlier [2]countsAt // the older one first
}

// countsAt is what had been counted at a moment.
type countsAt struct {
	at     time.Time
	counts map[sluice.SaleID][]int64
}

// tally counts by code, by reason and, last, claims of unnamed proxies, each in a cache line of its own.
type tally []struct {
	n atomic.Int64
	_ [56]byte
}

// Claims adds counters of the answers to claims: by code, which may be more than the
// domain's, and of those that were refused before they were claims, by reason.
// Known reports whether there is such a sale that is not over, and must be fast: a made-up id gets no
// label. Sales is called at each scrape.
func (m *Metrics) Claims(known func(sluice.SaleID) bool, sales func() []Sale, codes, reasons []string) *Claims {
	c := &Claims{known: known, index: map[string]int{}, reasons: reasons}
	for _, code := range sluice.Codes() {
		c.byCode[code] = uint8(len(c.codes))
		c.codes = append(c.codes, code.String())
	}
	c.codes = append(append(c.codes, codes...), other)
	for i, name := range c.codes {
		c.index[name] = i
	}
	for i, reason := range reasons {
		c.index["/"+reason] = len(c.codes) + i // no code has this name
	}
	c.shown = map[int]bool{}
	for _, name := range shownAtZero {
		c.shown[c.index[name]] = true
	}
	c.rest = c.tally()
	c.sales.Store(&map[sluice.SaleID]tally{})
	m.read(func(value values) { c.read(value, sales()) })
	return c
}

func (c *Claims) tally() tally { return make(tally, len(c.codes)+len(c.reasons)+1) }

// Decided counts an answer of the domain.
func (c *Claims) Decided(sale sluice.SaleID, code sluice.Code) { c.of(sale)[c.byCode[code]].n.Add(1) }

// Count counts an answer by its code.
func (c *Claims) Count(sale sluice.SaleID, code string) {
	index, ok := c.index[code]
	if !ok {
		index = c.index[other]
	}
	c.of(sale)[index].n.Add(1)
}

// Refused counts why a claim was refused, besides its answer.
func (c *Claims) Refused(sale sluice.SaleID, reason string) {
	if index, ok := c.index["/"+reason]; ok {
		c.of(sale)[index].n.Add(1)
	}
}

// Unnamed counts a claim that came through a proxy that is not named.
func (c *Claims) Unnamed(sale sluice.SaleID) {
	t := c.of(sale)
	t[len(t)-1].n.Add(1)
}

// Turn begins another interval of Recent. When many sales are counted apart, those that
// are not known any more give their places to others.
func (c *Claims) Turn(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := *c.sales.Load()
	if len(all) > mostCounted/2 {
		all = maps.Clone(all)
		maps.DeleteFunc(all, func(sale sluice.SaleID, _ tally) bool { return !c.known(sale) })
		c.sales.Store(&all)
	}
	next := countsAt{now, make(map[sluice.SaleID][]int64, len(all))}
	for sale, t := range all {
		counts := make([]int64, len(t))
		for i := range t {
			counts[i] = t[i].n.Load()
		}
		next.counts[sale] = counts
	}
	c.earlier[0], c.earlier[1] = c.earlier[1], next
}

// of returns the counters of a sale.
func (c *Claims) of(sale sluice.SaleID) tally {
	all := *c.sales.Load()
	if t, ok := all[sale]; ok {
		return t
	}
	if len(all) >= mostCounted || !c.known(sale) {
		return c.rest
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all = *c.sales.Load()
	if t, ok := all[sale]; ok || len(all) >= mostCounted {
		if !ok {
			t = c.rest
		}
		return t
	}
	more := maps.Clone(all)
	t := c.tally()
	more[sluice.SaleID(strings.Clone(string(sale)))] = t // not the whole path that it was cut from
	c.sales.Store(&more)
	return t
}

// Label is the sale as its counters name it: other, if it has none.
func (c *Claims) Label(sale sluice.SaleID) string {
	if _, ok := (*c.sales.Load())[sale]; ok {
		return string(sale)
	}
	return other
}

// Of returns what was counted of a sale: the answers by code, and the refusals by
// reason; what never happened is not there. False: the sale is not counted apart.
func (c *Claims) Of(sale sluice.SaleID) (codes, reasons map[string]int64, ok bool) {
	codes, reasons, _ = c.counted(sale, nil)
	return codes, reasons, c.Apart(sale)
}

// Apart reports whether a sale is counted apart, or will be with its first claim.
func (c *Claims) Apart(sale sluice.SaleID) bool {
	all := *c.sales.Load()
	_, ok := all[sale]
	return ok || len(all) < mostCounted
}

// Each calls do with each code that claims on a sale were answered with, and how often since the start, of the sales
// that are counted apart.
func (c *Claims) Each(do func(sale sluice.SaleID, code string, n int64)) {
	for sale, t := range *c.sales.Load() {
		for i, code := range c.codes {
			if n := t[i].n.Load(); n > 0 {
				do(sale, code, n)
			}
		}
	}
}

// Recent is Of the last one or two intervals, with how many claims came through proxies
// that are not named, and since when; the zero time is the start.
func (c *Claims) Recent(sale sluice.SaleID) (codes, reasons map[string]int64, unnamed int64, since time.Time) {
	c.mu.Lock()
	before := c.earlier[0]
	c.mu.Unlock()
	codes, reasons, unnamed = c.counted(sale, before.counts[sale])
	return codes, reasons, unnamed, before.at
}

func (c *Claims) counted(sale sluice.SaleID, before []int64) (codes, reasons map[string]int64, unnamed int64) {
	codes, reasons = map[string]int64{}, map[string]int64{}
	t := (*c.sales.Load())[sale]
	for i := range t {
		n := t[i].n.Load()
		if i < len(before) && n >= before[i] { // fewer: it had lost its place since
			n -= before[i]
		}
		switch {
		case n == 0:
		case i < len(c.codes):
			codes[c.codes[i]] = n
		case i < len(t)-1:
			reasons[c.reasons[i-len(c.codes)]] = n
		default:
			unnamed = n
		}
	}
	return codes, reasons, unnamed
}

var (
	claimsAnswered = counter("sluice_claims_total")
	claimsRefused  = counter("sluice_claims_refused_total")
)

// shownAtZero are the codes that a sale has from its first scrape on: accepted, since 0 of
// all is a sale to which no claim has come, and those that alerts watch, since the rate of
// a counter that begins with an outage does not have that outage.
var shownAtZero = []string{
	sluice.Accepted.String(), sluice.Unavailable.String(), sluice.Overloaded.String(), codeOutcomeUnknown,
}

const codeOutcomeUnknown = "outcome_unknown" // api.CodeOutcomeUnknown

// read reports all of other sales, and of a sale what has happened, so that sales
// without trouble take little room.
func (c *Claims) read(value values, sales []Sale) {
	report := func(sale string, t tally, all bool) {
		for i := range t[:len(t)-1] {
			n := t[i].n.Load()
			switch {
			case n == 0 && !all && !c.shown[i]:
			case i < len(c.codes):
				value(claimsAnswered, float64(n), sale, c.codes[i])
			default:
				value(claimsRefused, float64(n), sale, c.reasons[i-len(c.codes)])
			}
		}
	}
	report(other, c.rest, true)
	counted := *c.sales.Load()
	for sale, t := range counted {
		report(string(sale), t, false)
	}
	for i := range sales[:min(len(sales), max(mostCounted-len(counted), 0))] {
		if _, ok := counted[sales[i].ID]; !ok {
			for _, code := range shownAtZero {
				value(claimsAnswered, 0, string(sales[i].ID), code)
			}
		}
	}
}
