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
