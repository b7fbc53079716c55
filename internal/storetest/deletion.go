package storetest

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
)

// A sale that no buyer has bought from is deleted with all that is about it, and its id
// can be used again; one with an order, or that has changed since, stays as it is.
func testDeleteSale(t *testing.T, db Database) {
	s := db.Open(t)
	ctx := t.Context()
	create(t, s, aSale("phones", 10))
	create(t, s, aSale("tablets", 10))
	sale := must.Get(s.Restock(ctx, "phones", "po-1", 5))(t)
	buyers := func(names ...sluice.BuyerID) iter.Seq2[sluice.BuyerID, error] {
		return func(yield func(sluice.BuyerID, error) bool) {
			for _, name := range names {
				if !yield(name, nil) {
					return
				}
			}
		}
	}
	denied := must.Get(s.ReplaceList(ctx, "phones", sluice.DenyList, buyers("alice", "bob")))(t)
	state := func(err error, why string) {
		t.Helper()
		if _, ok := errors.AsType[*sluice.StateError](err); !ok {
			t.Errorf("%s: %v, want a *sluice.StateError", why, err)
		}
	}
	state(s.DeleteSale(ctx, "phones", sale.Version-1), "of an older version")
	must.Succeed(t, s.DeleteSale(ctx, "phones", sale.Version))
	if _, err := s.Sale(ctx, "phones"); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("the sale that was deleted: %v", err)
	}
	if err := s.DeleteSale(ctx, "phones", sale.Version); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("deleted again: %v", err)
	}
	if _, err := s.BeginLoad(ctx, "phones", 1); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("loaded: %v", err)
	}
	if lists, err := s.Lists(ctx); err != nil || len(lists) != 0 {
		t.Errorf("lists: %+v, %v", lists, err)
	}
	if all, err := s.Sales(ctx); err != nil || len(all) != 1 || all[0].ID != "tablets" {
		t.Errorf("sales: %+v, %v", all, err)
	}

	again := create(t, s, aSale("phones", 7))
	_, made, err := s.Restocked(ctx, "phones", "po-1", 5)
	if again.Total != 7 || again.Version != 1 || made || err != nil {
		t.Errorf("a new sale of that id: %+v, %v, %v", again, made, err)
	}
	if !again.CreatedAt.After(sale.CreatedAt) { // by which servers distinguish them
		t.Errorf("the first sale was created at %v, the second at %v", sale.CreatedAt, again.CreatedAt)
	}
	// Servers that know an epoch of the first sale must not take the second for an older copy.
	if again.Epoch <= sale.Epoch {
		t.Errorf("the new sale begins with epoch %d, and the first had %d", again.Epoch, sale.Epoch)
	}
	// Servers that have the deny list of the first sale must see that this is another.
	list, err := s.ReplaceList(ctx, "phones", sluice.DenyList, buyers("eve"))
	if err != nil || list.Generation <= denied.Generation {
		t.Errorf("the deny list of the new sale: %+v, of the first: %+v, %v", list, denied, err)
	}
	src := source{sale: "phones", epoch: again.Epoch}
	src.store(t, s, 1)
	state(s.DeleteSale(ctx, "phones", again.Version), "with an order")
	must.Succeed(t, s.SetAside(ctx, aLetter("tablets", 1, "x")))
	state(s.DeleteSale(ctx, "tablets", 1), "with a dead letter")
	if err := s.DeleteSale(ctx, "nothing", 1); !errors.Is(err, sluice.ErrSaleNotFound) {
		t.Errorf("no such sale: %v", err)
	}
	numberAll(t, s, 100)
	if all := feed(t, s, 100); !slices.ContainsFunc(all, func(e sluice.Event) bool {
		return e.Type == sluice.EventSaleDeleted && e.Sale.ID == "phones" && e.Sale.Total == 15
	}) {
		t.Errorf("no event of the deletion: %+v", all)
	}
}
