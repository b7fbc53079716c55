package settle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/settle"
)

// late is a sale that takes units again, with one unit and an order that has expired.
type late struct {
	*rig
	expired sluice.Order
	made    int // orders for claims
	claim   func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error)
	store   sluice.Store
	wake    func()
}

func newLate(t *testing.T) *late {
	t.Helper()
	l := &late{rig: newRig(t), wake: func() {}}
	l.claim, l.store = l.take, l.rig.store
	sale := phone(-time.Hour)
	sale.Total, sale.MaxPerBuyer, sale.MaxUnpaid = 1, 1, 2
	sale.Rules.LatePayment = sluice.LateRetake
	sale.PaymentWindow, sale.PaymentGrace = time.Second, 0
	if _, err := l.desk.Create(t.Context(), sale); err != nil {
		t.Fatal(err)
	}
	order := l.rig.claim("alice").Order
	l.drain()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var err error
		l.expired, err = l.rig.store.Change(t.Context(), sluice.Change{Order: order, Action: sluice.Expire})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	// What comes from now on is paid at leisure.
	if _, err := l.rig.store.ChangeSale(t.Context(), id, func(s *sluice.Sale) error {
		s.PaymentWindow = time.Hour
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// take asks the ledger, as the gate does.
func (l *late) take(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
	l.made++
	claim.Order = sale.Order(fmt.Sprintf("%032x", l.made))
	decisions, err := l.ledger.Claim(ctx, sale, []sluice.Claim{claim})
	if err != nil {
		return sluice.Decision{}, err
	}
	return decisions[0], nil
}

// pay reports the payment once, to a server that has just started.
func (l *late) pay(ctx context.Context) (sluice.Order, error) {
	return settle.NewOrders(l.store, settle.OrdersOptions{
		Ledger: l.ledger, Claim: func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
			return l.claim(ctx, sale, claim)
		},
		Wake: l.wake, Log: slog.New(slog.DiscardHandler),
	}).Change(ctx, sluice.Change{Order: l.expired.ID, Action: sluice.Pay, PaymentID: "payment-1", Paid: l.expired.Due()})
}

// paidOnce checks what there is when the payment is recorded: two orders, of which the
// second has the unit.
func (l *late) paidOnce(paid sluice.Order, err error) {
	l.t.Helper()
	if err != nil || paid.Status != sluice.Paid || paid.Replaces() != l.expired.ID || paid.PaymentID != "payment-1" {
		l.t.Fatalf("paid: %+v, %v", paid, err)
	}
	page, _, err := l.rig.store.Orders(l.t.Context(), sluice.OrderFilter{Limit: 10})
	if err != nil || len(page) != 2 || page[0].ReplacedBy() != paid.ID || page[1] != paid {
		l.t.Errorf("orders %+v, %v", page, err)
	}
	report, err := audit.Run(l.t.Context(), l.ledger, l.rig.store, id)
	if err != nil || !report.OK {
		l.t.Errorf("audit %+v, %v", report.Checks, err)
	}
	if n := l.reading().Taken; n != 1 {
		l.t.Errorf("taken %d", n)
	}
}

// release gives the unit back to the ledger.
func (l *late) release() {
	if _, err := l.rig.store.GiveReleases(l.t.Context(), 10, func(id sluice.SaleID, all []sluice.Release) error {
		_, err := l.ledger.Release(l.t.Context(), id, all)
		return err
	}); err != nil {
		l.t.Error(err)
	}
}

// undecided is an error after which the payment is to be reported again.
func (l *late) undecided(err error, code sluice.Code) {
	l.t.Helper()
	undecided, ok := errors.AsType[*settle.UndecidedError](err)
	if !ok || undecided.Code != code || undecided.Order != l.expired.ID {
		l.t.Fatalf("error %v, want an UndecidedError with code %v", err, code)
	}
	o, err := l.rig.store.Order(l.t.Context(), l.expired.ID)
	if err != nil || o.Status != sluice.Expired || o.PaymentID != "" {
		l.t.Errorf("%+v, %v: nothing was to be recorded", o, err)
	}
}

// failing is a store whose change is cut off before or after it is done.
type failing struct {
	sluice.Store
	fails func(sluice.Change) (before, after error)
}

func (f failing) Change(ctx context.Context, c sluice.Change) (sluice.Order, error) {
	before, after := f.fails(c)
	if before != nil {
		return sluice.Order{}, before
	}
	order, err := f.Store.Change(ctx, c)
	if err == nil && after != nil {
		return sluice.Order{}, after
	}
	return order, err
}

var errCut = errors.New("cut off")

// A server dies after each step; the payment is reported again to another one.
func TestALatePaymentIsCutOff(t *testing.T) {
	for name, c := range map[string]struct {
		cut  func(l *late)
		then func(l *late) // before the second report
	}{
		"before the claim": {func(l *late) {
			l.claim = func(context.Context, sluice.SaleID, sluice.Claim) (sluice.Decision, error) {
				return sluice.Decision{}, errCut
			}
		}, nil},
		"the ledger's answer is lost": {func(l *late) {
			l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
				_, _ = l.take(ctx, sale, claim)
				return sluice.Decision{}, errCut
			}
		}, nil},
		"then the sale is rebuilt": {func(l *late) {
			l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
				_, _ = l.take(ctx, sale, claim)
				return sluice.Decision{}, errCut
			}
		}, func(l *late) {
			l.drain()
			if err := l.rig.store.FenceSale(l.t.Context(), id, 1, "test"); err != nil {
				l.t.Fatal(err)
			}
			if err := l.loader.Load(l.t.Context(), id); err != nil {
				l.t.Fatal(err)
			}
		}},
		"before the store changes": {func(l *late) {
			l.store = failing{l.rig.store, func(c sluice.Change) (before, after error) {
				if c.Replacement != "" {
					before = errCut
				}
				return before, nil
			}}
		}, nil},
		"after the store has changed": {func(l *late) {
			l.store = failing{l.rig.store, func(c sluice.Change) (before, after error) {
				if c.Replacement != "" {
					after = errCut
				}
				return nil, after
			}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLate(t)
			l.give()
			take := l.claim
			storing := func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
				d, err := take(ctx, sale, claim)
				l.drain()
				return d, err
			}
			l.claim = storing
			c.cut(l)
			if _, err := l.pay(t.Context()); !errors.Is(err, errCut) {
				t.Fatalf("error %v", err)
			}
			if c.then != nil {
				c.then(l)
			}
			l.claim, l.store = storing, l.rig.store
			paid, err := l.pay(t.Context())
			l.paidOnce(paid, err)
			again, err := l.pay(t.Context())
			l.paidOnce(again, err)
			// What gave the unit back the first time comes again, for the order that has ended.
			release := sluice.Release{
				Order: l.expired.ID, Sale: id, Buyer: l.expired.Buyer, Key: l.expired.Key, Quantity: 1, Epoch: l.sale().Epoch,
				Unpaid: true,
			}
			if _, err := l.ledger.Release(t.Context(), id, []sluice.Release{release}); err != nil {
				t.Fatal(err)
			}
			l.paidOnce(again, nil)
		})
	}
}

