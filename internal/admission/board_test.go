package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
)

// rows is a store that returns what the test sets.
type rows struct {
	sluice.SaleStore
	list  []sluice.Sale
	one   sluice.Sale
	hangs bool
	asked atomic.Int64 // lookups under way
	most  atomic.Int64
}

func (s *rows) SelectSales(ctx context.Context, f sluice.SaleFilter) (found []sluice.Sale, err error) {
	if f.Live {
		for _, sale := range s.list {
			if sale.ArchivedAt.IsZero() {
				found = append(found, sale)
			}
		}
		return found, nil
	}
	if s.hangs {
		s.most.Store(max(s.most.Load(), s.asked.Add(1)))
		defer s.asked.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, sale := range append(slices.Clone(s.list), s.one) {
		if slices.Contains(f.IDs, sale.ID) {
			found = append(found, sale)
		}
	}
	return found, nil
}

func (s *rows) Sale(context.Context, sluice.SaleID) (sluice.Sale, error) {
	return s.one, nil
}

// noReadings is a ledger that holds nothing.
type noReadings struct{ sluice.Reader }

func (noReadings) Read(_ context.Context, ids []sluice.SaleID) ([]sluice.Reading, error) {
	readings := make([]sluice.Reading, len(ids))
	for i := range ids {
		readings[i].Sale = ids[i]
	}
	return readings, nil
}

// The list of sales may have been read before a change that the board has
// already: an old row never replaces a newer one, whatever its clock says.
func TestAnOldRowIsNotNews(t *testing.T) {
	row := func(epoch, loaded, version int64, fence string, updated time.Duration) sluice.Sale {
		s := sluice.Sale{
			ID: "s", Epoch: epoch, LoadedEpoch: loaded, Fence: fence,
			UpdatedAt: time.Unix(1_000_000, 0).Add(updated),
		}
		s.Version = version
		return s
	}
	ended := row(2, 2, 3, "", 0)
	ended.ArchivedAt = time.Unix(2_000_000, 0)
	states := []sluice.Sale{ // in the order in which a sale goes through them
		row(0, 0, 1, "", 9*time.Hour), // the clock of the first database was ahead
		row(1, 0, 1, "", 0),
		row(1, 1, 1, "", 0),
		row(1, 1, 2, "", time.Hour),
		row(1, 1, 2, "lost", time.Hour),
		row(2, 1, 2, "lost", 0),
		row(2, 2, 2, "", 0),
		row(2, 2, 3, "", 0),
		ended,
	}
	for i := range states {
		for j := range states {
			store := &rows{one: states[i], list: []sluice.Sale{states[j]}}
			b := NewBoard(noReadings{}, store, BoardOptions{})
			if _, err := b.Reload(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(b.ReadSales(t.Context()), b.Refresh(t.Context())); err != nil {
				t.Fatal(err)
			}
			if got, want := b.View("s").Sale, states[max(i, j)]; got != want {
				t.Errorf("row %d was known and %d is read: the board says %+v, want %+v", i, j, got, want)
			}
		}
	}
}

// A flood of made-up ids takes a few of the store's connections, not all, also
// while the store hangs; and everybody gets an answer.
func TestLookupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &rows{hangs: true}
		b := NewBoard(noReadings{}, store, BoardOptions{Timeout: time.Second})
		begun := time.Now()
		var callers sync.WaitGroup
		for n := range 100 {
			callers.Go(func() {
				if _, err := b.Lookup(t.Context(), sluice.SaleID("made-up-"+string(rune('a'+n%26))+string(rune('a'+n/26)))); err ==
					nil || errors.Is(err, sluice.ErrSaleNotFound) {
					t.Errorf("a lookup that the store did not answer: %v", err)
				}
			})
		}
		callers.Wait()
		if most := store.most.Load(); most != 1 {
			t.Errorf("%d queries at a time, want 1", most)
		}
		if took := time.Since(begun); took > 2*time.Second+lookupPause { // those that came while the first query hung
			t.Errorf("the last answer came after %s", took)
		}
		if _, err := b.Lookup(t.Context(), "one-more"); err == nil || time.Since(begun) > 2*time.Second+lookupPause {
			t.Errorf("right after that: %v after %s; want an answer at once", err, time.Since(begun))
		}
	})
}
