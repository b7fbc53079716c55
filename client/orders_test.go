package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

func answers(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
}

func TestChangesAreSentOnce(t *testing.T) {
	for code, status := range map[string]int{
		api.CodePaymentConflict: 409, api.CodeOrderEnded: 409, api.CodeOrderQueued: 409, api.CodeOrderNotFound: 404,
		api.CodeOutcomeUnknown: 503,
	} {
		c, s := serve(t, Options{AdminKey: "adm"}, problem(status, code, "Retry-After", "1"))
		_, err := c.PayOrder(t.Context(), order1, "p-1")
		var e *Error
		if !errors.As(err, &e) || CodeOf(err) != code || e.Status != status || e.RetryAfter != time.Second ||
			IsDecision(err) {
			t.Errorf("%s: %v", code, err)
		}
		if len(s.seen) != 1 {
			t.Errorf("%s: sent %d times", code, len(s.seen))
		}
	}
}

// A payment that came too late is recorded, and that is no error.
func TestLatePaymentIsAnAnswer(t *testing.T) {
	c, _ := serve(t, Options{AdminKey: "adm"},
		answers(api.Order{OrderID: order1, Status: sluice.RefundDue, PaymentID: "p-1"}))
	got, err := c.PayOrder(t.Context(), order1, "p-1")
	if err != nil || got.Status != sluice.RefundDue || got.PaymentID != "p-1" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestAllAdminOrders(t *testing.T) {
	page := func(next string, ids ...sluice.OrderID) http.HandlerFunc {
		p := api.OrderPage{NextCursor: next}
		for _, id := range ids {
			p.Orders = append(p.Orders, api.Order{OrderID: id})
		}
		return answers(p)
	}
	c, s := serve(t, Options{AdminKey: "adm"}, page("c2", "a.1", "a.2"), page("c3"), page("", "a.3"))
	var got []sluice.OrderID
	for o, err := range c.AllAdminOrders(t.Context(), sluice.OrderFilter{Sale: "a", Cursor: "c1"}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.OrderID)
	}
	var asked []string
	for _, r := range s.seen {
		asked = append(asked, r.URL.RawQuery)
	}
	if d := cmp.Diff([]sluice.OrderID{"a.1", "a.2", "a.3"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"cursor=c1&limit=1000&sale=a", "cursor=c2&limit=1000&sale=a", "cursor=c3&limit=1000&sale=a"},
		asked); d != "" {
		t.Error(d)
	}

	c, s = serve(t, Options{}, page("c2", "a.1", "a.2"), problem(503, "unavailable", "", ""))
	n, failed := 0, error(nil)
	for _, err := range c.AllAdminOrders(t.Context(), sluice.OrderFilter{Limit: 2}) {
		n, failed = n+1, err
	}
	if n != 3 || CodeOf(failed) != "unavailable" || len(s.seen) != 2 {
		t.Errorf("%d, %v, %d requests", n, failed, len(s.seen))
	}
	for range c.AllAdminOrders(t.Context(), sluice.OrderFilter{}) {
		break
	}
}
