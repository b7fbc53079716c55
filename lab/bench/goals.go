package main

import (
	"fmt"
	"slices"
)

// A goal is a figure that Sluice wants to reach: the rate of a side, or something else
// that it measures, alone or divided by the same figure of another side of that round.
// Where a floor is measured, a side that does without Sluice what no implementation can
// do without, the figure is compared with the floor. Embedded Sluice has none for orders
// that are stored: it is compared with Sluice on Redis and PostgreSQL.
type goal struct {
	name            string
	side, of        string // of is empty for the rate
	against         string // a side; empty: the figure counts as it is
	atLeast, atMost float64
}

// rateGoal is a goal for a side's rate: a share of another side's.
func rateGoal(name, side, against string, atLeast float64) goal {
	return goal{name: name, side: side, against: against, atLeast: atLeast}
}

// bound is a goal for a figure as it is.
func bound(name, side, of string, atMost float64) goal {
	return goal{name: name, side: side, of: of, atMost: atMost}
}

// goals in the order in which they are printed.
func goals() []goal {
	const (
		redisCPU  = "Redis ledger, Redis' processor time for a claim"
		clientCPU = "Redis ledger, the client's processor time for a claim"
		durable   = "embedded ledger, every claim durable, against the Redis ledger, no fsync"
		entries   = "a journal of 100,000 entries into PostgreSQL, against a bare multi-row insert"
		batches   = "a journal of 100,000 claims in entries of 250, against a bare multi-row insert"
		shared    = "2,000 idle open sales on Redis and PostgreSQL, the server's share of a core, %"
	)
	all := []goal{
		rateGoal("Redis ledger, claims", batchedName, writerName, 0.9),
		{name: redisCPU, side: batchedName, of: "redis_cpu_us", against: writerName, atMost: 1.2},
		{name: clientCPU, side: batchedName, of: "client_cpu_us", against: writerName, atMost: 1.1},
		rateGoal(durable, sqliteName, batchedName, 0.8),
		rateGoal("sold-out answers over HTTP", soldOutName, rememberingName, 0.9),
		rateGoal("sold-out answers to buyers' first tokens", firstVisitName, verifyingName, 0.9),
		rateGoal("sold-out answers, no console open, against the same", repeatedName, unwatchedName, 0.95),
		rateGoal("sold-out answers beside 50 open consoles, against none", watchedName, unwatchedName, 0.95),
		rateGoal("a sale read over HTTP", readName, limitedName, 0.9),
		rateGoal("a sale read again with its ETag (304)", unchangedName, limitedSame, 0.9),
		bound("an order on disk, embedded, bytes", acceptedName(embedded), "disk_B_per_order", 500),
	}
	for _, b := range backends {
		stored, answered := bareAcceptedName(b), bareStoreName(b.name)
		if !b.postgres {
			stored, answered = acceptedName(servers), latencyName(servers.name)
		}
		all = append(all, rateGoal("orders accepted and stored over HTTP, "+b.name, acceptedName(b), stored, b.accepted))
		for _, rate := range openRates {
			all = append(all, goal{
				name: fmt.Sprintf("p99 of accepted claims at %.0f a second, %s", rate, b.name), side: latencyName(b.name),
				of: p99At(rate), against: answered, atMost: 2,
			})
		}
	}
	for _, ledger := range grownLedgers {
		all = append(all, bound("processor time for a claim with many buyers, against 10,000, "+ledger.name,
			growthName(ledger.name), "growth", 1.5))
	}
	return append(
		all,
		rateGoal(entries, drainEachName, bareRowsName, 0.7),
		rateGoal(batches, drainManyName, bareRowsName, 0.7),
		bound("start, no orders, ms", startName, "empty_ms", 150),
		bound("start with 10^6 orders until one is accepted, ms", startName, "orders_ms", 2000),
		bound("idle, memory, MB", idleName, "empty_MB", 40),
		bound("idle, share of a core, %", idleName, "empty_core_%", 1),
		bound("2,000 idle open sales, embedded, share of a core, %", idleName, "sales_core_%", 2),
		bound(shared, idleName, "servers_core_%", 2),
	)
}

// verdict is what became of a goal: the median of its figure over the rounds. A ratio
// compares two sides of one round, which were measured within seconds.
type verdict struct {
	Name    string  `json:"name"`
	Side    string  `json:"side"`
	Of      string  `json:"of,omitempty"` // empty: the rate
	Against string  `json:"against,omitempty"`
	Ratio   float64 `json:"ratio"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Goal    float64 `json:"goal"`
	AtMost  bool    `json:"at_most,omitempty"`
	Met     bool    `json:"met"`
}

// judge compares what was measured with the goals.
func (r *report) judge() {
	r.Goals, r.OK = []verdict{}, true
	for _, g := range goals() {
		values := r.compared(g)
		if len(values) == 0 {
			continue
		}
		v := verdict{
			Name: g.name, Side: g.side, Of: g.of, Against: g.against, Goal: max(g.atLeast, g.atMost), AtMost: g.atMost > 0,
			Ratio: median(values), Min: slices.Min(values), Max: slices.Max(values),
		}
		v.Met = v.Ratio >= v.Goal
		if v.AtMost {
			v.Met = v.Ratio <= v.Goal
		}
		r.Goals = append(r.Goals, v)
		r.OK = r.OK && v.Met
	}
}

// compared is a goal's figure of each round, divided by that of the side that it is
// compared with, if it is; nil if one of them was left out.
func (r *report) compared(g goal) []float64 {
	values := r.side(g.side).values(g.of)
	if g.against == "" {
		return values
	}
	others := r.side(g.against).values(g.of)
	if len(others) < len(values) {
		return nil
	}
	for i := range values {
		values[i] /= others[i]
	}
	return values
}

// values are a figure's of all rounds; nil if the side was not measured.
func (r *result) values(of string) []float64 {
	switch {
	case r == nil:
		return nil
	case of == "":
		return slices.Clone(r.Rounds)
	}
	return slices.Clone(r.also[of])
}
