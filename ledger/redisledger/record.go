package redisledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// A field of the buyers hash holds one accepted claim (ADR 14):
//
//	BUYER          live units TAB accepted claims [TAB unpaid endings] LF line [LF key of the newest claim]
//	BUYER LF KEY   line LF key of the claim before, none if that is the first
//
// The first is the buyer's first claim; the others are found by their key, and
// from the newest to the second by what follows their lines. A line is
//
//	buyer TAB key TAB order TAB quantity [SP counter]... TAB meta TAB place TAB remains
//
// Place is BATCH:POSITION, or SEQUENCE:EPOCH:AT:TERMS of a claim that a load
// brought in. Remains is how many units are still held: the quantity while it is
// live, 0 when it has ended, and 0u when it has ended unpaid.
//
// LF BATCH holds what its claims have in common:
//
//	first sequence TAB epoch TAB at (ms) TAB terms [TAB positions that were not accepted, with commas]
//
// LF NAME, with a colon in the name, holds how many live units a counter has.

// appendRecord appends the line of a record that a load brings in.
func appendRecord(dst []byte, r *port.Record) []byte {
	dst = port.AppendClaim(dst, &r.Claim)
	separator := byte('\t')
	dst = dst[:len(dst)-1] // its line feed
	for _, n := range [...]int64{r.Seq, r.Epoch, r.At.UnixMilli(), r.Terms} {
		dst = strconv.AppendInt(append(dst, separator), n, 10)
		separator = ':'
	}
	switch {
	case r.Live:
		return strconv.AppendInt(append(dst, '\t'), r.Quantity, 10)
	case r.Unpaid:
		return append(dst, "\t0u"...)
	}
	return append(dst, "\t0"...)
}

// parseLine reads a line without its place, which it returns.
func parseLine(sale sluice.SaleID, buyer sluice.BuyerID, line string) (r port.Record, place string, err error) {
	r.Sale = sale
	rest, remains, _ := cutLast(line)
	rest, place, found := cutLast(rest)
	of, tail, _ := strings.Cut(rest, "\t")
	if !found {
		return r, "", fmt.Errorf("damaged record of buyer %q: %q", buyer, line)
	}
	r.Claim, err = port.ParseClaimTail(buyer, tail)
	r.Live, r.Unpaid = remains == strconv.FormatInt(r.Quantity, 10), remains == "0u"
	switch {
	case err != nil:
	case of != string(buyer):
		err = fmt.Errorf("it is of buyer %q", of)
	case !r.Live && !r.Unpaid && remains != "0":
		err = fmt.Errorf("%q of %d units remain", remains, r.Quantity)
	}
	if err != nil {
		err = fmt.Errorf("damaged record of buyer %q: %w", buyer, err)
	}
	return r, place, err
}

func cutLast(line string) (before, after string, found bool) {
	tab := strings.LastIndexByte(line, '\t')
	if tab < 0 {
		return line, "", false
	}
	return line[:tab], line[tab+1:], true
}

// resolve reads a line whole; batches has what is kept of the batch that it points to.
func resolve(sale sluice.SaleID, buyer sluice.BuyerID, line string, batches map[string]string) (port.Record, error) {
	r, at, err := parseLine(sale, buyer, line)
	if err != nil {
		return r, err
	}
	name, _, _ := strings.Cut(at, ":")
	return place(r, at, batches[name])
}

// place gives a record its place; kept is what is kept of its batch, if it has one.
func place(r port.Record, at, kept string) (port.Record, error) {
	parts := strings.Split(at, ":")
	skipped, position, when, ok := "", int64(0), int64(0), true
	if len(parts) == 2 {
		position, ok = number(parts[1])
		ok = ok && position > 0
		if parts = strings.Split(kept, "\t"); len(parts) == 5 {
			parts, skipped = parts[:4], parts[4]
		}
	}
	ok = ok && len(parts) == 4
	for i, n := range [...]*int64{&r.Seq, &r.Epoch, &when, &r.Terms} {
		if ok {
			*n, ok = number(parts[i])
		}
	}
	if r.At = fromMillis(when); ok && position > 0 {
		r.Seq, ok = sequence(r.Seq, position, skipped)
	}
	err := errors.New("its place is unknown")
	if ok {
		err = r.Validate()
	}
	if err != nil {
		return r, fmt.Errorf("damaged record of buyer %q: %w", r.Buyer, err)
	}
	return r, nil
}

// sequence returns the sequence of the claim at a position of a batch, in which some were not
// accepted. The others have sequences from first on, without a gap.
func sequence(first, position int64, skipped string) (seq int64, ok bool) {
	seq = first + position - 1
	if first < 1 || skipped == "" {
		return seq, first > 0
	}
	for at := range strings.SplitSeq(skipped, ",") {
		n, ok := number(at)
		if !ok || n == position {
			return 0, false
		}
		if n < position {
			seq--
		}
	}
	return seq, true
}

// fieldRecord reads a field with an accepted claim. If only what is beside the line is
// damaged, the record is returned all the same; a record without an order is none.
// Claims is 0 but for a buyer's own field, and link is the key that follows the line.
func fieldRecord(sale sluice.SaleID, field, value string, batches map[string]string) (r port.Record, claims int64,
	link string, err error,
) {
	id, key, further := strings.Cut(field, "\n")
	buyer := sluice.BuyerID(id)
	head, have := "", sluice.Account{}
	sound := true
	if !further {
		head, value, sound = strings.Cut(value, "\n")
		if sound {
			have, sound = parseHead(head)
		}
	}
	units, claims := have.Units, have.Orders
	line, link, linked := strings.Cut(value, "\n")
	if r, err = resolve(sale, buyer, line, batches); err != nil {
		return port.Record{}, 0, "", err
	}
	switch {
	case further:
		sound = linked && string(r.Key) == key
	case claims == 1:
		sound = sound && !linked && (r.Live && units == r.Quantity || !r.Live && units == 0)
	default:
		sound = sound && link != "" && (!r.Live || units >= r.Quantity)
	}
	if !sound || strings.ContainsAny(link, "\n\t") {
		err = fmt.Errorf("damaged record: field %q has %q beside its line", field, head+"..."+link)
	}
	return r, claims, link, err
}

// damagedRecord is the fence of a sale with a damaged record.
const damagedRecord = port.FenceLost + ": the record of a buyer is damaged"

// millis writes a time as whole milliseconds since 1970.
func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
