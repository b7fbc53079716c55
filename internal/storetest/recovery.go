package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// A sale whose store is older than its ledger: its orders do not expire, claims that had ended
// are stored as such, beyond the cap as well, and what is recovered is given time.
func testRecovery(t *testing.T, db Database) {
	s, ctx := db.Open(t), t.Context()
	sale := aSale("phone", 2)
	sale.PaymentWindow, sale.PaymentGrace = time.Second, 0
	must.Get(s.CreateSale(ctx, sale))(t)
	must.Get(s.BeginLoad(ctx, "phone", 0))(t)
	must.Succeed(t, s.ConfirmLoad(ctx, "phone", 1))
	live := anEntry("phone", 1, 1, 2)
	must.Get(s.Insert(ctx, "phone", []port.Entry{live}))(t)

	fence := func(reason, want string) {
		t.Helper()
		must.Succeed(t, s.FenceSale(ctx, "phone", 1, reason))
		if now, err := s.Sale(ctx, "phone"); err != nil || now.Fence != want {
			t.Errorf("after %q the fence is %q, %v; want %q", reason, now.Fence, err, want)
		}
	}
	time.Sleep(sale.PaymentWindow + 20*time.Millisecond) // all that is pending is due
	for _, f := range []struct{ reason, stands string }{
		{"lost: one", "lost: one"},
		{"lost: two", "lost: one"},
		{"older: three", "older: three"},
		{"older: four", "older: three"},
	} {
		fence(f.reason, f.stands)
		if n, err := s.ExpireDue(ctx, 10, nil, nil); err != nil || len(n) != 0 {
			t.Errorf("expired %v, %v, while their payments may be forgotten", n, err)
		}
	}

	// What the shop asks for meanwhile may contradict what was forgotten.
	pay := sluice.Change{Order: live.Claims[0].Order, Action: sluice.Pay, PaymentID: "p", By: "test"}
	refusesChanges := func() {
		t.Helper()
		for _, order := range []sluice.OrderID{live.Claims[0].Order, "phone.0123456789abcdef0123456789abcdef"} {
			for _, action := range append([]sluice.Action{sluice.Extend}, actionsOfOrders...) {
				c := want(order, action)
				if action == sluice.Extend {
					c.ExpiresAt = time.Now().Add(time.Hour)
				}
				if _, err := s.Change(ctx, c); !errors.Is(err, sluice.ErrStoreOlder) {
					t.Errorf("%s of %s while the sale waits to be recovered: %v", action, order, err)
				}
			}
		}
		own := sluice.Change{Order: pay.Order, Action: sluice.Cancel, Buyer: live.Claims[0].Buyer, By: "buyer"}
		if _, err := s.Change(ctx, own); !errors.Is(err, sluice.ErrStoreOlder) {
			t.Errorf("a buyer's cancel: %v", err)
		}
		if h := history(t, s, pay.Order); len(h) != 1 {
			t.Errorf("recorded: %+v", h)
		}
	}
	refusesChanges()

	ended := anEntry("phone", 2, 7, 3) // of an epoch that the store has not heard of
	records := []port.Record{ended.Record(0), ended.Record(1), ended.Record(2)}
	records[0].Live, records[1].Live, records[2].Live = false, false, false
	records[1].Unpaid = true
	records[2].Epoch, records[2].Seq = 1, 1 // where another order stands
	for range 2 {
		left, err := s.InsertEnded(ctx, "phone", records, "node-1", "it had ended")
		if err != nil || len(left) != 1 || left[0] != records[2].Order {
			t.Fatalf("left %v, %v", left, err)
		}
	}
	for i := range 2 {
		o, err := s.Order(ctx, records[i].Order)
		if err != nil || o.Status != sluice.Cancelled || o.Unpaid != records[i].Unpaid {
			t.Errorf("%+v, %v", o, err)
		}
		if diff := cmp.Diff(records[i], port.RecordOf(&o)); diff != "" {
			t.Errorf("its claim (-want +got): %s", diff)
		}
		h, err := s.History(ctx, o.ID)
		if err != nil || len(h) != 2 || h[1].From != sluice.Pending || h[1].To != sluice.Cancelled ||
			h[1].Reason != "it had ended" {
			t.Errorf("history %+v, %v", h, err)
		}
	}
	if now, err := s.Sale(ctx, "phone"); err != nil || now.Taken != 2 {
		t.Errorf("taken %d of the 2 that live, %v", now.Taken, err)
	}
	if n, err := s.PendingReleases(ctx, "phone"); err != nil || n != 0 {
		t.Errorf("%d releases, %v", n, err)
	}

	if _, err := s.Recovered(ctx, "phone", 2, "a test", time.Hour); !errors.Is(err, port.ErrStaleEpoch) {
		t.Errorf("of another epoch: %v", err)
	}
	until := must.Get(s.Recovered(ctx, "phone", 1, "a test", time.Hour))(t)
	fence("older: five", "recovered: a test")
	for i := range live.Claims {
		o, err := s.Order(ctx, live.Claims[i].Order)
		if err != nil || o.ExpiresAt.Before(until) || o.KeepUntil.Before(until) {
			t.Errorf("due at %v and %v, %v; want %v", o.ExpiresAt, o.KeepUntil, err, until)
		}
	}
	if n, err := s.ExpireDue(ctx, 10, nil, nil); err != nil || len(n) != 0 {
		t.Errorf("expired %v, %v", n, err)
	}
	refusesChanges() // until its rebuild has ended
	must.Get(s.BeginLoad(ctx, "phone", 0))(t)
	must.Succeed(t, s.ConfirmLoad(ctx, "phone", 2))
	if o, err := s.Change(ctx, pay); err != nil || o.Status != sluice.Paid {
		t.Errorf("paid again once it is recovered: %s, %v", o.Status, err)
	}
}

