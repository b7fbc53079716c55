package redisledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// appendLine appends the record as a line of the buyers hash, with its leading
// line feed:
//
//	LF buyer TAB key TAB order TAB quantity TAB meta TAB seq TAB epoch TAB at (ms) TAB terms TAB life
//
// life is 1 while the record is live, 0 when it has ended, and 20 when it has
// ended unpaid: a program that looks at the last digit alone, as the first
// version of release.lua did, reads an ended claim.
//
// claim.lua writes the same lines and finds a key by LF buyer TAB key TAB, which
// occurs nowhere else, since no field of a valid claim holds either.
func appendLine(dst []byte, r *sluice.Record) []byte {
	dst = append(dst, '\n')
	dst = sluice.AppendClaim(dst, &r.Claim)
	dst = dst[:len(dst)-1] // its line feed
	for _, n := range [...]int64{r.Seq, r.Epoch, r.At.UnixMilli(), r.Terms} {
		dst = append(dst, '\t')
		dst = strconv.AppendInt(dst, n, 10)
	}
	switch {
	case r.Live:
		return append(dst, "\t1"...)
	case r.Unpaid:
		return append(dst, "\t20"...)
	}
	return append(dst, "\t0"...)
}

// parseLine reads a line without its line feed.
func parseLine(sale sluice.SaleID, buyer sluice.BuyerID, line string) (sluice.Record, error) {
	r := sluice.Record{Sale: sale}
	tail := line
	var number [5]int64
	for i := len(number) - 1; i >= 0; i-- {
		tab := strings.LastIndexByte(tail, '\t')
		if tab < 0 {
			return r, fmt.Errorf("damaged record of buyer %q: %q", buyer, line)
		}
		n, err := strconv.ParseInt(tail[tab+1:], 10, 64)
		if err != nil {
			return r, fmt.Errorf("damaged record of buyer %q: %q", buyer, line)
		}
		number[i], tail = n, tail[:tab]
	}
	of, tail, _ := strings.Cut(tail, "\t")
	claim, err := sluice.ParseClaimTail(buyer, tail)
	if err == nil && of != string(buyer) {
		err = fmt.Errorf("it is of buyer %q", of)
	}
	if err != nil {
		return r, fmt.Errorf("damaged record of buyer %q: %w", buyer, err)
	}
	r.Claim = claim
	r.Seq, r.Epoch, r.At, r.Terms, r.Live = number[0], number[1], fromMillis(number[2]), number[3], number[4] == 1
	r.Unpaid = number[4] == 20
	if err = r.Validate(); err == nil && !r.Live && !r.Unpaid && number[4] != 0 {
		err = fmt.Errorf("life %d", number[4])
	}
	if err != nil {
		return r, fmt.Errorf("damaged record of buyer %q: %w", buyer, err)
	}
	return r, nil
}

// eachLine calls yield with the record of each line of a field of the buyers
// hash, whatever its layout, until it returns false. Of a field that is damaged it
// yields the lines that are whole, and the error says what is wrong.
func eachLine(sale sluice.SaleID, field, value string, yield func(sluice.Record) bool) (more bool, err error) {
	id, _, shard := strings.Cut(field, "\n")
	buyer := sluice.BuyerID(id)
	head, lines, _ := strings.Cut(value, "\n") // the head; of a shard, nothing
	units, count := int64(0), int64(0)
	for rest := lines; len(rest) > 0; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		r, damage := parseLine(sale, buyer, line)
		if damage == nil && shard && shardField(buyer, r.Key) != field {
			damage = fmt.Errorf("damaged record of buyer %q: key %q is not of field %q", buyer, r.Key, field)
		}
		if damage != nil {
			err = damage
			continue
		}
		if count++; r.Live {
			units += r.Quantity
		}
		if !yield(r) {
			return false, nil
		}
	}
	hasUnits, hasCount, ok := parseHead(head)
	switch {
	case shard:
		ok = head == "" && lines != ""
	case lines != "":
		ok = ok && hasUnits == units && hasCount == count
	}
	if err == nil && (!ok || strings.HasSuffix(value, "\n")) {
		err = fmt.Errorf("damaged record: field %q has %d lines of %d units behind %q", field, count, units, head)
	}
	return true, err
}

// damagedRecord is the fence of a sale with a damaged record, as the scripts have it.
const damagedRecord = sluice.FenceLost + ": the record of a buyer is damaged"

// parseHead reads live units and accepted claims, with the unpaid endings that may follow.
func parseHead(head string) (units, count int64, ok bool) {
	first, rest, _ := strings.Cut(head, "\t")
	second, third, more := strings.Cut(rest, "\t")
	units, ok = number(first)
	count, isCount := number(second)
	unpaid, isUnpaid := number(third)
	return units, count, ok && isCount && units >= 0 && count > 0 && (!more || isUnpaid && unpaid > 0)
}

// liveOrders lists the orders of a buyer's record that hold units.
func liveOrders(sale sluice.SaleID, buyer sluice.BuyerID, value string) ([]sluice.OrderID, error) {
	var orders []sluice.OrderID
	_, err := eachLine(sale, string(buyer), value, func(r sluice.Record) bool {
		if r.Live {
			orders = append(orders, r.Order)
		}
		return true
	})
	return orders, err
}

// millis writes a time as whole milliseconds since 1970.
func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
