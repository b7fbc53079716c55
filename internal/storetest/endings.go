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

const (
	someone = "tester"
	why     = "because"
)

// paymentOf is the usual payment of an order.
func paymentOf(order sluice.OrderID) string { return "payment-of-" + string(order) }

var actionsOfOrders = []sluice.Action{sluice.Pay, sluice.Cancel, sluice.Expire, sluice.Reject, sluice.Refund}

// want is a change with the usual payment, by, and reason.
func want(order sluice.OrderID, action sluice.Action) sluice.Change {
	c := sluice.Change{Order: order, Action: action, By: someone, Reason: why}
	if action == sluice.Pay {
		c.PaymentID = paymentOf(order)
	}
	return c
}

func change(t *testing.T, s port.Store, c sluice.Change) sluice.Order {
	t.Helper()
	order := must.Get(s.Change(t.Context(), c))(t)
	return order
}

func history(t *testing.T, s port.Store, order sluice.OrderID) []sluice.HistoryEntry {
	t.Helper()
	entries := must.Get(s.History(t.Context(), order))(t)
	return entries
}

// given takes all releases that wait, of all sales.
func given(t *testing.T, s port.Store) (all []port.Release) {
	t.Helper()
	for {
		n := must.Get(s.GiveReleases(t.Context(), 1000, func(_ sluice.SaleID, releases []port.Release) error {
			all = append(all, releases...)
			return nil
		}))(t)
		if n == 0 {
			return all
		}
	}
}

// releaseOf is the release of an order that ends under this epoch.
func releaseOf(o *sluice.Order, epoch int64) port.Release {
	return port.Release{
		Order: o.ID, Sale: o.Sale, Buyer: o.Buyer, Key: o.Key, Quantity: o.Quantity, Epoch: epoch,
		Unpaid: o.Unpaid,
	}
}

// The whole state machine, by real rows: every action on every status, in time
// and late. "-": not possible; "=": a repeat; "*": the units return; "+": two
// steps at once.
func testStateMachine(t *testing.T, db Database) {
	s := db.Open(t)
	const none = "-"
	for sale, late := range map[sluice.SaleID]bool{"in-time": false, "late": true} {
		create(t, s, aSale(sale, sluice.Unlimited))
		src := source{sale: sale, epoch: 1}
		for _, row := range []struct {
			status                                                   sluice.Status
			pay, payLate, cancel, expire, expireLate, reject, refund string
		}{
			{sluice.Pending, "paid", "refund_due*+", "cancelled*", none, "expired*", "rejected*", none},
			{sluice.Paid, "=paid", "=paid", none, none, none, none, "refunded*"},
			{sluice.Cancelled, "refund_due", "refund_due", "=cancelled", none, none, none, none},
			{sluice.Expired, "refund_due", "refund_due", none, "=expired", "=expired", none, none},
			{sluice.Rejected, "refund_due", "refund_due", none, none, none, "=rejected", none},
			{sluice.Refunded, "=refunded", "=refunded", none, none, none, none, "=refunded"},
			{sluice.RefundDue, "=refund_due", "=refund_due", none, none, none, none, "refunded"},
		} {
			wants := map[sluice.Action]string{
				sluice.Pay: row.pay, sluice.Cancel: row.cancel, sluice.Expire: row.expire, sluice.Reject: row.reject,
				sluice.Refund: row.refund,
			}
			if late {
				wants[sluice.Pay], wants[sluice.Expire] = row.payLate, row.expireLate
			}
			for _, action := range actionsOfOrders {
				t.Run(fmt.Sprintf("%s, %s, %s", row.status, action, sale), func(t *testing.T) {
					order := become(t, s, db, &src, row.status)
					if late {
						db.Age(t, sale, 24*time.Hour)
					}
					oneStep(t, s, order, action, wants[action])
				})
			}
		}
	}
}

