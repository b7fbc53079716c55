package main

import (
	"cmp"
	"fmt"
	"slices"
)

// A goal is a figure that Sluice wants to reach: the rate of a side, or something else
// that it measures, alone or divided by that of another side of the same round.
type goal struct {
	name            string
	side, of        string // of is empty for the rate
	against         string // a side; empty: the figure counts as it is
	atLeast, atMost float64
	// floor is a side that does without Sluice what no implementation can do without; its
	// figure is compared in the same way. FloorOf is "of" where it has another name, and
	// floorAgainst is "against" without Sluice where that is Sluice as well.
	floor, floorOf, floorAgainst string
}

// goals in the order in which they are printed.
func goals() (all []goal) {
	for _, fsync := range []string{"no", "always"} {
		how := "Redis ledger, appendfsync " + fsync
		for _, repeats := range []int{0, someRepeats} {
			of := how
			if repeats > 0 {
				of += fmt.Sprintf(", %d%% repeats", repeats)
			}
			own := batchedName(fsync, repeats)
			all = append(all,
				goal{
					name: of + ", against one script call per request", side: own, against: eachName(fsync, repeats), atLeast: 4.5,
					floor: writerName(fsync, repeats),
				},
				goal{
					name: of + ", against the same pipelined", side: own, against: pipelinedName(fsync, repeats), atLeast: 2.3,
					floor: writerName(fsync, repeats),
				},
				goal{
					name: of + ": Redis' processor time for a claim, against one script call per request", of: "redis_cpu_us",
					side: own, against: eachName(fsync, repeats), atMost: 1.0 / 6, floor: writerName(fsync, repeats),
				})
		}
		all = append(all, goal{
			name: how + ": the client's processor time for a claim, us", of: "client_cpu_us", side: batchedName(fsync, 0),
			atMost: 3.5, floor: writerName(fsync, 0),
		})
	}
	all = append(all, []goal{
		{
			name: "embedded ledger, every claim durable, against one script call per request, no fsync", side: sqliteName,
			against: eachName("no", 0), atLeast: 2.5,
		},
		{
			name: "sold-out answers over HTTP, against a constant", side: soldOutName, against: bareRefusalName, atLeast: 0.9,
			floor: rememberingName,
		},
		{
			name: "sold-out answers to buyers' first tokens, against a constant", side: firstVisitName,
			against: bareRefusalName, atLeast: 0.85, floor: verifyingName,
		},
		{
			name: "a sale read over HTTP, against a constant", side: readName, against: bareSaleName, atLeast: 0.9,
			floor: limitedName,
		},
		{
			name: "a sale read again with its ETag (304), against a constant", side: unchangedName, against: bareSameName,
			atLeast: 0.9, floor: limitedSame,
		},
	}...)
	const orders = "orders accepted and stored over HTTP, "
	for _, b := range []backend{embedded, servers} {
		all = append(all, goal{
			name: orders + b.name + ", against a constant", side: acceptedName(b), against: bareOrderName, atLeast: b.accepted,
			floor: bareAcceptedName(b),
		})
	}
	all = append(all,
		goal{
			name: orders + alone.name + ", against " + servers.name, side: acceptedName(alone), against: acceptedName(servers),
			atLeast: 1, floor: bareAcceptedName(alone), floorAgainst: bareAcceptedName(servers),
		},
		goal{name: "an order on disk, embedded, bytes", side: acceptedName(embedded), of: "disk_B_per_order", atMost: 500})
	for _, b := range backends {
		for _, rate := range openRates {
			all = append(all, goal{
				name: fmt.Sprintf("p99 of accepted claims at %.0f a second, %s, against bare handler and disk", rate, b.name),
				side: latencyName(b.name), of: overBare(rate), atMost: 3, floor: latencyName(b.name),
				floorOf: bareStoreOverBare(rate),
			})
		}
	}
	for _, ledger := range grownLedgers {
		g := goal{
			name: "processor time for a claim with many buyers, against 10,000, " + ledger.name, side: growthName(ledger.name),
			of: "growth", atMost: 1.5,
		}
		if ledger.floor != nil {
			g.floor = growthName(ledger.floor.name)
		}
		all = append(all, g)
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
	// Floor is the ratio of the goal's floor; 0: it has none.
	Floor float64 `json:"floor,omitempty"`
}

// reaches says whether a ratio is good enough for the goal.
func (v *verdict) reaches(ratio float64) bool {
	if v.AtMost {
		return ratio <= v.Goal
	}
	return ratio >= v.Goal
}

// judge compares what was measured with the goals.
func (r *report) judge() {
	r.Goals, r.OK = []verdict{}, true
	for _, g := range goals() {
		values := r.compared(g.side, g.of, g.against)
		if len(values) == 0 {
			continue
		}
		v := verdict{
			Name: g.name, Side: g.side, Of: g.of, Against: g.against, Goal: max(g.atLeast, g.atMost), AtMost: g.atMost > 0,
			Ratio: median(values), Min: slices.Min(values), Max: slices.Max(values),
		}
		v.Met = v.reaches(v.Ratio)
		floor := r.compared(g.floor, cmp.Or(g.floorOf, g.of), cmp.Or(g.floorAgainst, g.against))
		if len(floor) > 0 {
			v.Floor = median(floor)
		}
		r.Goals = append(r.Goals, v)
		r.OK = r.OK && v.Met
	}
}

// compared is a side's figure of each round, divided by another side's of the same round,
// if it is compared with one; nil if one of them was left out.
func (r *report) compared(side, of, against string) []float64 {
	values := r.side(side).values(of)
	if against == "" {
		return values
	}
	others := r.side(against).values(of)
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
