package httpapi

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
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
			Reading: port.Reading{Sale: "phone", Loaded: true, Epoch: 1, Taken: taken, Terms: sale.Terms, Now: at},
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

// Of two sales each field is compared, but the time of the answer; and what their pointers point to.
func TestSameSale(t *testing.T) {
	made := func() (sale api.Sale) {
		v := reflect.ValueOf(&sale).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Pointer {
				f.Set(reflect.New(f.Type().Elem()))
			}
		}
		return sale
	}
	if !sameSale(made(), made()) {
		t.Error("equal sales are not the same")
	}
	sale := reflect.TypeFor[api.Sale]()
	for i := range sale.NumField() {
		name := sale.Field(i).Name
		one, gone := made(), made()
		field, without := reflect.ValueOf(&one).Elem().Field(i), reflect.ValueOf(&gone).Elem().Field(i)
		if field.Kind() == reflect.Pointer {
			field = field.Elem()
			without.SetZero()
			if sameSale(gone, made()) || sameSale(made(), gone) {
				t.Errorf("%s: none is the same as one", name)
			}
		}
		switch field.Interface().(type) {
		case string, sluice.SaleID, sluice.Availability:
			field.SetString("other")
		case sluice.State:
			field.Set(reflect.ValueOf(sluice.StateClosed))
		case int64:
			field.SetInt(7)
		case bool:
			field.SetBool(true)
		case sluice.Money:
			field.Set(reflect.ValueOf(sluice.Money{Amount: 7}))
		case sluice.Showcase:
			field.Set(reflect.ValueOf(sluice.Showcase{Pictures: "https://cdn.shop.example/lamp.jpg"}))
		case api.Time:
			field.Set(reflect.ValueOf(api.At(time.Unix(7, 0))))
		default:
			t.Fatalf("%s: this test cannot change a %s", name, field.Type())
		}
		if got := sameSale(one, made()); got != (name == "ServerTime") {
			t.Errorf("%s has changed, the same: %v", name, got)
		}
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
