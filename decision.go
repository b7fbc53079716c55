package sluice

import (
	"fmt"
	"strconv"
)

// Code is the outcome of a claim. The order of the constants is the precedence
// of decisions: when several apply, the first one is the answer. Numbers and
// names are never reused; the Lua scripts and the wire use the same ones, and
// a golden test holds the three together.
type Code uint8

const (
	// Accepted: units are held. A repeat of an accepted claim is accepted
	// again, with the same order, whatever else applies (I4).
	Accepted Code = iota + 1
	// KeyReused: the buyer has an accepted claim with this key and other content.
	KeyReused
	// SaleNotFound: no such sale.
	SaleNotFound
	// Unavailable: the sale is not loaded into the ledger, or fenced.
	Unavailable
	// NotOpen: before opens_at.
	NotOpen
	// Closed: at or after closes_at.
	Closed
	// Paused: by a person.
	Paused
	// BuyerLimit: the quantity, with what the buyer has, exceeds max_per_buyer,
	// or the buyer has had max_orders_per_buyer accepted claims, or
	// max_unpaid_per_buyer of them ended unpaid.
	BuyerLimit
	// SoldOut: nothing is available now (I7).
	SoldOut
	// Insufficient: fewer units are available than asked for.
	Insufficient

	// RateLimited and Overloaded come from the layers before the ledger; they
	// say nothing about earlier attempts with the key.

	// RateLimited: the buyer or the address asks too often.
	RateLimited
	// Overloaded: too busy; nothing was decided.
	Overloaded
)

var codeNames = [...]string{
	Accepted:     "accepted",
	KeyReused:    "idempotency_key_reused",
	SaleNotFound: "sale_not_found",
	Unavailable:  "unavailable",
	NotOpen:      "not_open",
	Closed:       "closed",
	Paused:       "paused",
	BuyerLimit:   "buyer_limit",
	SoldOut:      "sold_out",
	Insufficient: "insufficient",
	RateLimited:  "rate_limited",
	Overloaded:   "overloaded",
}

// Codes lists every code, in order of precedence.
func Codes() []Code {
	all := make([]Code, 0, len(codeNames))
	for c := Accepted; int(c) < len(codeNames); c++ {
		all = append(all, c)
	}
	return all
}

// String returns the code as it stands on the wire, for instance "sold_out".
func (c Code) String() string {
	if c == 0 || int(c) >= len(codeNames) {
		return "code(" + strconv.Itoa(int(c)) + ")"
	}
	return codeNames[c]
}

// ParseCode is the inverse of Code.String.
func ParseCode(name string) (Code, error) {
	for c, n := range codeNames {
		if c > 0 && n == name {
			return Code(c), nil
		}
	}
	return 0, fmt.Errorf("unknown code %q", shorten(name))
}
