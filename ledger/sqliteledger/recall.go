package sqliteledger

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Recall returns the committed claim with this id, from memory.
func (l *Ledger) Recall(ctx context.Context, claim sluice.ClaimID) (sluice.Record, error) {
	s, err := l.look(ctx, claim.Sale)
	if err == nil {
		var r sluice.Record
		if r, err = s.claimOf(claim.Buyer, claim.Key); err == nil {
			return r, nil
		}
	}
	return sluice.Record{}, fmt.Errorf("sqliteledger: recall sale=%s: %w", claim.Sale, err)
}

func (s *sale) claimOf(buyer sluice.BuyerID, key sluice.Key) (sluice.Record, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v := s.view.Load()
	if i := s.find(s.account(buyer), key); i >= 0 && int(i) < v.count { // otherwise it is not committed yet
		return v.record(int(i)), nil
	}
	return sluice.Record{}, v.missing()
}

// missing is the error about a claim that the view does not have. That of a
// fenced sale is not final: it may have lost claims that a rebuild brings back.
func (v *view) missing() error {
	if v.reading.Fence != "" {
		return fmt.Errorf("the sale is fenced (%s): %w", v.reading.Fence, sluice.ErrNotLoaded)
	}
	return sluice.ErrOrderNotFound
}
