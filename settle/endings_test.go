package settle_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/settle"
)

// hungLedger never answers.
type hungLedger struct{ asked chan struct{} }

func (h *hungLedger) Release(ctx context.Context, _ sluice.SaleID, _ []sluice.Release) (sluice.Released, error) {
	select {
	case h.asked <- struct{}{}:
		<-ctx.Done()
	case <-ctx.Done(): // the test has ended meanwhile
	}
	return sluice.Released{}, ctx.Err()
}

// endings is a store in which an order is due at every look, and a release waits.
type endings struct{ expired, given int }

func (e *endings) ExpireDue(context.Context, int) (int, error) { e.expired++; return 1, nil }

func (e *endings) GiveReleases(_ context.Context, _ int, give func(sluice.SaleID, []sluice.Release) error) (int, error) {
	e.given++
	return 0, give("phones", []sluice.Release{{Order: "phones.1"}})
}

func (*endings) FenceSale(context.Context, sluice.SaleID, int64, string) error { return nil }

// Orders go on to expire while a ledger hangs, and what is asked of that ends.
func TestExpiryDoesNotWaitForALedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		store, ledger := &endings{}, &hungLedger{asked: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			settle.NewEnder(store, ledger, settle.EnderOptions{}).Run(ctx)
			close(done)
		}()
		begun := time.Now()
		<-ledger.asked
		before := store.expired
		time.Sleep(2 * time.Second)
		if n := store.expired - before; n < 7 {
			t.Errorf("%d looks for due orders in 2 s while the ledger hangs, want about 8", n)
		}
		<-ledger.asked // again: the first call has ended
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("a hanging call was given up after %v", took)
		}
		cancel()
		<-done
	})
}
