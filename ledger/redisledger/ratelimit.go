package redisledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

// Allow implements sluice.RateLimiter: up to 250 tries are one call of the
// script; more are several, in order, in the same round trip. The counts are
// keys of their own that expire, beside the sale's: a rate that is forgotten
// is no loss.
func (l *Ledger) Allow(ctx context.Context, sale sluice.SaleID, rates sluice.Rates,
	tries []sluice.Try,
) (_ []sluice.Wait, err error) {
	defer wrap(&err, "rate sale=%s", sale)
	waits := make([]sluice.Wait, len(tries))
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
func (l *Ledger) rateArgs(rates sluice.Rates) []string {
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

// Permits implements sluice.Permitter. The permits of a sale are one key that
// expires with the last lease, beside the sale's own: losing it voids all.
func (l *Ledger) Permits(ctx context.Context, sale sluice.SaleID, ask sluice.PermitAsk) (int64, error) {
	err := l.writable()
	var leased int64
	if err == nil {
		leased, err = l.permits(ctx, sale, &ask)
	}
	if err != nil {
		return 0, fmt.Errorf("redisledger: permits sale=%s: %w", sale, err)
	}
	return leased, nil
}

func (l *Ledger) permits(ctx context.Context, sale sluice.SaleID, ask *sluice.PermitAsk) (int64, error) {
	message, err := l.run(ctx, permitsScript, []string{l.keys.sale(sale), l.keys.permits(sale)}, []string{
		l.opts.Node, strconv.FormatInt(l.known(sale).nextCall(), 10),
		strconv.FormatInt(ask.Used, 10), strconv.FormatInt(ask.Want, 10), strconv.FormatFloat(ask.Ratio, 'g', -1, 64),
		strconv.FormatInt(sluice.PermitLease.Milliseconds(), 10),
		strconv.FormatInt(sluice.RefusalLease.Milliseconds(), 10), l.now(),
	})
	if err != nil {
		return 0, err
	}
	reply, err := message.AsIntSlice()
	switch {
	case err != nil:
		return 0, err
	case len(reply) != 2:
		return 0, fmt.Errorf("reply of %d parts", len(reply))
	case reply[0] != 0:
		return 0, sluice.ErrNotLoaded
	}
	return reply[1], nil
}

// nextCall numbers the calls of permits.lua for a sale: a late one must not undo
// a newer one. It goes on from the clock, so that a restarted server is not taken
// for its past.
func (k *known) nextCall() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.call = max(k.call+1, time.Now().UnixMicro())
	return k.call
}
