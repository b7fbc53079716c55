package engine

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// archivedStore has three archived sales.
type archivedStore struct{ port.Store }

func (archivedStore) SelectSales(context.Context, port.SaleFilter) (sales []sluice.Sale, err error) {
	for _, id := range []sluice.SaleID{"first", "stale", "zulu"} {
		sales = append(sales, sluice.Sale{ID: id, Epoch: 2, ArchivedAt: time.Unix(1, 0)})
	}
	return sales, nil
}

// staleKeeper is a ledger that has one of them under another epoch.
type staleKeeper struct {
	epoch   int64
	dropped []sluice.SaleID
}

func (k *staleKeeper) Drop(_ context.Context, id sluice.SaleID, epoch int64) error {
	if id == "stale" && epoch != k.epoch {
		return port.ErrStaleEpoch
	}
	k.dropped = append(k.dropped, id)
	return nil
}

func (k *staleKeeper) Read(_ context.Context, ids []sluice.SaleID) ([]port.Reading, error) {
	return []port.Reading{{Sale: ids[0], Loaded: true, Epoch: k.epoch}}, nil
}

// A sale that the ledger has under another epoch keeps no other one in the ledger.
func TestForgettingPassesOverOtherEpochs(t *testing.T) {
	ledger := &staleKeeper{epoch: 3}
	f := newForgetter(archivedStore{}, ledger, slog.New(slog.DiscardHandler))
	if last, done, err := f.page(t.Context(), ""); last != "zulu" || !done || err != nil {
		t.Errorf("the sweep ends at %s, %v, %v", last, done, err)
	}
	f.left = map[sluice.SaleID]int64{"left": 2, "stale": 2}
	if err := f.dropLeft(t.Context()); err != nil || len(f.left) != 0 {
		t.Errorf("%v, and %v wait", err, f.left)
	}
	if !slices.Equal(ledger.dropped, []sluice.SaleID{"first", "zulu", "left"}) {
		t.Errorf("dropped %v", ledger.dropped)
	}
}

// A ledger may have archived sales again, also of an earlier epoch: it is looked through each day.
func TestForgettingEachDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &staleKeeper{epoch: 1}
		ctx, cancel := context.WithTimeout(t.Context(), 2*forgetAgain+time.Minute)
		defer cancel()
		newForgetter(archivedStore{}, ledger, slog.New(slog.DiscardHandler)).run(ctx)
		if len(ledger.dropped) != 3*3 {
			t.Errorf("dropped %v in two days", ledger.dropped)
		}
	})
}