// become stores an order of three units and brings it to a status.
func become(t *testing.T, s port.Store, db Database, src *source, status sluice.Status) sluice.OrderID {
	t.Helper()
	entry := src.entryOf(3)
	insert(t, s, port.Stored{Inserted: 1}, entry)
	order := entry.Claims[0].Order
	if status == sluice.Expired {
		db.Age(t, src.sale, 24*time.Hour)
	}
	for _, action := range map[sluice.Status][]sluice.Action{
		sluice.Paid: {sluice.Pay}, sluice.Cancelled: {sluice.Cancel}, sluice.Expired: {sluice.Expire},
		sluice.Rejected: {sluice.Reject},
		sluice.Refunded: {sluice.Pay, sluice.Refund}, sluice.RefundDue: {sluice.Cancel, sluice.Pay},
	}[status] {
		change(t, s, want(order, action))
	}
	given(t, s)
	if got := read1(t, s, order); got.Status != status {
		t.Fatalf("the order is %s, want %s", got.Status, status)
	}
	return order
}

func read1(t *testing.T, s port.Store, id sluice.OrderID) sluice.Order {
	t.Helper()
	order := must.Get(s.Order(t.Context(), id))(t)
	return order
}

// oneStep takes an action and checks everything that it may have touched.
func oneStep(t *testing.T, s port.Store, id sluice.OrderID, action sluice.Action, wanted string) {
	t.Helper()
	before, past := read1(t, s, id), history(t, s, id)
	taken := read(t, s, before.Sale).Taken
	got, err := s.Change(t.Context(), want(id, action))

	if wanted == "-" {
		refused := (*sluice.OrderStateError)(nil)
		if !errors.As(err, &refused) || *refused != (sluice.OrderStateError{
			Order: id, Status: before.Status, Action: action,
		}) {
			t.Errorf("error %v, want an OrderStateError", err)
		}
		got, wanted = before, "="+string(before.Status)
	} else if err != nil {
		t.Fatal(err)
	}
	after := before
	after.Status = sluice.Status(strings.Trim(wanted, "=*+"))
	if wanted[0] != '=' {
		past = append(past, steps(&before, &got, action, after.Status, strings.HasSuffix(wanted, "+"))...)
		after.UpdatedAt = got.UpdatedAt
		if got.UpdatedAt.Before(before.UpdatedAt) || time.Since(got.UpdatedAt).Abs() > time.Hour {
			t.Errorf("updated at %v, before that at %v", got.UpdatedAt, before.UpdatedAt)
		}
		switch action {
		case sluice.Pay:
			after.PaymentID = paymentOf(id)
		case sluice.Reject:
			after.Reason = why
		case sluice.Expire:
			after.Unpaid = true
		}
	}
	if diff := cmp.Diff(after, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, read1(t, s, id)); diff != "" {
		t.Errorf("order (-told +stored):\n%s", diff)
	}
	if diff := cmp.Diff(past, history(t, s, id)); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	var releases []port.Release
	if strings.Contains(wanted, "*") {
		releases = []port.Release{releaseOf(&after, 1)}
		taken -= before.Quantity
	}
	if got := read(t, s, before.Sale).Taken; got != taken {
		t.Errorf("taken %d, want %d", got, taken)
	}
	if n, err := s.PendingReleases(t.Context(), before.Sale); err != nil || n != int64(len(releases)) {
		t.Errorf("%d releases wait, %v, want %d", n, err, len(releases))
	}
	if diff := cmp.Diff(releases, given(t, s)); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
}

// steps is what the history says of one change that took place.
func steps(before, after *sluice.Order, action sluice.Action, to sluice.Status,
	two bool,
) (entries []sluice.HistoryEntry) {
	last := sluice.HistoryEntry{
		Order: before.ID, At: after.UpdatedAt, From: before.Status, To: to, Action: action,
		By: someone, Reason: why,
	}
	if action == sluice.Pay {
		last.PaymentID = paymentOf(before.ID)
	}
	if two {
		entries = append(entries, sluice.HistoryEntry{
			Order: before.ID, At: after.UpdatedAt, From: before.Status, To: sluice.Expired, Action: sluice.Expire, By: "expiry",
		})
		last.From = sluice.Expired
	}
	return append(entries, last)
}

