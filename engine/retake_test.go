package engine_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/internal/servertest"
)

// An order is paid just after it has expired, and its units are there: on each kind of
// ledger the order is paid after all, under another id, and the shop that knows the first
// id alone sees that, and refunds it. Where the units are not there, the money is due
// back.
func TestPaidLateThoughUnitsRemain(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]struct {
		servers int
		ledger  func(t *testing.T) string
	}{
		"embedded":       {1, func(*testing.T) string { return "" }},
		"redis":          {2, func(t *testing.T) string { return servertest.StartRedis(t).URL() }},
		"postgres alone": {2, func(*testing.T) string { return "store" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fleet{t: t, sale: "phone"}
			if on.servers > 1 {
				f.store = servertest.Postgres(t)
			}
			f.join(on.servers, on.ledger(t))
			// One unit: while it is on its way back the sale is sold out, and for a moment after.
			ok := func(_ any, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			c, last := f.clients[0], f.clients[on.servers-1]
			ok(c.CreateSale(t.Context(), api.CreateSale{
				ID: api.Some(f.sale), SKU: "sku", Title: "title", Price: api.Some(sluice.Money{Amount: 1, Currency: "CNY"}),
				Total: api.Value[int64](1), MaxPerBuyer: api.Value[int64](1), OpensAt: api.Some(api.At(time.Now().Add(-time.Hour))),
				PaymentWindowS: api.Some[int64](1), PaymentGraceS: api.Some[int64](0),
				PatchRules: api.PatchRules{
					LatePayment: api.Some(sluice.LateRetake),
				},
			}))
			accepted := func(buyer int) sluice.OrderID { return sluice.OrderID(f.buys(0, buyer)) }
			expired := func(buyer int) sluice.OrderID {
				t.Helper()
				id := accepted(buyer)
				f.until("the order to expire", func() bool {
					o, err := c.AdminOrder(t.Context(), id)
					return err == nil && o.Status == sluice.Expired
				})
				return id
			}
			pay := func(c *client.Client, id sluice.OrderID) (o api.Order) {
				t.Helper()
				f.until("the payment to be recorded", func() (done bool) {
					var err error
					o, err = c.PayOrder(t.Context(), id, "payment-of-"+string(id))
					again := []string{sluice.Unavailable.String(), api.CodeOutcomeUnknown, api.CodeOrderQueued}
					if err != nil && !slices.Contains(again, client.CodeOf(err)) {
						t.Fatal(err)
					}
					return err == nil
				})
				return o
			}
			first := expired(1)
			paid := pay(c, first)
			if paid.Status != sluice.Paid || paid.OrderID == first || paid.Replaces != first || paid.BuyerID != "buyer-00001" {
				t.Fatalf("paid late: %+v", paid)
			}
			for _, c := range f.clients {
				if again := pay(c, first); again.OrderID != paid.OrderID || again.Status != sluice.Paid {
					t.Errorf("the payment again: %+v", again)
				}
				if o, err := c.AdminOrder(t.Context(), first); err != nil || o.OrderID != paid.OrderID || o.Replaces != first {
					t.Errorf("by the first id: %+v, %v", o, err)
				}
				changes, err := c.OrderHistory(t.Context(), first)
				if err != nil || len(changes.Changes) != 5 || changes.OrderID != paid.OrderID ||
					changes.Changes[2].To != sluice.Retaken || changes.Changes[2].OrderID != first {
					t.Errorf("history %+v, %v", changes, err)
				}
			}
			page, err := c.AdminOrders(t.Context(), sluice.OrderFilter{Sale: f.sale, Status: sluice.Retaken})
			if err != nil || len(page.Orders) != 1 || page.Orders[0].ReplacedBy != paid.OrderID || page.Orders[0].Reason != "" {
				t.Errorf("retaken: %+v, %v", page, err)
			}
			if _, err := c.PayOrder(t.Context(), first, "another"); client.CodeOf(err) != api.CodePaymentConflict {
				t.Errorf("another payment: %v", err)
			}
			if status, id := f.claim(0, 1); status != http.StatusAccepted || id != string(first) { // I4
				t.Errorf("the claim again: %d, %s", status, id)
			}
			if status, _ := f.claim(0, 2); status != http.StatusConflict { // I1
				t.Errorf("the unit was sold twice: %d", status)
			}
			f.audited()

			if o, err := last.RefundOrder(t.Context(), first); err != nil || o.OrderID != paid.OrderID ||
				o.Status != sluice.Refunded {
				t.Errorf("refunded by the first id: %+v, %v", o, err)
			}
			second := expired(3)
			// Who gets the unit pays for it: it cannot come back, however slow this machine is.
			if o := pay(c, accepted(4)); o.Status != sluice.Paid {
				t.Fatalf("another buyer of the unit: %+v", o)
			}
			if o := pay(last, second); o.Status != sluice.RefundDue || o.OrderID != second {
				t.Errorf("paid late, sold out: %+v", o)
			}
			f.audited()
		})
	}
}

// audited audits the sale when all that was accepted is stored.
func (f *fleet) audited() {
	f.t.Helper()
	f.until("all to be stored", f.stored)
	report, err := f.engines[0].Audit(f.t.Context(), f.sale)
	if err != nil || !report.OK {
		f.t.Errorf("audit: %s, %v", fmt.Sprint(report.Checks), err)
	}
}
