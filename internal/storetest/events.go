package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// numberAll gives numbers until nothing is without one.
func numberAll(t *testing.T, s port.Store, limit int) {
	t.Helper()
	for {
		n := must.Get(s.NumberEvents(t.Context(), limit))(t)
		if n == 0 {
			return
		}
	}
}

// feed reads the whole feed in pages of a size, and checks its numbers.
func feed(t *testing.T, s port.Store, limit int) (all []sluice.Event) {
	t.Helper()
	for {
		page := must.Get(s.Events(t.Context(), int64(len(all)), limit))(t)
		for i := range page {
			if page[i].Seq != int64(len(all)+i+1) {
				t.Fatalf("event %d stands at place %d", page[i].Seq, len(all)+i+1)
			}
		}
		all = append(all, page...)
		if len(page) < limit {
			return all
		}
	}
}

// told is an event, shortly.
func told(e *sluice.Event) string {
	if e.Order.ID == "" {
		return string(e.Type)
	}
	text := fmt.Sprintf("%s %s %s", e.Type, e.Order.Buyer, e.Order.Status)
	for _, more := range []string{e.Order.Reason, e.Order.PaymentID, e.RefusedPayment} {
		text += "/" + more
	}
	return text
}

func testEvents(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	if got := feed(t, s, 10); len(got) != 0 {
		t.Errorf("an empty store has %d events", len(got))
	}
	if n, err := s.NumberEvents(t.Context(), 10); err != nil || n != 0 {
		t.Errorf("numbered %d of nothing, %v", n, err)
	}
	src := selling(t, s, "phones", 6)
	entry := src.entry(7)
	id := func(i int) sluice.OrderID { return entry.Claims[i].Order }
	insert(t, s, port.Stored{Inserted: 7, Rejected: []sluice.OrderID{id(6)}}, entry)
	numberAll(t, s, 100)
	change(t, s, sluice.Change{Order: id(0), Action: sluice.Pay, PaymentID: "p0"})
	if _, err := s.Change(t.Context(), sluice.Change{Order: id(0), Action: sluice.Pay, PaymentID: "p1"}); !errors.As(err,
		new(*sluice.PaymentConflictError)) {
		t.Errorf("second payment: %v", err)
	}
	change(t, s, sluice.Change{Order: id(0), Action: sluice.Refund})
	numberAll(t, other, 100)
	change(t, s, sluice.Change{Order: id(1), Action: sluice.Cancel})
	change(t, s, sluice.Change{Order: id(1), Action: sluice.Pay, PaymentID: "p2"})
	change(t, s, sluice.Change{Order: id(2), Action: sluice.Reject, Reason: "broken"})
	change(t, s, sluice.Change{Order: id(6), Action: sluice.Pay, PaymentID: "p6"})
	db.Age(t, "phones", time.Hour)
	change(t, s, sluice.Change{Order: id(3), Action: sluice.Pay, PaymentID: "p3"}) // too late
	fenced := must.Get(s.Sale(t.Context(), "phones"))(t)                           // since one was not covered
	must.Get(s.BeginLoad(t.Context(), "phones", fenced.Epoch))(t)
	must.Succeed(t, s.ConfirmLoad(t.Context(), "phones", fenced.Epoch+1))
	if n, err := expireDue(t.Context(), s, 10); err != nil || n != 2 {
		t.Errorf("expired %d, %v", n, err)
	}
	must.Get(s.Restock(t.Context(), "phones", "r1", 4))(t)
	must.Get(s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error {
		sale.Paused, sale.Title = true, "Another thing"
		return nil
	}))(t)
	numberAll(t, s, 100)

	all := feed(t, other, sluice.MaxPage)
	bySubject := map[string][]string{}
	for i := range all {
		e := &all[i]
		bySubject[e.Subject()] = append(bySubject[e.Subject()], told(e))
		if seq, ok := sluice.ParseEventID(e.ID()); !ok || seq != e.Seq {
			t.Errorf("the id %s is not that of event %d", e.ID(), e.Seq)
		}
	}
	want := map[string][]string{
		"phones": {"sale.created", "sale.available", "sale.unavailable", "sale.available", "sale.updated", "sale.updated"},
		string(id(0)): {
			"order.created buyer-1-1 pending///", "order.paid buyer-1-1 paid//p0/",
			"order.payment_refused buyer-1-1 paid//p0/p1", "order.refunded buyer-1-1 refunded//p0/",
		},
		string(id(1)): {
			"order.created buyer-1-2 pending///", "order.cancelled buyer-1-2 cancelled///",
			"order.refund_due buyer-1-2 refund_due//p2/",
		},
		string(id(2)): {"order.created buyer-1-3 pending///", "order.rejected buyer-1-3 rejected/broken//"},
		string(id(3)): {
			"order.created buyer-1-4 pending///", "order.expired buyer-1-4 expired///",
			"order.refund_due buyer-1-4 refund_due//p3/",
		},
		string(id(4)): {"order.created buyer-1-5 pending///", "order.expired buyer-1-5 expired///"},
		string(id(5)): {"order.created buyer-1-6 pending///", "order.expired buyer-1-6 expired///"},
		string(id(6)): {
			"order.rejected buyer-1-7 rejected/not_covered//",
			"order.refund_due buyer-1-7 refund_due/not_covered/p6/",
		},
	}
	if diff := cmp.Diff(want, bySubject); diff != "" {
		t.Errorf("events by subject (-want +got):\n%s", diff)
	}
	for _, limit := range []int{1, 2, 7} {
		if diff := cmp.Diff(all, feed(t, s, limit)); diff != "" {
			t.Errorf("in pages of %d (-all at once +in pages):\n%s", limit, diff)
		}
	}
	last := all[len(all)-1]
	now := read(t, s, "phones")
	if diff := cmp.Diff(now, last.Sale, cmpopts.EquateEmpty()); diff != "" || last.Type != sluice.EventSaleUpdated {
		t.Errorf("the last event is %s (-sale +event):\n%s", told(&last), diff)
	}
	if n, err := s.LastEvent(t.Context()); err != nil || n != int64(len(all)) {
		t.Errorf("last event %d, %v, want %d", n, err, len(all))
	}
	for _, after := range []int64{-1, int64(len(all)) + 1} {
		_, err := s.Events(t.Context(), after, 10)
		wantError(t, err, sluice.ErrBadCursor)
	}
	for _, limit := range []int{-1, 0, sluice.MaxPage + 1} {
		if _, err := s.Events(t.Context(), 0, limit); err == nil {
			t.Errorf("limit %d: no error", limit)
		}
	}
}

