package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// copies are a ledger and its replica, by what each of them says of sales.
type copies struct {
	port.SaleStore
	mu     sync.Mutex
	ledger side
	copy   side
}

// side is one of the two.
type side struct {
	port.Reader
	of    *copies
	sales map[sluice.SaleID]port.Reading
	reads map[sluice.SaleID]int
	ahead time.Duration // of its clock
	fails bool
	hangs bool
}

func (c *copies) SelectSales(context.Context, port.SaleFilter) (list []sluice.Sale, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, r := range c.ledger.sales {
		list = append(list, sluice.Sale{ID: id, Epoch: 1, LoadedEpoch: 1, Terms: r.Terms})
	}
	return list, nil
}

func (s *side) Read(ctx context.Context, ids []sluice.SaleID) (all []port.Reading, err error) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.hangs {
		s.of.mu.Unlock()
		<-ctx.Done()
		s.of.mu.Lock()
		return nil, ctx.Err()
	}
	if s.fails {
		return nil, errors.New("connection refused")
	}
	for _, id := range ids {
		r := s.sales[id]
		r.Sale, r.Now = id, time.Now().Add(s.ahead)
		s.reads[id]++
		all = append(all, r)
	}
	return all, nil
}

// Holders of the ledger are none. A replica is not asked for them.
func (s *side) Holders(context.Context, sluice.SaleID, func(sluice.BuyerID) bool) error {
	if s == &s.of.copy {
		panic("the replica is asked for holders")
	}
	return nil
}

// set changes what one side says of a sale.
func (s *side) set(id sluice.SaleID, change func(*port.Reading)) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	r := s.sales[id]
	change(&r)
	s.sales[id] = r
}

// count returns how often one side is asked for a sale while the test sleeps.
func (s *side) count(id sluice.SaleID, while time.Duration) int {
	at := func() int {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		return s.reads[id]
	}
	before := at()
	time.Sleep(while)
	synctest.Wait()
	return at() - before
}

// watched runs a board over a ledger and a replica that both have the sales a
// and b, open, ten units each, with readers who look at a; a second later
// everything has been read.
func watched(t *testing.T, test func(t *testing.T, c *copies, b *Board)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &copies{}
		open := port.Reading{Loaded: true, Epoch: 1, Terms: sluice.Terms{
			Version: 1, Total: 10, OpensAt: time.Now().Add(-time.Hour),
		}}
		for _, s := range []*side{&c.ledger, &c.copy} {
			*s = side{of: c, sales: map[sluice.SaleID]port.Reading{"a": open, "b": open}, reads: map[sluice.SaleID]int{}}
		}
		b := NewBoard(&c.ledger, c, BoardOptions{Refresh: 200 * time.Millisecond, Replica: &c.copy})
		running, stop := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { b.Run(running) })
		done.Go(func() { // a reader looks at a
			for running.Err() == nil {
				if v := b.View("a"); v != nil {
					v.Watch()
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
		defer done.Wait()
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		test(t, c, b)
	})
}

// claimed does for a while what the gate does for each claim.
func claimed(b *Board, id sluice.SaleID, while time.Duration) {
	for end := time.Now().Add(while); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		b.View(id).wake()
	}
}

func taken(n int64) func(*port.Reading) {
	return func(r *port.Reading) { r.Seq, r.Taken = n, n }
}

// Beside a replica the ledger is read five times a second for a sale that is
// claimed here, and once a second for one that is only looked at.
func TestReplicaTakesTheReadings(t *testing.T) {
	watched(t, func(t *testing.T, c *copies, b *Board) {
		if n := c.ledger.count("a", 10*time.Second); n < 9 || n > 11 {
			t.Errorf("the ledger was asked %d times in 10 s for a sale without claims, want 10", n)
		}
		if n := c.copy.count("a", 10*time.Second); n < 45 || n > 51 {
			t.Errorf("the replica was asked %d times in 10 s, want 50", n)
		}
		go claimed(b, "a", 10*time.Second)
		if n := c.ledger.count("a", 10*time.Second); n < 45 || n > 51 {
			t.Errorf("the ledger was asked %d times in 10 s for a sale that is claimed, want 50", n)
		}
		time.Sleep(time.Second)
		if n := c.ledger.count("b", 10*time.Second); n > 11 {
			t.Errorf("the ledger was asked %d times in 10 s for the other sale, want 10", n)
		}
	})
}

