package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/loadgen"
)

func TestRestockCanBeSentAgain(t *testing.T) {
	path := "POST /v1/admin/sales/phone/restock"
	shop := &merchantAPI{answers: map[string]func(string) any{
		path: always(api.Problem{Status: 503, Code: api.CodeOutcomeUnknown}),
	}}
	env := shop.against(t)
	got := command(t, env, "sale", "restock", "phone", "--delta=-5", "--id", "recall-1")
	if got.code != exitFailed || !strings.Contains(got.stderr, "it may have happened: --id recall-1 tries again") ||
		shop.bodies[path] != `{"id":"recall-1","delta":-5}` {
		t.Errorf("%+v, sent %s", got, shop.bodies[path])
	}
	first := command(t, env, "sale", "restock", "phone", "--delta", "1")
	second := command(t, env, "sale", "restock", "phone", "--delta", "1")
	if first.stderr == second.stderr || strings.Contains(first.stderr, "--id  ") {
		t.Errorf("two restocks have one id: %s", first.stderr)
	}
	// One that succeeds has told its id as well, and only one that was made here.
	shop.answers[path] = always(sampleSale)
	told := command(t, env, "sale", "restock", "phone", "--delta", "1")
	_, id, _ := strings.Cut(told.stderr, "--id ")
	id, _, _ = strings.Cut(id, ";")
	if told.code != exitOK || id == "" || shop.bodies[path] != `{"id":"`+id+`","delta":1}` {
		t.Errorf("%+v, sent %s", told, shop.bodies[path])
	}
	if named := command(t, env, "sale", "restock", "phone", "--delta", "1", "--id", "po-1"); named.code != exitOK ||
		named.stderr != "" {
		t.Errorf("%+v", named)
	}
	shop.answers[path] = always(api.Problem{Status: 409, Code: api.CodeBelowTaken})
	if got := command(t, env, "sale", "restock", "phone", "--delta=-5"); got.code != exitFailed ||
		strings.Contains(got.stderr, "may have") {
		t.Errorf("%+v", got)
	}
}

func TestDeadLetterCommands(t *testing.T) {
	one, none := []sluice.OrderID{"phone.01"}, []sluice.OrderID{}
	shop := &merchantAPI{answers: map[string]func(string) any{
		"GET /v1/admin/dead-letters/7":         always(api.DeadLetter{ID: 7, SaleID: "phone"}),
		"POST /v1/admin/dead-letters/7/replay": always(api.Replayed{Saved: one, Lost: none}),
		"POST /v1/admin/dead-letters/8/replay": always(api.Replayed{Saved: none, Lost: one}),
	}}
	env := shop.against(t)
	if l := okJSON[api.DeadLetter](t, env, "dead-letter", "show", "7"); l.ID != 7 {
		t.Errorf("%+v", l)
	}
	if r := okJSON[api.Replayed](t, env, "dead-letter", "replay", "7"); len(r.Saved) != 1 || len(r.Lost) != 0 {
		t.Errorf("%+v", r)
	}
	if got := command(t, env, "dead-letter", "replay", "8"); got.code != exitFailed ||
		!strings.Contains(got.out, "phone.01  lost") {
		t.Errorf("%+v", got)
	}
}

