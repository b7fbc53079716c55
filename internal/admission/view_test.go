package admission_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/ledger/sqliteledger"
)

// oneSale is a store that holds one loaded sale.
type oneSale struct {
	port.SaleStore
	sale sluice.Sale
}

func (s oneSale) SelectSales(context.Context, port.SaleFilter) ([]sluice.Sale, error) {
	return []sluice.Sale{s.sale}, nil
}
func (s oneSale) Sale(context.Context, sluice.SaleID) (sluice.Sale, error) { return s.sale, nil }

// A server whose own clock is off neither opens a sale early nor late, and so
// it closes it: the ledger's clock decides, with a gate, a board and a batcher
// in between that look at their own.
func TestTheLedgersClockOpensAndCloses(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Second, 10 * time.Second} {
		t.Run(fmt.Sprint(skew), func(t *testing.T) {
			t.Parallel()
			ledgerNow := func() time.Time { return time.Now().Add(skew) } // this process' clock is the one that is off
			ledger := must.Get(sqliteledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
				sqliteledger.Options{Node: "node", Now: ledgerNow}))(t)
			defer ledger.Close()
			opens := ledgerNow().Add(3 * time.Second).Truncate(time.Millisecond)
			closes := opens.Add(3 * time.Second)
			terms := sluice.Terms{
				Version: 1, Total: 1_000_000, MaxPerBuyer: sluice.Unlimited, MaxOrders: sluice.Unlimited,
				OpensAt: opens, ClosesAt: closes,
			}
			must.Succeed(t, ledger.Load(t.Context(), port.LoadImage{Sale: "phones", Epoch: 1, Terms: terms}))
			must.Succeed(t, ledger.Unfence(t.Context(), "phones", 1))
			store := oneSale{sale: sluice.Sale{ID: "phones", Terms: terms, Epoch: 1, LoadedEpoch: 1}}
			board := admission.NewBoard(ledger, store, admission.BoardOptions{Refresh: 20 * time.Millisecond})
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { board.Run(ctx) })
			batcher := admission.NewBatcher(ledger, admission.BatcherOptions{})
			defer func() {
				stop()
				running.Wait()
				_ = batcher.Close(context.Background())
			}()
			gate := admission.NewGate(board, batcher, nil)

			accepted, refused := 0, map[sluice.Code]int{}
			for n := 0; ; n++ {
				before := ledgerNow()
				d, err := gate.Claim(t.Context(), "phones", sluice.Claim{
					Buyer: "ann", Key: sluice.Key(fmt.Sprintf("key-%08d", n)), Quantity: 1,
				}, sluice.Caller{})
				after := ledgerNow()
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case d.Code == sluice.Accepted:
					accepted++
					if d.At.Before(opens) || !d.At.Before(closes) {
						t.Fatalf("accepted at %v, open from %v to %v (I8)", d.At, opens, closes)
					}
				case d.Code == sluice.NotOpen:
					if !before.Before(opens) || !d.OpensAt.Equal(opens) {
						t.Fatalf("not open at %v, and it opened at %v; told %v", before, opens, d.OpensAt)
					}
				case d.Code == sluice.Closed:
					if after.Before(closes) {
						t.Fatalf("closed at %v, and it closes at %v", after, closes)
					}
				default:
					t.Fatalf("refused as %v", d.Code)
				}
				refused[d.Code]++
				if d.Code == sluice.Closed {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if accepted == 0 || refused[sluice.NotOpen] == 0 {
				t.Errorf("%v: want some before and some after the opening", refused)
			}
		})
	}
}
