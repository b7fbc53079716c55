package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// shards is a store with live sales, and a ledger in which some of them hang,
// are damaged, or change.
type shards struct {
	port.SaleStore
	port.Reader
	mu    sync.Mutex
	rows  []sluice.Sale
	bad   map[sluice.SaleID]error // damaged; nil: it hangs
	seq   map[sluice.SaleID]int64
	reads map[sluice.SaleID]int
	lists int
	scans int // of holders
}

func newShards(sales int) *shards {
	s := &shards{bad: map[sluice.SaleID]error{}, seq: map[sluice.SaleID]int64{}, reads: map[sluice.SaleID]int{}}
	for n := range sales {
		s.rows = append(s.rows, sluice.Sale{
			ID: sluice.SaleID(fmt.Sprintf("sale-%d", n)), Epoch: 2, LoadedEpoch: 2,
			Terms: sluice.Terms{Version: 1, Total: 10, OpensAt: time.Now().Add(-time.Hour)},
		})
	}
	return s
}

func (s *shards) SelectSales(_ context.Context, f port.SaleFilter) (found []sluice.Sale, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Live {
		s.lists++
	}
	for _, row := range s.rows {
		for _, id := range f.IDs {
			if id == row.ID {
				found = append(found, row)
			}
		}
		if row.ArchivedAt.IsZero() && (f.Live || f.Fenced && row.Fence != "") {
			found = append(found, row)
		}
	}
	return found, nil
}

func (s *shards) Sale(_ context.Context, id sluice.SaleID) (sluice.Sale, error) {
	found, _ := s.SelectSales(context.Background(), port.SaleFilter{IDs: []sluice.SaleID{id}})
	if len(found) == 0 {
		return sluice.Sale{}, sluice.ErrSaleNotFound
	}
	return found[0], nil
}

func (s *shards) Read(ctx context.Context, ids []sluice.SaleID) (all []port.Reading, err error) {
	s.mu.Lock()
	hangs := false
	for _, id := range ids {
		s.reads[id]++
		if why, bad := s.bad[id]; bad && why == nil {
			hangs = true
		}
	}
	s.mu.Unlock()
	if hangs {
		<-ctx.Done() // all answers of the call come with the last one
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		r := port.Reading{
			Sale: id, Loaded: true, Epoch: 2, Seq: s.seq[id], Taken: s.seq[id], Now: time.Now(),
			Terms: s.rows[0].Terms,
		}
		if why, bad := s.bad[id]; bad {
			if r.Err = why; why == nil {
				r.Err = ctx.Err()
			}
			err = r.Err
		}
		all = append(all, r)
	}
	return all, err
}

func (s *shards) Holders(context.Context, sluice.SaleID, func(sluice.BuyerID) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scans++
	return nil
}

func (s *shards) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// running tests a board over shards that runs.
func running(t *testing.T, sales int, opts BoardOptions, test func(t *testing.T, s *shards, b *Board)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newShards(sales)
		b := NewBoard(s, s, opts)
		ctx, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { b.Run(ctx) })
		defer done.Wait()
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		test(t, s, b)
	})
}

// A sale that cannot be read, because its shard hangs or its data is damaged,
// hides no other: those are as fresh as before, so that refusals still need no
// ledger; and it is known itself again soon after it answers.
func TestOneSaleHidesNoOther(t *testing.T) {
	for name, why := range map[string]error{"hangs": nil, "is damaged": errors.New("damaged")} {
		t.Run(name, func(t *testing.T) {
			running(t, 20, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
				for n := range 200 {
					if n == 20 {
						s.change(func() { s.bad["sale-7"], s.bad["sale-8"] = why, why })
					}
					for id, v := range b.Views() {
						v.wake()
						hidden := id == "sale-7" || id == "sale-8"
						if age := time.Since(v.Asked); n >= 20 && !hidden && age > sluice.RefusalLease-leaseMargin {
							t.Fatalf("%v after the others %s, %s was read %v ago", time.Duration(n-20)*50*time.Millisecond, name, id, age)
						}
						if state := v.State(time.Now()); !hidden && state != sluice.StateOpen {
							t.Fatalf("%s is %s", id, state)
						}
					}
					time.Sleep(50 * time.Millisecond)
				}
				if state := b.View("sale-7").State(time.Now()); state != sluice.StateUnavailable {
					t.Errorf("nine seconds after it ceased to answer, the sale is %s", state)
				}
				s.change(func() { clear(s.bad) })
				time.Sleep(3 * time.Second)
				if v := b.View("sale-7"); v.State(time.Now()) != sluice.StateOpen {
					t.Errorf("three seconds after it answers again, the sale is %s", v.State(time.Now()))
				}
			})
		})
	}
}