// Whatever does not happen has no event.
func testEventsOfNothing(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 6)
	entry := src.store(t, s, 2)
	numberAll(t, s, 100)
	before := feed(t, s, 100)
	insert(t, s, port.Stored{Redelivered: 2}, entry)
	bad := entry
	bad.Claims = slices.Clone(entry.Claims)
	bad.Claims[1].Quantity = 2
	if _, err := s.Insert(t.Context(), "phones", []port.Entry{src.entry(1), bad}); err == nil {
		t.Error("a conflict: no error")
	}
	if _, err := s.Change(t.Context(), sluice.Change{Order: entry.Claims[0].Order, Action: sluice.Refund}); err == nil {
		t.Error("refund of a pending order: no error")
	}
	if _, err := s.ChangeSale(t.Context(), "phones", func(*sluice.Sale) error { return errors.New("no") }); err == nil {
		t.Error("a refused change: no error")
	}
	if _, err := s.CreateSale(t.Context(), aSale("phones", 1)); err == nil {
		t.Error("a sale twice: no error")
	}
	if err := s.FenceSale(t.Context(), "phones", 7, "of another epoch"); err != nil {
		t.Error(err)
	}
	if err := s.ConfirmLoad(t.Context(), "phones", 1); err != nil {
		t.Error(err)
	}
	numberAll(t, s, 100)
	if diff := cmp.Diff(before, feed(t, s, 100)); diff != "" {
		t.Errorf("the feed changed (-before +after):\n%s", diff)
	}
	change(t, s, sluice.Change{Order: entry.Claims[0].Order, Action: sluice.Cancel})
	change(t, s, sluice.Change{Order: entry.Claims[0].Order, Action: sluice.Cancel})
	numberAll(t, s, 100)
	if after := feed(t, s, 100); len(after) != len(before)+1 {
		t.Errorf("%d events after one change, and %d before", len(after), len(before))
	}
}

