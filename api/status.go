package api

import "github.com/sluicehq/sluice"

// Status is what one server sees now: what is wrong, and which servers there are.
type Status struct {
	Node       string      `json:"node"` // who says it
	Ledger     string      `json:"ledger"`
	Store      string      `json:"store"`
	ServerTime Time        `json:"server_time"`
	Conditions []Condition `json:"conditions"` // the worst first; empty: all is well
	Servers    []Peer      `json:"servers"`    // those that the store has heard of within ten minutes, by name
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
