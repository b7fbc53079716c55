package engine_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/client"
	"github.com/sluicehq/sluice/engine"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/servertest"
)

// gone reports whether the server knows no such sale.
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
		must.Get(branches[0].client.PatchSale(t.Context(), "phones",
			api.PatchSale{PatchRules: api.PatchRules{Visibility: api.Some(v)}}))(t)
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

// loggedBranches are threeBranches with one log.
func loggedBranches(t *testing.T) (all []*branch, log *logged) {
	redis, store, log := servertest.StartRedis(t), servertest.Postgres(t), new(logged)
	for _, node := range []string{"one", "two", "three"} {
		all = append(all, openBranch(t, engine.Config{
			Ledger: redis.URL(), Store: store, Node: node, Log: log.logger(),
		}))
	}
	return all, log
}

// A sale that one server deletes is gone on the others within seconds, and the ledger
// keeps nothing of it. To no server that is a loss, or a failure.
func TestDeletionReachesEveryServer(t *testing.T) {
	t.Parallel()
	branches, log := loggedBranches(t)
	must.Get(branches[0].engine.Control().Create(t.Context(),
		prepared("phones", time.Now().Add(time.Hour), sluice.Rules{})))(t)
	for _, b := range branches {
		until(t, "every server to know the sale", func() bool {
			_, err := b.client.Sale(t.Context(), "phones")
			return err == nil
		})
	}
	must.Get(branches[1].client.DeleteSale(t.Context(), "phones"))(t)
	for _, b := range branches {
		until(t, "every server to say that there is none", func() bool { return b.gone("phones") })
		if code := b.try("phones", "alice", "attempt-1"); code != "sale_not_found" {
			t.Errorf("a claim on a sale that was deleted: %s", code)
		}
	}
	if lines := log.lines("cannot synchronise", "no such sale"); len(lines) > 0 {
		t.Errorf("the log: %s", lines)
	}
}

// Of the sale whose id is used again no server remembers anything: neither terms nor
// price, and no buyer of its allow list gets in. And no server takes the new one for the
// old one, lost or restored.
func TestTheIDOfADeletedSaleIsUsedAgain(t *testing.T) {
	branches, log := loggedBranches(t)
	allow := func(buyer string) {
		t.Helper()
		must.Get(branches[0].client.ReplaceBuyers(t.Context(), "phones", sluice.AllowList,
			strings.NewReader(buyer+"\n")))(t)
	}
	sale := prepared("phones", time.Now().Add(time.Hour), sluice.Rules{Eligibility: sluice.EligibleList})
	must.Get(branches[0].engine.Control().Create(t.Context(), sale))(t)
	allow("alice")
	must.Get(branches[0].client.PatchSale(t.Context(), "phones", api.PatchSale{
		Total: api.Value[int64](1000),
	}))(t)
	for _, b := range branches {
		until(t, "every server to know the terms", func() bool {
			seen, err := b.client.Sale(t.Context(), "phones")
			return err == nil && seen.Total != nil && *seen.Total == 1000
		})
	}
	must.Get(branches[0].client.DeleteSale(t.Context(), "phones"))(t)
	sale.Total, sale.Price.Amount, sale.OpensAt = 7, 2, time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	must.Get(branches[0].engine.Control().Create(t.Context(), sale))(t)
	allow("bob\nben")
	for i, b := range branches {
		until(t, "every server to know the new sale and its list", func() bool {
			seen, err := b.client.Sale(t.Context(), "phones")
			if err != nil || seen.State != sluice.StateOpen || seen.Price.Amount != 2 {
				return false
			}
			check, err := b.client.CheckSale(t.Context(), "phones")
			return err == nil && slices.ContainsFunc(check.Checks, func(c api.Check) bool {
				return c.Detail == "2 buyers" // else this server has not loaded it yet
			}) && b.try("phones", "bob", "attempt-1") == "accepted"
		})
		if code := b.try("phones", "alice", "attempt-1"); code != "forbidden" {
			t.Errorf("server %d: a buyer of the first list: %s", i, code)
		}
	}
	now, err := branches[0].client.AdminSale(t.Context(), "phones")
	if err != nil || *now.Total != 7 || now.TermsVersion != 1 || now.Epoch != 2 || now.Fence != "" || now.Taken != 1 {
		t.Errorf("the new sale: %+v, %v", now, err)
	}
	for _, bad := range []string{"older state", "has been lost", "no such sale"} {
		if lines := log.lines(bad); len(lines) > 0 {
			t.Errorf("the log: %s", lines)
		}
	}
}
