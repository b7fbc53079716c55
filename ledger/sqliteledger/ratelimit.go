package sqliteledger

import (
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/meters"
	"github.com/sluicehq/sluice/internal/port"
)

// Allow implements port.RateLimiter, in memory: one process owns the ledger,
// so there is no other server to ask, and a rate that is forgotten is no loss.
func (l *Ledger) Allow(ctx context.Context, sale sluice.SaleID, rates port.Rates,
	tries []port.Try,
) (_ []port.Wait, err error) {
	defer wrap(&err, "rate sale=%s", sale)
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	byBuyer, byAddress, now := rates.Buyer.Meter(), rates.Address.Meter(), l.now().UnixMicro()
	waits := make([]port.Wait, len(tries))
	for i, try := range tries {
		micros := meters.TryAll(now,
			meters.AttemptOf(l.buyers, byBuyer, [2]string{string(sale), string(try.Buyer)}),
			meters.AttemptOf(l.addresses, byAddress, [2]string{string(sale), try.Address}))
		waits[i] = port.Wait{
			Buyer: time.Duration(micros[0]) * time.Microsecond, Address: time.Duration(micros[1]) * time.Microsecond,
		}
	}
	return waits, nil
}
