package redisledger

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
)

// Claim implements sluice.Decider. Up to 250 claims are one call of the
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
	if errors.Is(err, sluice.ErrNotLoaded) { // a key of another type: nothing was decided
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
	batch := func(i int) (from, to int) { return i * maxBatch, min((i+1)*maxBatch, len(claims)) }
	return l.inBatches(ctx, batches{
		script: claimScript, sale: sale, n: (len(claims) + maxBatch - 1) / maxBatch,
		args: func(i int, m mark, layout string) []string {
			from, to := batch(i)
			return l.claimArgs(m, layout, claims[from:to])
		},
		take: func(i int, message rueidis.RedisMessage) (bool, error) {
			reply, err := parseReply(message)
			if err != nil || reply.state == otherLayout {
				return false, err
			}
			from, to := batch(i)
			return true, l.answer(ctx, sale, claims[from:to], reply, decisions[from:to])
		},
	})
}

// claimArgs builds the arguments of claim.lua; its header explains them.
func (l *Ledger) claimArgs(m mark, layout string, claims []sluice.Claim) []string {
	n := len(claims)
	size, ones := 0, "1"
	for i := range claims {
		c := &claims[i]
		size += len(c.Buyer) + len(c.Key) + len(c.Order) + len(c.Meta) + 16
		if c.Quantity != 1 {
			ones = ""
		}
	}
	args := l.appendAsker(make([]string, 0, 12+4*n), m, layout)
	args = append(args, strconv.Itoa(n), ones, oneIf(buyersRecur(claims)))
	for i := range claims {
		args = append(args, string(claims[i].Buyer))
	}

	// One string for all lines, cut up: three allocations instead of n.
	buf := make([]byte, 0, size)
	ends := make([]int, n)
	for i := range claims {
		buf = sluice.AppendClaim(buf, &claims[i])
		ends[i] = len(buf)
	}
	lines, from := string(buf), 0
	for _, end := range ends {
		args = append(args, lines[from:end-1]) // without the line feed
		from = end
	}

	if layout == split {
		for i := range claims {
			args = append(args, shardField(claims[i].Buyer, claims[i].Key))
		}
	}
	if ones == "" {
		for i := range claims {
			args = append(args, strconv.FormatInt(claims[i].Quantity, 10))
		}
	}
	return args
}

// buyersRecur reports whether a buyer occurs more than once. The script, which
// all servers wait for, is spared to find out.
func buyersRecur(claims []sluice.Claim) bool {
	if len(claims) == 1 {
		return false
	}
	seen := make(map[sluice.BuyerID]struct{}, len(claims))
	for i := range claims {
		seen[claims[i].Buyer] = struct{}{}
	}
	return len(seen) < len(claims)
}

func oneIf(b bool) string {
	if b {
		return "1"
	}
	return ""
}
