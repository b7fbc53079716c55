package storetest

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func testOrder(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.store(t, s, 2)
	c := look(t, s, "phones")
	for i, want := range c.Orders {
		got := must.Get(s.Order(t.Context(), want.ID))(t)
		if diff := cmp.Diff(want, got); diff != "" || got.ID != entry.Claims[i].Order {
			t.Errorf("order %d (-listed +alone):\n%s", i, diff)
		}
	}
	for _, id := range []sluice.OrderID{
		"", "x", "\x00\xff", sluice.SaleID("phones").Order(strings.Repeat("f", 32)),
		sluice.SaleID("unknown").Order(strings.Repeat("f", 32)),
		sluice.OrderID(strings.ToUpper(string(entry.Claims[0].Order))),
	} {
		_, err := s.Order(t.Context(), id)
		wantError(t, err, sluice.ErrOrderNotFound)
	}
}

// pages reads all pages of a filter.
func pages(t *testing.T, s port.Store, filter sluice.OrderFilter) (all []sluice.Order, count int) {
	t.Helper()
	for {
		page, next, err := s.Orders(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > filter.Limit {
			t.Fatalf("a page of %d orders, limit %d", len(page), filter.Limit)
		}
		if len(page) < filter.Limit && next != "" {
			t.Fatalf("a short page of %d orders is not the last", len(page))
		}
		all, count = append(all, page...), count+1
		if next == "" {
			return all, count
		}
		filter.Cursor = next
	}
}

func testPages(t *testing.T, db Database) {
	s := db.Open(t)
	if all, count := pages(t, s, sluice.OrderFilter{Limit: 1}); len(all) != 0 || count != 1 {
		t.Errorf("an empty store has %d orders on %d pages", len(all), count)
	}
	src := selling(t, s, "phones", 100)
	for range 4 {
		src.store(t, s, 3)
	}
	want := look(t, s, "phones").Orders
	for limit, wantPages := range map[int]int{1: 12, 5: 3, 6: 2, 11: 2, 12: 1, 13: 1, sluice.MaxPage: 1} {
		all, count := pages(t, s, sluice.OrderFilter{Limit: limit})
		if diff := cmp.Diff(want, all); diff != "" || count != wantPages {
			t.Errorf("limit %d: %d pages, want %d (-want +got):\n%s", limit, count, wantPages, diff)
		}
	}
	for _, limit := range []int{-1, 0, sluice.MaxPage + 1} {
		if _, _, err := s.Orders(t.Context(), sluice.OrderFilter{Limit: limit}); err == nil {
			t.Errorf("limit %d: no error", limit)
		}
	}
}

func testFilters(t *testing.T, db Database) {
	s := db.Open(t)
	var all []sluice.Order
	for _, id := range []sluice.SaleID{"phones", "tablets"} {
		create(t, s, aSale(id, 4))
		src := source{sale: id, epoch: 1}
		entry := src.entry(6) // two of them are rejected
		entry.Claims[1].Buyer = entry.Claims[0].Buyer
		entry.Claims[5].Buyer = entry.Claims[0].Buyer
		must.Get(s.Insert(t.Context(), id, []port.Entry{entry}))(t)
		all = append(all, look(t, s, id).Orders...)
	}
	buyers := []sluice.BuyerID{"", all[0].Buyer, all[2].Buyer, "nobody", "\x00\xff"}
	statuses := []sluice.Status{"", sluice.Pending, sluice.Rejected, sluice.Paid, sluice.Queued, "nonsense\x00"}
	for _, sale := range []sluice.SaleID{"", "phones", "tablets", "unknown", "Not an id \x00"} {
		for _, buyer := range buyers {
			for _, status := range statuses {
				var want []sluice.Order
				for _, o := range all {
					if (sale == "" || o.Sale == sale) && (buyer == "" || o.Buyer == buyer) && (status == "" || o.Status == status) {
						want = append(want, o)
					}
				}
				got, _ := pages(t, s, sluice.OrderFilter{Sale: sale, Buyer: buyer, Status: status, Limit: 2})
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("sale %q, buyer %q, status %q (-want +got):\n%s", sale, buyer, status, diff)
				}
			}
		}
	}
}