// What is idle is read rarely, all of it together at most idleReads times a
// second; what is claimed, looked at, or changes is read at the pace. A claim
// on an idle sale makes it hot.
func TestIdleSalesAreReadRarely(t *testing.T) {
	const sales = 2000
	running(t, sales, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
		time.Sleep(20 * time.Second)
		count := func(while time.Duration) (all int, of map[sluice.SaleID]int) {
			s.change(func() { clear(s.reads) })
			time.Sleep(while)
			synctest.Wait()
			of = map[sluice.SaleID]int{}
			s.change(func() {
				for id, n := range s.reads {
					all += n
					of[id] = n
				}
			})
			return all, of
		}
		all, of := count(16 * time.Second)
		if all < 3900 || all > 4100 {
			t.Errorf("%d readings of %d idle sales in 16 s, want 4000", all, sales)
		}
		if len(of) != sales {
			t.Errorf("%d of %d idle sales were read", len(of), sales)
		}
		for _, hot := range []struct {
			id  sluice.SaleID
			act func(*View)
		}{
			{"sale-1", (*View).wake},
			{"sale-2", (*View).Watch},
			{"sale-3", func(*View) { s.change(func() { s.seq["sale-3"]++ }) }},
		} {
			hot.act(b.View(hot.id))
			time.Sleep(9 * time.Second) // idle sales that change are noticed at their pace
			hot.act(b.View(hot.id))
			time.Sleep(400 * time.Millisecond)
			if _, of := count(4 * time.Second); of[hot.id] < 18 || of[hot.id] > 22 {
				t.Errorf("%s: %d readings in 4 s, want 20", hot.id, of[hot.id])
			}
		}
		var lists int
		s.change(func() { lists = s.lists })
		time.Sleep(40 * time.Second)
		s.change(func() { lists = s.lists - lists })
		if lists < 4 || lists > 6 {
			t.Errorf("the list was read %d times in 40 s, want 5", lists)
		}
	})
}

// Readers of many sales, as anybody may be, heat few of them, and none on which nothing moves.
func TestReadersHeatFewSales(t *testing.T) {
	const sales = 1000
	for _, c := range []struct {
		what          string
		opens, closes time.Duration // from now; closes 0: never
		most          int           // readings a second
	}{
		{"open", -time.Hour, 0, idleReads + 5*watchedAtATime},
		{"it opens in a moment", 50 * time.Second, 0, idleReads + 5*watchedAtATime},
		{"it opens in a month", 30 * 24 * time.Hour, 0, idleReads},
		{"closed", -time.Hour, -time.Minute, idleReads},
	} {
		running(t, sales, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
			s.change(func() {
				for i := range s.rows {
					terms := &s.rows[i].Terms
					if terms.Version, terms.OpensAt = 2, time.Now().Add(c.opens); c.closes != 0 {
						terms.ClosesAt = time.Now().Add(c.closes)
					}
				}
			})
			time.Sleep(20 * time.Second)
			s.change(func() { clear(s.reads) })
			for range 20 {
				for id := range b.Views() {
					b.View(id).Watch()
				}
				time.Sleep(time.Second)
			}
			all, hot := 0, 0
			s.change(func() {
				for _, n := range s.reads {
					if all += n; n > 50 {
						hot++
					}
				}
			})
			if all > 20*(c.most+c.most/10) || (hot > 0) != (c.most > idleReads) {
				t.Errorf("%s: %d readings of %d sales in 20 s, of which %d are hot; want at most %d a second", c.what, all, sales,
					hot, c.most)
			}
		})
	}
}

