package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
)

// A sale that asks for it has its buyers' deadlines announced, once each; the one
// beside it does not.
func TestExpiringOrdersAreAnnounced(t *testing.T) {
	t.Parallel()
	b := openBranch(t, engine.Config{})
	defer b.close()
	for _, sale := range []sluice.Sale{
		prepared("phone", time.Now().Add(-time.Hour), sluice.Rules{ExpiringNoticeS: 3600}),
		prepared("radio", time.Now().Add(-time.Hour), sluice.Rules{}),
	} {
		sale.PaymentWindow = time.Hour + time.Second // a second later its end is within the notice
		if _, err := b.engine.Control().Create(t.Context(), sale); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if got := b.try(string(sale.ID), fmt.Sprint("buyer-", i), fmt.Sprint("attempt-", i)); got != "accepted" {
				t.Fatal(got)
			}
		}
	}
	announced := map[sluice.OrderID]int{}
	after := ""
	for deadline := time.Now().Add(time.Minute); len(announced) < 3; time.Sleep(50 * time.Millisecond) {
		page, err := b.client.Events(t.Context(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		after = page.Next
		for _, e := range page.Events {
			if e.Type == sluice.EventOrderExpiring {
				announced[e.Data.Order.OrderID]++
				if o := e.Data.Order; o.SaleID != "phone" || o.Status != sluice.Pending || announced[o.OrderID] > 1 {
					t.Errorf("announced %+v", o)
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("announced %v", announced)
		}
	}
}
