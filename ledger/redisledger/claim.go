package redisledger

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Claim implements port.Decider. Up to 250 claims are one call of the
// script, up to 1,000 one transaction; more are several transactions, in
// order, in the same round trip.
func (l *Ledger) Claim(
	ctx context.Context, sale sluice.SaleID, claims []sluice.Claim,
) (decisions []sluice.Decision, err error) {
	defer wrap(&err, "claim sale=%s", sale)
	decisions = make([]sluice.Decision, len(claims))
	if err := l.writable(); err != nil || len(claims) == 0 {
		return decisions, err
	}
	err = l.claim(ctx, sale, claims, decisions)
	if errors.Is(err, port.ErrNotLoaded) { // a key of another type: nothing was decided
		unavailable(decisions)
		return decisions, nil
	}
	return decisions, err
}

func unavailable(decisions []sluice.Decision) {
	for i := range decisions {
		decisions[i] = sluice.Decision{Code: sluice.Unavailable}
	}
}

// claim fills in the decisions.
func (l *Ledger) claim(ctx context.Context, sale sluice.SaleID, claims []sluice.Claim,
	decisions []sluice.Decision,
) error {
	have := l.known(sale).get()
	args := make([][]string, 0, (len(claims)+maxBatch-1)/maxBatch)
	for part := range slices.Chunk(claims, maxBatch) {
		args = append(args, l.claimArgs(have, part))
	}
	replies, err := l.runBatches(ctx, claimScript, l.keys.of(sale), args)
	if err != nil {
		return err
	}
	for i := range replies {
		reply, err := parseReply(replies[i])
		if err != nil {
			return err
		}
		from, to := i*maxBatch, min((i+1)*maxBatch, len(claims))
		if err := l.answer(ctx, sale, claims[from:to], reply, decisions[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// batchName makes a name that no other batch has: that of the handle, and a number. The
// script refuses a name that is taken.
func (l *Ledger) batchName() string {
	return l.name + strconv.FormatUint(l.batches.Add(1), 36)
}

// claimArgs builds the arguments of claim.lua; its header explains them.
func (l *Ledger) claimArgs(m received, claims []sluice.Claim) []string {
	n, name := len(claims), l.batchName()
	size, units, largest := 0, int64(0), int64(0)
	for i := range claims {
		c := &claims[i]
		size += len(c.Buyer) + len(c.Key) + len(c.Order) + len(c.Meta) + 16
		units += c.Quantity
		largest = max(largest, c.Quantity)
	}
	args := l.appendAsker(make([]string, 0, 15+3*n), m)
	args = append(args, name, strconv.Itoa(n), strconv.FormatInt(units, 10), strconv.FormatInt(largest, 10),
		recurring(claims))

	// One string for all of it, cut up: two allocations instead of 2n.
	buf := make([]byte, 0, 2*size+n*(len(name)+16+endDigits))
	ends := make([]int, n)
	for i := range claims {
		buf = port.AppendClaim(buf, &claims[i])
		ends[i] = len(buf)
	}
	lines := len(buf)
	for _, end := range ends {
		buf = appendEnd(buf, end)
	}
	from := 0
	for i, end := range ends {
		quantity := claims[i].Quantity
		buf = strconv.AppendInt(buf, quantity, 10)
		buf = append(buf, "\t1\n"...)
		buf = append(buf, buf[from:end-1]...) // without the line feed
		from = end
		buf = append(append(buf, '\t'), name...)
		buf = strconv.AppendInt(append(buf, ':'), int64(i+1), 10)
		buf = strconv.AppendInt(append(buf, '\t'), quantity, 10)
		ends[i] = len(buf)
	}
	text := string(buf)
	from = lines + n*endDigits
	args = append(args, text[:lines], text[lines:from])
	for i, end := range ends {
		args = append(args, string(claims[i].Buyer), text[from:end])
		from = end
	}
	if units > int64(n) {
		for i := range claims {
			args = append(args, strconv.FormatInt(claims[i].Quantity, 10))
		}
	}
	return args
}

// endDigits is the width of the end of a line of the journal: the lines of a batch are
// shorter than a million bytes.
const endDigits = 6

func appendEnd(dst []byte, end int) []byte {
	var digits [endDigits]byte
	for i := endDigits - 1; i >= 0; i-- {
		digits[i] = '0' + byte(end%10)
		end /= 10
	}
	return append(dst, digits[:]...)
}

// recurring lists the positions of claims whose buyer occurs more than once. The script,
// which all servers wait for, is spared to find out.
func recurring(claims []sluice.Claim) string {
	if len(claims) == 1 {
		return ""
	}
	var list []byte
	add := func(i int) { list = append(strconv.AppendInt(list, int64(i+1), 10), ',') }
	first := make(map[sluice.BuyerID]int, len(claims)) // -1 where it is in the list
	for i := range claims {
		buyer := claims[i].Buyer
		before, again := first[buyer]
		if !again {
			first[buyer] = i
			continue
		}
		if before >= 0 {
			add(before)
			first[buyer] = -1
		}
		add(i)
	}
	return string(list)
}

func oneIf(b bool) string {
	if b {
		return "1"
	}
	return ""
}