// The gate asks for fresh readings of what is claimed, also while it refuses by
// itself.
func TestAClaimWakesItsSale(t *testing.T) {
	for name, view := range map[string]*View{"open": open(sluice.Rules{}), "sold out": sold(func(*View) {})} {
		view.onBoard = &boardSale{board: &Board{}}
		g := gateBefore(&slowLedger{}, view, BatcherOptions{})
		try(g, "somebody", home)
		if view.onBoard.why.Load() != wokenClaimed {
			t.Errorf("%s: a claim asks for no reading", name)
		}
	}
}

// The replica's reading is shown, as long as it is not known to be older than
// the ledger's, by the ledger's clock.
func TestReplicaIsShown(t *testing.T) {
	watched(t, func(t *testing.T, c *copies, b *Board) {
		shown := func(what string, want int64) {
			t.Helper()
			for range 100 { // over several readings of both
				time.Sleep(33 * time.Millisecond)
				if got := b.View("a").Available(); got != want {
					t.Fatalf("%s: %d available are shown, want %d", what, got, want)
				}
			}
		}
		c.copy.set("a", taken(4))
		c.copy.set("b", func(*port.Reading) { c.copy.ahead = time.Hour })
		time.Sleep(410 * time.Millisecond)
		if got := b.View("a").Available(); got != 6 {
			t.Errorf("two refreshes after the replica heard of it %d are available, want 6", got)
		}
		c.ledger.set("a", taken(4))
		shown("both", 6)
		if got := time.Until(b.View("a").Shown().Now).Abs(); got > time.Second {
			t.Errorf("what is shown is %v off the ledger's clock", got)
		}

		c.ledger.set("a", taken(7))
		time.Sleep(1100 * time.Millisecond) // the ledger's pace
		shown("a replica that is behind", 3)
		c.copy.set("a", func(r *port.Reading) { taken(7)(r); r.Terms.Version, r.Terms.Total = 0, 99 })
		shown("a replica with older terms", 3)
		c.copy.set("a", func(r *port.Reading) { r.Terms.Version, r.Terms.Total, r.Epoch = 1, 99, 2 })
		shown("a replica of another load", 3)
		c.copy.set("a", func(r *port.Reading) { r.Epoch, r.Fence = 1, "lost" })
		shown("a replica that has lost something", 3)
		c.copy.set("a", func(r *port.Reading) { *r = port.Reading{} })
		shown("an empty replica", 3)
		if state := b.View("a").State(time.Now()); state != sluice.StateOpen {
			t.Errorf("the sale is %v", state)
		}
	})
}

// A sale opens and closes on the page by the clock, with readings that are old
// as with new ones.
func TestReplicaIsShownByTheClock(t *testing.T) {
	watched(t, func(t *testing.T, c *copies, b *Board) {
		opens := time.Now().Add(5 * time.Second)
		for _, s := range []*side{&c.ledger, &c.copy} {
			s.set("a", func(r *port.Reading) { r.Terms.Version, r.Terms.OpensAt = 2, opens })
		}
		time.Sleep(time.Second)
		for range 40 {
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			shown := b.View("a").Shown()
			if lag := time.Since(shown.Now); lag > 450*time.Millisecond || lag < 0 {
				t.Errorf("what is shown is of %v ago", lag)
			}
		}
	})
}