// An order that ends because its buyer did not pay says so for ever, its release
// carries it to the ledger, and so does the image of a load.
func testUnpaidEndings(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	unpaid := map[sluice.OrderID]bool{}
	for _, c := range []struct {
		name   string
		unpaid bool
		steps  string // actions, of the merchant; aged: its deadline passes; due: the job expires it
	}{
		{"the buyer cancels", true, "buyer"},
		{"the merchant cancels", false, "cancel"},
		{"the merchant cancels, and then the buyer", false, "cancel buyer"},
		{"the merchant rejects", false, "reject"},
		{"paid and refunded", false, "pay refund"},
		{"paid too late, before it expires", false, "aged pay"},
		{"it expires", true, "aged due"},
		{"it is expired, paid then, and refunded", true, "aged expire pay refund"},
	} {
		claim := src.store(t, s, 1).Claims[0]
		order := claim.Order
		for _, step := range strings.Fields(c.steps) {
			switch step {
			case "aged":
				db.Age(t, "phones", 24*time.Hour)
			case "due":
				expire(t, s, 10, 1)
			case "buyer":
				change(t, s, sluice.Change{Order: order, Action: sluice.Cancel, Buyer: claim.Buyer, By: someone})
			default:
				change(t, s, want(order, sluice.Action(step)))
			}
		}
		unpaid[order] = c.unpaid
		if got := read1(t, s, order); got.Unpaid != c.unpaid {
			t.Errorf("%s: the order says unpaid %v", c.name, got.Unpaid)
		}
		if releases := given(t, s); len(releases) != 1 || releases[0].Order != order || releases[0].Unpaid != c.unpaid {
			t.Errorf("%s: releases %+v", c.name, releases)
		}
	}
	must.Succeed(t, s.FenceSale(t.Context(), "phones", 1, "test"))
	image, err := s.BeginLoad(t.Context(), "phones", 0)
	if err != nil || len(image.Records) != len(unpaid) {
		t.Fatalf("%d records to load, %v", len(image.Records), err)
	}
	for _, r := range image.Records {
		if r.Unpaid != unpaid[r.Order] || r.Live {
			t.Errorf("record to load of %s: unpaid %v, live %v; want unpaid %v, ended", r.Order, r.Unpaid, r.Live,
				unpaid[r.Order])
		}
	}
}

func testChangeOfOthers(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.store(t, s, 2)
	mine, other := entry.Claims[0], entry.Claims[1]
	unchanged(t, s, "phones", func() {
		for _, buyer := range []sluice.BuyerID{other.Buyer, mine.Buyer + " ", "\x00", "nobody"} {
			c := want(mine.Order, sluice.Cancel)
			c.Buyer = buyer
			_, err := s.Change(t.Context(), c)
			wantError(t, err, sluice.ErrOrderNotFound)
		}
		for _, id := range []sluice.OrderID{
			"", "x", "\x00\xff", sluice.SaleID("phones").Order(strings.Repeat("f", 32)),
			sluice.OrderID(strings.ToUpper(string(mine.Order))),
		} {
			_, err := s.Change(t.Context(), want(id, sluice.Cancel))
			wantError(t, err, sluice.ErrOrderNotFound)
			_, err = s.History(t.Context(), id)
			wantError(t, err, sluice.ErrOrderNotFound)
		}
	})
	c := want(mine.Order, sluice.Cancel)
	c.Buyer = mine.Buyer
	if got := change(t, s, c); got.Status != sluice.Cancelled {
		t.Errorf("the order is %s", got.Status)
	}
	mustBeSound(t, s, "phones")
}