// An order is found by its payment, which is of no other.
func testByPayment(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	orders := src.store(t, s, 3).Claims
	pay := sluice.Change{Order: orders[1].Order, Action: sluice.Pay, PaymentID: "pay-1", By: "test"}
	must.Get(s.Change(t.Context(), pay))(t)
	for name, c := range map[string]struct {
		filter sluice.OrderFilter
		found  bool
	}{
		"it":             {sluice.OrderFilter{Payment: "pay-1"}, true},
		"of its sale":    {sluice.OrderFilter{Payment: "pay-1", Sale: "phones", Status: sluice.Paid}, true},
		"of another one": {sluice.OrderFilter{Payment: "pay-1", Sale: "lamps"}, false},
		"not paid":       {sluice.OrderFilter{Payment: "pay-1", Status: sluice.Pending}, false},
		"another":        {sluice.OrderFilter{Payment: "pay-2"}, false},
		"none that is":   {sluice.OrderFilter{Payment: "\x00\xff"}, false},
	} {
		c.filter.Limit = 10
		page, next, err := s.Orders(t.Context(), c.filter)
		if err != nil || next != "" || c.found != (len(page) == 1) || c.found && page[0].ID != orders[1].Order {
			t.Errorf("%s: %+v, %q, %v", name, page, next, err)
		}
	}
}

// A cursor stays where it is: what was stored before the first page appears
// exactly once, whatever is stored meanwhile.
func testPagesWhileInserting(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 1000)
	src.store(t, s, 20)
	seen := map[sluice.OrderID]bool{}
	filter := sluice.OrderFilter{Sale: "phones", Limit: 7}
	for round := 0; ; round++ {
		page, next, err := s.Orders(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := s.Orders(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(page, again); diff != "" && next != "" {
			t.Errorf("the same cursor again (-first +second):\n%s", diff)
		}
		for _, o := range page {
			if seen[o.ID] {
				t.Errorf("order %s appears twice", o.ID)
			}
			seen[o.ID] = true
		}
		if next == "" {
			break
		}
		if round < 5 {
			src.store(t, s, 3)
		}
		filter.Cursor = next
	}
	if want := len(look(t, s, "phones").Orders); len(seen) != want {
		t.Errorf("%d orders seen, want %d", len(seen), want)
	}
}

func testBadCursors(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.entry(6)
	for i := range entry.Claims {
		entry.Claims[i].Buyer = entry.Claims[i%2].Buyer
	}
	must.Get(s.Insert(t.Context(), "phones", []port.Entry{entry}))(t)
	first := func(f sluice.OrderFilter) (cursor string) {
		f.Limit = 1
		_, cursor, err := s.Orders(t.Context(), f)
		if err != nil || cursor == "" {
			t.Fatalf("%+v: cursor %q, error %v", f, cursor, err)
		}
		return cursor
	}
	one, other := entry.Claims[0].Buyer, entry.Claims[1].Buyer
	filters := []sluice.OrderFilter{
		{},
		{Sale: "phones"},
		{Status: sluice.Pending},
		{Sale: "phones", Status: sluice.Pending},
		{Buyer: one},
		{Buyer: one, Sale: "phones"},
		{Buyer: other},
	}
	encode := base64.RawURLEncoding.EncodeToString
	for i, filter := range filters {
		good := first(filter)
		bad := []string{
			"x", "1", "-1", good + "=", good + "A", good[1:], " " + good, "\x00", "' OR 1=1 --",
			strings.Repeat("A", 10_000), good + good,
			encode([]byte("actions:1")), // of another list
		}
		text, err := base64.RawURLEncoding.DecodeString(good)
		list, _, ok := strings.Cut(string(text), ":")
		if err != nil || !ok {
			t.Fatalf("cursor %q: %v", text, err)
		}
		absent := string(src.sale.Order(strings.Repeat("f", 32)))
		for _, value := range []string{"", "0", "-1", "01", "99999999999999999999", "phones.\x00", absent} {
			bad = append(bad, encode([]byte(list+":"+value)))
		}
		for j, f := range filters {
			if i != j {
				bad = append(bad, first(f)) // of another filter, or another buyer
			}
		}
		for _, filter.Cursor = range bad {
			filter.Limit = 1
			_, _, err := s.Orders(t.Context(), filter)
			wantError(t, err, sluice.ErrBadCursor)
		}
	}
}

// Two cursors of a buyer say nothing of what others bought between.
func testCursorOfABuyer(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 1000)
	cursor := func(buyer sluice.BuyerID) string {
		entry := src.entry(2)
		entry.Claims[0].Buyer, entry.Claims[1].Buyer = buyer, buyer
		must.Get(s.Insert(t.Context(), "phones", []port.Entry{entry}))(t)
		_, next, err := s.Orders(t.Context(), sluice.OrderFilter{Buyer: buyer, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		text := must.Get(base64.RawURLEncoding.DecodeString(next))(t)
		return strings.Replace(string(text), string(entry.Claims[0].Order), "", 1)
	}
	if a, b := cursor("early"), cursor("late"); a != b {
		t.Errorf("apart from the order's id, the cursors are %q and %q", a, b)
	}
}