// However few are numbered at a time, an order's events begin with its being
// stored.
func testEventsInSmallSteps(t *testing.T, db Database) {
	s := db.Open(t)
	ids := map[sluice.SaleID][]sluice.OrderID{}
	for _, sale := range []sluice.SaleID{"a", "b", "c"} {
		create(t, s, aSale(sale, 100))
	}
	for _, sale := range []sluice.SaleID{"c", "b", "a"} {
		src := source{sale: sale, epoch: 1}
		for range 3 {
			entry := src.store(t, s, 4)
			for _, c := range entry.Claims {
				ids[sale] = append(ids[sale], c.Order)
			}
		}
	}
	for i := 11; i >= 0; i -= 2 { // the last one first
		for _, sale := range []sluice.SaleID{"c", "a", "b"} {
			change(t, s, sluice.Change{Order: ids[sale][i], Action: sluice.Pay, PaymentID: paymentOf(ids[sale][i])})
			change(t, s, sluice.Change{Order: ids[sale][i], Action: sluice.Refund})
		}
	}
	numberAll(t, s, 1)
	all := feed(t, s, 5)
	if want := 3*2 + 3*12 + 3*6*2; len(all) != want {
		t.Errorf("%d events, want %d", len(all), want)
	}
	created := map[sluice.SaleID]bool{}
	for i := range all {
		switch e := &all[i]; {
		case e.Type == sluice.EventSaleCreated:
			created[e.Sale.ID] = true
		case e.Order.ID != "" && !created[e.Order.Sale]:
			t.Errorf("%s of sale %s comes before the sale", e.Type, e.Order.Sale)
		}
	}
	(&source{sale: "a", epoch: 2}).store(t, s, 1)
	numberAll(t, s, 20)
	for n, sale := range []sluice.SaleID{"a", "b", "c"} {
		(&source{sale: sale, epoch: 3}).store(t, s, 11+n)
	}
	for _, want := range []int{23, 13} { // a step is full while there is more, and divides nothing stored together
		if n := must.Get(s.NumberEvents(t.Context(), 20))(t); n != want {
			t.Errorf("numbered %d, want %d", n, want)
		}
	}
	mustFollowHistory(t, s, feed(t, s, 5))
}

// mustFollowHistory checks that the feed holds every change of every order
// once, in order, and nothing else of orders.
func mustFollowHistory(t *testing.T, s port.Store, all []sluice.Event) {
	t.Helper()
	got := map[sluice.OrderID][]string{}
	ids := map[string]bool{}
	for i := range all {
		e := &all[i]
		if ids[e.ID()] {
			t.Errorf("two events have the id %s", e.ID())
		}
		ids[e.ID()] = true
		if o := e.Order.ID; o != "" {
			got[o] = append(got[o], fmt.Sprint(e.Type, " ", e.At.UnixMilli(), " ", e.RefusedPayment))
		}
	}
	stored := 0
	for _, sale := range must.Get(s.Sales(t.Context()))(t) {
		for _, o := range look(t, s, sale.ID).Orders {
			stored++
			var want []string
			for _, h := range must.Get(s.History(t.Context(), o.ID))(t) {
				e := sluice.NewOrderEvent(1, o, h)
				want = append(want, fmt.Sprint(e.Type, " ", h.At.UnixMilli(), " ", e.RefusedPayment))
			}
			if !slices.Equal(want, got[o.ID]) {
				t.Errorf("order %s:\nhistory %s\nevents  %s", o.ID, strings.Join(want, ", "), strings.Join(got[o.ID], ", "))
			}
		}
	}
	if stored != len(got) {
		t.Errorf("events of %d orders, and %d are stored: %s", len(got), stored, slices.Sorted(maps.Keys(got)))
	}
}

