package redisledger

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redis/rueidis"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Claim implements port.Decider. The server decides, and commit.lua accepts what the server
// has decided to accept as far as everything is as it believed. What it was mistaken about
// comes back, mostly a buyer who has a record, and is decided by that: it is answered, or goes
// again beside the record. Up to 250 claims are one call of the script, up to 1,000 one
// transaction; a buyer's second claim of a call goes after the first is decided.
func (l *Ledger) Claim(
	ctx context.Context, sale sluice.SaleID, claims []sluice.Claim,
) (decisions []sluice.Decision, err error) {
	defer wrap(&err, "claim sale=%s", sale)
	decisions = make([]sluice.Decision, len(claims))
	if err := l.writable(); err != nil || len(claims) == 0 {
		return decisions, err
	}
	for _, run := range runs(claims) {
		if err := l.decide(ctx, sale, run, decisions); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

// attempt is a claim on its way.
type attempt struct {
	*sluice.Claim
	place  int      // among the decisions
	record string   // of the buyer, as believed; empty: none
	have   *account // the same
}

// runs cuts claims up, so that each part has one of each buyer. Nearly always it is one.
func runs(claims []sluice.Claim) (parts [][]attempt) {
	seen := make(map[sluice.BuyerID]bool, len(claims))
	for i := range claims {
		if i == 0 || seen[claims[i].Buyer] {
			clear(seen)
			parts = append(parts, nil)
		}
		seen[claims[i].Buyer] = true
		last := len(parts) - 1
		parts[last] = append(parts[last], attempt{Claim: &claims[i], place: i})
	}
	return parts
}

// maxTrips bounds how often claims go again because others were faster. One buyer who sends
// claims to many servers at a time loses to himself, and must not hold up who is in a batch
// with him.
const maxTrips = 6

// decide fills in the decisions of claims of different buyers.
func (l *Ledger) decide(ctx context.Context, sale sluice.SaleID, claims []attempt, decisions []sluice.Decision) error {
	k := l.known(sale)
	for trip := range maxTrips {
		have, terms := k.basis()
		if terms == nil {
			loaded, err := l.look(ctx, sale)
			if err != nil {
				return err
			}
			if !loaded || trip == maxTrips-1 {
				break
			}
			continue
		}
		again, err := l.commit(ctx, sale, have, terms, claims, decisions)
		if err != nil || len(again) == 0 {
			return err
		}
		claims = again
	}
	for i := range claims { // which are not accepted
		decisions[claims[i].place] = sluice.Decision{Code: sluice.Unavailable}
	}
	return nil
}

// look reads a sale whose terms are not known, or that is not as it was believed to be. It
// reports whether the sale takes claims.
func (l *Ledger) look(ctx context.Context, sale sluice.SaleID) (bool, error) {
	readings, err := l.Read(ctx, []sluice.SaleID{sale})
	switch {
	case errors.Is(err, errLaterFormat):
		return false, nil
	case err != nil:
		return false, err
	}
	r := &readings[0]
	if r.Loaded && r.Fence != "" {
		l.known(sale).advance(received{epoch: r.Epoch, seen: r.Seq})
	}
	return r.Loaded && r.Fence == "", nil
}

// commit sends claims, decides those that come back, and returns those that must go again.
func (l *Ledger) commit(ctx context.Context, sale sluice.SaleID, have received, terms *sluice.Terms, claims []attempt,
	decisions []sluice.Decision,
) (again []attempt, err error) {
	var calls [][]attempt
	var args [][]string
	for part := range slices.Chunk(claims, maxBatch) {
		calls, args = append(calls, part), append(args, l.commitArgs(have, terms, part))
	}
	replies, err := l.runBatches(ctx, commitScript, l.keys.of(sale), args)
	switch {
	case errors.Is(err, port.ErrNotLoaded): // a key of another type: nothing was decided
		l.known(sale).forget()
		return claims, nil
	case usedUp(err):
		l.fenceLost(ctx, &port.Reading{Sale: sale, Epoch: have.epoch, Fence: idsUsedUp})
		l.known(sale).forget()
		return claims, nil
	case err != nil:
		return nil, err
	}
	t := taking{l: l, ctx: ctx, sale: sale, terms: terms, have: have, decisions: decisions}
	for i := range replies {
		if err := t.take(calls[i], replies[i]); err != nil {
			return nil, err
		}
	}
	t.listOrders()
	return t.again, nil
}

// idsUsedUp is the fence of a sale whose journal takes no entry more.
const idsUsedUp = port.FenceLost + ": the ids of the journal are used up"

// usedUp reports whether that is why a batch was not written.
func usedUp(err error) bool {
	redisErr, ok := rueidis.IsRedisErr(err)
	return ok && (strings.Contains(redisErr.Error(), "last possible ID") ||
		strings.Contains(redisErr.Error(), "equal or smaller"))
}