// The life of orders as an operator types it, against a real server.
func TestSettleByHand(t *testing.T) {
	s := serve(t)
	ok(t, s.env, "sale", "create", "--id", "phone", "--title", "T", "--price", "1", "--total", "3")
	load := okJSON[loadgen.Result](t, s.env, "load", "--sale", "phone", "--buyers", "9", "--again", "0")
	if load.Decisions[sluice.Accepted] != 3 || load.Ledger != "sqlite" || load.Store != "sqlite" {
		t.Errorf("%+v", load)
	}
	waitStored(t, s, "phone", 3)
	orders := okJSON[api.OrderPage](t, s.env, "order", "list", "--sale", "phone", "--status", "pending").Orders
	if len(orders) != 3 {
		t.Fatalf("%+v", orders)
	}
	paid, cancelled, rejected := string(orders[0].OrderID), string(orders[1].OrderID), string(orders[2].OrderID)
	for range 2 { // each may be said again
		for status, args := range map[sluice.Status][]string{
			sluice.Paid:      {"order", "pay", paid, "--payment-id", "p-1"},
			sluice.Cancelled: {"order", "cancel", cancelled},
			sluice.Rejected:  {"order", "reject", rejected, "--reason", "broken glass"},
		} {
			if o := okJSON[api.Order](t, s.env, args...); o.Status != status {
				t.Errorf("%v: %s", args, o.Status)
			}
		}
	}
	for want, args := range map[string][]string{
		" (payment_conflict)\n": {"order", "pay", paid, "--payment-id", "p-2"},
		" (order_ended)\n":      {"order", "cancel", paid},
		" (order_not_found)\n":  {"order", "cancel", string(sampleOrder.OrderID)},
	} {
		if got := command(t, s.env, args...); got.code != exitFailed || !strings.HasSuffix(got.stderr, want) {
			t.Errorf("%v: %+v", args, got)
		}
	}
	// Money for an order that has ended is due back.
	if late := command(t, s.env, "order", "pay", cancelled, "--payment-id", "p-3"); late.code != exitOK ||
		!strings.Contains(late.stderr, "The order was cancelled already: the money must go back (refund_due)") {
		t.Errorf("%+v", late)
	}
	if o := okJSON[api.Order](t, s.env, "order", "refund", cancelled); o.Status != sluice.Refunded {
		t.Errorf("%+v", o)
	}
	type step struct {
		Action  sluice.Action
		To      sluice.Status
		By, Pay string
	}
	var steps []step
	for _, c := range okJSON[api.OrderHistory](t, s.env, "order", "history", paid).Changes[1:] {
		steps = append(steps, step{c.Action, c.To, c.By, c.PaymentID})
	}
	want := []step{{sluice.Pay, sluice.Paid, "admin", "p-1"}, {sluice.Pay, sluice.Paid, "admin", "p-2"}}
	if d := cmp.Diff(want, steps); d != "" {
		t.Error(d)
	}
	if out := ok(t, s.env, "order", "export", "--sale", "phone", "--format", "csv"); strings.Count(out, "\r\n") != 4 ||
		!strings.Contains(out, ",broken glass,") {
		t.Errorf("%q", out)
	}

	sale := okJSON[api.AdminSale](t, s.env, "sale", "restock", "phone", "--delta", "2", "--id", "r-1")
	if again := okJSON[api.AdminSale](t, s.env, "sale", "restock", "phone", "--delta", "2", "--id", "r-1"); *sale.Total !=
		5 || *again.Total != 5 {
		t.Errorf("%d, then %d", *sale.Total, *again.Total)
	}
	if got := command(t, s.env, "sale", "restock", "phone", "--delta=-5"); got.code != exitFailed ||
		!strings.Contains(got.stderr, "below_taken") {
		t.Errorf("%+v", got)
	}
	for _, args := range [][]string{{"reconcile"}, {"reconcile", "phone", "--apply"}} {
		if list := okJSON[reconciled](t, s.env, args...); len(list.Reports) != 1 || list.Reports[0].Remaining != 0 ||
			list.Reports[0].Skipped != "" {
			t.Errorf("%v: %+v", args, list)
		}
	}
	if list := okJSON[recoveries](t, s.env, "recover", "phone", "--apply"); len(list.Sales) != 1 ||
		list.Sales[0].Applied || list.Sales[0].Why != "" {
		t.Errorf("recovered, and nothing was lost: %+v", list)
	}
	if list := okJSON[recoveries](t, s.env, "recover"); len(list.Sales) != 0 {
		t.Errorf("to be recovered: %+v", list)
	}
	if out := ok(t, s.env, "dead-letter", "list"); strings.Count(out, "\n") != 1 {
		t.Errorf("dead letters: %s", out)
	}
}

