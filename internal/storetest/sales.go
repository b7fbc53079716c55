package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func testCreateSale(t *testing.T, db Database) {
	s := db.Open(t)
	want := aSale("phones", 1000)
	given := want
	given.OpensAt = given.OpensAt.Add(999 * time.Microsecond).In(time.FixedZone("", 3600)) // is cut, and told in UTC
	given.Version, given.Epoch, given.LoadedEpoch, given.Fence, given.Taken = 7, 7, 7, "x", 7
	given.Cap, given.ArchivedAt = 7, given.OpensAt
	created := must.Get(s.CreateSale(t.Context(), given))(t)
	want.Version, want.Cap = 1, 1000
	want.CreatedAt, want.UpdatedAt = created.CreatedAt, created.UpdatedAt
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if at := created.CreatedAt; at.IsZero() || !at.Equal(at.Truncate(time.Millisecond)) || at.Location() != time.UTC {
		t.Errorf("created at %v, want whole milliseconds, UTC", at)
	}
	if diff := cmp.Diff(want, read(t, s, "phones")); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	_, err := s.CreateSale(t.Context(), aSale("phones", 5))
	wantError(t, err, sluice.ErrSaleExists)
	if diff := cmp.Diff(want, read(t, s, "phones")); diff != "" {
		t.Errorf("after a second CreateSale (-want +got):\n%s", diff)
	}
	_, err = s.Sale(t.Context(), "unknown")
	wantError(t, err, sluice.ErrSaleNotFound)
}

