package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
)

// Imported orders are paid and hold units; the sale is fenced with the first of them,
// and the feed has no event of them before one of them changes. What does not fit
// changes nothing.
func testImport(t *testing.T, db Database) {
	s := db.Open(t)
	ctx := t.Context()
	create(t, s, aSale("phones", 100))
	create(t, s, aSale("tablets", 100))
	number := func() int64 {
		t.Helper()
		numberAll(t, s, 100)
		last, err := s.LastEvent(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	made := 0
	orders := func(n int) (some []sluice.EarlierOrder) {
		for range n {
			made++
			some = append(some, sluice.EarlierOrder{
				Line: made, Buyer: sluice.BuyerID(fmt.Sprint("buyer-", made)), Quantity: 2, ID: fmt.Sprintf(`WC "%d" 订单`, made),
			})
		}
		return some
	}
	batch := sluice.Import{Sale: "phones", Version: 1, Epoch: 1, At: acceptedAt, Fence: "an import", Orders: orders(3)}
	first := batch.Orders
	number()
	for range 2 {
		if err := s.Import(ctx, batch); err != nil {
			t.Fatal(err)
		}
		batch.Orders = orders(4)
	}
	for name, change := range map[string]func(*sluice.Import){
		"another version":   func(b *sluice.Import) { b.Version = 2 },
		"another epoch":     func(b *sluice.Import) { b.Epoch = 2 },
		"another fence":     func(b *sluice.Import) { b.Fence = "other" },
		"one that is there": func(b *sluice.Import) { b.Orders = append(orders(1), first[1]) },
		"more than the cap": func(b *sluice.Import) { b.Orders = orders(44) },
	} {
		b := batch
		b.Orders = orders(1)
		change(&b)
		unchanged(t, s, "phones", func() {
			if err := s.Import(ctx, b); !asState(err) {
				t.Errorf("%s: %v, want a *sluice.StateError", name, err)
			}
		})
	}
	if err := s.Import(ctx, sluice.Import{Sale: "none", Orders: first}); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("no such sale: %v", err)
	}
	c := mustBeSound(t, s, "phones")
	if len(c.Orders) != 7 || c.Sale.Taken != 14 || c.Sale.Fence != "an import" {
		t.Fatalf("%d orders, taken %d, fence %q", len(c.Orders), c.Sale.Taken, c.Sale.Fence)
	}
	for i := range c.Orders {
		o, want := c.Orders[i], sluice.EarlierOrder{ID: fmt.Sprintf(`WC "%d" 订单`, i+1)}
		want.Buyer, want.Quantity = sluice.BuyerID(fmt.Sprint("buyer-", i+1)), 2
		claim := want.Claim("phones")
		if o.Status != sluice.Paid || o.Terms != sluice.ImportedTerms || o.Epoch != 1 || o.Seq != int64(i+1) ||
			!o.AcceptedAt.Equal(acceptedAt) || o.Record().Claim != claim || o.PaymentID != "" {
			t.Errorf("order %d: %+v", i, o)
		}
	}
	image, err := s.BeginLoad(ctx, "phones", 0)
	if err != nil || image.Taken != 14 || len(image.Records) != 7 || image.Seq() != 0 {
		t.Errorf("the image has %d records, taken %d, %v", len(image.Records), image.Taken, err)
	}
	if err := s.ConfirmLoad(ctx, "phones", 2); err != nil {
		t.Fatal(err)
	}
	number()
	for _, e := range feed(t, s, 100) {
		if e.Order.ID != "" {
			t.Errorf("an event of an order that was imported: %+v", e)
		}
	}
	id := first[0].Claim("phones").Order
	history, err := s.History(ctx, id)
	if err != nil || len(history) != 1 || history[0].To != sluice.Paid || history[0].By != "import" {
		t.Errorf("history: %+v, %v", history, err)
	}
	// From now on it is an order like the others, and so are those that are sold here.
	if _, err := s.Change(ctx, sluice.Change{Order: id, Action: sluice.Refund}); err != nil {
		t.Fatal(err)
	}
	number() // of one moment, those of new orders come first
	src := &source{sale: "phones", epoch: 2}
	src.store(t, s, 2)
	number()
	var types []sluice.EventType
	for _, e := range feed(t, s, 100) {
		if e.Order.Sale == "phones" {
			types = append(types, e.Type)
		}
	}
	want := []sluice.EventType{sluice.EventOrderRefunded, sluice.EventOrderCreated, sluice.EventOrderCreated}
	if !slices.Equal(types, want) {
		t.Errorf("events %v, want %v", types, want)
	}
	mustBeSound(t, s, "phones")

	// A store that has forgotten an import gets the orders back from the ledger, paid.
	lost := orders(1)[0]
	insert(t, s, sluice.Stored{Inserted: 1}, sluice.Entry{
		ID: "x", Sale: "tablets", Epoch: 1, Node: "n", Terms: sluice.ImportedTerms, At: time.Now(), FirstSeq: 1,
		Claims: []sluice.Claim{lost.Claim("tablets")},
	})
	if o, err := s.Order(ctx, lost.Claim("tablets").Order); err != nil || o.Status != sluice.Paid {
		t.Errorf("an imported order from a ledger: %+v, %v", o, err)
	}
}

func asState(err error) bool {
	_, ok := errors.AsType[*sluice.StateError](err)
	return ok
}

// An imported order is erased with what names its buyer, the id in the other system as
// well, and keeps its mark; in the end it is deleted, although no event names it.
func testImportEnds(t *testing.T, db Database) {
	s := erasing(t, db, erasureKey)
	create(t, s, aSale("phones", 10))
	err := s.Import(t.Context(), sluice.Import{
		Sale: "phones", Version: 1, Epoch: 1, At: acceptedAt, Fence: "an import",
		Orders: []sluice.EarlierOrder{{Line: 1, Buyer: erasedBuyer, Quantity: 2, ID: "WC-" + personal}},
	})
	if err != nil {
		t.Fatal(err)
	}
	archivedSale(t, s, "phones")
	longAgo(t, db, s, "phones")
	goesOn(t, s, "radios")
	erase(t, s, sluice.Erased{Orders: 1})
	for what, text := range everything(t, s) {
		if strings.Contains(text, personal) {
			t.Errorf("%s is not erased: %s", what, text)
		}
	}
	if c := mustBeSound(t, s, "phones"); len(c.Orders) != 1 || c.Orders[0].Terms != sluice.ImportedTerms {
		t.Errorf("after the erasure: %+v", c.Orders)
	}
	if done := purge(t, s); done.Orders != 1 || len(done.Waits) > 0 {
		t.Errorf("purged: %+v", done)
	}
}
