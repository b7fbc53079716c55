package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

// claimID names an attempt within a sale.
type claimID struct {
	buyer sluice.BuyerID
	key   sluice.Key
}

// promised collects what crowds were promised, by claim. problems lists the
// claims that were promised two orders (I4).
func promised(outcomes []*loadgen.Outcome) (orders map[claimID]sluice.OrderID, problems []string) {
	orders = map[claimID]sluice.OrderID{}
	for _, out := range outcomes {
		for _, p := range out.Promises {
			id := claimID{loadgen.BuyerName(p.Buyer), p.Key}
			if before, ok := orders[id]; ok && before != p.Order {
				problems = append(problems, fmt.Sprintf("%v was promised %s and %s (I4)", id, before, p.Order))
			}
			orders[id] = p.Order
		}
	}
	return orders, problems
}

// brokenPromises holds what crowds were promised against the stored orders of
// a sale, all of them. Every try must have been decided: then there is an
// order for every promise and no other.
func brokenPromises(outcomes []*loadgen.Outcome, stored []api.Order, total, perBuyer int64) []string {
	want, problems := promised(outcomes)
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	byClaim := map[claimID]sluice.OrderID{}
	byOrder := map[sluice.OrderID]bool{}
	units := map[sluice.BuyerID]int64{}
	var taken int64
	for _, o := range stored {
		id := claimID{o.BuyerID, o.Key}
		if before, ok := byClaim[id]; ok {
			say("%v has the orders %s and %s (I5)", id, before, o.OrderID)
		}
		if byOrder[o.OrderID] {
			say("order %s is there twice (I5)", o.OrderID)
		}
		byClaim[id], byOrder[o.OrderID] = o.OrderID, true
		if _, ok := want[id]; !ok {
			say("order %s of %v was never promised (I5)", o.OrderID, id)
		}
		if o.Status != sluice.Pending {
			say("order %s is %s: %s", o.OrderID, o.Status, o.Reason)
		}
		taken += o.Quantity
		if units[o.BuyerID] += o.Quantity; units[o.BuyerID] > perBuyer {
			say("%s has %d units of at most %d (I3)", o.BuyerID, units[o.BuyerID], perBuyer)
		}
	}
	for id, order := range want {
		if byClaim[id] != order {
			say("%v was promised %s, and the store has %q (I5)", id, order, byClaim[id])
		}
	}
	if taken > total {
		say("%d units are taken of %d (I1)", taken, total)
	}
	for _, out := range outcomes {
		if n := out.Decisions[sluice.SoldOut]; n > 0 && taken < total {
			say("%d heard sold out, and %d of %d units are taken (I7)", n, taken, total)
		}
	}
	slices.Sort(problems)
	return problems
}

// storedOrders reads all orders of a sale from the store.
func storedOrders(t testing.TB, s *server, sale sluice.SaleID) []api.Order {
	t.Helper()
	var all []api.Order
	filter := sluice.OrderFilter{Sale: sale, Limit: sluice.MaxPage}
	for {
		page := must.Get(s.merchant().AdminOrders(t.Context(), filter))(t)
		all = append(all, page.Orders...)
		if page.NextCursor == "" {
			return all
		}
		filter.Cursor = page.NextCursor
	}
}

// awaitStored waits until nothing of the sale is left in the journal.
func awaitStored(t testing.TB, s *server, sale sluice.SaleID) {
	t.Helper()
	merchant := s.merchant()
	var last api.AdminSale
	defer func() {
		if t.Failed() {
			t.Logf("sale %s at last: %+v", sale, last)
		}
	}()
	await(t, "an empty journal", func() bool {
		got, err := merchant.AdminSale(t.Context(), sale)
		if err != nil {
			return false // a server that has just come back
		}
		last = got
		return got.Loaded && got.Backlog == 0 && got.StoredTaken == got.Taken
	})
}

// audit runs `sluice audit` and fails the test unless it exits with want. It
// says when it looked.
func audit(t testing.TB, s *server, sale sluice.SaleID, want int, when string) sluice.AuditReport {
	t.Helper()
	args := append([]string{"audit", "--json", "--sale", string(sale)}, s.on.flags(s.dir)...)
	code, stdout, stderr := command(t, args...)
	var report sluice.AuditReport
	if err := json.Unmarshal([]byte(stdout), &report); err != nil && code != 2 {
		t.Errorf("audit %s: %v", when, err)
	}
	if code != want || (code == 0) != report.OK {
		t.Errorf("audit %s: exit %d, want %d: %s", when, code, want, stderr)
		for _, c := range report.Checks {
			if !c.OK {
				t.Errorf("audit %s: %s %s: %s", when, c.ID, c.Name, c.Detail)
			}
		}
	}
	return report
}

// verify is the proof at the end of a rush, with the server up: everything is
// stored, every promise is kept, repeated claims get their orders again, and
// the audit agrees, with the server up and down.
func verify(t testing.TB, s *server, r *rush, total, perBuyer int64) {
	t.Helper()
	outcomes := r.wait()
	awaitStored(t, s, r.sale)
	report(t, brokenPromises(outcomes, storedOrders(t, s, r.sale), total, perBuyer))
	for i, crowd := range r.crowds {
		for p, why := range crowd.Repeat(t.Context(), spread(outcomes[i].Promises, 100)) {
			t.Errorf("%s repeated with key %s: %s (I4)", p.Order, p.Key, why)
		}
	}
	if a := audit(t, s, r.sale, 0, "with the server up"); a.InFlight != 0 {
		t.Errorf("the audit sees %d orders in flight, and the journal is empty", a.InFlight)
	}
	var requests, tries, replayed int64
	for _, out := range outcomes {
		requests, replayed = requests+out.Requests, replayed+out.Replayed
		for _, n := range out.Decisions {
			tries += n
		}
	}
	t.Logf("%d tries in %d requests, %d accepted, of them %d replays", tries, requests, r.accepted(), replayed)
}

// report fails the test with the first problems.
func report(t testing.TB, problems []string) {
	t.Helper()
	for i, p := range problems {
		if i == 10 {
			t.Errorf("and %d problems more", len(problems)-i)
			break
		}
		t.Error(p)
	}
}

// spread takes n promises from all over the rush.
func spread(all []loadgen.Promise, n int) []loadgen.Promise {
	if len(all) <= n {
		return all
	}
	some := make([]loadgen.Promise, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some
}