func testCreateInvalid(t *testing.T, db Database) {
	s := db.Open(t)
	for name, spoil := range map[string]func(*sluice.Sale){
		"id":                  func(s *sluice.Sale) { s.ID = "NOT AN ID" },
		"negative price":      func(s *sluice.Sale) { s.Price.Amount = -1 },
		"negative total":      func(s *sluice.Sale) { s.Total = -2 },
		"no limit of 0":       func(s *sluice.Sale) { s.MaxPerBuyer = 0 },
		"closes before opens": func(s *sluice.Sale) { s.ClosesAt = s.OpensAt.Add(-time.Hour) },
		"closes as it opens":  func(s *sluice.Sale) { s.ClosesAt = s.OpensAt.Add(time.Microsecond) }, // once cut
		"no payment window":   func(s *sluice.Sale) { s.PaymentWindow = 0 },
		"NUL in the title":    func(s *sluice.Sale) { s.Title = "a\x00b" },
		"NUL in the sku":      func(s *sluice.Sale) { s.SKU = "\x00" },
		"title not UTF-8":     func(s *sluice.Sale) { s.Title = "a\xffb" },
	} {
		sale := aSale("bad", 10)
		spoil(&sale)
		if _, err := s.CreateSale(t.Context(), sale); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if sales, err := s.Sales(t.Context()); err != nil || len(sales) != 0 {
		t.Errorf("sales: %v, %v, want none", sales, err)
	}
}

func testAbsentLimits(t *testing.T, db Database) {
	s := db.Open(t)
	sale := aSale("endless", sluice.Unlimited)
	sale.MaxPerBuyer, sale.MaxOrders, sale.MaxUnpaid = sluice.Unlimited, sluice.Unlimited, 0
	sale.ClosesAt, sale.ListPrice = time.Time{}, sluice.Money{}
	created := create(t, s, sale)
	if created.Total != sluice.Unlimited || created.MaxPerBuyer != sluice.Unlimited ||
		created.MaxOrders != sluice.Unlimited || created.MaxUnpaid != 0 ||
		!created.ClosesAt.IsZero() || created.ListPrice != (sluice.Money{}) {
		t.Errorf("read back: %+v", created)
	}
	src := source{sale: "endless", epoch: 1}
	insert(t, s, port.Stored{Inserted: 2}, src.entryOf(sluice.MaxQuantity, sluice.MaxQuantity))
	if c := mustBeSound(t, s, "endless"); c.Sale.Taken != 2*sluice.MaxQuantity || c.Terms[0] != created.Terms {
		t.Errorf("taken %d, terms %+v", c.Sale.Taken, c.Terms)
	}

	free := aSale("free", 0) // a total of 0 is a total
	free.Price.Amount = 0
	if got := create(t, s, free); got.Total != 0 || got.Price.Amount != 0 {
		t.Errorf("read back: %+v", got)
	}
}

func testTexts(t *testing.T, db Database) {
	s := db.Open(t)
	for i, text := range []string{
		`it's "quoted" \ and %s $1 ?; DROP TABLE orders; --`, "手机 📱 é é", " spaces ", "right\u200bto\ufeffleft",
		strings.Repeat("界", 85),
	} {
		sale := aSale(sluice.SaleID(fmt.Sprintf("texts-%d", i)), 10)
		sale.Title, sale.SKU = text, text
		if got := create(t, s, sale); got.Title != text || got.SKU != text {
			t.Errorf("title %q, sku %q, want %q", got.Title, got.SKU, text)
		}
		src := source{sale: sale.ID, epoch: 1}
		entry := src.entry(2)
		entry.Claims[0].Meta = `{"note":"it's \"手机\" \u0000 \\"}`
		buyer := []rune(strings.NewReplacer("\n", "", "\t", "").Replace(text))
		entry.Claims[0].Buyer = sluice.BuyerID(buyer[:min(len(buyer), 40)])
		entry.Claims[1].Meta = ""
		insert(t, s, port.Stored{Inserted: 2}, entry)
		for j, claim := range entry.Claims {
			order, err := s.Order(t.Context(), claim.Order)
			if err != nil || order.Meta != claim.Meta || order.Buyer != claim.Buyer {
				t.Errorf("%q, claim %d: meta %q, buyer %q, error %v", text, j, order.Meta, order.Buyer, err)
			}
		}
		insert(t, s, port.Stored{Redelivered: 2}, entry)
	}
}

func testSales(t *testing.T, db Database) {
	s := db.Open(t)
	opens := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, sale := range []struct {
		id sluice.SaleID
		at time.Time
	}{{"c", opens}, {"a", opens.Add(time.Millisecond)}, {"b", opens}} {
		row := aSale(sale.id, 10)
		row.OpensAt = sale.at
		create(t, s, row)
	}
	all := must.Get(s.Sales(t.Context()))(t)
	var ids []sluice.SaleID
	for _, sale := range all {
		ids = append(ids, sale.ID)
		if diff := cmp.Diff(read(t, s, sale.ID), sale); diff != "" {
			t.Errorf("sale %s in the list (-alone +listed):\n%s", sale.ID, diff)
		}
	}
	if diff := cmp.Diff([]sluice.SaleID{"b", "c", "a"}, ids); diff != "" {
		t.Errorf("sales (-want +got):\n%s", diff)
	}
}

func testSelectSales(t *testing.T, db Database) {
	s := db.Open(t)
	for _, id := range []sluice.SaleID{"c", "a", "e", "b", "d"} {
		row := aSale(id, 10)
		if id == "b" || id == "e" {
			row.OpensAt, row.ClosesAt = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
		}
		create(t, s, row)
		if id == "b" || id == "e" {
			if archived, err := s.Archive(t.Context(), id); err != nil || !archived {
				t.Fatal(archived, err)
			}
		}
	}
	for _, id := range []sluice.SaleID{"c", "d"} {
		must.Succeed(t, s.FenceSale(t.Context(), id, 1, "lost"))
	}
	must.Get(s.BeginLoad(t.Context(), "d", 0))(t)
	for _, c := range []struct {
		filter port.SaleFilter
		want   []sluice.SaleID
	}{
		{port.SaleFilter{Live: true}, []sluice.SaleID{"a", "c", "d"}},
		{port.SaleFilter{Fenced: true}, []sluice.SaleID{"c", "d"}},
		{port.SaleFilter{IDs: []sluice.SaleID{"e", "none", "a", "A"}}, []sluice.SaleID{"a", "e"}},
		{port.SaleFilter{IDs: []sluice.SaleID{}}, nil},
		{port.SaleFilter{Limit: 2}, []sluice.SaleID{"a", "b"}},
		{port.SaleFilter{After: "b", Limit: 2}, []sluice.SaleID{"c", "d"}},
		{port.SaleFilter{After: "d", Limit: 2}, []sluice.SaleID{"e"}},
	} {
		list, err := s.SelectSales(t.Context(), c.filter)
		if err != nil {
			t.Fatalf("%+v: %v", c.filter, err)
		}
		var ids []sluice.SaleID
		for _, sale := range list {
			ids = append(ids, sale.ID)
			if diff := cmp.Diff(read(t, s, sale.ID), sale); diff != "" {
				t.Errorf("%+v: sale %s (-alone +selected):\n%s", c.filter, sale.ID, diff)
			}
		}
		if diff := cmp.Diff(c.want, ids); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.filter, diff)
		}
	}
	if _, err := s.SelectSales(t.Context(), port.SaleFilter{}); err == nil {
		t.Error("a page without a limit was read")
	}
}