// A board on which no sale is hot rests, and reads one at the pace all the same when that is
// claimed or looked at, or has changed.
func TestABoardAtRestIsWoken(t *testing.T) {
	for _, c := range []struct {
		what  string
		after time.Duration // the last reading of the idle sale
		least int           // readings in the next second
		act   func(*shards, *View)
	}{
		{"a claim", 250 * time.Millisecond, 5, func(_ *shards, v *View) { v.wake() }},
		{"a reader", 250 * time.Millisecond, 5, func(_ *shards, v *View) { v.Watch() }},
		{"a change", 750 * time.Millisecond, 4, func(s *shards, _ *View) { s.change(func() { s.seq["sale-0"]++ }) }},
	} {
		running(t, 1, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
			time.Sleep(20*time.Second + c.after)
			c.act(s, b.View("sale-0"))
			s.change(func() { clear(s.reads) })
			time.Sleep(time.Second)
			s.change(func() {
				if n := s.reads["sale-0"]; n < c.least || n > 6 {
					t.Errorf("%s: %d readings in the next second, want %d or one more", c.what, n, c.least)
				}
			})
		})
	}
}

// While a call is under way the board looks after it at the pace, and not all the time.
func TestABoardWaitsForACall(t *testing.T) {
	running(t, 2, BoardOptions{Refresh: 10 * time.Millisecond}, func(t *testing.T, s *shards, b *Board) {
		time.Sleep(20*time.Second + 500*time.Millisecond)
		s.change(func() { s.bad["sale-0"] = nil }) // it hangs
		time.Sleep(545 * time.Millisecond)
		b.mu.Lock()
		defer b.mu.Unlock()
		if wait := time.Until(b.again); len(b.flying) != 1 || wait != 5*time.Millisecond {
			t.Errorf("%d calls; the board looks again in %v, want 5 ms", len(b.flying), wait)
		}
	})
}

// An idle sale opens and closes to the moment, however rarely it is read.
func TestIdleSalesOpenInTime(t *testing.T) {
	running(t, 2000, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
		opens := time.Now().Add(30 * time.Second)
		s.change(func() {
			for i := range s.rows {
				s.rows[i].Version, s.rows[i].OpensAt, s.rows[i].ClosesAt = 2, opens, opens.Add(time.Minute)
			}
		})
		time.Sleep(29 * time.Second)
		for _, want := range []sluice.State{sluice.StateOpen, sluice.StateClosed} {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for id, v := range b.Views() {
				if got := v.Reading.State(v.Reading.Now); got != want {
					t.Fatalf("%s is shown as %s, want %s", id, got, want)
				}
			}
			time.Sleep(58 * time.Second)
		}
	})
}

// A rebuild waits for every server, so each knows soon that a sale is fenced, however
// rarely idle sales and the list are read.
func TestFencesAreKnownSoon(t *testing.T) {
	running(t, 20_000, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
		time.Sleep(10 * time.Second)
		s.change(func() { s.rows[12_345].Fence = "lost" })
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := b.View("sale-12345").Sale.Fence; got != "lost" {
			t.Errorf("after a second and a half the fence on the board is %q", got)
		}
	})
}

// Rules that another server changes shortly before a sale opens are known when it
// opens, however rarely idle sales and the list are read.
func TestRulesAreKnownAtTheOpening(t *testing.T) {
	running(t, 2000, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
		opens := time.Now().Add(30 * time.Second)
		change := func(version int64, ratio float64) {
			s.change(func() {
				for i := range s.rows {
					s.rows[i].Version, s.rows[i].OpensAt, s.rows[i].Rules.AdmissionRatio = version, opens, ratio
				}
			})
		}
		change(2, 0)
		time.Sleep(27500 * time.Millisecond) // between two readings of the list
		change(3, 5)
		time.Sleep(time.Second)
		synctest.Wait()
		stale := 0
		for _, v := range b.Views() {
			if v.Sale.Rules.AdmissionRatio != 5 {
				stale++
			}
		}
		if stale > 0 {
			t.Errorf("shortly before they open, %d sales have the rules of a second ago", stale)
		}
	})
}