// Writers on several servers, several numberers that break off, and a reader
// who follows: the reader sees every event once, in order, and never another one
// at a number already read.
func testEventsWhileWritersRun(t *testing.T, db Database) {
	const writers, rounds = 4, 10
	setup := db.Open(t)
	for i := range 2 { // two writers share a sale
		create(t, setup, aSale(sluice.SaleID(fmt.Sprint("sale-", i)), sluice.Unlimited))
	}
	var writing, numbering sync.WaitGroup
	for w := range writers {
		s := db.Open(t)
		writing.Go(func() { writeForEvents(t, s, w, rounds) })
	}
	stop := make(chan struct{})
	for n := range 2 {
		s := db.Open(t)
		numbering.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(10_000))*time.Microsecond, cancel)
				}
				if _, err := s.NumberEvents(ctx, 1+random.IntN(40)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	var read []sluice.Event
	follow := func() {
		page, err := setup.Events(t.Context(), int64(len(read)), 50)
		if err != nil {
			t.Error(err)
		}
		read = append(read, page...)
	}
	done := make(chan struct{})
	go func() { writing.Wait(); close(done) }()
	for running := true; running && !t.Failed(); {
		select {
		case <-done:
			running = false
		default:
			follow()
		}
	}
	writing.Wait()
	close(stop)
	numbering.Wait()
	numberAll(t, setup, 50)
	for last := -1; last < len(read); {
		last = len(read)
		follow()
	}
	mustFollowHistory(t, setup, read)
	if diff := cmp.Diff(feed(t, setup, sluice.MaxPage), read); diff != "" {
		t.Errorf("what was read on the way differs (-now +then):\n%s", diff)
	}
}

// writeForEvents stores orders and takes them through all kinds of changes;
// some of it is rolled back.
func writeForEvents(t *testing.T, s port.Store, writer, rounds int) {
	random := rand.New(rand.NewPCG(uint64(writer), 2))
	sale := sluice.SaleID(fmt.Sprint("sale-", writer%2))
	src := source{sale: sale, epoch: 1, seq: int64(writer) * 1_000_000, made: writer * 1_000_000}
	var ids []sluice.OrderID
	for range rounds {
		entry := src.entry(1 + random.IntN(8))
		if random.IntN(3) == 0 { // positions that no reader will see
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Microsecond)
			_, _ = s.Insert(ctx, sale, []port.Entry{entry})
			cancel()
		}
		if _, err := s.Insert(t.Context(), sale, []port.Entry{entry}); err != nil {
			t.Error(err)
			return
		}
		for _, c := range entry.Claims {
			ids = append(ids, c.Order)
		}
		for range 6 {
			c := sluice.Change{Order: ids[random.IntN(len(ids))], Action: actionsOfOrders[random.IntN(5)], By: "test"}
			if c.Action == sluice.Pay {
				c.PaymentID = fmt.Sprint("p-", random.IntN(3))
			}
			_, err := s.Change(t.Context(), c)
			if err != nil && !errors.As(err, new(*sluice.OrderStateError)) &&
				!errors.As(err, new(*sluice.PaymentConflictError)) {
				t.Error(err)
			}
		}
		if random.IntN(4) == 0 {
			if _, err := s.ChangeSale(t.Context(), sale, func(sale *sluice.Sale) error {
				sale.Paused = !sale.Paused
				return nil
			}); err != nil {
				t.Error(err)
			}
		}
	}
}
