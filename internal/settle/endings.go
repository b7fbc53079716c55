package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/loop"
	"github.com/sluicehq/sluice/internal/port"
)

// Ender ends what is due and gives units back: the expiry of unpaid orders,
// and the releases of ended ones, on their way from the store's outbox to the
// ledger. Every server runs one; they share the work by passing over rows that
// another has in hand. Expiry and releases go their own ways: the one needs the
// database alone, and must not wait for a ledger.
//
// It keeps I6 together with store and ledger: an ending and its release are
// one transaction, a release is forgotten only after the ledger has applied
// it, and the ledger applies each once.
type Ender struct {
	store  endingStore
	ledger port.Releaser
	opts   EnderOptions
	bell   loop.Bell
	clocks *clocks
}

// endingStore is what an Ender needs of port.Store.
type endingStore interface {
	ExpireDue(ctx context.Context, limit int, may func(sluice.SaleID) bool, until func(now time.Time) time.Time) (
		map[sluice.SaleID]int, error)
	GiveReleases(ctx context.Context, limit int, give func(sluice.SaleID, []port.Release) error) (int, error)
	FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error
}

// EnderOptions are the settings of an Ender. Zero values mean the defaults.
type EnderOptions struct {
	// Every is the time between looks at the store; default 250 ms. After looks that
	// found nothing it is up to three times as long.
	Every time.Duration
	Batch int // orders or releases in one transaction; default 500

	// May reports whether orders of a sale may expire; default: always. They may not where the
	// store has not been compared with the ledger yet: it may have forgotten payments. It must
	// not block.
	May func(sale sluice.SaleID) bool

	// LedgerTime returns the ledger's clock, as far as this server knows it, or the
	// zero time. Clocks receives how the clocks differ at each look for due orders.
	LedgerTime func() time.Time
	Clocks     func(Clocks)

	// Ended receives how many orders of a sale have expired, and Released how
	// many units are for sale again. They must not block.
	Ended    func(sale sluice.SaleID, orders int)
	Released func(sale sluice.SaleID, result port.Released)
	Log      *slog.Logger
}

// NewEnder returns an Ender; Run makes it work.
func NewEnder(store endingStore, ledger port.Releaser, opts EnderOptions) *Ender {
	opts.Every = cmp.Or(max(opts.Every, 0), 250*time.Millisecond)
	opts.Batch = cmp.Or(max(opts.Batch, 0), 500)
	if opts.Ended == nil {
		opts.Ended = func(sluice.SaleID, int) {}
	}
	if opts.Released == nil {
		opts.Released = func(sluice.SaleID, port.Released) {}
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.LedgerTime == nil {
		opts.LedgerTime = func() time.Time { return time.Time{} }
	}
	if opts.Clocks == nil {
		opts.Clocks = func(Clocks) {}
	}
	return &Ender{
		store: store, ledger: ledger, opts: opts, bell: loop.NewBell(),
		clocks: &clocks{ledger: opts.LedgerTime, report: opts.Clocks, log: opts.Log},
	}
}

// Wake says that an order has ended on this server: its units go back at once.
// It does not block.
func (e *Ender) Wake() { e.bell.Ring() }

// Run works until the context ends.
func (e *Ender) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { e.loop(ctx, nil, "orders cannot be ended for the moment", e.expire) })
	both.Go(func() { e.loop(ctx, e.bell, "units of ended orders cannot be given back for the moment", e.release) })
	both.Wait()
}

func (e *Ender) loop(ctx context.Context, bell loop.Bell, fails string, once func(context.Context) (int, error)) {
	trouble := loop.Trouble{Log: e.opts.Log, Begins: fails}
	for loop.Wait(ctx, e.opts.Every, bell) {
		if _, err := once(ctx); ctx.Err() == nil {
			trouble.Note(err)
		}
	}
}

// Once expires what is due and gives back what waits, now.
func (e *Ender) Once(ctx context.Context) error {
	_, expiry := e.expire(ctx)
	_, release := e.release(ctx)
	return errors.Join(expiry, release)
}

// expire ends what is due. Units that return are given back at once.
func (e *Ender) expire(ctx context.Context) (int, error) {
	return e.repeat(ctx, func() (int, error) {
		asked, n := time.Now(), 0
		expired, err := e.store.ExpireDue(ctx, e.opts.Batch, e.opts.May, func(now time.Time) time.Time {
			return e.clocks.judge(now, asked)
		})
		for sale, orders := range expired {
			e.opts.Ended(sale, orders)
			n += orders
		}
		if n > 0 {
			e.Wake()
		}
		return n, err
	})
}

func (e *Ender) release(ctx context.Context) (int, error) {
	return e.repeat(ctx, func() (int, error) { return e.store.GiveReleases(ctx, e.opts.Batch, e.give(ctx)) })
}

// repeat goes on while batches come back full, also when a part of one failed:
// a sale that is fenced must not slow the others down.
func (e *Ender) repeat(ctx context.Context, batch func() (int, error)) (done int, err error) {
	for {
		n, err := batch()
		done += n
		if n < e.opts.Batch || ctx.Err() != nil {
			return done, err
		}
	}
}

// giveTimeout bounds what is asked of ledger and store while releases are in
// hand. The store's transaction waits for it meanwhile, and holds their rows.
const giveTimeout = 3 * time.Second

// give hands releases to the ledger. An error keeps them in the store. A
// release that the ledger cannot place is evidence of loss: the rebuild that
// follows counts the ending, so that release is done with.
func (e *Ender) give(ctx context.Context) func(sluice.SaleID, []port.Release) error {
	return func(sale sluice.SaleID, releases []port.Release) error {
		ctx, cancel := context.WithTimeout(ctx, giveTimeout)
		defer cancel()
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
		return e.store.FenceSale(ctx, sale, newest,
			fmt.Sprintf("%s: the ledger does not know order %s, which has ended", port.FenceLost, result.Unknown[0]))
	}
}
