package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// endings is the part of the model that ends orders.
type endings struct {
	old      map[sluice.OrderID]bool // its time has passed
	payments map[string]sluice.OrderID
	changes  map[sluice.OrderID][]sluice.HistoryEntry
	releases map[sluice.OrderID]port.Release
}

func newEndings() endings {
	return endings{
		map[sluice.OrderID]bool{},
		map[string]sluice.OrderID{},
		map[sluice.OrderID][]sluice.HistoryEntry{},
		map[sluice.OrderID]port.Release{},
	}
}

// change is Change by the book.
func (m *model) change(c sluice.Change) (sluice.Order, error) {
	for i := range m.orders {
		o := &m.orders[i]
		if o.ID != c.Order || c.Buyer != "" && c.Buyer != o.Buyer {
			continue
		}
		held := o.Status == sluice.Pending || o.Status == sluice.Paid
		var to sluice.Status
		switch c.Action {
		case sluice.Pay:
			due := sluice.Money{Amount: o.Quantity * o.Price.Amount, Currency: o.Price.Currency}
			other := m.payments[c.PaymentID]
			switch {
			case c.Paid != sluice.Money{} && c.Paid != due:
				m.refuse(o, c, fmt.Sprintf("payment_amount: %s was paid, %s is due", c.Paid, due))
				return sluice.Order{}, &sluice.PaymentAmountError{Order: o.ID, Paid: c.Paid, Due: due}
			case o.PaymentID != "" && o.PaymentID != c.PaymentID:
				m.refuse(o, c, "payment_conflict: the order has another payment")
				return sluice.Order{}, &sluice.PaymentConflictError{Order: o.ID, Have: o.PaymentID}
			case o.PaymentID != "":
				return *o, nil
			case other != "":
				m.refuse(o, c, fmt.Sprintf("payment_conflict: the order %s has this payment", other))
				return sluice.Order{}, &sluice.PaymentConflictError{Order: o.ID, Other: other}
			}
			m.payments[c.PaymentID] = o.ID
			if o.Status == sluice.Pending && m.old[o.ID] {
				m.changes[o.ID] = append(m.changes[o.ID], sluice.HistoryEntry{
					Order: o.ID, From: o.Status, To: sluice.Expired, Action: sluice.Expire, By: "expiry",
				})
				o.Status = sluice.Expired
			}
			to = sluice.RefundDue
			if o.Status == sluice.Pending {
				to = sluice.Paid
			}
			o.PaymentID = c.PaymentID
		case sluice.Refund:
			if o.PaymentID == "" {
				return *o, &sluice.OrderStateError{Order: o.ID, Status: o.Status, Action: c.Action}
			}
			to = sluice.Refunded
		default:
			to = map[sluice.Action]sluice.Status{
				sluice.Cancel: sluice.Cancelled, sluice.Expire: sluice.Expired,
				sluice.Reject: sluice.Rejected,
			}[c.Action]
			early := c.Action == sluice.Expire && !m.old[o.ID]
			if o.Status != to && (o.Status != sluice.Pending || early) {
				return *o, &sluice.OrderStateError{Order: o.ID, Status: o.Status, Action: c.Action}
			}
		}
		if to == o.Status {
			return *o, nil
		}
		if c.Action == sluice.Reject {
			o.Reason = c.Reason
		}
		m.changes[o.ID] = append(m.changes[o.ID], sluice.HistoryEntry{
			Order: o.ID, From: o.Status, To: to, Action: c.Action, By: c.By, Reason: c.Reason, PaymentID: c.PaymentID,
		})
		o.Status = to
		o.Unpaid = o.Unpaid || to == sluice.Expired || to == sluice.Cancelled && c.Buyer != ""
		if held && to != sluice.Paid {
			m.sale.Taken -= o.Quantity
			m.releases[o.ID] = releaseOf(o, m.sale.Epoch)
		}
		return *o, nil
	}
	known := slices.ContainsFunc(m.orders, func(o sluice.Order) bool { return o.ID == c.Order })
	if !known && m.sale.Fence != "" {
		return sluice.Order{}, sluice.ErrOrderQueued // a rebuild may bring it back
	}
	return sluice.Order{}, sluice.ErrOrderNotFound
}

