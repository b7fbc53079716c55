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
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// rows is a store that returns what the test sets.
type rows struct {
	port.SaleStore
	list  []sluice.Sale
	one   sluice.Sale
	lists int // that were returned
	hangs bool
	asked atomic.Int64 // lookups under way
	most  atomic.Int64
}

func (s *rows) SelectSales(ctx context.Context, f port.SaleFilter) (found []sluice.Sale, err error) {
	if f.Live {
		for _, sale := range s.list {
			if sale.ArchivedAt.IsZero() {
				found = append(found, sale)
			}
		}
		if f.Unless == port.DigestSales(found) && len(found) > 0 {
			return nil, port.ErrUnchanged
		}
		s.lists++
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
type noReadings struct{ port.Reader }

func (noReadings) Read(_ context.Context, ids []sluice.SaleID) ([]port.Reading, error) {
	readings := make([]port.Reading, len(ids))
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
			must.Get(b.Reload(t.Context(), "s"))(t)
			must.Succeed(t, errors.Join(b.ReadSales(t.Context()), b.Refresh(t.Context())))
			if got, want := b.View("s").Sale, states[max(i, j)]; got != want {
				t.Errorf("row %d was known and %d is read: the board says %+v, want %+v", i, j, got, want)
			}
		}
	}
}

// A list of sales that stays as it is, is read once a minute. One that does not is read at
// once, and a store that was restored from an older copy is still believed after a while.
func TestAListThatStaysIsNotReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := func(id sluice.SaleID, version int64) sluice.Sale {
			s := sluice.Sale{ID: id, Epoch: 1, LoadedEpoch: 1, UpdatedAt: time.Unix(1_000_000+version, 0)}
			s.Version = version
			return s
		}
		store := &rows{list: []sluice.Sale{row("a", 1), row("b", 1)}}
		b := NewBoard(noReadings{}, store, BoardOptions{})
		for _, step := range []struct {
			what    string
			change  func()
			reads   int // one a second
			lists   int // that are returned then
			version int64
		}{
			{"the first list, and the same", func() {}, 59, 1, 1},
			{"a minute later", func() {}, 30, 1, 1},
			{"a change", func() { store.list[0] = row("a", 3) }, 20, 1, 3},
			{"a sale more", func() { store.list = append(store.list, row("c", 1)) }, 20, 1, 3},
			// It is refused until the board's row was last seen five seconds ago.
			{"an older copy", func() { store.list[0] = row("a", 2) }, 20, 5, 2},
			{
				"a change that this server has made, and that was undone in the store", func() {
					store.one = row("a", 4)
					must.Get(b.Reload(t.Context(), "a"))(t)
					store.one = sluice.Sale{}
				}, 20, 6, 2,
			},
			{"a sale that this server has deleted, and that is there again", func() { b.Forget("c") }, 20, 1, 2},
		} {
			step.change()
			before := store.lists
			for range step.reads {
				must.Succeed(t, b.ReadSales(t.Context()))
				time.Sleep(time.Second)
			}
			a, _ := b.sales.Load("a")
			if got := a.sale.Version; got != step.version || store.lists-before != step.lists ||
				b.sales.Size() != len(store.list) {
				t.Errorf("%s: version %d of %d sales after %d lists, want %d of %d after %d", step.what, got, b.sales.Size(),
					store.lists-before, step.version, len(store.list), step.lists)
			}
		}
	})
}

// A board that ends while servers change sales waits for the readings that have begun, and
// begins none: the ledger is closed next. What is changed then is on the board all the same.
func TestABoardEnds(t *testing.T) {
	ledger, store := &slowReadings{}, &rows{one: sluice.Sale{ID: "a"}}
	store.list = []sluice.Sale{store.one}
	b := NewBoard(ledger, store, BoardOptions{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		b.Run(ctx)
		close(ended)
	}()
	var servers sync.WaitGroup
	for range 4 {
		servers.Go(func() {
			for ctx.Err() == nil {
				_, _ = b.Reload(ctx, "a") // does not wait for the reading once the context has ended
			}
		})
	}
	for ledger.n.Load() < 100 {
		time.Sleep(time.Millisecond)
	}
	stop()
	<-ended
	before := ledger.n.Load()
	if n := ledger.under.Load(); n > 0 {
		t.Errorf("%d readings are under way", n)
	}
	servers.Wait()
	for _, sale := range []sluice.Sale{{ID: "a", Title: "Another"}, {ID: "new"}} {
		store.one = sale
		view, err := b.Reload(t.Context(), sale.ID)
		if err != nil || view.Sale != sale {
			t.Errorf("%s is not as the store has it after the end: %v", sale.ID, err)
		}
	}
	if n := ledger.n.Load() - before; n > 0 {
		t.Errorf("%d readings after the end", n)
	}
}

// slowReadings takes a moment for each reading.
type slowReadings struct {
	countedReadings
	under atomic.Int64
}

func (s *slowReadings) Read(ctx context.Context, ids []sluice.SaleID) ([]port.Reading, error) {
	s.under.Add(1)
	defer s.under.Add(-1)
	all, err := s.countedReadings.Read(ctx, ids)
	time.Sleep(2 * time.Millisecond)
	return all, err
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
