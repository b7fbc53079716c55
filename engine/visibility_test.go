package engine_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
)

// gone reports whether the server says that there is no such sale.
func (b *branch) gone(sale sluice.SaleID) bool {
	_, err := b.client.Sale(b.t.Context(), sale)
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Status == http.StatusNotFound
}

// Hiding and showing a live sale reaches every server, and no server contradicts
// what another has accepted: the repeat of a claim gets its order on one that still
// hides the sale, or hides it again (I4).
func TestVisibilityReachesEveryServer(t *testing.T) {
	branches := threeBranches(t)
	sell(t, branches, prepared("phones", time.Now().Add(-time.Minute), sluice.Rules{}))
	set := func(v sluice.Visibility) {
		t.Helper()
		_, err := branches[0].client.PatchSale(t.Context(), "phones",
			api.PatchSale{PatchRules: api.PatchRules{Visibility: api.Some(v)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for round, key := range []string{"round-0001", "round-0002"} {
		set(sluice.Hidden)
		for _, b := range branches {
			until(t, "every server to hide the sale", func() bool { return b.gone("phones") })
			if code := b.try("phones", "visitor", "visit-00001"); code != "sale_not_found" {
				t.Errorf("a claim on a hidden sale: %s", code)
			}
		}
		set(api.Listed)
		buyer := []string{"alice", "bob"}[round]
		if code := branches[0].try("phones", buyer, key); code != "accepted" {
			t.Fatalf("on the server that showed it: %s", code)
		}
		for i, b := range branches { // at once: some may still hide it
			if code := b.try("phones", buyer, key); code != "accepted" {
				t.Errorf("server %d contradicts an accepted claim: %s", i, code)
			}
		}
	}
	set(sluice.Hidden)
	for _, b := range branches {
		until(t, "every server to hide it again", func() bool { return b.gone("phones") })
		if code := b.try("phones", "alice", "round-0001"); code != "accepted" {
			t.Errorf("the repeat of an accepted claim on a sale that is hidden again: %s", code)
		}
	}
}

// A sale that one server deletes is gone on the others within seconds, and the ledger
// keeps nothing of it.
func TestDeletionReachesEveryServer(t *testing.T) {
	branches := threeBranches(t)
	if _, err := branches[0].engine.Control().Create(t.Context(),
		prepared("phones", time.Now().Add(time.Hour), sluice.Rules{})); err != nil {
		t.Fatal(err)
	}
	for _, b := range branches {
		until(t, "every server to know the sale", func() bool {
			_, err := b.client.Sale(t.Context(), "phones")
			return err == nil
		})
	}
	if _, err := branches[1].client.DeleteSale(t.Context(), "phones"); err != nil {
		t.Fatal(err)
	}
	for _, b := range branches {
		until(t, "every server to say that there is none", func() bool { return b.gone("phones") })
		if code := b.try("phones", "alice", "attempt-1"); code != "sale_not_found" {
			t.Errorf("a claim on a sale that was deleted: %s", code)
		}
	}
}
