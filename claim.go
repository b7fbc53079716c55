package sluice

import (
	"errors"
	"fmt"
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
}

// Validate says what is wrong with the claim. Ledgers rely on it: a claim that
// passes needs no escaping in the journal's line format (see AppendClaim).
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
	return nil
}

// SameContent reports whether a repeat with the same key asks for the same
// thing. If it does not, the answer is KeyReused.
func (c *Claim) SameContent(other *Claim) bool {
	return c.Quantity == other.Quantity && c.Meta == other.Meta
}

// Decision is a ledger's answer to one claim. A refusal is a value, not an
// error.
type Decision struct {
	Code Code

	// Of an accepted claim:
	Order    OrderID   // the order; of a repeat, the order of the first time
	Quantity int64     // units held
	Seq      int64     // its place in the sale's dense sequence, from 1
	At       time.Time // when it was accepted, by the ledger's clock
	Epoch    int64     // the load under which it was accepted
	Terms    int64     // the version of the terms that decided it
	Replayed bool      // true for a repeat of a claim accepted earlier (I4)

	// Of the refusals that carry more:
	OpensAt time.Time // not_open: when the sale opens
	Orders  []OrderID // buyer_limit: the buyer's live orders of this sale; not all where there are many to look up
	// RetryAfter, of rate_limited and overloaded, is how long to wait before the
	// next try; zero when nobody can say.
	RetryAfter time.Duration
}