// While the live sales are as a digest says they are not listed; whatever changes one, they are.
func testUnchangedSales(t *testing.T, db Database) {
	s := db.Open(t)
	old := aSale("old", sluice.Unlimited)
	old.OpensAt, old.ClosesAt = time.Now().Add(-time.Hour), time.Now().Add(-time.Minute)
	create(t, s, old)
	create(t, s, aSale("phones", 10))
	src := source{sale: "phones", epoch: 1}
	var order sluice.OrderID
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"an order", func() error { order = src.store(t, s, 1).Claims[0].Order; return nil }},
		{"its end", func() error { change(t, s, want(order, sluice.Cancel)); return nil }},
		{"a new title", func() error {
			_, err := s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error { sale.Title = "New"; return nil })
			return err
		}},
		{"a restock", func() error { restock(t, s, "more", 5); return nil }},
		{"a fence", func() error { return s.FenceSale(t.Context(), "phones", 1, "lost") }},
		{"a load", func() error { _, err := s.BeginLoad(t.Context(), "phones", 1); return err }},
		{"a sale that is archived", func() error { _, err := s.Archive(t.Context(), "old"); return err }},
		{"a new sale", func() error { create(t, s, aSale("tablets", 1)); return nil }},
	} {
		list := must.Get(s.SelectSales(t.Context(), port.SaleFilter{Live: true}))(t)
		same := port.SaleFilter{Live: true, Unless: port.DigestSales(list)}
		if again, err := s.SelectSales(t.Context(), same); !errors.Is(err, port.ErrUnchanged) {
			t.Errorf("before %s: %d sales, %v; the digest is %+v", c.what, len(again), err, same.Unless)
		}
		time.Sleep(2 * time.Millisecond) // the store's clock
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if again, err := s.SelectSales(t.Context(), same); err != nil || len(again) == 0 {
			t.Errorf("after %s: %d sales, %v", c.what, len(again), err)
		}
	}
}

func testChangeSale(t *testing.T, db Database) {
	s := db.Open(t)
	before := create(t, s, aSale("phones", 10))
	want := before
	want.Title, want.SKU, want.Price, want.ListPrice = "New", "sku-2", sluice.Money{Amount: 1, Currency: "EUR"},
		sluice.Money{}
	want.Total, want.MaxPerBuyer, want.MaxOrders, want.MaxUnpaid, want.Paused = sluice.Unlimited, 5, sluice.Unlimited, 7,
		true
	want.OpensAt, want.ClosesAt = want.OpensAt.Add(time.Hour), time.Time{}
	want.PaymentWindow, want.PaymentGrace = time.Hour, 0
	changed := must.Get(s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error {
		if diff := cmp.Diff(before, *sale); diff != "" {
			t.Errorf("given to change (-want +got):\n%s", diff)
		}
		*sale = want
		sale.OpensAt = sale.OpensAt.Add(time.Microsecond)
		sale.Version = 99 // is the store's own
		return nil
	}))(t)
	want.Version, want.Cap, want.UpdatedAt = 2, sluice.Unlimited, changed.UpdatedAt
	if diff := cmp.Diff(want, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if changed.UpdatedAt.Before(before.UpdatedAt) {
		t.Errorf("updated at %v, before %v", changed.UpdatedAt, before.UpdatedAt)
	}
	third, err := s.ChangeSale(t.Context(), "phones", func(*sluice.Sale) error { return nil })
	if err != nil || third.Version != 3 {
		t.Errorf("a change of nothing: version %d, error %v, want version 3", third.Version, err)
	}
	c := mustBeSound(t, s, "phones")
	if diff := cmp.Diff([]sluice.Terms{before.Terms, changed.Terms, third.Terms}, c.Terms); diff != "" {
		t.Errorf("versions of the terms (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(third, c.Sale); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	_, err = s.ChangeSale(t.Context(), "unknown", func(*sluice.Sale) error {
		t.Error("called for an unknown sale")
		return nil
	})
	wantError(t, err, sluice.ErrSaleNotFound)
}

