package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/sluicetest"
)

// What a program without HTTP can do with sales, and with the orders that fail or take longer.
func TestSalesWithoutHTTP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := sluicetest.Open(t, engine.Config{})
		ctx := t.Context()
		sale := sluice.NewSale(2, 2)
		sale.Title, sale.Price = "A phone", sluice.Money{Amount: 100, Currency: "CNY"}
		made := must.Get(e.Control().Create(ctx, sale))(t) // as the command makes it
		if !strings.HasPrefix(string(made.ID), "sale-") || made.SKU != "A phone" ||
			time.Since(made.OpensAt).Abs() > time.Second {
			t.Errorf("the defaults: %+v", made)
		}
		for what, change := range map[string]func(*sluice.Sale){
			"title: want 1 to 256 bytes of UTF-8":                         func(s *sluice.Sale) { s.Title, s.SKU = "", "" },
			`price: currency "": want three upper-case letters, like CNY`: func(s *sluice.Sale) { s.Price.Currency = "" },
			"closes_at: want a time after opens_at":                       func(s *sluice.Sale) { s.ClosesAt = s.OpensAt },
		} {
			wrong := made
			wrong.ID = "wrong"
			change(&wrong)
			if _, err := e.Control().Create(ctx, wrong); err == nil || err.Error() != what {
				t.Errorf("a wrong sale: %v, want %s", err, what)
			}
			edit := func(s *sluice.Sale) error { change(s); return nil }
			if _, err := e.Control().Patch(ctx, made.ID, edit); err == nil || err.Error() != what {
				t.Errorf("a wrong change: %v, want %s", err, what)
			}
		}

		time.Sleep(time.Second) // until it is loaded
		following, stop := context.WithCancel(ctx)
		defer stop()
		seen := make(chan string, 100)
		over := make(chan error, 1)
		go func() {
			for sale, err := range e.Follow(following, made.ID) {
				if err != nil {
					over <- err
					return
				}
				seen <- string(sale.State) + " " + sale.Title
			}
			over <- nil
		}()
		next := func(want string) {
			t.Helper()
			if got := <-seen; got != want {
				t.Errorf("the sale is followed as %q, want %q", got, want)
			}
		}
		next("open A phone")
		synctest.Wait()
		time.Sleep(5 * time.Second)
		if len(seen) > 0 {
			t.Errorf("nothing has changed: %q", <-seen)
		}
		claim := func(buyer sluice.BuyerID, n int64) sluice.OrderID {
			t.Helper()
			d, err := e.Claim(ctx, made.ID, sluice.Claim{Buyer: buyer, Key: sluice.NewKey(), Quantity: n}, sluice.Caller{})
			if err != nil || d.Code != sluice.Accepted {
				t.Fatal(d, err)
			}
			time.Sleep(time.Second) // it is stored
			return d.Order
		}
		order := claim("ann", 2)
		for got := ""; got != "sold_out A phone"; {
			got = <-seen
		}
		now := must.Get(e.Sale(ctx, made.ID))(t)
		if now.State != sluice.StateSoldOut || *now.Available != 0 || now.Taken != 2 || now.AsOf == nil {
			t.Errorf("sold out: %+v", now)
		}

		until := time.Now().Add(time.Hour)
		later := must.Get(e.Extend(ctx, order, until, "desk"))(t)
		if later.ExpiresAt.Sub(until).Abs() > time.Second || later.Status != sluice.Pending {
			t.Errorf("extended: %+v", later)
		}
		if rejected := must.Get(e.Reject(ctx, order, "no such street", "desk"))(t); rejected.Status != sluice.Rejected ||
			rejected.Reason != "no such street" {
			t.Errorf("rejected: %+v", rejected)
		}
		for _, err := range []error{
			errOf(e.Reject(ctx, order, "", "desk")), errOf(e.Reject(ctx, order, sluice.NotCovered, "desk")),
			errOf(e.Extend(ctx, order, time.Time{}, "desk")),
			errOf(e.Extend(ctx, order, until, "desk")),
		} {
			if err == nil {
				t.Error("wrong words, or an order that has ended, are taken")
			}
		}
		for got := ""; got != "open A phone"; { // the units are back
			got = <-seen
		}

		soon := sluice.NewSale(1, 1)
		soon.ID, soon.Title, soon.Price = "soon", "Soon", sale.Price
		soon.OpensAt = time.Now().Add(time.Hour)
		must.Get(e.Control().Create(ctx, soon))(t)
		var ids []sluice.SaleID
		for sale, err := range e.Sales(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, sale.ID)
		}
		if len(ids) != 2 || ids[0] != made.ID || ids[1] != "soon" {
			t.Errorf("the sales are %v", ids)
		}
		if _, err := e.Sale(ctx, "none"); !errors.Is(err, sluice.ErrSaleNotFound) {
			t.Errorf("no such sale: %v", err)
		}
		for _, err := range e.Follow(ctx, "none") {
			if !errors.Is(err, sluice.ErrSaleNotFound) {
				t.Errorf("no such sale: %v", err)
			}
		}
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		for _, err := range e.Follow(ctx, "soon") { // until the sale is deleted
			if err == nil {
				must.Succeed(t, e.Control().Delete(ctx, "soon"))
			} else if !errors.Is(err, sluice.ErrSaleNotFound) {
				t.Error(err)
			}
		}
	})
}

func errOf(_ sluice.Order, err error) error { return err }
