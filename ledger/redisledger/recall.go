package redisledger

import (
	"context"

	"github.com/sluicehq/sluice"
)

// Recall returns the accepted claim with this id, from the buyer's own fields:
// one transaction that only reads.
func (l *Ledger) Recall(ctx context.Context, claim sluice.ClaimID) (found sluice.Record, err error) {
	defer wrap(&err, "recall sale=%s", claim.Sale)
	err = l.recordsOf(ctx, claim.Sale, claim.Buyer, func(r sluice.Record) bool {
		if r.Key != claim.Key {
			return true
		}
		found = r
		return false
	})
	if err == nil && found.Order == "" {
		err = sluice.ErrOrderNotFound
	}
	return found, err
}
