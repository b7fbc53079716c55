package redisledger

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluicehq/sluice"
)

// In format 1 a field of the buyers hash held lines of one buyer, each
//
//	LF buyer TAB key TAB order TAB quantity TAB meta TAB seq TAB epoch TAB at (ms) TAB terms TAB life
//
// where life is 1 while the claim is live, 0 when it has ended, and 20 when it has
// ended unpaid. In layout whole they followed the buyer's head; in layout split they
// were spread over 256 fields, buyer LF number. It is read when a load brings such a
// sale over, and is not written.

// parseLine1 reads a line without its line feed.
func parseLine1(sale sluice.SaleID, buyer sluice.BuyerID, line string) (sluice.Record, error) {
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

// eachLine1 calls yield with the record of each line of a field of the buyers
// hash, whatever its layout, until it returns false. Of a field that is damaged it
// yields the lines that are whole, and the error says what is wrong.
func eachLine1(sale sluice.SaleID, field, value string, yield func(sluice.Record) bool) (more bool, err error) {
	id, _, shard := strings.Cut(field, "\n")
	buyer := sluice.BuyerID(id)
	head, lines, _ := strings.Cut(value, "\n") // the head; of a shard, nothing
	units, count := int64(0), int64(0)
	for rest := lines; len(rest) > 0; {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		r, damage := parseLine1(sale, buyer, line)
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
