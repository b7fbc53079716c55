package port

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// Record is an accepted claim as the ledger keeps it until the sale is
// archived. Refusals leave nothing.
type Record struct {
	sluice.Claim
	Sale  sluice.SaleID
	Epoch int64     // of the load under which it was accepted
	Seq   int64     // its place in that epoch's dense sequence, from 1
	Terms int64     // version of the terms it was decided under
	At    time.Time // when, by the ledger's clock
	Live  bool      // its units are still held
	// Unpaid: it ended unpaid (Order.Unpaid), and counts against Terms.MaxUnpaid.
	Unpaid bool
}

// Validate says what no server writes so. A store takes every record that passes; a
// ledger that has another one is damaged.
func (r *Record) Validate() error {
	of, _, _ := strings.Cut(string(r.Order), ".") // the rest of the id is the claim's to check
	switch y := r.At.UTC().Year(); {
	case sluice.SaleID(of) != r.Sale:
		return fmt.Errorf("order %.64q: want one of sale %s", r.Order, r.Sale)
	case min(r.Epoch, r.Seq, r.Terms) < 1 || r.Epoch > MaxEpoch || max(r.Seq, r.Terms) > maxPlace:
		return fmt.Errorf("epoch %d, sequence %d, terms %d: each starts at 1, and has an end", r.Epoch, r.Seq, r.Terms)
	case y < 1970 || y > 9999:
		return fmt.Errorf("accepted in the year %d: want 1970 to 9999", y)
	case r.Live && r.Unpaid:
		return errors.New("live, and ended unpaid")
	}
	return r.Claim.Validate()
}

// Repeat decides a claim that has the key of this record: accepted again, with
// the answer of the first time (I4), or KeyReused if it asks for something else.
func (r *Record) Repeat(claim *sluice.Claim) sluice.Decision {
	if claim.Quantity != r.Quantity || claim.Meta != r.Meta {
		return sluice.Decision{Code: sluice.KeyReused}
	}
	return sluice.Decision{
		Code: sluice.Accepted, Replayed: true, Order: r.Order, Quantity: r.Quantity,
		Seq: r.Seq, At: r.At, Epoch: r.Epoch, Terms: r.Terms, Counters: r.Counters,
	}
}

// AsOrder returns the order that the record will become, as it is while queued.
func (r *Record) AsOrder(price sluice.Money) sluice.Order {
	return sluice.Order{
		ID: r.Claim.Order, Sale: r.Sale, Buyer: r.Buyer, Key: r.Key, Quantity: r.Quantity, Meta: r.Meta, Price: price,
		Counters: r.Counters, Status: sluice.Queued, Epoch: r.Epoch, Seq: r.Seq, Terms: r.Terms, AcceptedAt: r.At,
	}
}

// maxPlace is the highest sequence and the highest version of terms: beyond it the
// scripts cannot count.
const maxPlace = 1<<53 - 1

// RecordOf returns the claim that an order came from.
func RecordOf(o *sluice.Order) Record {
	return Record{
		Claim: sluice.Claim{
			Buyer: o.Buyer, Key: o.Key, Quantity: o.Quantity, Order: o.ID, Meta: o.Meta, Counters: o.Counters,
		},
		Sale: o.Sale, Epoch: o.Epoch, Seq: o.Seq, Terms: o.Terms, At: o.AcceptedAt, Live: o.Status.Live(),
		Unpaid: o.Unpaid,
	}
}

// Entry is one journal entry: the accepted claims of one batch, in sequence,
// decided in one step under one version of the terms.
type Entry struct {
	ID         string // the ledger's own name of the entry, for Ack
	Sale       sluice.SaleID
	Epoch      int64
	Node       string // the server that asked
	Terms      int64
	At         time.Time
	FirstSeq   int64 // of Claims[0]; Claims[i] has FirstSeq+i
	Claims     []sluice.Claim
	Deliveries int64 // how often it has been handed out, this time included

	// Damage says why the entry cannot be read; then Raw holds what is in
	// the journal, and the other fields but ID and Sale mean nothing. The
	// pipeline sets such an entry aside; it never blocks the rest.
	Damage error
	Raw    string
}

