package sqliteledger

import (
	"context"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
)

// Allow implements sluice.RateLimiter, in memory: one process owns the ledger,
// so there is no other server to ask, and a rate that is forgotten is no loss.
func (l *Ledger) Allow(ctx context.Context, sale sluice.SaleID, rates sluice.Rates,
	tries []sluice.Try,
) (_ []sluice.Wait, err error) {
	defer wrap(&err, "rate sale=%s", sale)
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	byBuyer, byAddress, now := rates.Buyer.Meter(), rates.Address.Meter(), l.now().UnixMicro()
	waits := make([]sluice.Wait, len(tries))
	for i, try := range tries {
		buyer, address := meters.TryBoth(
			meters.AttemptOf(l.buyers, byBuyer, [2]string{string(sale), string(try.Buyer)}),
			meters.AttemptOf(l.addresses, byAddress, [2]string{string(sale), try.Address}), now)
		waits[i] = sluice.Wait{
			Buyer: time.Duration(buyer) * time.Microsecond, Address: time.Duration(address) * time.Microsecond,
		}
	}
	return waits, nil
}

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