// The store is restored from before the order's end, and the payment is sent again: the
// order had expired, and is paid by the claim that the ledger still has.
func TestALatePaymentAfterARestore(t *testing.T) {
	l := newLate(t)
	l.give()
	l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
		d, err := l.take(ctx, sale, claim)
		l.drain()
		return d, err
	}
	first, err := l.pay(t.Context())
	l.paidOnce(first, err)

	sale, record := l.sale(), l.expired.Record()
	sale.PaymentWindow = time.Second
	l.olderStore(sale, []sluice.Entry{{
		ID: "1", Node: "a", Sale: id, Epoch: record.Epoch, FirstSeq: record.Seq, Terms: record.Terms, At: record.At,
		Claims: []sluice.Claim{record.Claim},
	}})
	l.store = l.rig.store
	o, err := l.store.Order(t.Context(), l.expired.ID)
	if err != nil || o.Status != sluice.Pending {
		t.Fatalf("%+v, %v", o, err)
	}
	time.Sleep(time.Until(o.KeepUntil) + time.Millisecond)
	if !l.verify() {
		t.Fatal("it is not noticed")
	}
	l.recover(l.with(l.rig.store))
	l.statuses(map[sluice.OrderID]sluice.Status{l.expired.ID: sluice.Expired, first.ID: sluice.Pending})
	paid, err := l.pay(t.Context())
	l.paidOnce(paid, err)
	if paid.ID != first.ID {
		t.Errorf("order %s is paid, and was %s", paid.ID, first.ID)
	}
}