// A replica decides nothing (I4, I7): no refusal is repeated because of it, and
// those of the ledger are repeated all the same, for as long as they are fresh.
func TestReplicaDecidesNothing(t *testing.T) {
	watched(t, func(t *testing.T, c *copies, b *Board) {
		c.copy.set("a", taken(10))
		time.Sleep(500 * time.Millisecond)
		if got := b.View("a").State(time.Now()); got != sluice.StateSoldOut {
			t.Fatalf("the page says %v, want sold out", got)
		}
		if code := b.View("a").refusal(time.Now()); code != 0 {
			t.Errorf("the gate refuses with %v by what a replica says", code)
		}

		c.ledger.set("a", taken(10))
		c.copy.set("a", func(r *port.Reading) { r.Taken = 9 })
		claimed(b, "a", time.Second)
		for range 50 {
			claimed(b, "a", 20*time.Millisecond)
			if got := b.View("a").Available(); got != 0 {
				t.Fatalf("%d are shown of a sale that the ledger has just called sold out", got)
			}
		}
		if code := b.View("a").refusal(time.Now()); code != sluice.SoldOut {
			t.Errorf("the gate does not repeat the ledger's refusal: %v", code)
		}
		time.Sleep(1500 * time.Millisecond)
		for range 10 {
			time.Sleep(100 * time.Millisecond)
			view := b.View("a")
			if code := view.refusal(time.Now()); code != 0 && time.Since(view.Asked) >= sluice.RefusalLease {
				t.Errorf("a refusal of %v ago is repeated", time.Since(view.Asked))
			}
		}
	})
}

// Terms that the replica knows first are read in the ledger at once.
func TestReplicaTellsOfNewTerms(t *testing.T) {
	watched(t, func(t *testing.T, c *copies, b *Board) {
		c.ledger.count("a", 150*time.Millisecond) // not at the same moment as a reading
		for _, s := range []*side{&c.ledger, &c.copy} {
			s.set("a", func(r *port.Reading) { r.Terms.Version, r.Terms.Paused = 2, true })
		}
		time.Sleep(820 * time.Millisecond)
		if !b.View("a").Reading.Terms.Paused {
			t.Error("what the replica showed has not been read in the ledger")
		}
	})
}

// Without an answer of the replica the ledger is read as often as without one;
// and the other way round nothing is claimed to be for sale.
func TestReplicaOrLedgerDown(t *testing.T) {
	for name, fail := range map[string]func(s *side, on bool){
		"refuses": func(s *side, on bool) { s.fails = on },
		"hangs":   func(s *side, on bool) { s.hangs = on },
	} {
		t.Run(name, func(t *testing.T) {
			watched(t, func(t *testing.T, c *copies, b *Board) {
				c.ledger.set("a", taken(2))
				c.copy.set("a", taken(2))
				c.copy.set("b", func(*port.Reading) { fail(&c.copy, true) })
				time.Sleep(3 * time.Second)
				if n := c.ledger.count("a", 10*time.Second); n < 45 || n > 51 {
					t.Errorf("the ledger was asked %d times in 10 s while the replica is down, want 50", n)
				}
				c.copy.set("b", func(*port.Reading) { fail(&c.copy, false) })
				time.Sleep(3 * time.Second)
				if n := c.ledger.count("a", 10*time.Second); n > 11 {
					t.Errorf("the ledger was asked %d times in 10 s when the replica was back, want 10", n)
				}
				if got := b.View("a").Available(); got != 8 {
					t.Errorf("%d available are shown, want 8", got)
				}
				c.ledger.set("b", func(*port.Reading) { c.ledger.fails = true })
				time.Sleep(10 * time.Second)
				if got := b.View("a").State(time.Now()); got != sluice.StateUnavailable {
					t.Errorf("ten seconds without the ledger the sale is %v", got)
				}
				c.ledger.set("b", func(*port.Reading) { c.ledger.fails = false })
				time.Sleep(5 * time.Second)
				if got := b.View("a").State(time.Now()); got != sluice.StateOpen {
					t.Errorf("five seconds after the ledger came back the sale is %v", got)
				}
			})
		})
	}
}

// Board.Wake is about one sale: the others keep their pace.
func TestANudgeReadsOneSale(t *testing.T) {
	watched(t, func(t *testing.T, c *copies, b *Board) {
		go func() {
			for range 1000 {
				b.Wake("a")
				time.Sleep(time.Millisecond)
			}
		}()
		if a, other := c.ledger.count("a", time.Second), c.ledger.reads["b"]; a < 50 || a > 105 || other > 5 {
			t.Errorf("a second of nudges: %d readings of the sale, %d in all of the other; want up to 100, and at its pace", a,
				other)
		}
	})
}