// A sale that is archived leaves the board, and is reported once. It is still
// found when it is asked for.
func TestArchivedSalesLeaveTheBoard(t *testing.T) {
	var told atomic.Int64
	running(t, 3, BoardOptions{Refreshed: func(views map[sluice.SaleID]*View) {
		for _, v := range views {
			if v.Archived() {
				told.Add(1)
			}
		}
	}}, func(t *testing.T, s *shards, b *Board) {
		version := b.Version()
		s.change(func() { s.rows[1].ArchivedAt = time.Now() })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if views := b.Views(); len(views) != 2 || told.Load() != 1 || b.Version() == version {
			t.Errorf("%d sales are on the board, %d were told as archived", len(views), told.Load())
		}
		if v, err := b.Lookup(t.Context(), "sale-1"); err != nil || v.State(time.Now()) != sluice.StateClosed ||
			!v.Archived() {
			t.Errorf("looked up: %+v, %v", v, err)
		}
		s.change(func() { clear(s.reads) })
		time.Sleep(time.Minute)
		s.change(func() {
			if n := s.reads["sale-1"]; n != 0 {
				t.Errorf("the ledger was asked %d times for an archived sale", n)
			}
		})
		b.archived.Clear()
		if v, err := b.Lookup(t.Context(), "sale-1"); err != nil || !v.Archived() {
			t.Errorf("looked up again: %+v, %v", v, err)
		}
	})
}

// "No such sale" is never older than the request: a sale that was created
// elsewhere a moment ago is found, whatever was looked up before (I4); and a
// flood of made-up ids makes few queries.
func TestNoSuchSaleIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(1)
		b := NewBoard(s, s, BoardOptions{})
		var queries atomic.Int64
		store := &queried{s, &queries}
		b.store = store
		row := s.rows[0]
		s.rows = nil
		for range 3 {
			if _, err := b.Lookup(t.Context(), row.ID); !errors.Is(err, sluice.ErrSaleNotFound) {
				t.Fatal(err)
			}
		}
		s.change(func() { s.rows = []sluice.Sale{row} })
		if v, err := b.Lookup(t.Context(), row.ID); err != nil || v.Sale.ID != row.ID || v.Down {
			t.Errorf("a moment after it was created: %+v, %v", v, err)
		}
		queries.Store(0)
		var flood sync.WaitGroup
		for n := range 3500 {
			flood.Go(func() {
				time.Sleep(time.Duration(n) * time.Second / 3500)
				begun := time.Now()
				if _, err := b.Lookup(t.Context(), sluice.SaleID(fmt.Sprint("made-up-", n))); !errors.Is(err,
					sluice.ErrSaleNotFound) {
					t.Error(err)
				}
				if took := time.Since(begun); took > 2*lookupPause {
					t.Errorf("a lookup took %v", took)
				}
			})
		}
		flood.Wait()
		if n := queries.Load(); n > 51 {
			t.Errorf("%d queries for 3,500 made-up ids in a second, want 50", n)
		}
	})
}

type queried struct {
	*shards
	queries *atomic.Int64
}

func (c *queried) SelectSales(ctx context.Context, f port.SaleFilter) ([]sluice.Sale, error) {
	c.queries.Add(1)
	return c.shards.SelectSales(ctx, f)
}

// While returned units are sold again, each change makes the holders stale;
// they are read whole, so once a second at most.
func TestHoldersHaveAnInterval(t *testing.T) {
	running(t, 1, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
		s.change(func() { s.seq["sale-0"], s.scans = 10, 0 }) // sold out
		for range 100 {
			s.change(func() { s.seq["sale-0"]++ })
			b.Wake("sale-0")
			time.Sleep(100 * time.Millisecond)
		}
		s.change(func() {
			if s.scans < 9 || s.scans > 11 {
				t.Errorf("the holders were read %d times in 10 s of changes, want 10", s.scans)
			}
		})
		time.Sleep(3 * time.Second)
		if v := b.View("sale-0"); !v.holders.covers(&v.Reading) {
			t.Error("after the last change the holders are not known")
		}
	})
}
