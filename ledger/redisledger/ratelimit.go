package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Allow implements port.RateLimiter: up to 250 tries are one call of the
// script; more are several, in order, in the same round trip. The counts are
// keys of their own that expire, beside the sale's: a rate that is forgotten
// is no loss.
func (l *Ledger) Allow(ctx context.Context, sale sluice.SaleID, rates port.Rates,
	tries []port.Try,
) (_ []port.Wait, err error) {
	defer wrap(&err, "rate sale=%s", sale)
	waits := make([]port.Wait, len(tries))
	byBuyer, byAddress := rates.Buyer != (sluice.BuyerRate{}), rates.Address != (sluice.AddressRate{})
	if err := l.writable(); err != nil || len(tries) == 0 || !byBuyer && !byAddress {
		return waits, err
	}
	batches := make([][]string, 0, len(tries)/maxBatch+1)
	for batch := range slices.Chunk(tries, maxBatch) {
		keys := make([]string, 0, 2*len(batch))
		for _, try := range batch {
			if byBuyer {
				keys = append(keys, l.keys.rate(sale, try.Buyer))
			}
			if byAddress {
				keys = append(keys, l.keys.address(sale, try.Address))
			}
		}
		batches = append(batches, keys)
	}
	rest := waits
	args := slices.Repeat([][]string{l.rateArgs(rates)}, len(batches))
	for i, result := range l.runMany(ctx, rateScript, batches, args) {
		micros, err := result.AsIntSlice()
		if err != nil {
			return nil, l.explain(err)
		}
		if len(micros) != len(batches[i]) {
			return nil, fmt.Errorf("%d answers to %d tries", len(micros), len(batches[i]))
		}
		for len(micros) > 0 {
			if byBuyer {
				rest[0].Buyer, micros = time.Duration(micros[0])*time.Microsecond, micros[1:]
			}
			if byAddress {
				rest[0].Address, micros = time.Duration(micros[0])*time.Microsecond, micros[1:]
			}
			rest = rest[1:]
		}
	}
	return waits, nil
}

// rateArgs builds the arguments of rate.lua; its header explains them.
func (l *Ledger) rateArgs(rates port.Rates) []string {
	args := []string{""}
	if l.opts.Now != nil {
		args[0] = strconv.FormatInt(l.opts.Now().UnixMicro(), 10)
	}
	for _, meter := range []sluice.Meter{rates.Buyer.Meter(), rates.Address.Meter()} {
		if meter == (sluice.Meter{}) {
			continue
		}
		keep := (meter.Full + 999) / 1000 // ms; then nothing is paid for any more
		for _, n := range []int64{meter.Interval, meter.Full, keep} {
			args = append(args, strconv.FormatInt(n, 10))
		}
	}
	return args
}
