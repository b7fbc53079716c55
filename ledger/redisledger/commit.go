package redisledger

import (
	"strconv"

	"github.com/sluicehq/sluice/internal/port"
)

// batchName makes a name that no other batch has: that of the handle, and a number. The
// script refuses a name that is taken.
func (l *Ledger) batchName() string {
	return l.name + strconv.FormatUint(l.batches.Add(1), 36)
}

// commitArgs builds the arguments of commit.lua; its header explains them.
func (l *Ledger) commitArgs(m received, version int64, claims []attempt) []string {
	n, name := len(claims), l.batchName()
	flags, known := make([]byte, n), 0
	size, ones := 0, true
	for i := range claims {
		c := &claims[i]
		size += len(c.Buyer) + len(c.Key) + len(c.Order) + len(c.Meta) + 16
		ones = ones && c.Quantity == 1
		if flags[i] = '0'; c.lookedUp() {
			flags[i] = '1'
			known++
		}
	}
	args := l.appendAsker(make([]string, 0, 15+2*n+3*known), m, strconv.FormatInt(version, 10))
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
		if !c.lookedUp() {
			buf = append(strconv.AppendInt(buf, c.Quantity, 10), "\t1\n"...)
		}
		buf = append(buf, buf[from:end-1]...) // without the line feed
		from = end
		buf = append(append(buf, '\t'), name...)
		buf = strconv.AppendInt(append(buf, ':'), int64(i+1), 10)
		buf = strconv.AppendInt(append(buf, '\t'), c.Quantity, 10)
		if c.lookedUp() {
			buf = append(buf, '\n')
		}
		if c.have != nil {
			buf = append(buf, c.have.newest...)
		}
		ends[i] = len(buf)
	}
	text := string(buf)
	args = append(args, text[quantities:fields], text[:lines], text[lines:quantities])
	for i := range claims {
		switch c := &claims[i]; {
		case c.asks:
			args = append(args, "?") // no record is so
		case c.have != nil:
			args = append(args, c.record)
		}
	}
	from = fields
	for i, end := range ends {
		c, buyer := &claims[i], string(claims[i].Buyer)
		args = append(args, buyer)
		if c.lookedUp() {
			becomes := ""
			if !c.asks {
				becomes = c.have.with(c.Claim)
			}
			args = append(args, becomes, buyer+"\n"+string(c.Key))
		}
		args = append(args, text[from:end])
		from = end
	}
	return args
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