func testChangeInvalid(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.store(t, s, 1)
	order := entry.Claims[0].Order
	unchanged(t, s, "phones", func() {
		for name, c := range map[string]sluice.Change{
			"no action":              {Order: order},
			"unknown action":         {Order: order, Action: "steal"},
			"no payment":             {Order: order, Action: sluice.Pay},
			"over-long payment":      {Order: order, Action: sluice.Pay, PaymentID: strings.Repeat("p", 129)},
			"payment with NUL":       {Order: order, Action: sluice.Pay, PaymentID: "a\x00b"},
			"payment of two lines":   {Order: order, Action: sluice.Pay, PaymentID: "a\nb"},
			"payment not UTF-8":      {Order: order, Action: sluice.Pay, PaymentID: "\xff"},
			"cancel with an amount":  {Order: order, Action: sluice.Cancel, Paid: sluice.Money{Amount: 1, Currency: "CNY"}},
			"cancel with payment":    {Order: order, Action: sluice.Cancel, PaymentID: "p"},
			"the store's own reason": {Order: order, Action: sluice.Reject, Reason: sluice.NotCovered},
			"over-long reason":       {Order: order, Action: sluice.Reject, Reason: strings.Repeat("r", 1025)},
			"over-long name of some": {Order: order, Action: sluice.Reject, By: strings.Repeat("b", 257)},
		} {
			_, err := s.Change(t.Context(), c)
			state := (*sluice.OrderStateError)(nil)
			if err == nil || errors.As(err, &state) || errors.Is(err, sluice.ErrOrderNotFound) {
				t.Errorf("%s: error %v", name, err)
			}
		}
	})
	// Texts may quote anything.
	got := change(t, s, sluice.Change{
		Order: order, Action: sluice.Reject, By: "\x00",
		Reason: "torn \xff\x00, 没有库存 ' \" \\ \n",
	})
	if want := "torn \uFFFD\uFFFD, 没有库存 ' \" \\ \n"; got.Reason != want || read1(t, s, order).Reason != want ||
		history(t, s, order)[1].Reason != want {
		t.Errorf("reason %q", got.Reason)
	}
	exact := strings.Repeat("界", 42) + "!!"
	if got := change(t, s, sluice.Change{Order: order, Action: sluice.Pay, PaymentID: exact}); got.PaymentID != exact {
		t.Errorf("payment %q", got.PaymentID)
	}
}

// Paying again with the same id changes nothing; with another one it is
// refused, and recorded.
func testPaymentConflict(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	for _, status := range []sluice.Status{sluice.Paid, sluice.RefundDue, sluice.Refunded} {
		order := become(t, s, db, src, status)
		past := history(t, s, order)
		for range 2 {
			change(t, s, want(order, sluice.Pay))
		}
		if diff := cmp.Diff(past, history(t, s, order)); diff != "" {
			t.Errorf("%s: history after repeats (-want +got):\n%s", status, diff)
		}
		others := []string{"payment-2", strings.ToUpper(paymentOf(order)), paymentOf(order) + " "}
		buyer := must.Get(s.Order(t.Context(), order))(t).Buyer
		for i, other := range []string{others[0], others[0], others[1], others[2], others[0]} {
			c := want(order, sluice.Pay)
			c.PaymentID = other
			if i == 1 { // who pays makes no difference
				c.Buyer = buyer
			}
			unchanged(t, s, "phones", func() {
				got, err := s.Change(t.Context(), c)
				conflict := (*sluice.PaymentConflictError)(nil)
				if !errors.As(err, &conflict) || *conflict != (sluice.PaymentConflictError{Order: order, Have: paymentOf(order)}) ||
					got != (sluice.Order{}) {
					t.Errorf("%s: %+v, error %v", status, got, err)
				}
			})
		}
		got := history(t, s, order)
		if len(got) != len(past)+3 { // the same attempt is kept once
			t.Fatalf("%s: %d entries, want %d", status, len(got), len(past)+3)
		}
		for i, other := range others {
			e := got[len(past)+i]
			if at := e.At; at.Before(past[len(past)-1].At) {
				t.Errorf("%s: refused at %v, before the entry before it", status, at)
			}
			want := sluice.HistoryEntry{
				Order: order, At: e.At, From: status, To: status, Action: sluice.Pay, By: someone,
				Reason: "payment_conflict: the order has another payment", PaymentID: other,
			}
			if diff := cmp.Diff(want, e); diff != "" {
				t.Errorf("%s (-want +got):\n%s", status, diff)
			}
		}
		if status == sluice.Paid { // the refund of an order that refused payments
			change(t, s, want(order, sluice.Refund))
		}
	}
	given(t, s)
	mustBeSound(t, s, "phones")
}

