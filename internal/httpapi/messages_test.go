package httpapi

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/admission"
	"github.com/sluicehq/sluice/internal/port"
)

func TestParsePlaceOrder(t *testing.T) {
	deep := `{"quantity":1,"meta":{"a":"` + strings.Repeat("x", 505) + `"}}`
	for _, tc := range []struct{ body, meta, err string }{
		{`{"quantity":1}`, "", ""},
		{` { "quantity" : 3 , "meta" : { "a" : [1, {"b":null}], "a":2 } } `, `{"a":[1,{"b":null}],"a":2}`, ""},
		{`{"quantity":1,"meta":null}`, "", ""},
		{`{"quantity":1000000}`, "", ""},
		{`{"quantity":1000001}`, "", "quantity: want a whole number, 1 to 1000000, have 1000001"},
		{`{"quantity":0}`, "", "have 0"},
		{`{"quantity":-1}`, "", "have -1"},
		{`{"quantity":1.5}`, "", "have 1.5"},
		{`{"quantity":1e3}`, "", "have 1e3"},
		{`{"quantity":"1"}`, "", `have "1"`},
		{`{"quantity":null}`, "", "have null"},
		{`{"quantity":99999999999999999999999}`, "", "quantity: want a whole number"},
		{`{}`, "", "quantity: is missing"},
		{`{"quantity":1,"Meta":{}}`, "", "Meta: unknown field"},
		{`{"quantity":1,"coupon":1}`, "", "coupon: unknown field"},
		{`{"quantity":1,"meta":"x"}`, "", "meta: want a JSON object"},
		{`{"quantity":1,"meta":[]}`, "", "meta: want a JSON object"},
		{deep, "", "meta: 513 bytes of compact JSON: want at most 512"},
		{`{"quantity":1`, "", "broken JSON"},
		{`{"quantity":1}}`, "", "something follows"},
		{``, "", "the body is empty"},
	} {
		got, err := parsePlaceOrder([]byte(tc.body))
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%.60s: got %v, want %q", tc.body, err, tc.err)
			}
			continue
		}
		if err != nil || string(got.Meta) != tc.meta {
			t.Errorf("%s: got %+v, %v", tc.body, got, err)
		}
	}
}

func TestAppendPlacedIsPlaced(t *testing.T) {
	order := sluice.SaleID("s1").Order(strings.Repeat("0a", 16))
	want, _ := json.Marshal(api.Placed{OrderID: order, SaleID: "s1", Quantity: 2, Status: sluice.Queued})
	if got := string(appendPlaced(nil, "s1", order, 2)); got != string(want)+"\n" {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSaleViews(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	s := sluice.Sale{
		ID: "s1", SKU: "K", Title: "T", Price: sluice.Money{Amount: 1, Currency: "CNY"}, Taken: 1, Epoch: 2,
		Terms:         sluice.Terms{Version: 3, Total: 10, MaxPerBuyer: sluice.Unlimited, MaxOrders: 4, OpensAt: now},
		PaymentWindow: time.Minute, CreatedAt: now, UpdatedAt: now,
	}
	r := port.Reading{
		Sale: "s1", Loaded: true, Epoch: 2, Seq: 5, Taken: 4, Terms: s.Terms,
		Now: now.Add(1500 * time.Millisecond), Backlog: 1,
	}
	got, _ := json.Marshal(SaleMessage(&s, &r))
	want := `{"id":"s1","sku":"K","title":"T","price":{"amount":1,"currency":"CNY"},"list_price":null,` +
		`"total":10,"available":6,"max_per_buyer":null,"opens_at":"2026-11-11T12:00:00.000Z","closes_at":null,` +
		`"state":"open","server_time":"2026-11-11T12:00:01.500Z"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s.LoadedEpoch = 2
	view := admission.View{Sale: s, Reading: r}
	got, _ = json.Marshal(adminSaleMessage(&view, now.Add(8*time.Second)))
	want = strings.TrimSuffix(want, `1.500Z"}`) + `8.000Z","as_of":"2026-11-11T12:00:01.500Z"` +
		`,"max_orders_per_buyer":4,"max_unpaid_per_buyer":null,"limits":[],"payment_window_s":60,"payment_grace_s":0,` +
		`"paused":false,"terms_version":3,` +
		`"loaded":true,"epoch":2,"seq":5,"taken":4,"stored_taken":1,"backlog":1,"fence":"",` +
		`"created_at":"2026-11-11T12:00:00.000Z","updated_at":"2026-11-11T12:00:00.000Z","archived_at":null,` +
		`"buyer_rate":null,"address_rate":null,"admission_ratio":null,"ticket":null,"challenge":null,"risk":null,` +
		`"eligibility":null,"visibility":"listed","availability":"exact"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// So is silence: a merchant gets the last figures, and when they were right.
	view.Down = true
	if silent := adminSaleMessage(&view, now); silent.State != sluice.StateUnavailable || *silent.Available != 6 ||
		!silent.AsOf.Equal(r.Now) {
		t.Errorf("the ledger does not answer: %+v", silent)
	}
	view.Sale.ArchivedAt = now
	if old := adminSaleMessage(&view, now); old.State != sluice.StateClosed || old.AsOf != nil {
		t.Errorf("archived: %+v", old)
	}
	if never := adminSaleMessage(unread(&s), now); never.State != sluice.StateUnavailable || never.AsOf != nil {
		t.Errorf("never read: %+v", never)
	}
	// Loss is visible: a sale that the ledger does not hold is never "0 available".
	lost := SaleMessage(&s, &port.Reading{Sale: "s1", Now: now})
	if lost.State != sluice.StateUnavailable || lost.Available != nil || *lost.Total != 10 {
		t.Errorf("not loaded: %+v", lost)
	}
}

func TestOrderViews(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	o := sluice.Order{
		ID: "s1.x", Sale: "s1", Buyer: "b", Key: "key-0001", Quantity: 2, Meta: `{"a":1}`,
		Price: sluice.Money{Amount: 9, Currency: "CNY"}, Status: sluice.Queued, Epoch: 1, Seq: 7, AcceptedAt: now,
	}
	got, _ := json.Marshal(orderMessage(&o))
	want := `{"order_id":"s1.x","sale_id":"s1","quantity":2,"status":"queued","price":{"amount":9,"currency":"CNY"},` +
		`"amount":18,"currency":"CNY","meta":{"a":1},"accepted_at":"2026-11-11T12:00:00.000Z",` +
		`"stored_at":null,"expires_at":null}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	o.Meta = ""
	var back api.Order
	admin, _ := json.Marshal(adminOrderMessage(&o))
	if err := json.Unmarshal(admin, &back); err != nil || back.BuyerID != "b" || back.Key != "key-0001" ||
		string(back.Meta) != "null" {
		t.Errorf("got %+v, %v", back, err)
	}
}