// Record returns the i-th accepted claim of the entry, live.
func (e *Entry) Record(i int) Record {
	return Record{
		Claim: e.Claims[i], Sale: e.Sale, Epoch: e.Epoch, Seq: e.FirstSeq + int64(i),
		Terms: e.Terms, At: e.At, Live: true,
	}
}

// Validate says which of its claims no server writes so.
func (e *Entry) Validate() error {
	for i := range e.Claims {
		r := e.Record(i)
		if err := r.Validate(); err != nil {
			return fmt.Errorf("claim %d: %w", i+1, err)
		}
	}
	return nil
}

// DeadLetter returns the entry as it is set aside for cause.
func (e *Entry) DeadLetter(cause error) DeadLetter {
	d := DeadLetter{
		Sale: e.Sale, EntryID: e.ID, Reason: cause.Error(), Claims: e.Raw,
		Epoch: e.Epoch, FirstSeq: e.FirstSeq, Terms: e.Terms, Node: e.Node, At: e.At,
	}
	if e.ID == "" { // not read from a journal, but remembered by a server, which may remember more from this place on
		d.EntryID = fmt.Sprintf("%s/%d+%d/%d", e.Node, e.FirstSeq, len(e.Claims), e.At.UnixMilli())
	}
	if e.Damage == nil {
		var lines []byte
		for i := range e.Claims {
			lines = AppendClaim(lines, &e.Claims[i])
		}
		d.Claims = string(lines)
	}
	return d
}

// JournalFormat is the version of the line format below. An entry of another
// version is damage, not a guess.
const JournalFormat = 1

// AppendClaim appends the claim as one line of a journal entry:
//
//	buyer TAB key TAB order TAB quantity [SP counter]... TAB meta LF
//
// A valid claim holds no tab or line feed, so nothing is escaped, and an
// operator can read the journal with the database's own tools.
func AppendClaim(dst []byte, c *sluice.Claim) []byte {
	dst = append(dst, c.Buyer...)
	dst = append(dst, '\t')
	return appendClaimTail(dst, c)
}

// appendClaimTail is AppendClaim without the buyer and its tab.
func appendClaimTail(dst []byte, c *sluice.Claim) []byte {
	dst = append(dst, c.Key...)
	dst = append(dst, '\t')
	dst = append(dst, c.Order...)
	dst = append(dst, '\t')
	dst = strconv.AppendInt(dst, c.Quantity, 10)
	if c.Counters != "" {
		dst = append(append(dst, ' '), c.Counters...)
	}
	dst = append(dst, '\t')
	dst = append(dst, c.Meta...)
	return append(dst, '\n')
}

// ParseClaims reads the lines that AppendClaim wrote.
func ParseClaims(lines string) ([]sluice.Claim, error) {
	claims := make([]sluice.Claim, 0, strings.Count(lines, "\n"))
	for n := 1; len(lines) > 0; n++ {
		line, rest, ended := strings.Cut(lines, "\n")
		if !ended {
			return nil, fmt.Errorf("claim %d: the line has no end", n)
		}
		buyer, tail, _ := strings.Cut(line, "\t")
		c, err := ParseClaimTail(sluice.BuyerID(buyer), tail)
		if err != nil {
			return nil, fmt.Errorf("claim %d: %w", n, err)
		}
		claims = append(claims, c)
		lines = rest
	}
	return claims, nil
}

// ParseClaimTail reads a line that appendClaimTail wrote, without its line feed.
func ParseClaimTail(buyer sluice.BuyerID, line string) (sluice.Claim, error) {
	var field [4]string
	for i := range field {
		var found bool
		field[i], line, found = strings.Cut(line, "\t")
		if found != (i < 3) {
			return sluice.Claim{}, fmt.Errorf("want 4 fields separated by tabs, have %.64q", line)
		}
	}
	units, counters, _ := strings.Cut(field[2], " ")
	quantity, err := strconv.ParseInt(units, 10, 64)
	if err != nil {
		return sluice.Claim{}, fmt.Errorf("quantity %.64q is not a number", units)
	}
	c := sluice.Claim{
		Buyer: buyer, Key: sluice.Key(field[0]), Order: sluice.OrderID(field[1]), Quantity: quantity, Meta: field[3],
		Counters: sluice.Counters(counters),
	}
	return c, c.Validate()
}