// A payment of another amount or currency than is due is refused and recorded,
// whatever the order's status, and changes nothing.
func testPaymentAmount(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	for _, status := range []sluice.Status{
		sluice.Pending, sluice.Paid, sluice.Cancelled, sluice.Expired, sluice.Rejected, sluice.RefundDue, sluice.Refunded,
	} {
		o := read1(t, s, become(t, s, db, src, status))
		past, due := history(t, s, o.ID), sluice.Money{Amount: 3 * o.Price.Amount, Currency: o.Price.Currency}
		if o.Due() != due {
			t.Fatalf("%s is due for %d of %s", o.Due(), o.Quantity, o.Price)
		}
		c := want(o.ID, sluice.Pay)
		for i, paid := range []sluice.Money{o.Price, {Amount: due.Amount, Currency: "EUR"}, {Amount: -1, Currency: "CNY"}} {
			c.PaymentID, c.Paid = fmt.Sprintf("%s-%d", paymentOf(o.ID), i), paid
			for range 2 {
				unchanged(t, s, "phones", func() {
					_, err := s.Change(t.Context(), c)
					wrong := (*sluice.PaymentAmountError)(nil)
					if !errors.As(err, &wrong) || *wrong != (sluice.PaymentAmountError{Order: o.ID, Paid: paid, Due: due}) {
						t.Errorf("%s: error %v", status, err)
					}
				})
			}
		}
		got := history(t, s, o.ID)
		if len(got) != len(past)+3 {
			t.Fatalf("%s: %d entries, want %d", status, len(got), len(past)+3)
		}
		refused := sluice.HistoryEntry{
			Order: o.ID, At: got[len(past)].At, From: status, To: status, Action: sluice.Pay, By: someone,
			Reason:    fmt.Sprintf("payment_amount: %s was paid, %s is due", o.Price, due),
			PaymentID: paymentOf(o.ID) + "-0",
		}
		if diff := cmp.Diff(refused, got[len(past)]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", status, diff)
		}
		c.PaymentID, c.Paid = paymentOf(o.ID), due
		if got, err := s.Change(t.Context(), c); err != nil || got.PaymentID != c.PaymentID {
			t.Errorf("%s, then what is due: %+v, %v", status, got, err)
		}
	}
	given(t, s)
	mustBeSound(t, s, "phones")
}

// One payment pays one order: what another order has is refused and recorded, also
// when the first order has ended since. The order can still be paid otherwise.
func testPaymentOfAnother(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	src := selling(t, s, "phones", 100)
	for _, first := range []sluice.Status{sluice.Paid, sluice.RefundDue, sluice.Refunded} {
		has := become(t, s, db, src, first)
		for _, status := range []sluice.Status{sluice.Pending, sluice.Cancelled, sluice.Expired, sluice.Rejected} {
			id := become(t, s, db, src, status)
			past := history(t, s, id)
			c := want(id, sluice.Pay)
			c.PaymentID = paymentOf(has)
			for range 2 {
				unchanged(t, s, "phones", func() {
					_, err := other.Change(t.Context(), c)
					conflict := (*sluice.PaymentConflictError)(nil)
					if !errors.As(err, &conflict) || *conflict != (sluice.PaymentConflictError{Order: id, Other: has}) {
						t.Errorf("%s, then %s: error %v", first, status, err)
					}
				})
			}
			got := history(t, s, id)
			if len(got) != len(past)+1 || got[len(past)].From != status || got[len(past)].To != status ||
				got[len(past)].PaymentID != paymentOf(has) ||
				got[len(past)].Reason != fmt.Sprintf("payment_conflict: the order %s has this payment", has) {
				t.Errorf("%s, then %s: history %+v", first, status, got)
			}
			change(t, s, want(id, sluice.Pay))
		}
		change(t, s, want(has, sluice.Pay)) // a repeat
	}
	given(t, s)
	mustBeSound(t, s, "phones")
}

