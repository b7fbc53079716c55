package storetest

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
)

func testOrder(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	entry := src.store(t, s, 2)
	c := look(t, s, "phones")
	for i, want := range c.Orders {
		got, err := s.Order(t.Context(), want.ID)
		if err != nil {
			t.Fatal(err)
		}
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
func pages(t *testing.T, s sluice.Store, filter sluice.OrderFilter) (all []sluice.Order, count int) {
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
		if _, err := s.Insert(t.Context(), id, []sluice.Entry{entry}); err != nil {
			t.Fatal(err)
		}
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
	src.store(t, s, 2)
	_, good, err := s.Orders(t.Context(), sluice.OrderFilter{Limit: 1})
	if err != nil || good == "" {
		t.Fatalf("cursor %q, error %v", good, err)
	}
	for _, cursor := range []string{
		"x", "1", "-1", good + "=", good + "A", good[1:], " " + good, "\x00", "' OR 1=1 --",
		base64.RawURLEncoding.EncodeToString([]byte("position:")),
		base64.RawURLEncoding.EncodeToString([]byte("action:1")), // of another list
		base64.RawURLEncoding.EncodeToString([]byte("position:-1")),
		base64.RawURLEncoding.EncodeToString([]byte("position:99999999999999999999")),
		base64.RawURLEncoding.EncodeToString([]byte("position:01")),
		strings.Repeat("A", 10_000), fmt.Sprint(good, good),
	} {
		_, _, err := s.Orders(t.Context(), sluice.OrderFilter{Limit: 1, Cursor: cursor})
		wantError(t, err, sluice.ErrBadCursor)
	}
}
