package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/loop"
)

// forgetter makes the ledger forget archived sales. The server that archives a
// sale does so at once; one that died in between leaves the sale's keys behind.
// So every server drops a sale that it sees leave the board, and, after its
// start, goes once through all sales, slowly: dropping is idempotent.
type forgetter struct {
	store  sluice.SaleStore
	ledger sluice.Keeper
	log    *slog.Logger

	bell loop.Bell
	mu   sync.Mutex
	left map[sluice.SaleID]int64 // sales that have left the board, with their epochs
}

const (
	// forgetPage is how many sales are read at a time after the start, and
	// forgetShare the part of the time that goes into it: one in so many.
	forgetPage  = 200
	forgetShare = 100
	// forgetRetry is the rest after a failure.
	forgetRetry = 5 * time.Second
)

func newForgetter(store sluice.SaleStore, ledger sluice.Keeper, log *slog.Logger) *forgetter {
	return &forgetter{
		store: store, ledger: ledger, log: log, bell: loop.NewBell(),
		left: map[sluice.SaleID]int64{},
	}
}

// saw notes the sales that are archived.
func (f *forgetter) saw(view *admission.View) {
	f.mu.Lock()
	f.left[view.Sale.ID] = view.Sale.Epoch
	f.mu.Unlock()
	f.bell.Ring()
}

func (f *forgetter) run(ctx context.Context) {
	after, swept := sluice.SaleID(""), false
	trouble := loop.Trouble{Log: f.log, Begins: "an archived sale cannot be dropped from the ledger yet"}
	for {
		begun := time.Now()
		err := f.dropLeft(ctx)
		if err == nil && !swept {
			after, swept, err = f.page(ctx, after)
		}
		if ctx.Err() != nil {
			return
		}
		trouble.Note(err)
		var again <-chan time.Time
		switch {
		case err != nil:
			again = time.After(forgetRetry)
		case !swept:
			again = time.After(forgetShare * time.Since(begun))
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-f.bell:
		}
	}
}

// dropLeft drops the sales that have left the board.
func (f *forgetter) dropLeft(ctx context.Context) error {
	for {
		var id sluice.SaleID
		var epoch int64
		f.mu.Lock()
		for id, epoch = range f.left {
			break
		}
		f.mu.Unlock()
		if id == "" {
			return nil
		}
		if err := f.drop(ctx, id, epoch); err != nil {
			return err
		}
		f.mu.Lock()
		delete(f.left, id)
		f.mu.Unlock()
	}
}

// page drops the archived sales of the next page of all sales.
func (f *forgetter) page(ctx context.Context, after sluice.SaleID) (last sluice.SaleID, done bool, err error) {
	asking, cancel := context.WithTimeout(ctx, stepTimeout)
	sales, err := f.store.SelectSales(asking, sluice.SaleFilter{After: after, Limit: forgetPage})
	cancel()
	if err != nil {
		return after, false, err
	}
	for i := range sales {
		if sale := &sales[i]; !sale.ArchivedAt.IsZero() {
			if err := f.drop(ctx, sale.ID, sale.Epoch); err != nil {
				return after, false, err
			}
		}
		after = sales[i].ID
	}
	return after, len(sales) < forgetPage, nil
}

func (f *forgetter) drop(ctx context.Context, id sluice.SaleID, epoch int64) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return f.ledger.Drop(ctx, id, epoch)
}

// tidyEvery is how often one of the servers deletes what has done its work in
// the store, and tidyTimeout bounds it; the next one goes on.
const (
	tidyEvery   = time.Hour
	tidyTimeout = 10 * time.Minute
)

// tidyStore is what tidy needs of sluice.Store.
type tidyStore interface {
	sluice.ClusterStore
	sluice.ErasureStore
}

func tidy(ctx context.Context, store tidyStore, node string, records time.Duration, log *slog.Logger) {
	for range loop.Every(ctx, tidyEvery) {
		err := tidyOnce(ctx, store, node, records, log)
		if err != nil && ctx.Err() == nil && !errors.Is(err, sluice.ErrStoreBusy) {
			log.Warn("cannot delete what is no longer needed from the store; trying again in an hour", "error", err)
		}
	}
}

func tidyOnce(ctx context.Context, store tidyStore, node string, records time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, tidyTimeout)
	defer cancel()
	// The lease is kept until the next time, so that the others need not.
	fence, err := store.Lease(ctx, "tidy", node, 0, tidyEvery-time.Minute)
	if err != nil || fence == 0 {
		return err
	}
	err = store.Tidy(ctx)
	if records <= 0 {
		return err
	}
	erased, failed := store.EraseOlder(ctx, records)
	if erased.Orders > 0 || erased.DeadLetters > 0 || erased.Actions > 0 {
		log.Info("record_retention: erased the buyers of archived sales, and deleted old actions of admins",
			"orders", erased.Orders, "dead_letters", erased.DeadLetters, "actions", erased.Actions)
	}
	return errors.Join(err, failed)
}
