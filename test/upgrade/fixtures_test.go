// Package upgrade opens what every release has written, with the program of the day.
//
// Each folder of testdata has the fixtures of one release, current those of this program.
// Until the first release there is current alone, and a change of a format makes it again:
//
//	go test ./upgrade -update        (in the folder test)
//
// A release copies current to a folder with its version, which no later commit changes.
package upgrade

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
)

var update = flag.Bool("update", false, "make the fixtures of the current program again")

const (
	phones sluice.SaleID = "phones" // 20 units, orders of every status, a list, a dead letter
	lamps  sluice.SaleID = "lamps"  // whose orders expire at once
)

// order is one that the fixture has.
type order struct {
	ID     sluice.OrderID
	Buyer  sluice.BuyerID
	Key    sluice.Key
	Sale   sluice.SaleID
	Status sluice.Status
}

// shop is a running engine, and its callers.
type shop struct {
	t      *testing.T
	engine *engine.Engine
	url    string
	admin  *client.Client
}

func open(t *testing.T, cfg engine.Config) *shop {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.AdminKey, cfg.BuyerSecret = "the-admin-key-of-the-fixtures", "the-buyer-secret-of-the-fixtures"
	cfg.WebhookKey, cfg.ReconcileInterval, cfg.Log = strings.Repeat("5a", 32), time.Second, slog.New(slog.DiscardHandler)
	e := must.Get(engine.Open(t.Context(), cfg))(t)
	server := httptest.NewServer(e.Handler())
	t.Cleanup(server.Close)
	s := &shop{t: t, engine: e, url: server.URL}
	s.admin = must.Get(client.New(s.url, client.Options{AdminKey: cfg.AdminKey}))(t)
	return s
}

func (s *shop) close() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), engine.ShutdownTimeout)
	defer cancel()
	must.Succeed(s.t, s.engine.Close(ctx))
}

func (s *shop) buyer(id sluice.BuyerID) *client.Client {
	s.t.Helper()
	token := must.Get(client.BuyerToken("the-buyer-secret-of-the-fixtures", client.Token{Buyer: id, TTL: time.Hour}))(s.t)
	c := must.Get(client.New(s.url, client.Options{Token: token}))(s.t)
	return c
}

// place places an order and waits until it is stored.
func (s *shop) place(sale sluice.SaleID, buyer sluice.BuyerID) order {
	s.t.Helper()
	key := sluice.Key("key-of-" + buyer)
	placed := must.Get(s.buyer(buyer).Place(s.t.Context(), sale, key, api.PlaceOrder{Quantity: 1}))(s.t)
	s.await("the order to be stored", func() bool {
		o, err := s.admin.AdminOrder(s.t.Context(), placed.OrderID)
		return err == nil && o.Status != sluice.Queued
	})
	return order{ID: placed.OrderID, Buyer: buyer, Key: key, Sale: sale}
}

func (s *shop) await(what string, done func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited a minute for %s", what)
		}
	}
}

// sound audits a sale when all of it is stored.
func (s *shop) sound(sale sluice.SaleID) {
	s.t.Helper()
	s.await("the journal and the outbox to be empty", func() bool {
		got, err := s.admin.AdminSale(s.t.Context(), sale)
		return err == nil && got.Backlog == 0 && got.StoredTaken == got.Taken
	})
	report := must.Get(s.admin.Audit(s.t.Context(), sale))(s.t)
	if !report.OK {
		s.t.Errorf("audit of %s: %+v", sale, report.Checks)
	}
}

// TestFixtures opens what each release has written: every order is there, a repeat has its
// order, lists, webhooks, dead letters and events are kept, the sale sells on, and the audit
// passes.
func TestFixtures(t *testing.T) {
	if *update {
		for name, create := range worlds {
			t.Run(name, func(t *testing.T) { write(t, create(t), filepath.Join("testdata", "current", name)) })
		}
	}
	releases := must.Get(os.ReadDir("testdata"))(t)
	for _, release := range releases {
		for name, create := range worlds {
			t.Run(release.Name()+"/"+name, func(t *testing.T) {
				t.Parallel()
				read(t, create(t), filepath.Join("testdata", release.Name(), name))
			})
		}
	}
}