func testChangeRefused(t *testing.T, db Database) {
	s := db.Open(t)
	src := selling(t, s, "phones", 10)
	src.store(t, s, 4)

	unchanged(t, s, "phones", func() {
		mine := errors.New("mine")
		_, err := s.ChangeSale(t.Context(), "phones", func(sale *sluice.Sale) error { sale.Title = "x"; return mine })
		if err != mine {
			t.Errorf("error %v, want the one of change as it is", err)
		}
		for name, edit := range map[string]func(*sluice.Sale){
			"invalid":      func(s *sluice.Sale) { s.Price.Amount = -1 },
			"NUL":          func(s *sluice.Sale) { s.Title = "\x00" },
			"id":           func(s *sluice.Sale) { s.ID = "other" },
			"epoch":        func(s *sluice.Sale) { s.Epoch++ },
			"loaded epoch": func(s *sluice.Sale) { s.LoadedEpoch = 0 },
			"fence":        func(s *sluice.Sale) { s.Fence = "x" },
			"taken":        func(s *sluice.Sale) { s.Taken = 0 },
			"cap":          func(s *sluice.Sale) { s.Cap++ },
			"archived at":  func(s *sluice.Sale) { s.ArchivedAt = s.OpensAt },
			"created at":   func(s *sluice.Sale) { s.CreatedAt = time.Time{} },
		} {
			if _, err := s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error { edit(s); return nil }); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
		_, err = s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error { s.Total = 3; return nil })
		wantError(t, err, sluice.ErrBelowTaken)
	})
	changed, err := s.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error { s.Total = 4; return nil })
	if err != nil || changed.Total != 4 || changed.Taken != 4 {
		t.Errorf("total lowered to taken: %+v, %v", changed, err)
	}
}

// Changes read what they edit under a lock, so none is lost.
func testConcurrentChanges(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	create(t, s, aSale("phones", 0))
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			handle := []port.Store{s, other}[i%2]
			for range 5 {
				if _, err := handle.ChangeSale(t.Context(), "phones", func(s *sluice.Sale) error {
					s.Total++
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	c := mustBeSound(t, s, "phones")
	if c.Sale.Total != 40 || c.Sale.Version != 41 || len(c.Terms) != 41 {
		t.Errorf("total %d, version %d, %d versions kept; want 40, 41, 41", c.Sale.Total, c.Sale.Version, len(c.Terms))
	}
	for i, terms := range c.Terms {
		if terms.Version != int64(i+1) || terms.Total != int64(i) {
			t.Errorf("terms %d: version %d, total %d", i, terms.Version, terms.Total)
		}
	}
}

func testFence(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	for _, step := range []struct {
		epoch  int64
		reason string
		want   string
	}{
		{2, "of another epoch", ""},
		{1, "lost: \xff\x00 something", "lost: \uFFFD\uFFFD something"},
		{1, "too late", "lost: \uFFFD\uFFFD something"},
	} {
		must.Succeed(t, s.FenceSale(t.Context(), "phones", step.epoch, step.reason))
		if got := read(t, s, "phones").Fence; got != step.want {
			t.Errorf("fence %q after %q, want %q", got, step.reason, step.want)
		}
	}
	if version := read(t, s, "phones").Version; version != 1 {
		t.Errorf("version %d after a fence, want 1", version)
	}
	wantError(t, s.FenceSale(t.Context(), "unknown", 1, "x"), sluice.ErrSaleNotFound)
	if err := s.FenceSale(t.Context(), "phones", 1, ""); err == nil {
		t.Error("a fence without a reason: no error")
	}
}
