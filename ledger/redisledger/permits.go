package redisledger

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/sluicehq/sluice"
)

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
