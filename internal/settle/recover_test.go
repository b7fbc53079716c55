package settle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/port"
	"github.com/sluicehq/sluice/internal/settle"
)

// dying is a store whose server dies at one of the calls that change something: before the
// call, or after it and before its answer.
type dying struct {
	settle.RebuildStore
	calls, at int
	after     bool
}

var errKilled = errors.New("the server is killed")

func (d *dying) dies(do func() error) error {
	d.calls++
	switch {
	case d.calls != d.at:
		return do()
	case d.after:
		return errors.Join(do(), errKilled)
	}
	return errKilled
}

func (d *dying) ChangeSale(ctx context.Context, id sluice.SaleID, change func(*sluice.Sale) error) (s sluice.Sale,
	err error,
) {
	return s, d.dies(func() error { s, err = d.RebuildStore.ChangeSale(ctx, id, change); return err })
}

func (d *dying) Change(ctx context.Context, change sluice.Change) (o sluice.Order, err error) {
	return o, d.dies(func() error { o, err = d.RebuildStore.Change(ctx, change); return err })
}

func (d *dying) InsertEnded(ctx context.Context, id sluice.SaleID, ended []port.Record, by, reason string) (
	left []sluice.OrderID, err error,
) {
	return left, d.dies(func() error { left, err = d.RebuildStore.InsertEnded(ctx, id, ended, by, reason); return err })
}

func (d *dying) Insert(ctx context.Context, id sluice.SaleID, entries []port.Entry) (s port.Stored, err error) {
	return s, d.dies(func() error { s, err = d.RebuildStore.Insert(ctx, id, entries); return err })
}

func (d *dying) Recovered(ctx context.Context, id sluice.SaleID, epoch int64, reason string, keep time.Duration) (
	until time.Time, err error,
) {
	return until, d.dies(func() error { until, err = d.RebuildStore.Recovered(ctx, id, epoch, reason, keep); return err })
}

// A recovery that is killed at any of its steps is asked for again, and ends as one that was
// not: nothing is sold twice, and no order is lost.
func TestARecoveryIsKilledAnywhere(t *testing.T) {
	for at := 1; ; at++ {
		died := false
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("step %d, answered %t", at, after), func(t *testing.T) { died = killedAt(t, at, after) })
		}
		if !died || t.Failed() {
			if at < 6 {
				t.Errorf("a recovery has %d steps that can be killed", at-1)
			}
			return
		}
	}
}

func killedAt(t *testing.T, at int, after bool) (died bool) {
	r := newRig(t)
	ctx := t.Context()
	sale := phone(-time.Hour)
	sale.Total = 2
	r.ok(r.desk.Create(ctx, sale))
	alice, bob := r.accepted("alice", true), r.accepted("bob", true)
	entries := r.waiting()
	r.drain()
	// All this the copy does not know.
	r.cancel(alice)
	carol := r.accepted("carol", true)
	r.drain()
	r.cancel(carol)
	dave := r.accepted("dave", true)
	r.drain()
	r.cancel(bob)
	eve := r.accepted("eve", true) // in the journal
	r.ok(r.desk.Pause(ctx, id))
	r.olderStore(sale, entries)
	if !r.verify() {
		t.Fatal("the store is older, and it is not noticed")
	}

	store := &dying{RebuildStore: r.store, at: at, after: after}
	first, err := r.with(store).Recover(ctx, id, true)
	if died = errors.Is(err, errKilled); died == first.Applied || err != nil && !died {
		t.Fatalf("%+v, %v", first, err)
	}
	if now := r.sale(); settle.Outdated(&now) { // else the last step was done
		r.recover(r.with(r.store))
	} else {
		r.ok(r.with(r.store).Step(ctx, &now))
	}
	r.inStep(2)
	r.statuses(map[sluice.OrderID]sluice.Status{
		alice: sluice.Cancelled, bob: sluice.Cancelled, carol: sluice.Cancelled, dave: sluice.Pending, eve: sluice.Pending,
	})
	if s := r.sale(); s.Taken != 2 || !s.Paused {
		t.Errorf("taken %d of 2, paused %t", s.Taken, s.Paused)
	}
	if report, err := audit.Run(ctx, r.ledger, r.store, id); err != nil || !report.OK {
		t.Errorf("audit: %+v, %v", report.Checks, err)
	}
	for buyer, want := range map[string]sluice.OrderID{"alice": alice, "carol": carol, "dave": dave} {
		if got := r.accepted(buyer, true); got != want {
			t.Errorf("%s's claim gets %s, want %s (I4)", buyer, got, want)
		}
	}
	return died
}
