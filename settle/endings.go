package settle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluicehq/sluice"
)

// Ender ends what is due and gives units back: the expiry of unpaid orders,
// and the releases of ended ones, on their way from the store's outbox to the
// ledger. Every server runs one; they share the work by passing over rows that
// another has in hand.
//
// It keeps I6 together with store and ledger: an ending and its release are
// one transaction, a release is forgotten only after the ledger has applied
// it, and the ledger applies each once.
type Ender struct {
	store  EndingStore
	ledger sluice.Releaser
	opts   EnderOptions
	wake   chan struct{}
}

// EndingStore is what an Ender needs of sluice.Store.
type EndingStore interface {
	ExpireDue(ctx context.Context, limit int) (int, error)
	GiveReleases(ctx context.Context, limit int, give func(sluice.SaleID, []sluice.Release) error) (int, error)
	FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error
}

// EnderOptions are the settings of an Ender. Zero values mean the defaults.
type EnderOptions struct {
	Every time.Duration // between looks at the store; default 250 ms
	Batch int           // orders or releases in one transaction; default 500

	// Ended is told how many orders have expired, and Released how many units
	// are for sale again. They must not block.
	Ended    func(orders int)
	Released func(sale sluice.SaleID, result sluice.Released)
	Log      *slog.Logger
}

// NewEnder returns an Ender; Run makes it work.
func NewEnder(store EndingStore, ledger sluice.Releaser, opts EnderOptions) *Ender {
	if opts.Every <= 0 {
		opts.Every = 250 * time.Millisecond
	}
	if opts.Batch <= 0 {
		opts.Batch = 500
	}
	if opts.Ended == nil {
		opts.Ended = func(int) {}
	}
	if opts.Released == nil {
		opts.Released = func(sluice.SaleID, sluice.Released) {}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Ender{store: store, ledger: ledger, opts: opts, wake: make(chan struct{}, 1)}
}

// Wake says that an order has ended on this server: its units go back at once.
// It does not block.
func (e *Ender) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Run works until the context ends.
func (e *Ender) Run(ctx context.Context) {
	tick := time.NewTicker(e.opts.Every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-e.wake:
		}
		err := e.Once(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			e.opts.Log.Warn("orders cannot be ended, or their units not given back, for the moment", "error", err)
		}
		failing = err != nil
	}
}

// Once expires what is due and gives back what waits, now.
func (e *Ender) Once(ctx context.Context) error {
	return errors.Join(
		e.repeat(ctx, func() (int, error) {
			n, err := e.store.ExpireDue(ctx, e.opts.Batch)
			if n > 0 {
				e.opts.Ended(n)
			}
			return n, err
		}),
		e.repeat(ctx, func() (int, error) { return e.store.GiveReleases(ctx, e.opts.Batch, e.give(ctx)) }),
	)
}

// repeat goes on while batches come back full, also when a part of one failed:
// a sale that is fenced must not slow the others down.
func (e *Ender) repeat(ctx context.Context, batch func() (int, error)) error {
	for {
		n, err := batch()
		if n < e.opts.Batch || ctx.Err() != nil {
			return err
		}
	}
}

// give hands releases to the ledger. An error keeps them in the store. A
// release that the ledger cannot place is evidence of loss: the rebuild that
// follows counts the ending, so that release is done with.
func (e *Ender) give(ctx context.Context) func(sluice.SaleID, []sluice.Release) error {
	return func(sale sluice.SaleID, releases []sluice.Release) error {
		result, err := e.ledger.Release(ctx, sale, releases)
		if err != nil {
			return err
		}
		e.opts.Released(sale, result)
		if len(result.Unknown) == 0 {
			return nil
		}
		e.opts.Log.Error("the ledger does not know ended orders; the sale is fenced", "sale", sale, "orders", result.Unknown)
		newest := int64(0)
		for _, r := range releases {
			newest = max(newest, r.Epoch)
		}
		return e.store.FenceSale(ctx, sale, newest, fmt.Sprintf("%s: the ledger does not know order %s, which has ended", sluice.FenceLost, result.Unknown[0]))
	}
}
