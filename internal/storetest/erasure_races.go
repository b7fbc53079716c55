package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// A sale with many orders keeps no other from being erased: each has its turns.
func testEraseTurns(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	for id, n := range map[sluice.SaleID]int{"huge": 1300, "small": 3} { // a turn has 1,000
		src := selling(t, s, id, 2000)
		for ; n > 0; n -= 100 {
			src.store(t, s, min(n, 100))
		}
		db.Execute(t, "UPDATE orders SET status = 'paid' WHERE sale_id = '"+string(id)+"'")
		archivedSale(t, s, id)
	}
	twoHoursAgo(t, db, "sales", "archived_at", "id IN ('huge', 'small')")
	eraseOlder(t, s, sluice.Erased{Orders: 1303})
	db.Execute(t, `UPDATE sales SET title = 'before the huge one' WHERE id = 'small' AND erased_at <
		(SELECT done FROM (SELECT erased_at AS done FROM sales WHERE id = 'huge') AS other)`)
	if small := mustBeSound(t, s, "small").Sale; small.Title != "before the huge one" {
		t.Error("the small sale has waited for all orders of the huge one")
	}
}

// Erasing beside refunds of the same orders, and beside another erasure: each waits
// for the other, and both are done.
func testEraseAgainstRefunds(t *testing.T, db Database) {
	s, other := erasing(t, db, erasureKey), erasing(t, db, erasureKey)
	entry := allTake(t, s, "phones", 120, sluice.Pay)
	archivedSale(t, s, "phones")
	erased := func(ctx context.Context) error {
		_, err := other.EraseBuyer(ctx, erasedBuyer)
		return err
	}
	wait := atOnce(t, erased, erased)
	for i := range 30 {
		change(t, s, want(entry.Claims[(i*37)%120].Order, sluice.Refund))
	}
	wait()
	c := mustBeSound(t, s, "phones")
	refunded := 0
	for _, o := range c.Orders {
		if o.Status == sluice.Refunded {
			refunded++
		}
		if o.Buyer == erasedBuyer {
			t.Errorf("order %s names the buyer", o.ID)
		}
	}
	if refunded != 30 || c.Sale.Taken != 91 {
		t.Errorf("%d refunded, %d taken", refunded, c.Sale.Taken)
	}
}

// Two buyers of one dead letter are erased at once: both are.
func testEraseTwoOfOneLetter(t *testing.T, db Database) {
	s, other := erasing(t, db, erasureKey), erasing(t, db, erasureKey)
	src := selling(t, s, "phones", 10)
	entry := src.entry(3)
	entry.Claims[0].Buyer, entry.Claims[1].Buyer = "ann-4711", "bob-4711"
	must.Succeed(t, s.SetAside(t.Context(), letterOf("phones", "both", entry.Claims...)))
	letters, err := s.DeadLetters(t.Context(), "phones")
	if err != nil || len(letters) != 1 {
		t.Fatal(letters, err)
	}
	archivedSale(t, s, "phones")
	free := db.Hold(t, fmt.Sprintf("UPDATE dead_letters SET reason = 'held' WHERE id = %d", letters[0].ID))
	of := func(s port.Store, buyer sluice.BuyerID) func(context.Context) error {
		return func(ctx context.Context) error {
			erased, err := s.EraseBuyer(ctx, buyer)
			if err == nil && erased.DeadLetters != 1 {
				err = fmt.Errorf("erased %+v of %s", erased, buyer)
			}
			return err
		}
	}
	wait := atOnce(t, of(s, "ann-4711"), of(other, "bob-4711"))
	time.Sleep(300 * time.Millisecond) // both have read the letter, and wait to write it
	free()
	wait()
	l, err := s.DeadLetter(t.Context(), letters[0].ID)
	if err != nil || strings.Contains(l.Claims, personal) || !strings.Contains(l.Claims, string(entry.Claims[2].Buyer)) {
		t.Errorf("the letter is %q, %v", l.Claims, err)
	}
}
