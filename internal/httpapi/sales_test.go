package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/admission"
)

// A sale is encoded once per change, not once per reading.
func TestEncodeSaleOncePerChange(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	list := sluice.Money{Amount: 200, Currency: "CNY"}
	view := func(taken int64, later time.Duration) *admission.View {
		at := now.Add(later)
		sale := sluice.Sale{
			ID: "phone", SKU: "P", Title: "Phone", Price: sluice.Money{Amount: 100, Currency: "CNY"}, ListPrice: list, Epoch: 1,
			LoadedEpoch: 1,
			Terms: sluice.Terms{
				Version: 1, Total: 10, MaxPerBuyer: 1, MaxOrders: 10, OpensAt: now.Add(time.Minute),
				ClosesAt: now.Add(time.Hour),
			},
		}
		return &admission.View{
			Sale: sale, Asked: at, Received: at,
			Reading: sluice.Reading{Sale: "phone", Loaded: true, Epoch: 1, Taken: taken, Terms: sale.Terms, Now: at},
		}
	}
	encode := func(v, before *admission.View) *saleBody {
		v.Body = EncodeSale(v, before)
		return v.Body.(*saleBody)
	}
	first := view(0, 0)
	body := encode(first, nil)

	same := view(0, 30*time.Second)
	if encode(same, first) != body {
		t.Error("only the clock has changed, and the sale was encoded again")
	}
	for name, changed := range map[string]*admission.View{
		"a unit taken": view(1, time.Second), "opened": view(0, time.Minute), "closed": view(0, time.Hour),
	} {
		if got := encode(changed, same); got == body || bytes.Equal(got.json, body.json) {
			t.Errorf("%s: the reader gets the old answer: %s", name, got.json)
		}
	}
	down := view(0, time.Second)
	down.Down = true
	if got := encode(down, same); got == body || got.sale.State != sluice.StateUnavailable {
		t.Errorf("the ledger is down: %s", got.json)
	}
}

// A total that does not change says why: a raise that a waiting lowering stops is
// not refused as a lowering.
func TestWhyATotalStays(t *testing.T) {
	for want, err := range map[string]error{
		"a lower total is on its way to the ledger": sluice.ErrLoweringWaits,
		"lowering it needs a ledger that holds":     sluice.ErrTotalUndecided,
		"below the units already taken":             sluice.ErrBelowTaken,
	} {
		answer := httptest.NewRecorder()
		(&Server{}).failed(answer, httptest.NewRequest(http.MethodPatch, "/v1/admin/sales/phone", nil),
			fmt.Errorf("store: %w", err))
		if !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%v: %s, want %q", err, answer.Body, want)
		}
	}
}
