package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

// Orders in process are those that HTTP has: each action once, in the states that allow
// it, and a buyer's only for the buyer.
func TestOrdersInProcess(t *testing.T) { onEachLedger(t, ordersInProcess) }

func ordersInProcess(t *testing.T, cfg engine.Config) {
	cfg.BuyerID = "casefold"
	e := opened(t, cfg)
	onSale(t, e, "phone", 3)
	ctx := t.Context()
	claim := func(buyer sluice.BuyerID) sluice.OrderID {
		t.Helper()
		d, err := e.Claim(ctx, "phone", sluice.Claim{Buyer: buyer, Key: "first-attempt", Quantity: 1}, sluice.Caller{})
		if err != nil || d.Code != sluice.Accepted {
			t.Fatalf("%+v, %v", d, err)
		}
		if o, err := e.Order(ctx, d.Order); err != nil || o.Buyer == "" { // queued or stored
			t.Fatalf("%+v, %v", o, err)
		}
		return d.Order
	}
	// stored repeats a call until the order is stored.
	stored := func(do func() (sluice.Order, error)) (o sluice.Order, err error) {
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if o, err = do(); !errors.Is(err, sluice.ErrOrderQueued) {
				break
			}
		}
		return o, err
	}
	ann, bob, cid := claim("Ann"), claim("bob"), claim("cid")
	pay := func(id sluice.OrderID, payment string, amount int64) (sluice.Order, error) {
		return stored(func() (sluice.Order, error) {
			p := engine.Payment{ID: payment, Paid: sluice.Money{Amount: amount, Currency: "CNY"}}
			return e.Pay(ctx, id, p, "the till")
		})
	}
	for range 2 {
		if o, err := pay(ann, "pay-1", 99900); err != nil || o.Status != sluice.Paid || o.PaymentID != "pay-1" {
			t.Fatalf("paid: %+v, %v", o, err)
		}
	}
	if _, err := pay(bob, "pay-1", 99900); !errors.As(err, new(*sluice.PaymentConflictError)) {
		t.Errorf("a payment of another order: %v", err)
	}
	if _, err := pay(bob, "pay-2", 1); !errors.As(err, new(*sluice.PaymentAmountError)) {
		t.Errorf("another amount: %v", err)
	}
	if _, err := e.Refund(ctx, ann, strings.Repeat("x", 300)); err == nil {
		t.Error("a name of 300 bytes was taken")
	}
	if _, err := pay(bob, "", 99900); err == nil {
		t.Error("a payment without an id was recorded")
	}
	if _, err := e.CancelOwn(ctx, bob, "ann"); !errors.Is(err, sluice.ErrOrderNotFound) {
		t.Errorf("another buyer's order: %v", err)
	}
	if o, err := e.CancelOwn(ctx, bob, "BOB"); err != nil || o.Status != sluice.Cancelled {
		t.Errorf("cancelled by its buyer: %+v, %v", o, err)
	}
	if o, err := stored(func() (sluice.Order, error) { return e.Cancel(ctx, cid, "ops") }); err != nil ||
		o.Status != sluice.Cancelled {
		t.Errorf("cancelled: %+v, %v", o, err)
	}
	for range 2 {
		if o, err := e.Refund(ctx, ann, "ops"); err != nil || o.Status != sluice.Refunded {
			t.Errorf("refunded: %+v, %v", o, err)
		}
	}
	if _, err := pay(ann, "pay-3", 99900); !errors.As(err, new(*sluice.PaymentConflictError)) &&
		!errors.As(err, new(*sluice.OrderStateError)) {
		t.Errorf("another payment of a refunded order: %v", err)
	}
	none := sluice.SaleID("phone").Order("00000000000000000000000000000000")
	if _, err := e.Order(ctx, none); !errors.Is(err, sluice.ErrOrderNotFound) {
		t.Errorf("no such order: %v", err)
	}
	var listed []sluice.OrderID
	for o, err := range e.Orders(ctx, sluice.OrderFilter{Buyer: "ANN "}) {
		if err != nil || o.ID != ann {
			t.Errorf("Ann's: %+v, %v", o, err)
		}
		listed = append(listed, o.ID)
	}
	if len(listed) != 1 {
		t.Errorf("Ann's orders: %v", listed)
	}
	all := e.Orders(ctx, sluice.OrderFilter{Sale: "phone", Limit: 1})
	for _, most := range []int{2, 4} { // from the start each time
		listed = nil
		for o, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			if listed = append(listed, o.ID); len(listed) == most {
				break
			}
		}
		if len(listed) != min(most, 3) {
			t.Errorf("listed: %v", listed)
		}
	}
	for _, err := range e.Orders(ctx, sluice.OrderFilter{Cursor: "what"}) {
		if !errors.Is(err, sluice.ErrBadCursor) {
			t.Errorf("from a cursor that no page gave: %v", err)
		}
	}
	if report, err := e.Audit(ctx, "phone"); err != nil || !report.OK {
		t.Errorf("%+v, %v", report, err)
	}
}