// An order whose ending the store has forgotten ends, once. What was paid is never taken for refunded: the
// money may be with the shop.
func testEndAgain(t *testing.T, db Database) {
	s := db.Open(t)
	for sale, late := range map[sluice.SaleID]bool{"in-time": false, "late": true} {
		create(t, s, aSale(sale, sluice.Unlimited))
		src := source{sale: sale, epoch: 1}
		for _, c := range []struct {
			status       sluice.Status
			unpaid       bool
			want, wanted sluice.Status // where its time has passed
		}{
			{sluice.Pending, false, sluice.Cancelled, sluice.Cancelled},
			{sluice.Pending, true, sluice.Cancelled, sluice.Expired},
			{sluice.Paid, false, sluice.RefundDue, sluice.RefundDue},
			{sluice.Paid, true, sluice.RefundDue, sluice.RefundDue},
			{sluice.Rejected, false, sluice.Rejected, sluice.Rejected},
			{sluice.RefundDue, false, sluice.RefundDue, sluice.RefundDue},
		} {
			t.Run(fmt.Sprintf("%s, unpaid %v, %s", c.status, c.unpaid, sale), func(t *testing.T) {
				want := c.want
				order := become(t, s, db, &src, c.status)
				if late {
					want = c.wanted
					db.Age(t, sale, 24*time.Hour)
				}
				before, taken := read1(t, s, order), read(t, s, sale).Taken
				ended := port.RecordOf(&before)
				ended.Live, ended.Unpaid = false, c.unpaid
				for range 2 {
					must.Succeed(t, s.EndAgain(t.Context(), &ended, "node-1", "it had ended"))
				}
				o := read1(t, s, order)
				if o.Status != want || o.Unpaid != c.unpaid || o.PaymentID != before.PaymentID {
					t.Errorf("%+v, want %s", o, want)
				}
				if !c.status.Live() {
					if n := given(t, s); len(n) != 0 || o.Status != c.status {
						t.Errorf("%s, returned %v", o.Status, n)
					}
					return
				}
				if got := read(t, s, sale).Taken; got != taken-o.Quantity {
					t.Errorf("taken %d, and %d before", got, taken)
				}
				if diff := cmp.Diff([]port.Release{releaseOf(&o, read(t, s, sale).Epoch)}, given(t, s)); diff != "" {
					t.Errorf("releases (-want +got):\n%s", diff)
				}
				h := history(t, s, order)
				if last := h[len(h)-1]; last.From != c.status || last.To != want || last.By != "node-1" ||
					last.Reason != "it had ended" {
					t.Errorf("history %+v", h)
				}
				if want == sluice.RefundDue {
					change(t, s, sluice.Change{Order: order, Action: sluice.Refund, By: "test"})
					if n := given(t, s); len(n) != 0 {
						t.Errorf("returned twice (I6): %v", n)
					}
				}
			})
		}
	}
}

// anEntry is an entry of n claims, at places from seq on.
func anEntry(sale sluice.SaleID, epoch, seq int64, n int) port.Entry {
	e := port.Entry{
		ID: fmt.Sprint("entry-", epoch, "-", seq), Sale: sale, Epoch: epoch, Node: "node-1", Terms: 1, FirstSeq: seq,
		At: time.Now().UTC().Truncate(time.Millisecond),
	}
	for i := range n {
		name := fmt.Sprintf("%d-%d-%d", epoch, seq, i)
		e.Claims = append(e.Claims, sluice.Claim{
			Buyer: sluice.BuyerID("buyer-" + name), Key: "attempt-1", Quantity: 1,
			Order: sale.Order(fmt.Sprintf("%032x", strings.ReplaceAll(name, "-", ""))),
		})
	}
	return e
}
