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

	pay := sluice.Change{Order: live.Claims[0].Order, Action: sluice.Pay, PaymentID: "p", By: "test"}
	if _, err := s.Change(ctx, pay); !errors.Is(err, sluice.ErrOrderQueued) {
		t.Errorf("a payment that may have come in time: %v", err)
	}

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
	if o, err := s.Change(ctx, pay); err != nil || o.Status != sluice.Paid {
		t.Errorf("paid again once it is recovered: %s, %v", o.Status, err)
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
