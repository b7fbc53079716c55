package storetest

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

func seqOf(buyers ...sluice.BuyerID) iter.Seq2[sluice.BuyerID, error] {
	return func(yield func(sluice.BuyerID, error) bool) {
		for _, b := range buyers {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// many yields n different buyers, and then err if there is one.
func many(n int, err error) iter.Seq2[sluice.BuyerID, error] {
	return func(yield func(sluice.BuyerID, error) bool) {
		for i := range n {
			if !yield(sluice.BuyerID(fmt.Sprintf("buyer-%07d", i)), nil) {
				return
			}
		}
		if err != nil {
			yield("", err)
		}
	}
}

func replace(t *testing.T, s port.Store, sale sluice.SaleID, kind sluice.ListKind,
	buyers ...sluice.BuyerID,
) port.BuyerList {
	t.Helper()
	list := must.Get(s.ReplaceList(t.Context(), sale, kind, seqOf(buyers...)))(t)
	return list
}

// listed reads all of a list, in pages.
func listed(t *testing.T, s port.Store, list port.BuyerList, page int) (all []sluice.BuyerID) {
	t.Helper()
	for after := sluice.BuyerID(""); ; after = all[len(all)-1] {
		ids := must.Get(s.Listed(t.Context(), list, after, page))(t)
		all = append(all, ids...)
		if len(ids) < page {
			return all
		}
	}
}

func allLists(t *testing.T, s port.Store) []port.BuyerList {
	t.Helper()
	all := must.Get(s.Lists(t.Context()))(t)
	return all
}

func testLists(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	create(t, s, aSale("phones", 10))
	create(t, s, aSale("tablets", 10))
	if all := allLists(t, s); len(all) != 0 {
		t.Fatalf("lists that were never uploaded: %+v", all)
	}
	// In the order of their bytes, whatever the database's language is.
	odd := []sluice.BuyerID{
		"ann", "Ann", "手机", "a'b\"c\\d", "<&>", " ann", "ann ", "é",
		sluice.BuyerID(strings.Repeat("手", 42)), "ann",
	}
	want := slices.Compact(slices.Sorted(slices.Values(odd)))
	first := replace(t, s, "phones", sluice.AllowList, odd...)
	if first.Size != int64(len(want)) || first.Generation < 1 || first.UpdatedAt.IsZero() || first.Sale != "phones" ||
		first.Kind != sluice.AllowList {
		t.Errorf("list %+v, want %d buyers", first, len(want))
	}
	for _, page := range []int{1, 3, 100} {
		if diff := cmp.Diff(want, listed(t, other, first, page)); diff != "" {
			t.Errorf("in pages of %d (-want +got):\n%s", page, diff)
		}
	}
	deny := replace(t, other, "phones", sluice.DenyList, "eve")
	elsewhere := replace(t, s, "tablets", sluice.AllowList, "bob")
	if diff := cmp.Diff([]port.BuyerList{first, deny, elsewhere}, allLists(t, other)); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}

	second := replace(t, other, "phones", sluice.AllowList, "bob", "cy")
	if second.Generation <= first.Generation {
		t.Errorf("generation %d after %d", second.Generation, first.Generation)
	}
	if diff := cmp.Diff([]sluice.BuyerID{"bob", "cy"}, listed(t, s, second, 10)); diff != "" {
		t.Errorf("the second one (-want +got):\n%s", diff)
	}
	if left := listed(t, s, first, 10); len(left) != 0 {
		t.Errorf("of the old one remain %q", left)
	}
	if diff := cmp.Diff([]sluice.BuyerID{"eve"}, listed(t, s, deny, 10)); diff != "" {
		t.Errorf("the other list (-want +got):\n%s", diff)
	}
	empty := replace(t, s, "phones", sluice.AllowList)
	if diff := cmp.Diff([]port.BuyerList{empty, deny, elsewhere}, allLists(t, other)); diff != "" || empty.Size != 0 ||
		empty.Generation <= second.Generation {
		t.Errorf("emptied: %+v (-want +got):\n%s", empty, diff)
	}
}

func testListsThatAreNotReplaced(t *testing.T, db Database) {
	s := db.Open(t)
	create(t, s, aSale("phones", 10))
	old := replace(t, s, "phones", sluice.DenyList, "eve")
	torn := errors.New("the line was cut")
	for _, c := range []struct {
		name   string
		sale   sluice.SaleID
		kind   sluice.ListKind
		buyers iter.Seq2[sluice.BuyerID, error]
		want   error
	}{
		{"no such sale", "none", sluice.DenyList, seqOf("bob"), sluice.ErrSaleNotFound},
		{"no such list", "phones", "vip", seqOf("bob"), nil},
		{"the upload breaks off", "phones", sluice.DenyList, many(5000, torn), torn},
		{"a buyer who is none", "phones", sluice.DenyList, seqOf("bob", ""), nil},
		{"a control character", "phones", sluice.DenyList, seqOf("bob", "a\nb"), nil},
	} {
		_, err := s.ReplaceList(t.Context(), c.sale, c.kind, c.buyers)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
	if diff := cmp.Diff([]port.BuyerList{old}, allLists(t, s)); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]sluice.BuyerID{"eve"}, listed(t, s, old, 10)); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	// What the torn upload has left, whatever generation it had, is gone.
	db.Execute(t, "UPDATE sale_buyers SET generation = 1")
	if diff := cmp.Diff([]sluice.BuyerID{"eve"}, listed(t, s, port.BuyerList{
		Sale: "phones", Kind: sluice.DenyList, Generation: 1,
	}, 10)); diff != "" {
		t.Errorf("all that is kept (-want +got):\n%s", diff)
	}
	if _, err := s.Listed(t.Context(), old, "", 0); err == nil {
		t.Error("a page of no buyers: no error")
	}
}

// A list of several transactions appears as a whole, while readers look.
func testLongList(t *testing.T, db Database) {
	s, other := db.Open(t), db.Open(t)
	create(t, s, aSale("phones", 10))
	old := replace(t, s, "phones", sluice.AllowList, "ann")
	const n = 7001
	looked := 0
	long, err := s.ReplaceList(t.Context(), "phones", sluice.AllowList, func(yield func(sluice.BuyerID, error) bool) {
		for buyer := range many(n, nil) {
			if looked++; looked%3000 == 0 {
				if diff := cmp.Diff([]port.BuyerList{old}, allLists(t, other)); diff != "" {
					t.Errorf("after %d of %d buyers (-want +got):\n%s", looked, n, diff)
				}
			}
			if !yield(buyer, nil) {
				return
			}
		}
	})
	if err != nil || long.Size != n {
		t.Fatalf("%+v, %v", long, err)
	}
	if got := listed(t, other, long, 1000); len(got) != n || !slices.IsSorted(got) {
		t.Errorf("%d buyers, want %d in order", len(got), n)
	}
}

// When uploads overlap, the one that began last stays, whole.
func testConcurrentLists(t *testing.T, db Database) {
	handles := []port.Store{db.Open(t), db.Open(t)}
	create(t, handles[0], aSale("phones", 10))
	var mu sync.Mutex
	made := map[int64]int64{} // sizes by generation
	var running sync.WaitGroup
	for worker := range 6 {
		running.Go(func() {
			for round := range 3 {
				list, err := handles[worker%2].ReplaceList(t.Context(), "phones", sluice.DenyList, many(1+worker*400+round, nil))
				if errors.Is(err, sluice.ErrListSuperseded) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if made[list.Generation] != 0 {
					t.Errorf("generation %d was given twice", list.Generation)
				}
				made[list.Generation] = list.Size
				mu.Unlock()
			}
		})
	}
	running.Wait()
	all := allLists(t, handles[0])
	if len(all) != 1 {
		t.Fatalf("lists %+v", all)
	}
	for generation := range made {
		if generation > all[0].Generation {
			t.Errorf("generation %d was in force, and %d is", generation, all[0].Generation)
		}
	}
	if got := listed(t, handles[1], all[0], 1000); int64(len(got)) != all[0].Size ||
		made[all[0].Generation] != all[0].Size {
		t.Errorf("%d buyers, the list says %d, its upload said %d", len(got), all[0].Size, made[all[0].Generation])
	}
	// An upload that was overtaken is refused, and leaves nothing.
	_, err := handles[0].ReplaceList(t.Context(), "phones", sluice.DenyList, func(yield func(sluice.BuyerID, error) bool) {
		replace(t, handles[1], "phones", sluice.DenyList, "later")
		yield("earlier", nil)
	})
	if !errors.Is(err, sluice.ErrListSuperseded) {
		t.Errorf("error %v, want %v", err, sluice.ErrListSuperseded)
	}
	all = allLists(t, handles[0])
	if diff := cmp.Diff([]sluice.BuyerID{"later"}, listed(t, handles[0], all[0], 10), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
}
