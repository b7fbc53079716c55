package api

import "github.com/sluicehq/sluice"

// Status is what one server sees now: what is wrong, and which servers there are.
type Status struct {
	Node       string      `json:"node"` // who says it
	Ledger     string      `json:"ledger"`
	Store      string      `json:"store"`
	ServerTime Time        `json:"server_time"`
	Conditions []Condition `json:"conditions"` // the worst first; empty: all is well
	Servers    []Peer      `json:"servers"`    // those that the store has heard of within an hour, by name
}

// Condition is something that is wrong, or good to know. docs/operating.md lists them by name.
type Condition struct {
	Name    string        `json:"name"`
	Urgency string        `json:"urgency"`           // page: at once; warning; note: nothing is wrong
	SaleID  sluice.SaleID `json:"sale_id,omitempty"` // empty: all sales, or none
	Since   Time          `json:"since"`             // when this server saw it first
	What    string        `json:"what"`              // is wrong
	Cost    string        `json:"cost"`              // for buyers
	Do      string        `json:"do"`                // now
	Detail  string        `json:"detail,omitempty"`  // what was seen
	More    int64         `json:"more,omitempty"`    // of how many further sales or names it holds as well
	Section string        `json:"section"`           // of docs/operating.md
}

// Peer is one server of the shop.
type Peer struct {
	Node    string   `json:"node"`
	Version string   `json:"version"`
	Admin   string   `json:"admin,omitempty"` // where its API for merchants is; empty: it does not tell
	SeenAt  Time     `json:"seen_at"`         // when the store heard of it last
	Silent  bool     `json:"silent"`          // longer ago than of others
	Differs []string `json:"differs"`         // settings that are not those of the server that says it
}

// Curve is what happened to a sale over all servers, in steps of the same length. Each list has a value for each step.
type Curve struct {
	SaleID     sluice.SaleID `json:"sale_id"`
	ServerTime Time          `json:"server_time"`
	From       *Time         `json:"from"`   // the beginning of the first step; null: there is none
	StepS      int64         `json:"step_s"` // how long a step is, in seconds
	// Answers to claims by what became of them: accepted, sold_out, limited (per buyer or value), not_now (not open
	// yet, closed or paused), too_often (rates), refused (for who or what sent them), failed (nothing was decided).
	Answers map[string][]int64 `json:"answers"`
	// Of all sales of the servers that took claims of this one: claims on their way, and how long the fastest half and
	// 99 of 100 answers took at most, in milliseconds; 0: there were none.
	InFlight []int64   `json:"in_flight"`
	P50Ms    []float64 `json:"p50_ms"`
	P99Ms    []float64 `json:"p99_ms"`
	// Missing servers have not told what they counted: the sums are too small there.
	Missing []int64 `json:"missing"`
}

// settled is how many of the newest steps some server may not have told of yet.
const settled = 4

// Settled returns the newest step, by its place in the lists, that all servers should have told of; -1: there is none.
func (c *Curve) Settled() int { return max(len(c.InFlight)-settled, -1) }

// Claims is how many were answered in a step.
func (c *Curve) Claims(step int) (n int64) {
	for _, of := range c.Answers {
		n += of[step]
	}
	return n
}
