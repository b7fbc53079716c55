package storetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func recordAction(t *testing.T, s port.Store, a port.AdminAction) {
	t.Helper()
	must.Succeed(t, s.RecordAdminAction(t.Context(), a))
}

// actions reads all that is recorded, in pages.
func actions(t *testing.T, s port.Store, limit int) (all []port.AdminAction) {
	t.Helper()
	for cursor := ""; ; {
		page, next, err := s.AdminActions(t.Context(), limit, cursor)
		if err != nil || len(page) > limit {
			t.Fatalf("%d of at most %d actions, %v", len(page), limit, err)
		}
		if all = append(all, page...); next == "" {
			return all
		}
		cursor = next
	}
}

func testAdminActions(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	if all := actions(t, s, 10); len(all) != 0 {
		t.Fatalf("a new store has %+v", all)
	}
	first := port.AdminAction{
		By: "ann", Route: "POST /v1/admin/sales/{sale}/pause", Path: "/v1/admin/sales/phones/pause", Sale: "phones",
		Status:  200,
		Request: "r-1", Address: "192.0.2.1", Node: "node-1",
	}
	second := port.AdminAction{
		By: "buyer:张三", Route: "POST /v1/admin/orders/{order}/pay", Path: "/v1/admin/orders/phones.1/pay", Sale: "phones",
		Order:  "phones.1",
		Status: 403, Code: "forbidden", Request: "r-2", Address: "2001:db8::1", Node: "node-2",
	}
	recordAction(t, s, first)
	recordAction(t, other, second)
	recordAction(t, s, port.AdminAction{})
	got := actions(t, other, 10)
	ignored := cmpopts.IgnoreFields(port.AdminAction{}, "ID", "At")
	if diff := cmp.Diff([]port.AdminAction{{}, second, first}, got, ignored); diff != "" {
		t.Fatalf("the newest first (-want +got):\n%s", diff)
	}
	for i := range got {
		if got[i].ID < 1 || i > 0 && got[i].ID >= got[i-1].ID {
			t.Errorf("action %d has the id %d", i, got[i].ID)
		}
		if got[i].At.IsZero() || got[i].At.Location() != time.UTC || !got[i].At.Equal(got[i].At.Truncate(time.Millisecond)) {
			t.Errorf("action %d happened at %v", i, got[i].At)
		}
	}
}

// Whatever a request brings can be recorded.
func testAdminActionsOfStrangeTexts(t *testing.T, db Database) {
	s := db.Open(t)
	for _, text := range []string{
		"\x00", "a\x00b", "\xff\xfe", strings.Repeat("\xff", 1000), strings.Repeat("x", 10_000), strings.Repeat("张", 400),
		"'; DROP TABLE sales; --", "\n\t\\ \"",
	} {
		recordAction(t, s, port.AdminAction{
			By: text, Route: text, Path: text, Sale: sluice.SaleID(text), Order: sluice.OrderID(text), Status: -1,
			Code: text, Request: text, Address: text, Node: text,
		})
		got := actions(t, s, 10)[0]
		for _, field := range []string{
			got.By, got.Route, got.Path, string(got.Sale), string(got.Order), got.Code,
			got.Request, got.Address, got.Node,
		} {
			if field == "" || len(field) > 255 || !utf8.ValidString(field) || field != got.By {
				t.Errorf("%.20q came back as %.40q, of %d bytes", text, field, len(field))
			}
		}
	}
	plain := "'; DROP TABLE sales; --"
	recordAction(t, s, port.AdminAction{By: plain})
	if got := actions(t, s, 10)[0]; got.By != plain {
		t.Errorf("%q came back as %q", plain, got.By)
	}
}

func testAdminActionsInPages(t *testing.T, db Database) {
	s := db.Open(t)
	const writers, each = 4, 10
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if err := s.RecordAdminAction(t.Context(), port.AdminAction{By: fmt.Sprint(w), Status: i}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	whole := actions(t, s, sluice.MaxPage)
	if len(whole) != writers*each {
		t.Fatalf("%d actions, want %d", len(whole), writers*each)
	}
	next := map[string]int{}
	for _, a := range whole {
		if next[a.By]++; a.Status != each-next[a.By] {
			t.Errorf("action %d of %s is out of its order", a.Status, a.By)
		}
	}
	for _, limit := range []int{1, 7, writers * each} {
		if diff := cmp.Diff(whole, actions(t, s, limit)); diff != "" {
			t.Errorf("in pages of %d (-whole +pages):\n%s", limit, diff)
		}
	}
	page, cursor, err := s.AdminActions(t.Context(), 5, "")
	if err != nil {
		t.Fatal(err)
	}
	recordAction(t, s, port.AdminAction{By: "new"})
	if more, _, err := s.AdminActions(t.Context(), 5, cursor); err != nil ||
		more[0].ID >= page[4].ID {
		t.Errorf("a page moved when something was added: %+v, %v", more, err)
	}
	for _, bad := range []int{0, sluice.MaxPage + 1} {
		if _, _, err := s.AdminActions(t.Context(), bad, ""); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
	for _, bad := range []string{"x", "0", "YWN0aW9uczo", "YWN0aW9uczotMQ", "b3JkZXJzICA6MQ"} {
		_, _, err := s.AdminActions(t.Context(), 5, bad)
		wantError(t, err, sluice.ErrBadCursor)
	}
	if err := db.OpenReadOnly(t).RecordAdminAction(t.Context(), port.AdminAction{}); err == nil {
		t.Error("a reader records something")
	}
}
