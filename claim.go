package sluice

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxMeta is the largest meta of a claim, in bytes of compact JSON.
const MaxMeta = 512

// MaxQuantity is the most units one claim may ask for.
const MaxQuantity = 1_000_000

// Claim is one attempt of a buyer to take units of a sale.
type Claim struct {
	Buyer    BuyerID
	Key      Key
	Quantity int64 // units, at least 1

	// Order is the id the order will have if the claim is accepted, made
	// before the ledger is asked. A repeat of an accepted claim gets the order
	// id of the first time, whatever it proposes.
	Order OrderID

	// Meta is the shop's own data, carried to the order unread: compact JSON
	// of at most MaxMeta bytes, or empty.
	Meta string

	// Counters are those that bound it besides its buyer's limits; the gate makes them,
	// whatever a caller gives. A repeat may name others: those of the first time count.
	Counters Counters
}

// Validate says what is wrong with the claim. Ledgers rely on it: a claim that
// passes needs no escaping in the journal's line format (port.AppendClaim).
func (c *Claim) Validate() error {
	if err := c.Buyer.Validate(); err != nil {
		return err
	}
	if err := c.Key.Validate(); err != nil {
		return err
	}
	if c.Quantity < 1 || c.Quantity > MaxQuantity {
		return fmt.Errorf("quantity %d: want 1 to %d", c.Quantity, MaxQuantity)
	}
	if len(c.Meta) > MaxMeta {
		return fmt.Errorf("meta of %d bytes: want at most %d", len(c.Meta), MaxMeta)
	}
	if strings.ContainsAny(c.Meta, "\t\n\r\x00") || !utf8.ValidString(c.Meta) {
		return errors.New("meta: want compact JSON in UTF-8, without line breaks or tabs")
	}
	if _, ok := c.Order.Sale(); !ok {
		return fmt.Errorf("order id %q: want <sale>.<32 hex digits>", shorten(string(c.Order)))
	}
	return c.Counters.Validate()
}

// Caller is what a buyer brings along with a claim. All of it may be absent.
type Caller struct {
	// Ticket is the purchase ticket, empty if none came.
	Ticket string
	// Sales lists the sales that the buyer's token admits the buyer to, signed by the
	// shop (EligibleToken).
	Sales []string
	// Signed is what else the shop signs of the buyer, by name, for the limits of a sale.
	Signed map[string]string
	// Address is where the claim comes from, as far as it can be trusted, for the rates of
	// a sale that count addresses.
	Address netip.Addr
}

// Decision is a ledger's answer to one claim. A refusal is a value, not an
// error.
type Decision struct {
	Code Code

	// Set for an accepted claim:
	Order    OrderID   // the order; of a repeat, the order of the first time
	Quantity int64     // units held
	Seq      int64     // its place in the sale's dense sequence, from 1
	At       time.Time // when it was accepted, by the ledger's clock
	Epoch    int64     // the load under which it was accepted
	Terms    int64     // the version of the terms that decided it
	Replayed bool      // true for a repeat of a claim accepted earlier (I4)
	Counters Counters  // of a repeat, those of the first time

	// Set for the refusals that carry more:
	OpensAt time.Time // not_open: when the sale opens
	Orders  []OrderID // buyer_limit: the buyer's live orders of this sale; not all where there are many to look up
	Counter string    // buyer_limit: the counter that has no room, if it is one
	// RetryAfter, of rate_limited and overloaded, is how long to wait before the
	// next try; zero when it is not known.
	RetryAfter time.Duration
}

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
	// Unavailable: the sale is not loaded into the ledger, or fenced, or others were faster
	// with the same buyer's claims again and again. It says nothing about earlier attempts.
	Unavailable
	// NotOpen: before opens_at.
	NotOpen
	// Closed: at or after closes_at.
	Closed
	// Paused: by a person.
	Paused
	// BuyerLimit: the quantity, with what the buyer has, exceeds max_per_buyer,
	// or the buyer has had max_orders_per_buyer accepted claims, or
	// max_unpaid_per_buyer of them ended unpaid; or a counter of the claim has no
	// room.
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

	numCodes // one more than the last
)

var codeNames = [numCodes]string{
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
	all := make([]Code, 0, numCodes-1)
	for c := Accepted; c < numCodes; c++ {
		all = append(all, c)
	}
	return all
}

// String returns the code as the wire has it, for instance "sold_out".
func (c Code) String() string {
	if c == 0 || c >= numCodes {
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