// refuse records a payment, once for each status.
func (m *model) refuse(o *sluice.Order, c sluice.Change, why string) {
	for _, e := range m.changes[o.ID] {
		if e.From == o.Status && e.To == o.Status && e.PaymentID == c.PaymentID {
			return
		}
	}
	m.changes[o.ID] = append(m.changes[o.ID], sluice.HistoryEntry{
		Order: o.ID, From: o.Status, To: o.Status, Action: c.Action, By: c.By, Reason: why, PaymentID: c.PaymentID,
	})
}

func (m *model) due() (n int) {
	if m.sale.Fence != "" {
		return 0
	}
	for _, o := range m.orders {
		if o.Status == sluice.Pending && m.old[o.ID] {
			n++
		}
	}
	return n
}

func (r *randomRun) changeOrder() {
	if len(r.model.orders) == 0 {
		return
	}
	n := len(r.model.orders)
	o := r.model.orders[n-1-r.random.IntN(min(n, 15))] // the same again and again
	c := sluice.Change{
		Order: o.ID, Action: actionsOfOrders[r.random.IntN(5)],
		By: fmt.Sprintf("by-%d", r.random.IntN(3)), Reason: fmt.Sprintf("reason-%d", r.random.IntN(3)),
	}
	if c.Action == sluice.Pay {
		of := n - 1 - r.random.IntN(min(n, 3)) // often another order's
		c.PaymentID = fmt.Sprintf("%s-%d", paymentOf(r.model.orders[of].ID), r.random.IntN(2))
		switch r.random.IntN(4) {
		case 0:
			c.Paid = o.Price
		case 1:
			c.Paid = o.Due()
		}
	}
	switch r.random.IntN(10) {
	case 0:
		c.Buyer = "somebody else"
	case 1:
		c.Buyer = o.Buyer
	case 2:
		c.Order = o.Sale.Order("0123456789abcdef0123456789abcdef")
	}
	want, wantErr := r.model.change(c)
	got, err := r.s.Change(r.t.Context(), c)
	state, conflict, amount := (*sluice.OrderStateError)(nil), (*sluice.PaymentConflictError)(nil),
		(*sluice.PaymentAmountError)(nil)
	switch {
	case errors.As(wantErr, &state):
		have := (*sluice.OrderStateError)(nil)
		if !errors.As(err, &have) || *have != *state {
			r.t.Errorf("%+v: error %v, want %v", c, err, wantErr)
		}
	case errors.As(wantErr, &conflict):
		have := (*sluice.PaymentConflictError)(nil)
		if !errors.As(err, &have) || *have != *conflict {
			r.t.Errorf("%+v: error %v, want %v", c, err, wantErr)
		}
	case errors.As(wantErr, &amount):
		have := (*sluice.PaymentAmountError)(nil)
		if !errors.As(err, &have) || *have != *amount {
			r.t.Errorf("%+v: error %v, want %v", c, err, wantErr)
		}
	case wantErr != nil:
		wantError(r.t, err, wantErr)
	case err != nil:
		r.t.Errorf("%+v: %v", c, err)
	default:
		got.StoredAt, got.ExpiresAt, got.KeepUntil, got.UpdatedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
		if diff := cmp.Diff(want, got); diff != "" {
			r.t.Errorf("%+v (-want +got):\n%s", c, diff)
		}
	}
}

// stale returns claims of an epoch that may have passed.
func (r *randomRun) stale() []port.Entry {
	entries := r.fresh()
	last := &entries[len(entries)-1]
	last.Epoch = max(last.Epoch-1, 1)
	last.FirstSeq += 1_000_000 // a place of its own in that epoch
	return entries
}