// write makes a fixture.
func write(t *testing.T, w world, fixture string) {
	must.Succeed(t, os.RemoveAll(fixture))
	must.Succeed(t, os.MkdirAll(fixture, 0o755))
	s, ctx := open(t, w.config), t.Context()
	for sale, window := range map[sluice.SaleID]int64{phones: int64(sluice.MaxPaymentWindow.Seconds()), lamps: 1} {
		must.Get(s.admin.CreateSale(ctx, api.CreateSale{
			ID: api.Some(sale), SKU: "sku", Title: "手机 & lamps",
			Price: api.Some(sluice.Money{Amount: 199900, Currency: "CNY"}),
			Total: api.Value(int64(20)), MaxPerBuyer: api.Value(int64(2)),
			OpensAt: api.Some(api.At(time.Now().Add(-time.Minute))), PaymentWindowS: api.Some(window),
			PaymentGraceS: api.Some(int64(0)),
		}))(t)
	}
	_, err := s.admin.ReplaceBuyers(ctx, phones, sluice.DenyList, strings.NewReader("mallory\n"))
	must.Succeed(t, err)
	must.Get(s.admin.CreateWebhook(ctx, api.CreateWebhook{
		URL: "https://shop.invalid/sluice", Description: "of the fixture",
	}))(t)
	s.await("the sales to open", func() bool {
		one, err1 := s.admin.Sale(ctx, phones)
		two, err2 := s.admin.Sale(ctx, lamps)
		return cmp.Or(err1, err2) == nil && one.State == sluice.StateOpen && two.State == sluice.StateOpen
	})

	cancel := func(o order) { _, err = s.buyer(o.Buyer).CancelOrder(ctx, o.ID); must.Succeed(t, err) }
	pay := func(o order) { _, err = s.admin.PayOrder(ctx, o.ID, "payment-"+string(o.Buyer)); must.Succeed(t, err) }
	var orders []order
	for status, step := range map[sluice.Status]func(order){
		sluice.Pending: func(order) {}, sluice.Cancelled: cancel, sluice.Paid: pay,
		sluice.Refunded:  func(o order) { pay(o); _, err = s.admin.RefundOrder(ctx, o.ID); must.Succeed(t, err) },
		sluice.RefundDue: func(o order) { cancel(o); pay(o) },
		sluice.Rejected:  func(o order) { _, err = s.admin.RejectOrder(ctx, o.ID, "no such address"); must.Succeed(t, err) },
	} {
		o := s.place(phones, sluice.BuyerID("buyer-"+fmt.Sprint(status)))
		step(o)
		o.Status = status
		orders = append(orders, o)
	}
	expired := s.place(lamps, "late")
	s.await("the order to expire", func() bool {
		o, err := s.admin.AdminOrder(ctx, expired.ID)
		return err == nil && o.Status == sluice.Expired
	})
	expired.Status = sluice.Expired
	orders = append(orders, expired)
	s.sound(phones)
	s.sound(lamps)
	s.await("all events to have numbers", func() bool { return len(s.events()) >= eventsOf(orders) })
	s.close()

	w.parts[0].run(t, letter(w.parts[0]))
	for _, p := range w.parts {
		p.save(t, fixture)
	}
	slices.SortFunc(orders, func(a, b order) int { return cmp.Compare(a.Status, b.Status) })
	content := must.Get(json.MarshalIndent(orders, "", "\t"))(t)
	must.Succeed(t, os.WriteFile(filepath.Join(fixture, "orders.json"), content, 0o600))
}

// letter is the statement that adds a dead letter, which is nothing that can be stored.
func letter(store part) string {
	claims, now := "x'6e6f6e73656e7365'", "current_timestamp"
	switch store.(type) {
	case postgres:
		claims = `'nonsense'`
	case folder:
		now = fmt.Sprint(time.Now().UnixMilli())
	}
	return `INSERT INTO dead_letters (sale_id, epoch, entry_id, reason, claims, first_seq, terms, node, created_at)
		VALUES ('phones', 1, 'entry', 'of the fixture', ` + claims + `, 0, 1, 'node', ` + now + `)`
}

func (s *shop) events() (all []api.Event) {
	s.t.Helper()
	for after := ""; ; {
		page := must.Get(s.admin.Events(s.t.Context(), after, 1000))(s.t)
		if len(page.Events) == 0 {
			return all
		}
		all, after = append(all, page.Events...), page.Next
	}
}

// eventsOf counts at least those of these orders: each was created, and most changed.
func eventsOf(orders []order) int { return 2*len(orders) - 1 }

// read opens a fixture.
func read(t *testing.T, w world, fixture string) {
	for _, p := range w.parts {
		p.load(t, fixture)
	}
	content, err := os.ReadFile(filepath.Join(fixture, "orders.json"))
	must.Succeed(t, err)
	var orders []order
	must.Succeed(t, json.Unmarshal(content, &orders))
	s, ctx := open(t, w.config), t.Context()
	defer s.close()
	s.await("the sale to be open", func() bool {
		sale, err := s.admin.Sale(ctx, phones)
		return err == nil && sale.State == sluice.StateOpen
	})
	for _, want := range orders {
		got := must.Get(s.admin.AdminOrder(ctx, want.ID))(t)
		// A fixture grows old: what was pending expires.
		if got.Status != want.Status && (want.Status != sluice.Pending || got.Status != sluice.Expired) ||
			got.BuyerID != want.Buyer {
			t.Errorf("order %+v, want %+v", got, want)
		}
		again, err := s.buyer(want.Buyer).Place(ctx, want.Sale, want.Key, api.PlaceOrder{Quantity: 1})
		if err != nil || again.OrderID != want.ID || !again.Replayed {
			t.Errorf("the claim of %s repeated: %+v, %v", want.ID, again, err)
		}
	}
	_, err = s.buyer("mallory").Place(ctx, phones, "key-of-mallory", api.PlaceOrder{Quantity: 1})
	if client.CodeOf(err) != api.CodeForbidden {
		t.Errorf("a buyer who is on the list: %v", err)
	}
	if hooks, err := s.admin.Webhooks(ctx); err != nil || len(hooks) != 1 || hooks[0].Description != "of the fixture" {
		t.Errorf("webhooks %+v, %v", hooks, err)
	}
	if letters, err := s.admin.DeadLetters(ctx, phones); err != nil || len(letters) != 1 ||
		letters[0].Reason != "of the fixture" {
		t.Errorf("dead letters %+v, %v", letters, err)
	}
	if got := len(s.events()); got < eventsOf(orders) {
		t.Errorf("%d events of %d orders", got, len(orders))
	}
	for n := range 3 {
		s.place(phones, sluice.BuyerID(fmt.Sprint("new-", n)))
	}
	s.sound(phones)
	s.sound(lamps)
}
