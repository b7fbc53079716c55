package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
)

// What all tests here rely on must be able to fail: an order is taken out of
// the store, and both the crowd's promises and the audit miss it.
func TestALostOrderIsFound(t *testing.T) {
	t.Parallel()
	s := startServer(t, backends{})
	const total, perBuyer = 50, 1
	sale := createSale(t, s, total, perBuyer)
	rush := startRush(t, loadgen.Options{Sale: sale, Buyers: 80}, []string{s.url}, 71)
	verify(t, s, rush, total, perBuyer)
	lost := rush.outcomes[0].Promises[20].Order

	store := filepath.Join(s.dir, "store.db")
	if n, err := editSQLite(store, "DELETE FROM orders WHERE order_id = ?", string(lost)); n != 1 || err != nil {
		t.Fatalf("%d orders deleted, %v", n, err)
	}
	problems := brokenPromises(rush.outcomes, storedOrders(t, s, sale), total, perBuyer)
	if !mentions(problems, string(lost), "(I5)") {
		t.Errorf("the lost order is not found: %v", problems)
	}
	for _, when := range []string{"with the server up", "with the server down"} {
		report := audit(t, s, sale, 3, when)
		i := slices.IndexFunc(report.Checks, func(c sluice.AuditCheck) bool { return c.ID == "I5" })
		if i < 0 || report.Checks[i].OK || !strings.Contains(report.Checks[i].Detail, string(lost)) {
			t.Errorf("the audit %s does not name the lost order: %+v", when, report.Checks)
		}
		s.terminate()
	}
}

// Each kind of broken promise, planted into what was stored.
func TestBrokenPromisesAreFound(t *testing.T) {
	order := func(buyer int, key sluice.Key, id sluice.OrderID) api.Order {
		return api.Order{BuyerID: loadgen.BuyerName(buyer), Key: key, OrderID: id, Quantity: 1, Status: sluice.Pending}
	}
	promises := []loadgen.Promise{{Buyer: 1, Key: "key-1", Order: "s.1"}, {Buyer: 2, Key: "key-2", Order: "s.2"}}
	good := []api.Order{order(1, "key-1", "s.1"), order(2, "key-2", "s.2")}
	outcome := func(promises []loadgen.Promise) []*loadgen.Outcome {
		return []*loadgen.Outcome{
			{Promises: promises, Result: loadgen.Result{Decisions: loadgen.Decisions{sluice.SoldOut: 1}}},
		}
	}
	if problems := brokenPromises(outcome(promises), good, 2, 1); len(problems) > 0 {
		t.Errorf("nothing is wrong: %v", problems)
	}
	rejected := slices.Clone(good)
	rejected[0].Status = sluice.Rejected
	for name, c := range map[string]struct {
		promises        []loadgen.Promise
		stored          []api.Order
		total, perBuyer int64
		want            string
	}{
		"a missing order":         {promises, good[:1], 1, 1, "and the store has"},
		"an order of no claim":    {promises, append(slices.Clone(good), order(3, "key-3", "s.3")), 3, 1, "never promised"},
		"an order twice":          {promises, append(slices.Clone(good), good[0]), 3, 2, "is there twice"},
		"a claim with two orders": {promises, append(slices.Clone(good), order(1, "key-1", "s.9")), 3, 2, "has the orders"},
		"a claim promised twice": {
			append(slices.Clone(promises), loadgen.Promise{Buyer: 1, Key: "key-1", Order: "s.9"}),
			good, 2, 1, "(I4)",
		},
		"another order":    {promises, []api.Order{good[0], order(2, "key-2", "s.9")}, 2, 1, "and the store has"},
		"a rejected order": {promises, rejected, 2, 1, "is rejected"},
		"oversell":         {promises, good, 1, 1, "(I1)"},
		"undersell":        {promises, good, 3, 1, "(I7)"},
		"a buyer beyond the limit": {
			append(slices.Clone(promises), loadgen.Promise{Buyer: 1, Key: "key-3", Order: "s.3"}),
			append(slices.Clone(good), order(1, "key-3", "s.3")), 3, 1, "(I3)",
		},
	} {
		if problems := brokenPromises(outcome(c.promises), c.stored, c.total, c.perBuyer); !mentions(problems, c.want) {
			t.Errorf("%s is not found: %v", name, problems)
		}
	}
}

// mentions reports whether one of the problems has all the words.
func mentions(problems []string, words ...string) bool {
	return slices.ContainsFunc(problems, func(p string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(p, w) })
	})
}