func TestReconcileTellsWhatRemains(t *testing.T) {
	report := api.ReconcileReport{SaleID: "phone", Remaining: 1, Differences: []sluice.Difference{
		{Class: "lost_order", Count: 3, Repaired: 3, Orders: []sluice.OrderID{"phone.01", "phone.02", "phone.03"}},
		{Class: "drift", Count: 1, Details: []string{"version 1 of the terms"}},
		{Class: "in_flight"},
	}}
	path := "POST /v1/admin/sales/phone/reconcile"
	shop := &merchantAPI{answers: map[string]func(string) any{path: always(report)}}
	env := shop.against(t)
	got := command(t, env, "reconcile", "--sale", "phone")
	if got.code != exitFailed || !strings.Contains(got.stderr, "1 difference is not repaired; --apply repairs") ||
		shop.bodies[path] != `{"apply":false}` ||
		!strings.Contains(got.out, "phone.01 and 2 more") || !strings.Contains(got.out, "version 1 of the terms") ||
		strings.Contains(got.out, "in_flight") {
		t.Errorf("%+v, sent %s", got, shop.bodies[path])
	}
	report.Applied = true
	shop.answers[path] = always(report)
	if got := command(t, env, "reconcile", "--sale", "phone", "--apply"); got.code != exitFailed ||
		strings.Contains(got.stderr, "--apply") {
		t.Errorf("%+v", got)
	}
	report.Remaining = 0
	shop.answers[path] = always(report)
	if got := command(t, env, "reconcile", "--sale", "phone", "--apply"); got.code != exitOK ||
		shop.bodies[path] != `{"apply":true}` {
		t.Errorf("%+v, sent %s", got, shop.bodies[path])
	}
	if got := command(t, env, "reconcile", "--sale", "A sale"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}

// What a recovery would do is printed, of all sales that wait for one. One whose rebuild does
// not end is no success.
func TestRecoverTellsWhatItDoes(t *testing.T) {
	defer func(was time.Duration) { recoverWait = was }(recoverWait)
	recoverWait = 50 * time.Millisecond
	healthy, fenced := api.AdminSale{Epoch: 1}, api.AdminSale{Epoch: 1, Fence: "older: the store ends at 2"}
	healthy.ID, fenced.ID, fenced.Loaded = "lamp", "phone", true
	report := sluice.Recovery{
		Sale: "phone", Why: fenced.Fence, Terms: "version 2 instead of 1: total 400",
		Stored:   sluice.RecoveredOrders{Count: 3, Orders: []sluice.OrderID{"phone.01", "phone.02", "phone.03"}},
		Payments: []sluice.RecoveredOrders{{Reason: "ended", Count: 1, Orders: []sluice.OrderID{"phone.04"}}},
	}
	path := "POST /v1/admin/sales/phone/recover"
	shop := &merchantAPI{answers: map[string]func(string) any{
		"GET /v1/admin/sales":       always(api.AdminSaleList{Sales: []api.AdminSale{healthy, fenced}}),
		"GET /v1/admin/sales/phone": always(fenced), path: always(report),
	}}
	env := shop.against(t)
	if got := command(t, env, "recover"); got.code != exitOK || shop.bodies[path] != `{"apply":false}` ||
		!strings.Contains(got.out, "phone.01 and 2 more") || !strings.Contains(got.out, report.Terms) ||
		!strings.Contains(got.out, "payments may be lost: ended") || !strings.Contains(got.out, "phone.04") ||
		strings.Contains(got.out, "lamp") {
		t.Errorf("%+v, sent %s", got, shop.bodies[path])
	}
	other := report
	other.Ledger = "redis:other"
	shop.answers[path] = always(other)
	if got := command(t, env, "recover", "--apply"); got.code != exitOK || shop.bodies[path] != `{"apply":false}` ||
		!strings.Contains(got.out, "if you name it, this server's ledger decides") ||
		!strings.Contains(got.out, "given up") || strings.Contains(got.out, "phone.01") {
		t.Errorf("recover without a name gives a sale another ledger: %+v, sent %s", got, shop.bodies[path])
	}
	other.Payments = []sluice.RecoveredOrders{} // its store is no older than its ledger
	shop.answers[path] = always(other)
	if got := command(t, env, "recover", "--sale", "phone"); got.code != exitOK || strings.Contains(got.out, "given up") ||
		!strings.Contains(got.out, "instead of redis:other") {
		t.Errorf("another ledger alone: %+v", got)
	}
	report.Applied = true
	shop.answers[path] = always(report)
	if got := command(t, env, "recover", "--sale", "phone", "--apply"); got.code != exitFailed ||
		shop.bodies[path] != `{"apply":true}` || !strings.Contains(got.stderr, "not rebuilt") ||
		!strings.Contains(got.stderr, "the store ends at 2") {
		t.Errorf("%+v, sent %s", got, shop.bodies[path])
	}
}