// A shop that has Sluice in its own process sells a unit, and records the payment.
func ExampleEngine_Pay() {
	dir, _ := os.MkdirTemp("", "sluice-example-")
	defer os.RemoveAll(dir)
	ctx := context.Background()
	e, err := engine.Open(ctx, engine.Config{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close(ctx)
	sale := sluice.NewSale(10, sluice.Unlimited)
	sale.ID, sale.SKU, sale.Title, sale.Price = "mug", "MUG-1", "A mug", sluice.Money{Amount: 1900, Currency: "CNY"}
	sale.OpensAt = time.Now().Add(-time.Second)
	if _, err := e.Control().Create(ctx, sale); err != nil {
		fmt.Println(err)
		return
	}
	claim := sluice.Claim{Buyer: "ann", Key: "anns-first-try", Quantity: 1}
	decision, err := e.Claim(ctx, "mug", claim, sluice.Caller{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(decision.Code)
	for {
		order, err := e.Pay(ctx, decision.Order, engine.Payment{ID: "pay-0001", Paid: sale.Price}, "the till")
		if errors.Is(err, sluice.ErrOrderQueued) { // it is stored in a moment
			time.Sleep(10 * time.Millisecond)
			continue
		}
		fmt.Println(order.Status, err)
		return
	}
	// Output:
	// accepted
	// paid <nil>
}

// A token that the Go client mints is the buyer's, for a while.
func TestBuyerTokens(t *testing.T) {
	t.Parallel()
	e := opened(t, engine.Config{DataDir: t.TempDir(), BuyerIssuer: "https://login", BuyerAudience: "shop"})
	for _, c := range []struct {
		secret string
		ttl    time.Duration
		want   int
	}{{e.BuyerSecret(), time.Hour, 200}, {e.BuyerSecret(), 32 * 24 * time.Hour, 401}, {"another secret", time.Hour, 401}} {
		token := must.Get(client.BuyerToken(c.secret, client.Token{
			Buyer: "ann", TTL: c.ttl, Sales: []sluice.SaleID{"phone"}, Issuer: "https://login", Audience: "shop",
		}))(t)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/buyer", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		e.Handler().ServeHTTP(w, r)
		if w.Code != c.want || c.want == 200 && !strings.Contains(w.Body.String(), `"ann"`) {
			t.Errorf("for %s: %d %s, want %d", c.ttl, w.Code, w.Body, c.want)
		}
	}
	for _, bad := range []func() (string, error){
		func() (string, error) { return client.BuyerToken("", client.Token{Buyer: "ann", TTL: time.Hour}) },
		func() (string, error) { return client.BuyerToken("secret", client.Token{TTL: time.Hour}) },
		func() (string, error) { return client.BuyerToken("secret", client.Token{Buyer: "ann"}) },
	} {
		if token, err := bad(); err == nil {
			t.Errorf("minted %s", token)
		}
	}
}

// A program that serves its own metrics has the engine's among them, while it is open.
func TestMetricsOfTheProgram(t *testing.T) {
	t.Parallel()
	program := prometheus.NewRegistry()
	program.MustRegister(collectors.NewGoCollector())
	names := func() string {
		families := must.Get(program.Gather())(t)
		var all strings.Builder
		for _, f := range families {
			all.WriteString(f.GetName() + " ")
		}
		return all.String()
	}
	for range 2 { // closed, it leaves them
		e := opened(t, engine.Config{DataDir: t.TempDir(), Registerer: program})
		onSale(t, e, "phone", 1)
		if got := names(); !strings.Contains(got, "sluice_claims_total") || strings.Count(got, "go_goroutines") != 1 {
			t.Errorf("open: %s", got)
		}
		if _, err := engine.Open(t.Context(), engine.Config{DataDir: t.TempDir(), Registerer: program}); err == nil {
			t.Error("two engines have the same metrics")
		}
		must.Succeed(t, e.Close(t.Context()))
		if got := names(); strings.Contains(got, "sluice_") {
			t.Errorf("closed: %s", got)
		}
	}
}
