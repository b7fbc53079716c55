package settle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/pipeline"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// In a rush with cancellations and payments, reconciled without a pause, with
// apply, nothing is found but what is in flight; so nothing is repaired.
func TestReconcileInARushRepairsNothing(t *testing.T) {
	pairs(t, 300, func(t *testing.T, p *pair) { reconcileInARush(t, p, 300) })
}

func reconcileInARush(t *testing.T, p *pair, buyersEach int) {
	ctx := context.WithoutCancel(t.Context())
	lines := pipeline.New(p.ledger, p.store, pipeline.Options{MaxClaims: 20})
	ender := settle.NewEnder(p.store, p.ledger, settle.EnderOptions{Batch: 7})
	running, stop := context.WithCancel(ctx)
	var ending, buying sync.WaitGroup
	ending.Go(func() { ender.Run(running) })
	for crowd := range 4 {
		buying.Go(func() {
			for n := range buyersEach {
				buyer := fmt.Sprintf("b-%d-%d", crowd, n)
				order := p.id.Order(fmt.Sprintf("%032x", []byte(buyer)))
				decisions, err := p.ledger.Claim(ctx, p.id, []sluice.Claim{
					{Buyer: sluice.BuyerID(buyer), Key: "attempt-1", Quantity: 1, Order: order},
				})
				if err != nil {
					t.Error(err)
					return
				}
				lines.Wake(p.id)
				if decisions[0].Code != sluice.Accepted {
					ender.Wake()
				}
				// The first one gives up when the order is stored, however late that is, and however
				// long the sale's row is held.
				for n == 0 && decisions[0].Code == sluice.Accepted {
					_, err := p.store.Change(ctx, sluice.Change{Order: order, Action: sluice.Cancel, By: "test"})
					if _, ended := errors.AsType[*sluice.OrderStateError](err); err == nil || ended || ctx.Err() != nil {
						ender.Wake()
						break
					}
					time.Sleep(time.Millisecond)
				}
				// A buyer who came a little before gives up, or pays.
				before := p.id.Order(fmt.Sprintf("%032x", fmt.Appendf(nil, "b-%d-%d", crowd, n-5)))
				change := sluice.Change{Order: before, Action: sluice.Cancel, By: "test"}
				if n%5 == 0 {
					change.Action, change.PaymentID = sluice.Pay, "p-"+buyer
				}
				if _, err := p.store.Change(ctx, change); err == nil {
					ender.Wake()
				}
			}
		})
	}
	buying.Go(func() { // and the total moves
		desk := settle.NewControl(p.store, p.ledger, settle.NewLoader(p.store, p.ledger))
		for n := range 20 {
			delta := []int64{+3, -2}[n%2]
			_, err := desk.Restock(ctx, p.id, fmt.Sprint("move-", n), delta)
			if err != nil && (delta > 0 || !errors.Is(err, sluice.ErrBelowTaken)) {
				t.Error(err)
			}
		}
	})
	over := make(chan struct{})
	go func() {
		buying.Wait()
		if err := lines.Close(ctx); err != nil {
			t.Error(err)
		}
		close(over)
	}()
	reconciler := settle.NewReconciler(p.store, p.ledger, settle.NewLoader(p.store, p.ledger))
	runs, met := 0, int64(0)
	for last := false; !last; runs++ {
		select {
		case <-over:
			last = true
			stop()
			ending.Wait()
			if err := ender.Once(ctx); err != nil {
				t.Error(err)
			}
		default:
		}
		r, err := reconciler.Reconcile(ctx, p.id, true)
		if err != nil {
			t.Error(err)
		}
		met += r.Of(sluice.InFlight).Count
		if r.Skipped != "" || r.Remaining() != 0 || len(p.found(&r)) > 1 || last && len(p.found(&r)) != 0 {
			t.Errorf("run %d: %+v", runs, r)
		}
		if t.Failed() {
			break
		}
	}
	<-over // the buyers use what the test's end closes
	stop()
	ending.Wait()
	cancelled := 0
	err := p.store.Snapshot(ctx, p.id, func(s port.Snapshot) error {
		return s.Orders(func(o sluice.Order) bool {
			if o.Status == sluice.Cancelled {
				cancelled++
			}
			return true
		})
	})
	p.must(err)
	t.Logf("%d runs met %d in flight; %d orders were cancelled", runs, met, cancelled)
	if met == 0 || cancelled == 0 {
		t.Error("there was nothing to be mistaken for damage")
	}
	proof, err := audit.Run(ctx, p.ledger, p.store, p.id)
	p.must(err)
	if !proof.OK {
		t.Errorf("%+v", proof)
	}
}