// grow lets the time of all orders pass.
func (r *randomRun) grow() {
	r.db.Age(r.t, r.model.sale.ID, time.Hour)
	for _, o := range r.model.orders {
		r.model.old[o.ID] = true
	}
}

// expire expires some. Which ones, among equally old ones, is the store's
// choice; the model follows.
func (r *randomRun) expire() {
	limit := 1 + r.random.IntN(20)
	due := r.model.due()
	n, err := expireDue(r.t.Context(), r.s, limit)
	if err != nil || n != min(due, limit) {
		r.t.Errorf("%d expired, error %v; %d are due, the limit is %d", n, err, due, limit)
	}
	for _, o := range r.model.orders {
		if o.Status == sluice.Pending && r.model.old[o.ID] && read1(r.t, r.s, o.ID).Status == sluice.Expired {
			n--
			if _, err := r.model.change(sluice.Change{Order: o.ID, Action: sluice.Expire, By: "expiry"}); err != nil {
				r.t.Error(err)
			}
		}
	}
	if n != 0 {
		r.t.Errorf("%d expired that were not due", n)
	}
}

func (r *randomRun) release() {
	limit, fails := 1+r.random.IntN(20), r.random.IntN(3) == 0
	waiting := len(r.model.releases)
	handed := 0
	n, err := r.s.GiveReleases(r.t.Context(), limit, func(sale sluice.SaleID, releases []port.Release) error {
		handed += len(releases)
		for _, release := range releases {
			if r.model.releases[release.Order] != release {
				r.t.Errorf("handed out %+v, want %+v", release, r.model.releases[release.Order])
			}
			if !fails {
				delete(r.model.releases, release.Order)
			}
		}
		if fails {
			return errLedgerIsDown
		}
		return nil
	})
	want := min(limit, waiting)
	if fails && want > 0 {
		wantError(r.t, err, errLedgerIsDown)
		err, n = nil, n+want
	}
	if err != nil || handed != want || n != want {
		r.t.Errorf("%d handed out, %d given, error %v; %d wait, the limit is %d", handed, n, err, waiting, limit)
	}
}

func (r *randomRun) compareEndings() {
	t := r.t
	t.Helper()
	if n, err := r.s.PendingReleases(t.Context(), r.model.sale.ID); err != nil || n != int64(len(r.model.releases)) {
		t.Errorf("%d releases wait, %v, want %d", n, err, len(r.model.releases))
	}
	byStatus := map[sluice.Status]int64{}
	for _, o := range r.model.orders {
		byStatus[o.Status]++
	}
	counts, err := r.s.CountOrders(t.Context(), r.model.sale.ID)
	if diff := cmp.Diff(byStatus, counts); diff != "" || err != nil {
		t.Errorf("orders by status (-want +got): %v\n%s", err, diff)
	}
	for _, o := range r.model.orders {
		got := history(t, r.s, o.ID)
		stored := sluice.HistoryEntry{Order: o.ID, From: sluice.Queued, To: o.Status, By: "node-1"}
		if changes := r.model.changes[o.ID]; len(changes) > 0 {
			stored.To = changes[0].From
		}
		if stored.To == sluice.Rejected {
			stored.Reason = sluice.NotCovered
		}
		want := append([]sluice.HistoryEntry{stored}, r.model.changes[o.ID]...)
		last := time.Time{}
		for i := range got {
			if got[i].At.Before(last) {
				t.Errorf("order %s: entry %d is at %v, before the one before it", o.ID, i, got[i].At)
			}
			last, got[i].At = got[i].At, time.Time{}
		}
		if diff := differ(want, got); diff != "" {
			t.Fatalf("history of %s (-want +got):\n%s", o.ID, diff)
		}
	}
}

// drain leaves nothing for the run that comes next on the same database.
func (r *randomRun) drain() {
	for r.model.due() > 0 && !r.t.Failed() {
		r.expire()
	}
	for len(r.model.releases) > 0 && !r.t.Failed() {
		r.release()
	}
	r.compare()
}
