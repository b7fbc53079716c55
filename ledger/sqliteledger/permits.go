package sqliteledger

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
)

// Permits implements sluice.Permitter. One process owns the ledger, so what it
// uses is all that is in use.
func (l *Ledger) Permits(ctx context.Context, id sluice.SaleID, ask sluice.PermitAsk) (int64, error) {
	s, err := l.look(ctx, id)
	var reading *sluice.Reading
	if err == nil {
		if reading = &s.view.Load().reading; reading.Fence != "" {
			err = sluice.ErrNotLoaded
		}
	}
	if err != nil {
		return 0, fmt.Errorf("sqliteledger: permits sale=%s: %w", id, err)
	}
	available := reading.Terms.Available(reading.Taken)
	switch {
	case available == sluice.Unlimited:
		return ask.Want, nil
	case sluice.InCooldown(l.clock(), reading.CooldownUntil):
		available = 0
	}
	return max(min(ask.Want, sluice.PermitsOf(ask.Ratio, available)-ask.Used), 0), nil
}
