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

// goals in the order in which they are printed.
func goals() []goal {
	all := []goal{
		{name: "Redis ledger, claims", side: batchedName, against: writerName, atLeast: 0.9},
		{
			name: "Redis ledger, Redis' processor time for a claim", side: batchedName, of: "redis_cpu_us",
			against: writerName, atMost: 1.2,
		},
		{
			name: "Redis ledger, the client's processor time for a claim", side: batchedName, of: "client_cpu_us",
			against: writerName, atMost: 1.1,
		},
		{
			name: "embedded ledger, every claim durable, against the Redis ledger, no fsync", side: sqliteName,
			against: batchedName, atLeast: 0.8,
		},
		{name: "sold-out answers over HTTP", side: soldOutName, against: rememberingName, atLeast: 0.9},
		{name: "sold-out answers to buyers' first tokens", side: firstVisitName, against: verifyingName, atLeast: 0.9},
		{name: "a sale read over HTTP", side: readName, against: limitedName, atLeast: 0.9},
		{name: "a sale read again with its ETag (304)", side: unchangedName, against: limitedSame, atLeast: 0.9},
	}
	for _, b := range backends {
		g := goal{
			name: "orders accepted and stored over HTTP, " + b.name, side: acceptedName(b), against: bareAcceptedName(b),
			atLeast: b.accepted,
		}
		if !b.postgres {
			g.against = acceptedName(servers)
		}
		all = append(all, g)
	}
	all = append(all, goal{
		name: "an order on disk, embedded, bytes", side: acceptedName(embedded), of: "disk_B_per_order", atMost: 500,
	})
	for _, b := range backends {
		for _, rate := range openRates {
			g := goal{
				name: fmt.Sprintf("p99 of accepted claims at %.0f a second, %s", rate, b.name), side: latencyName(b.name),
				of: p99At(rate), against: bareStoreName(b.name), atMost: 2,
			}
			if !b.postgres {
				g.against = latencyName(servers.name)
			}
			all = append(all, g)
		}
	}
	for _, ledger := range grownLedgers {
		all = append(all, goal{
			name: "processor time for a claim with many buyers, against 10,000, " + ledger.name,
			side: growthName(ledger.name), of: "growth", atMost: 1.5,
		})
	}
	return append(all, []goal{
		{
			name: "a journal of 100,000 entries into PostgreSQL, against a bare multi-row insert", side: drainEachName,
			against: bareRowsName, atLeast: 0.7,
		},
		{
			name: "a journal of 100,000 claims in entries of 250, against a bare multi-row insert", side: drainManyName,
			against: bareRowsName, atLeast: 0.7,
		},
		{name: "start, no orders, ms", side: startName, of: "empty_ms", atMost: 150},
		{name: "start with 10^6 orders until one is accepted, ms", side: startName, of: "orders_ms", atMost: 2000},
		{name: "idle, memory, MB", side: idleName, of: "empty_MB", atMost: 40},
		{name: "idle, share of a core, %", side: idleName, of: "empty_core_%", atMost: 1},
		{name: "2,000 idle open sales, embedded, share of a core, %", side: idleName, of: "sales_core_%", atMost: 2},
		{
			name: "2,000 idle open sales on Redis and PostgreSQL, the server's share of a core, %", side: idleName,
			of: "servers_core_%", atMost: 2,
		},
	}...)
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