// The table of payments is newer than that of orders: the order has a payment there that
// its row does not know. Another one is refused, and that one is the order's.
func testPaymentLeftOver(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 100)
	o := src.store(t, s, 1).Claims[0].Order
	db.Execute(t, "INSERT INTO payments (payment_id, order_id) VALUES ('"+paymentOf(o)+"', '"+string(o)+"')")
	c := want(o, sluice.Pay)
	c.PaymentID = "another"
	_, err := s.Change(t.Context(), c)
	conflict, ok := errors.AsType[*sluice.PaymentConflictError](err)
	if !ok || *conflict != (sluice.PaymentConflictError{Order: o, Have: paymentOf(o)}) {
		t.Errorf("error %v", err)
	}
	if past := history(t, s, o); len(past) != 2 || past[1].PaymentID != "another" {
		t.Errorf("history %+v", past)
	}
	if got := change(t, s, want(o, sluice.Pay)); got.Status != sluice.Paid {
		t.Errorf("paid: %+v", got)
	}
}

// The first entry is the order being stored, whatever came after.
func testHistory(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 2)
	entry := src.entry(3) // the last one is not covered
	entry.Node = "node-7"
	rejected := entry.Claims[2].Order
	insert(t, s, port.Stored{Inserted: 3, Rejected: []sluice.OrderID{rejected}}, entry)
	check := func(order sluice.OrderID, want ...sluice.HistoryEntry) {
		t.Helper()
		got := history(t, s, order)
		stored := read1(t, s, order)
		for i := range got {
			if i > 0 && got[i].At.Before(got[i-1].At) || i == 0 && !got[i].At.Equal(stored.StoredAt) {
				t.Errorf("entry %d is at %v", i, got[i].At)
			}
			got[i].At = time.Time{}
		}
		for i := range want {
			want[i].Order = order
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	}
	first := sluice.HistoryEntry{From: sluice.Queued, To: sluice.Pending, By: "node-7"}
	notCovered := sluice.HistoryEntry{From: sluice.Queued, To: sluice.Rejected, By: "node-7", Reason: sluice.NotCovered}
	due := func(order sluice.OrderID, from sluice.Status) sluice.HistoryEntry {
		return sluice.HistoryEntry{
			From: from, To: sluice.RefundDue, Action: sluice.Pay, By: someone, Reason: why,
			PaymentID: paymentOf(order),
		}
	}
	step := func(from, to sluice.Status, action sluice.Action) sluice.HistoryEntry {
		return sluice.HistoryEntry{From: from, To: to, Action: action, By: someone, Reason: why}
	}
	check(entry.Claims[0].Order, first)
	check(rejected, notCovered)
	change(t, s, want(rejected, sluice.Pay))
	check(rejected, notCovered, due(rejected, sluice.Rejected))
	change(t, s, want(rejected, sluice.Refund))
	check(rejected, notCovered, due(rejected, sluice.Rejected), step(sluice.RefundDue, sluice.Refunded, sluice.Refund))
	if n := len(given(t, s)); n != 0 {
		t.Errorf("%d releases of an order that never held units", n)
	}

	change(t, s, want(entry.Claims[0].Order, sluice.Reject))
	check(entry.Claims[0].Order, first, step(sluice.Pending, sluice.Rejected, sluice.Reject))
	change(t, s, want(entry.Claims[0].Order, sluice.Pay))
	check(entry.Claims[0].Order, first, step(sluice.Pending, sluice.Rejected, sluice.Reject),
		due(entry.Claims[0].Order, sluice.Rejected))

	db.Age(t, "phones", 24*time.Hour)
	change(t, s, want(entry.Claims[1].Order, sluice.Pay))
	check(entry.Claims[1].Order, first, sluice.HistoryEntry{
		From: sluice.Pending, To: sluice.Expired, Action: sluice.Expire, By: "expiry",
	}, due(entry.Claims[1].Order, sluice.Expired))
}
