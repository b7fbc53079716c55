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

// All buyers of sales that were archived long ago are erased, and old actions of
// admins deleted.
func testEraseOlder(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	for _, id := range []sluice.SaleID{"old", "owes", "new", "open"} {
		entry := allTake(t, s, id, 150, sluice.Cancel)
		must.Succeed(t, s.SetAside(t.Context(), letterOf(id, "x", entry.Claims[0])))
		if id != "open" {
			archivedSale(t, s, id)
		}
		if id == "owes" {
			change(t, s, want(entry.Claims[0].Order, sluice.Pay))
		}
		recordAction(t, s, port.AdminAction{By: string(id)})
	}
	twoHoursAgo(t, db, "sales", "archived_at", "id IN ('old', 'owes')")
	twoHoursAgo(t, db, "admin_actions", "acted_at", "actor IN ('old', 'owes')")
	owed := []sluice.ErasureWait{{Sale: "owes", Why: sluice.OwedRefund}}
	eraseOlder(t, s, sluice.Erased{Orders: 151 + 150, DeadLetters: 2, Actions: 2, Waits: owed})
	eraseOlder(t, s, sluice.Erased{Waits: owed})
	for id, left := range map[sluice.SaleID]int{"old": 0, "owes": 1, "new": 151, "open": 151} {
		clear := 0
		for _, o := range mustBeSound(t, s, id).Orders {
			if !strings.HasPrefix(string(o.Buyer), "erased-") {
				clear++
			}
		}
		if clear != left {
			t.Errorf("%s: %d orders name their buyers, want %d", id, clear, left)
		}
	}
	if left := actions(t, s, 100); len(left) != 2 {
		t.Errorf("actions %+v", left)
	}
	owes := mustBeSound(t, s, "owes").Orders[0]
	change(t, s, want(owes.ID, sluice.Refund))
	eraseOlder(t, s, sluice.Erased{Orders: 1})
	eraseOlder(t, s, sluice.Erased{})

	// A payment that comes after all were erased stays until it is refunded, and no
	// longer; one that is refused does not stay at all, however often it comes.
	late := want(mustBeSound(t, s, "old").Orders[0].ID, sluice.Pay)
	late.PaymentID = "pay-4711-late"
	change(t, s, late)
	if o, err := s.Order(t.Context(), late.Order); err != nil || o.PaymentID != late.PaymentID {
		t.Errorf("the payment that is to be refunded is %q, %v", o.PaymentID, err)
	}
	refuse := func() {
		t.Helper()
		c := late
		c.PaymentID = "pay-4711-refused"
		for range 2 {
			if _, err := s.Change(t.Context(), c); !errors.As(err, new(*sluice.PaymentConflictError)) {
				t.Errorf("a second payment: %v", err)
			}
		}
	}
	refuse()
	change(t, s, want(late.Order, sluice.Refund))
	refuse()
	change(t, s, late) // again
	o, err := s.Order(t.Context(), late.Order)
	if text := fmt.Sprintf("%+v %+v", o, history(t, s, late.Order)); err != nil || strings.Contains(text, personal) ||
		o.Status != sluice.Refunded {
		t.Errorf("after the refund: %s, %v", text, err)
	}
	eraseOlder(t, s, sluice.Erased{})
}

// Old actions of admins are deleted, and the buyers of other sales erased, while one
// sale cannot be: the pseudonym of one of its orders is another order's.
func testEraseOlderGoesOn(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	orders := map[sluice.SaleID][]sluice.Claim{}
	for _, id := range []sluice.SaleID{"first", "second"} {
		orders[id] = allTake(t, s, id, 1, sluice.Cancel).Claims
		archivedSale(t, s, id)
	}
	twoHoursAgo(t, db, "sales", "archived_at", "id = 'first'")
	eraseOlder(t, s, sluice.Erased{Orders: 2})
	plain := orders["first"][0]
	masked := read1(t, s, plain.Order)
	rename := func(id sluice.OrderID, buyer sluice.BuyerID, key sluice.Key) {
		db.Execute(t, fmt.Sprintf("UPDATE orders SET buyer_id = '%s', claim_key = '%s' WHERE order_id = '%s'",
			buyer, key, id))
	}
	rename(plain.Order, plain.Buyer, plain.Key)
	rename(orders["first"][1].Order, masked.Buyer, masked.Key)
	db.Execute(t, "UPDATE sales SET erased_at = NULL")
	recordAction(t, s, port.AdminAction{By: "old"})
	twoHoursAgo(t, db, "admin_actions", "acted_at", "actor = 'old'")
	twoHoursAgo(t, db, "sales", "archived_at", "id = 'second'")

	done, err := s.EraseOlder(t.Context(), time.Hour)
	if err == nil || !strings.Contains(err.Error(), "first") {
		t.Errorf("the error is %v", err)
	}
	if diff := cmp.Diff(sluice.Erased{Orders: 2, Actions: 1}, done); diff != "" {
		t.Errorf("erased (-want +got):\n%s", diff)
	}
}

// What a server without the key has left on an erased order, or one of an older
// version, is erased when one with the key comes; and so is a buyer whose id only
// looks like a pseudonym.
func testEraseLeftOvers(t *testing.T, db Database) {
	s, plain := erasing(t, db, erasureKey), db.Open(t)
	entry := personalClaims(selling(t, s, "old", 10), 2)
	almost := sluice.BuyerID("erased-" + strings.Repeat("z", 32))
	entry.Claims[2].Buyer = almost
	insert(t, s, port.Stored{Inserted: 3}, entry)
	for i := range entry.Claims {
		change(t, s, want(entry.Claims[i].Order, sluice.Cancel))
	}
	archivedSale(t, s, "old")
	twoHoursAgo(t, db, "sales", "archived_at", "id = 'old'")
	eraseOlder(t, s, sluice.Erased{Orders: 3})
	if o := read1(t, s, entry.Claims[2].Order); o.Buyer == almost {
		t.Errorf("the buyer of an order is still %q", o.Buyer)
	}

	late, refused := want(entry.Claims[0].Order, sluice.Pay), want(entry.Claims[0].Order, sluice.Pay)
	late.PaymentID, refused.PaymentID = "pay-4711-late", "pay-4711-refused"
	refuse := func(s port.Store) {
		t.Helper()
		if _, err := s.Change(t.Context(), refused); !errors.As(err, new(*sluice.PaymentConflictError)) {
			t.Errorf("a second payment: %v", err)
		}
	}
	change(t, plain, late)
	change(t, plain, want(late.Order, sluice.Refund))
	eraseOlder(t, s, sluice.Erased{Orders: 1})
	for range 3 {
		refuse(s)
		refuse(plain)
		eraseOlder(t, s, sluice.Erased{Orders: 1})
		eraseOlder(t, s, sluice.Erased{})
	}
	for name, text := range everything(t, s) {
		if strings.Contains(text, personal) || strings.Contains(text, string(almost)) {
			t.Errorf("%s names the buyer: %s", name, text)
		}
	}
}
