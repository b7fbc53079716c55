package admission

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// countedReadings counts its readings.
type countedReadings struct {
	noReadings
	n atomic.Int64
}

func (c *countedReadings) Read(_ context.Context, ids []sluice.SaleID) (all []port.Reading, err error) {
	c.n.Add(1)
	for _, id := range ids {
		all = append(all, port.Reading{Sale: id, Loaded: true, Epoch: 1, Now: time.Now()})
	}
	return all, nil
}

// Who knows the id of a hidden sale has the ledger read once for each lookup, and not
// once for each claim.
func TestAFloodOnAHiddenSale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &countedReadings{}
		board := NewBoard(ledger, &rows{list: []sluice.Sale{{
			ID: "sale", Epoch: 1, LoadedEpoch: 1, Rules: sluice.Rules{Visibility: sluice.Hidden},
		}}}, BoardOptions{})
		must.Succeed(t, board.ReadSales(t.Context()))
		must.Succeed(t, board.Refresh(t.Context()))
		g := NewGate(board, NewBatcher(&slowLedger{}, BatcherOptions{}), noArchive{})
		g.Guard(&Eligibility{}, forgetful{})
		before := ledger.n.Load()
		for range 2 {
			var crowd sync.WaitGroup
			for i := range 500 {
				crowd.Go(func() {
					if code := try(g, sluice.BuyerID(fmt.Sprint("buyer-", i)), home); code != "sale_not_found" {
						t.Errorf("a claim on a hidden sale: %s", code)
					}
				})
			}
			crowd.Wait()
		}
		if n := ledger.n.Load() - before; n < 2 || n > 6 {
			t.Errorf("1000 claims on a hidden sale, 500 at a time, have the ledger read %d times", n)
		}
	})
}

// slowRows is a store that needs a moment for each row, and is asked so many times.
type slowRows struct {
	rows
	n atomic.Int64
}

func (s *slowRows) SelectSales(ctx context.Context, f port.SaleFilter) ([]sluice.Sale, error) {
	found, err := s.rows.SelectSales(ctx, f)
	if !f.Live {
		s.n.Add(1)
		time.Sleep(time.Duration(len(found)) * 3 * time.Millisecond)
	}
	return found, err
}

// soldReadings read a sale that is open, and that bob has claimed. Recalls count as readings.
type soldReadings struct {
	countedReadings
	seq int64
}

func (s *soldReadings) Read(ctx context.Context, ids []sluice.SaleID) ([]port.Reading, error) {
	all, err := s.countedReadings.Read(ctx, ids)
	for i := range all {
		all[i].Seq, all[i].Terms.Total = s.seq, sluice.Unlimited
	}
	return all, err
}

func (*soldReadings) Holders(_ context.Context, _ sluice.SaleID, yield func(sluice.BuyerID) bool) error {
	yield("bob")
	return nil
}

func (s *soldReadings) Recall(context.Context, sluice.ClaimID) (port.Record, error) {
	s.n.Add(1)
	return port.Record{}, sluice.ErrOrderNotFound
}

// A hidden sale is as much work as an id that does not exist: as many calls of store and
// ledger, and the answer comes at the same moment, whatever its row costs. So it is as long as
// the board does not know it, while it is sold, and when it is archived.
func TestAHiddenSaleIsTheSameWork(t *testing.T) {
	type work struct {
		store, ledger int64
		took          time.Duration
		answer        string
	}
	hidden := sluice.Sale{ID: "secret", Epoch: 1, LoadedEpoch: 1, Rules: sluice.Rules{Visibility: sluice.Hidden}}
	archived := hidden
	archived.ArchivedAt = time.Date(1999, 12, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		sale  sluice.Sale
		board bool // it knows the sale
		seq   int64
	}{
		"on the board": {hidden, true, 0}, "not on the board": {hidden, false, 0}, "sold before": {hidden, true, 7},
		"archived": {archived, false, 0}, "archived, looked up before": {archived, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			measure := func(id sluice.SaleID, do func(*Board, *Gate, sluice.SaleID) string) work {
				store, ledger := &slowRows{rows: rows{list: []sluice.Sale{c.sale}}}, &soldReadings{seq: c.seq}
				board := NewBoard(ledger, store, BoardOptions{})
				g := NewGate(board, NewBatcher(&slowLedger{}, BatcherOptions{}), noArchive{})
				g.Guard(&Eligibility{}, ledger)
				if c.board {
					must.Succeed(t, board.ReadSales(t.Context()))
					must.Succeed(t, board.Refresh(t.Context()))
					_, _ = board.Lookup(t.Context(), c.sale.ID)
					synctest.Wait()
					must.Succeed(t, board.Refresh(t.Context()))
					time.Sleep(time.Second)
				}
				began, reads, readings := time.Now(), store.n.Load(), ledger.n.Load()
				answer := do(board, g, id)
				took := time.Since(began)
				synctest.Wait()
				return work{store.n.Load() - reads, ledger.n.Load() - readings, took, answer}
			}
			for way, do := range map[string]func(*Board, *Gate, sluice.SaleID) string{
				"read": func(b *Board, _ *Gate, id sluice.SaleID) string {
					_, err := b.Public(t.Context(), id)
					return fmt.Sprint(err)
				},
				"claim": func(_ *Board, g *Gate, id sluice.SaleID) string {
					decision, err := g.Claim(t.Context(), id, sluice.Claim{Buyer: "ann", Key: "key-0001", Quantity: 1},
						sluice.Caller{Address: home})
					return fmt.Sprint(decision.Code, err)
				},
			} {
				if got, want := measure("secret", do), measure("made-up", do); got != want {
					t.Errorf("%s, %s: %+v, of an id that does not exist %+v", name, way, got, want)
				}
			}
		})
	}
}

// Where the ledger hangs, ids that are looked up hold a few calls of it, and claims that wait for them are answered
// in time.
func TestLookedUpIdsHoldFewCalls(t *testing.T) {
	running(t, 1, BoardOptions{}, func(t *testing.T, s *shards, b *Board) {
		const ids = 20 * singleReads
		made := func(n int) sluice.SaleID { return sluice.SaleID(fmt.Sprint("made-up-", n)) }
		s.change(func() {
			for n := range ids {
				s.bad[made(n)] = nil // it hangs
			}
		})
		begun := time.Now()
		var asks sync.WaitGroup
		for n := range ids {
			asks.Go(func() {
				b.readOnce(t.Context(), &lookup{read: make(chan struct{})}, made(n))
			})
		}
		synctest.Wait()
		s.change(func() {
			if asked := len(s.reads) - 1; asked > singleReads {
				t.Errorf("%d ids are asked for at a time, want %d", asked, singleReads)
			}
		})
		asks.Wait()
		if took := time.Since(begun); took > 2*b.opts.Timeout {
			t.Errorf("the last is answered after %v", took)
		}
	})
}
