package redisledger

import (
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// batchName makes a name that no other batch has: that of the handle, and a number. The
// script refuses a name that is taken.
func (l *Ledger) batchName() string {
	return l.name + strconv.FormatUint(l.batches.Add(1), 36)
}

// What commit.lua does with a claim.
const (
	ofNewBuyer   = '0'
	ofKnownBuyer = '1' // beside the record
	comesBack    = '2' // it must not be accepted
)

// commitArgs builds the arguments of commit.lua; its header explains them.
func (l *Ledger) commitArgs(m received, terms *sluice.Terms, claims []attempt) []string {
	n, name := len(claims), l.batchName()
	flags, known := make([]byte, n), 0
	size, ones := 0, true
	for i := range claims {
		c := &claims[i]
		size += len(c.Buyer) + len(c.Key) + len(c.Order) + len(c.Meta) + len(c.Counters) + 16
		ones = ones && c.Quantity == 1
		switch {
		case terms.Over(c.account(), c.Quantity): // I3
			flags[i] = comesBack
		case c.have != nil:
			flags[i] = ofKnownBuyer
			known++
		default:
			flags[i] = ofNewBuyer
		}
	}
	args := l.appendAsker(make([]string, 0, 16+2*n+3*known), m, strconv.FormatInt(terms.Version, 10))
	args = append(args, name, strconv.Itoa(n), string(flags))

	// One string for all of it, cut up: two allocations instead of 2n.
	buf := make([]byte, 0, 2*size+n*(len(name)+16+endDigits+unitDigits))
	ends := make([]int, n)
	for i := range claims {
		buf = port.AppendClaim(buf, claims[i].Claim)
		ends[i] = len(buf)
	}
	lines := len(buf)
	for _, end := range ends {
		buf = appendDigits(buf, int64(end), endDigits)
	}
	quantities := len(buf)
	for i := range claims {
		if !ones {
			buf = appendDigits(buf, claims[i].Quantity, unitDigits)
		}
	}
	fields := len(buf)
	from := 0
	for i, end := range ends {
		c := &claims[i]
		if flags[i] != ofKnownBuyer {
			buf = append(strconv.AppendInt(buf, c.Quantity, 10), "\t1\n"...)
		}
		buf = append(buf, buf[from:end-1]...) // without the line feed
		from = end
		buf = append(append(buf, '\t'), name...)
		buf = strconv.AppendInt(append(buf, ':'), int64(i+1), 10)
		buf = strconv.AppendInt(append(buf, '\t'), c.Quantity, 10)
		if flags[i] == ofKnownBuyer {
			buf = append(append(buf, '\n'), c.have.newest...)
		}
		ends[i] = len(buf)
	}
	text := string(buf)
	args = append(args, text[quantities:fields], text[:lines], text[lines:quantities], countersOf(claims))
	for i := range claims {
		if flags[i] == ofKnownBuyer {
			args = append(args, claims[i].record)
		}
	}
	from = fields
	for i, end := range ends {
		c, buyer := &claims[i], string(claims[i].Buyer)
		args = append(args, buyer)
		if flags[i] == ofKnownBuyer {
			args = append(args, c.have.with(c.Claim), buyer+"\n"+string(c.Key))
		}
		args = append(args, text[from:end])
		from = end
	}
	return args
}

// countersOf writes the counters of claims as commit.lua reads them.
func countersOf(claims []attempt) string {
	var b []byte
	for i := range claims {
		for _, c := range claims[i].Counters.List() {
			b = strconv.AppendInt(b, int64(i+1), 10)
			b = append(append(append(b, '\t'), c.Name...), '\t')
			b = append(strconv.AppendInt(b, c.Max, 10), '\n')
		}
	}
	return string(b)
}

// The widths of numbers in the arguments: the lines of a batch are shorter than a million
// bytes, and a claim asks for at most a million units.
const (
	endDigits  = 6
	unitDigits = 7
)

func appendDigits(dst []byte, n int64, width int) []byte {
	at := len(dst)
	for range width {
		dst = append(dst, '0')
	}
	for i := at + width - 1; i >= at; i-- {
		dst[i] = '0' + byte(n%10)
		n /= 10
	}
	return dst
}

func oneIf(b bool) string {
	if b {
		return "1"
	}
	return ""
}
