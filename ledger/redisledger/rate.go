package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

var _ sluice.RateLimiter = (*Ledger)(nil)

// Allow implements sluice.RateLimiter: up to 250 tries are one call of the
// script; more are several, in order, in the same round trip. The counts are
// keys of their own that expire, beside the sale's: a rate that is forgotten
// is no loss.
func (l *Ledger) Allow(ctx context.Context, sale sluice.SaleID, rate sluice.BuyerRate,
	buyers []sluice.BuyerID,
) (_ []time.Duration, err error) {
	defer wrap(&err, "rate sale=%s", sale)
	waits := make([]time.Duration, 0, len(buyers))
	if err := l.writable(); err != nil || len(buyers) == 0 {
		return waits, err
	}
	batches := make([][]string, 0, len(buyers)/maxBatch+1)
	for batch := range slices.Chunk(buyers, maxBatch) {
		keys := make([]string, len(batch))
		for i, buyer := range batch {
			keys[i] = l.keys.rate(sale, buyer)
		}
		batches = append(batches, keys)
	}
	for i, result := range l.runMany(ctx, rateScript, batches, l.rateArgs(rate.Meter())) {
		micros, err := result.AsIntSlice()
		if err != nil {
			return nil, l.explain(err)
		}
		if len(micros) != len(batches[i]) {
			return nil, fmt.Errorf("%d answers to %d tries", len(micros), len(batches[i]))
		}
		for _, n := range micros {
			waits = append(waits, time.Duration(n)*time.Microsecond)
		}
	}
	return waits, nil
}

// rateArgs builds the arguments of rate.lua; its header explains them.
func (l *Ledger) rateArgs(meter sluice.Meter) []string {
	now := ""
	if l.opts.Now != nil {
		now = strconv.FormatInt(l.opts.Now().UnixMicro(), 10)
	}
	keep := (meter.Full + 999) / 1000 // ms; then nothing is paid for any more
	return []string{
		strconv.FormatInt(meter.Interval, 10), strconv.FormatInt(meter.Full, 10), strconv.FormatInt(keep, 10),
		now,
	}
}
