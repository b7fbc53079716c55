package sqliteledger

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
)

var _ sluice.RateLimiter = (*Ledger)(nil)

// Allow implements sluice.RateLimiter, in memory: one process owns the ledger,
// so there is no other server to ask, and a rate that is forgotten is no loss.
func (l *Ledger) Allow(ctx context.Context, sale sluice.SaleID, rate sluice.BuyerRate,
	buyers []sluice.BuyerID,
) (_ []time.Duration, err error) {
	defer wrap(&err, "rate sale=%s", sale)
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	type attempter struct {
		sale  sluice.SaleID
		buyer sluice.BuyerID
	}
	meter, now := rate.Meter(), l.now().UnixMicro()
	waits := make([]time.Duration, len(buyers))
	for i, buyer := range buyers {
		wait := l.rates.Try(meter, meters.Key(l.rates, attempter{sale, buyer}), now)
		waits[i] = time.Duration(wait) * time.Microsecond
	}
	return waits, nil
}