// What is not decided yet is no answer: the unit on its way back, and the moment in which
// a sale that was sold out goes on to say so; the order in the journal.
func TestALatePaymentWaits(t *testing.T) {
	l := newLate(t)
	brief := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, err := l.pay(brief())
	l.undecided(err, sluice.Unavailable)

	l.wake = l.release          // without a pause until it is for sale
	_, err = l.pay(t.Context()) // no pipeline stores it
	l.undecided(err, 0)
	l.drain()
	paid, err := l.pay(t.Context())
	l.paidOnce(paid, err)
}

// What the ledger says of the claim, and what becomes of the payment: with a refusal the
// money is due back, and without an answer nothing is recorded.
func TestALatePaymentIsRefused(t *testing.T) {
	for _, code := range sluice.Codes() {
		if code == sluice.Accepted {
			continue
		}
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			l := newLate(t)
			l.give()
			l.claim = func(context.Context, sluice.SaleID, sluice.Claim) (sluice.Decision, error) {
				return sluice.Decision{Code: code}, nil
			}
			o, err := l.pay(t.Context())
			if code == sluice.Unavailable || code == sluice.Overloaded {
				l.undecided(err, code)
			} else if err != nil || o.Status != sluice.RefundDue || o.ID != l.expired.ID {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

// The unit was claimed, and the payment is another order's meanwhile: the claim is given
// back at once, and not held for a payment that never comes.
func TestALatePaymentOfAnotherOrder(t *testing.T) {
	l := newLate(t)
	l.give()
	l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
		d, err := l.take(ctx, sale, claim)
		l.drain()
		if _, err := l.rig.store.Change(ctx, sluice.Change{
			Order: d.Order, Action: sluice.Cancel, By: "tester",
		}); err != nil {
			t.Error(err)
		}
		return d, err
	}
	o, err := l.pay(t.Context())
	if err != nil || o.ID != l.expired.ID || o.Status != sluice.RefundDue {
		t.Errorf("the other order has ended: %+v, %v", o, err)
	}

	l = newLate(t)
	l.give()
	l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
		d, err := l.take(ctx, sale, claim)
		l.drain()
		if _, err := l.rig.store.Change(ctx, sluice.Change{ // without the units, on a server that was refused
			Order: l.expired.ID, Action: sluice.Pay, PaymentID: "payment-1",
		}); err != nil {
			t.Error(err)
		}
		return d, err
	}
	if o, err = l.pay(t.Context()); err != nil || o.ID != l.expired.ID || o.Status != sluice.RefundDue {
		t.Errorf("refused on another server: %+v, %v", o, err)
	}
	page, _, err := l.rig.store.Orders(t.Context(), sluice.OrderFilter{Status: sluice.Cancelled, Limit: 10})
	if err != nil || len(page) != 1 || page[0].Replaces() != l.expired.ID || page[0].Unpaid {
		t.Errorf("cancelled: %+v, %v", page, err)
	}
}

// A sale whose ledger hangs has a few late payments waiting; others are answered at once,
// and payments in time, and of other sales, wait for none.
func TestLatePaymentsOfAHungLedger(t *testing.T) {
	l := newLate(t)
	l.give()
	entered, free := make(chan struct{}, 100), make(chan struct{})
	orders := settle.NewOrders(l.rig.store, settle.OrdersOptions{
		Ledger: l.ledger, Claim: func(context.Context, sluice.SaleID, sluice.Claim) (sluice.Decision, error) {
			entered <- struct{}{}
			<-free
			return sluice.Decision{Code: sluice.SoldOut}, nil
		},
		Wake: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	pay := sluice.Change{Order: l.expired.ID, Action: sluice.Pay, PaymentID: "payment-1"}
	answered := make(chan error, 100)
	for range 20 {
		go func() {
			_, err := orders.Change(t.Context(), pay)
			answered <- err
		}()
	}
	for range 16 {
		<-entered
	}
	for range 4 {
		l.undecided(<-answered, sluice.Overloaded)
	}
	close(free)
	for range 16 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
}

// Whoever has the first id alone gets the order in its place, for everything.
func TestTheIDOfARetakenOrder(t *testing.T) {
	l := newLate(t)
	l.give()
	take := l.claim
	l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
		d, err := take(ctx, sale, claim)
		l.drain()
		return d, err
	}
	paid, err := l.pay(t.Context())
	l.paidOnce(paid, err)
	orders := settle.NewOrders(l.store, settle.OrdersOptions{Log: slog.New(slog.DiscardHandler)})
	if o, err := orders.Order(t.Context(), l.expired.ID); err != nil || o != paid {
		t.Errorf("%+v, %v", o, err)
	}
	of, err := orders.History(t.Context(), l.expired.ID)
	by, err2 := orders.History(t.Context(), paid.ID)
	if err != nil || err2 != nil || len(of) != 5 || len(by) != 5 || of[2].To != sluice.Retaken ||
		of[4] != by[4] || of[4].Order != paid.ID {
		t.Errorf("histories:\n%+v, %v\n%+v, %v", of, err, by, err2)
	}
	for action, want := range map[sluice.Action]sluice.Status{
		sluice.Cancel: sluice.Paid, sluice.Reject: sluice.Paid, sluice.Extend: sluice.Paid, sluice.Expire: sluice.Paid,
	} {
		c := sluice.Change{Order: l.expired.ID, Action: action}
		if action == sluice.Extend {
			c.ExpiresAt = time.Now().Add(time.Hour)
		}
		_, err := orders.Change(t.Context(), c)
		if state, ok := errors.AsType[*sluice.OrderStateError](err); !ok || state.Status != want || state.Order != paid.ID {
			t.Errorf("%s: %v", action, err)
		}
	}
	own := sluice.Change{Order: l.expired.ID, Action: sluice.Cancel, Buyer: "mallory"}
	if _, err := orders.Change(t.Context(), own); !errors.Is(err, sluice.ErrOrderNotFound) {
		t.Errorf("another buyer: %v", err)
	}
	own.Buyer = l.expired.Buyer
	_, err = orders.Change(t.Context(), own)
	if state, ok := errors.AsType[*sluice.OrderStateError](err); !ok || state.Status != sluice.Paid {
		t.Errorf("its buyer: %v", err)
	}
	other := sluice.Change{Order: l.expired.ID, Action: sluice.Pay, PaymentID: "payment-2"}
	_, err = orders.Change(t.Context(), other)
	if conflict, ok := errors.AsType[*sluice.PaymentConflictError](err); !ok || conflict.Order != paid.ID {
		t.Errorf("another payment: %v", err)
	}
	refund := sluice.Change{Order: l.expired.ID, Action: sluice.Refund}
	for range 2 {
		if o, err := orders.Change(t.Context(), refund); err != nil || o.ID != paid.ID || o.Status != sluice.Refunded {
			t.Errorf("refund: %+v, %v", o, err)
		}
	}
}

// A refusal of a moment ago says nothing: the units are for sale when the ledger is read.
func TestARetakeIsRefusedAsItsUnitsReturn(t *testing.T) {
	t.Parallel()
	l := newLate(t)
	l.wake = l.release // without a pause until it is for sale
	late := 0
	l.claim = func(ctx context.Context, sale sluice.SaleID, claim sluice.Claim) (sluice.Decision, error) {
		d, err := l.take(ctx, sale, claim)
		for d.Code == sluice.SoldOut { // its answer comes when the cooldown is over
			late++
			if r := l.reading(); !sluice.InCooldown(r.Now, r.CooldownUntil) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		l.drain()
		return d, err
	}
	l.paidOnce(l.pay(t.Context()))
	if late == 0 {
		t.Error("the claim was not refused")
	}
}
