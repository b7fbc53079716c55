package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/loadgen"
	"github.com/sluicehq/sluice/internal/must"
)

var noon = api.At(time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC))

func ptr[T any](v T) *T { return &v }

var sampleSale = api.AdminSale{
	Sale: api.Sale{
		ID: "phone", SKU: "P-1", Title: "手机 A phone", Price: sluice.Money{Amount: 99900, Currency: "CNY"},
		ListPrice: &sluice.Money{Amount: 129900, Currency: "CNY"},
		Total:     ptr(int64(1000)), Available: ptr(int64(12)), MaxPerBuyer: ptr(int64(1)), OpensAt: noon, ClosesAt: &noon,
		State: "open", ServerTime: noon,
	},
	AsOf:              &noon,
	MaxOrdersPerBuyer: ptr(int64(10)), PaymentWindowS: 900, PaymentGraceS: 30, Taken: 988, StoredTaken: 980, Backlog: 1,
	Fence: "lost: sequence 7",
}

var sampleOrder = api.Order{
	OrderID: "phone.0123456789abcdef0123456789abcdef", SaleID: "phone", BuyerID: "alice", Quantity: 1, Status: "pending",
	Price: sluice.Money{Amount: 99900, Currency: "CNY"}, Amount: 99900, Currency: "CNY", Meta: []byte(`{"colour":"red"}`), AcceptedAt: noon, StoredAt: &noon,
	ExpiresAt: &noon, Key: "key-0001",
}

var sampleResult = loadgen.Result{
	SaleID: "phone", Buyers: 100_000, Seed: 42, DurationS: 3.25, Requests: 105_003, RequestsPerS: 32308.6,
	Decisions: loadgen.Decisions{
		sluice.Accepted: 1000, sluice.SoldOut: 99_000, sluice.BuyerLimit: 4999,
		sluice.RateLimited: 1,
	}, Errors: 4,
	LatencyMS:    loadgen.Latency{P50: 1.234, P95: 9.96, P99: 35.2, Max: 1520},
	OrdersStored: ptr(int64(1000)), DistinctBuyers: ptr(int64(1000)), StoredAfterS: ptr(0.0123), Replayed: 3,
	ErrorReasons: map[string]int64{"no answer in time": 1, "connection lost: EOF": 1, "unauthenticated": 2},
}

var sampleLife = loadgen.Lifecycle{
	PaymentWindowS: 6, PaymentGraceS: 1, Accepted: 1667, Paid: 1000, Cancelled: 333, Expired: 333, Refunded: 1,
	Returned: 667, SoldAgain: 667, Available: 0, SettledAfterS: 4.28,
	CameBack: &loadgen.Comeback{Buyers: 98_334, Requests: 12_345, Left: 98_000},
}

// What people read, in a file and in a terminal of 80 columns where it is evening already.
func TestOutput(t *testing.T) {
	started := noon.In(time.FixedZone("", 8*60*60)).Add(time.Hour)
	for name, a := range map[string]app{"output": {}, "terminal": {columns: 80, started: started}} {
		var b bytes.Buffer
		a.stdout, a.stderr = &b, &b
		printAll(t, &a, &b)
		golden(t, name, b.String())
		for line := range strings.Lines(b.String()) {
			if lipgloss.Width(line) > 80 && a.columns > 0 {
				t.Errorf("%d cells: %s", lipgloss.Width(line), line)
			}
		}
	}
}

func printAll(t *testing.T, a *app, b *bytes.Buffer) {
	section := func(name string, print func()) {
		b.WriteString("== " + name + "\n")
		print()
		b.WriteString("\n")
	}
	section("sale", func() { _ = a.printSale(sampleSale) })
	unknown := sampleSale
	unknown.Available, unknown.ListPrice, unknown.ClosesAt, unknown.MaxPerBuyer, unknown.MaxOrdersPerBuyer,
		unknown.Fence = nil, nil, nil, nil, nil, ""
	section("sale without limits", func() { _ = a.printSale(unknown) })
	silent := unknown
	silent.State, silent.Available = sluice.StateUnavailable, ptr(int64(2000))
	silent.ServerTime = api.At(noon.Add(6300 * time.Millisecond))
	section("sale whose ledger does not answer", func() { _ = a.printSale(silent) })
	silent.AsOf = nil
	section("sale whose ledger never answered", func() { _ = a.printSale(silent) })
	asking := unknown
	ratio, invited := 1.5, sluice.EligibleToken
	asking.Rules = api.Rules{
		BuyerRate:      &sluice.BuyerRate{Requests: 10, PerS: 1, Shared: true},
		AddressRate:    &sluice.AddressRate{Requests: 1, PerS: 90, Shared: true},
		AdmissionRatio: &ratio,
		Ticket:         &sluice.Ticket{BeforeS: 60}, Challenge: &sluice.Challenge{Difficulty: 18}, Eligibility: &invited,
		Risk: &sluice.Risk{URL: "https://risk.example/check", TimeoutMS: 300, OnFailure: sluice.Deny},
	}
	section("sale that asks much of its buyers", func() { _ = a.printSale(asking) })
	asking.Visibility, asking.Availability, asking.State, asking.Paused = sluice.Hidden, sluice.Some, sluice.StateUpcoming,
		true
	section("sale that is paused, and that buyers do not find", func() { _ = a.printSale(asking) })
	hostile := sampleSale
	hostile.Title = "\x1b[2Jgone\r\n\u202e👩\u200d👩"
	section("hostile title", func() { a.printFields([][2]string{{"title", clean(hostile.Title)}}) })
	section("order", func() { _ = a.printOrder(sampleOrder) })
	later := sampleSale
	later.ID, later.Title, later.State = "singles-day", strings.Repeat("双十一", 9), sluice.StateUpcoming
	later.OpensAt = api.At(noon.AddDate(0, 0, 1))
	section("sales", func() { _ = a.printSales([]api.AdminSale{sampleSale, later}) })
	never := silent
	never.ID, silent.AsOf = "pads", &noon
	section("sales whose ledger does not answer", func() { _ = a.printSales([]api.AdminSale{silent, never, later}) })
	section("orders", func() { _ = a.printOrders(api.OrderPage{Orders: []api.Order{sampleOrder}, NextCursor: "abc"}) })
	long := sampleOrder
	long.OrderID = sluice.OrderID(strings.Repeat("a", 46) + "." + strings.Repeat("0", 32))
	long.BuyerID = sluice.BuyerID(strings.Repeat("b", 67))
	section("order with long names", func() { _ = a.printOrders(api.OrderPage{Orders: []api.Order{long}}) })
	paid := sampleOrder
	paid.Status, paid.PaymentID, paid.KeepUntil, paid.UpdatedAt = sluice.Paid, "pay\x1b-7", &noon, &noon
	section("order of a merchant", func() { _ = a.printOrder(paid) })
	free := paid
	free.Price, free.Amount, free.PaymentID = sluice.Money{Currency: "CNY"}, 0, ""
	section("order of a free sale", func() { _ = a.printOrder(free) })
	section("history", func() {
		_ = a.printHistory(api.OrderHistory{OrderID: sampleOrder.OrderID, Changes: []api.OrderChange{
			{At: noon, From: "queued", To: "pending", By: "node-1"},
			{At: noon, From: "pending", To: "paid", Action: sluice.Pay, By: "merchant", PaymentID: "pay-7"},
			{At: noon, From: "paid", To: "paid", Action: sluice.Pay, By: "merchant", PaymentID: "pay-8", Reason: "refused"},
			{At: noon, From: "paid", To: "refunded", Action: sluice.Refund, By: "merchant"},
		}})
	})
	section("dead letters", func() {
		_ = a.printDeadLetters([]api.DeadLetter{
			{
				ID: 7, SaleID: "phone", EntryID: "1700000000000-0", Reason: "entry 1: order is another", Claims: "a\nb\n",
				At: &noon, CreatedAt: noon,
			},
			{ID: 12, SaleID: "phone", EntryID: "1700000000000-1", Reason: "format\t9", Claims: "?", CreatedAt: noon},
		})
	})
	section("dead letter", func() {
		_ = a.printDeadLetter(api.DeadLetter{
			ID: 7, SaleID: "phone", EntryID: "1700000000000-0", Reason: "entry 1: order is another", Node: "n1", Epoch: 1,
			FirstSeq: 8,
			Claims:   "alice\tkey-0001\tphone.01\t1\t{}\nbob\x1b\tkey-0002\tphone.02\t1\t\n", At: &noon, CreatedAt: noon,
		})
		_ = a.printDeadLetter(api.DeadLetter{
			ID: 8, SaleID: "phone", CreatedAt: noon, ResolvedAt: &noon,
			Resolution: "replayed",
		})
	})
	section("replayed", func() {
		err := a.printReplayed(api.Replayed{Saved: []sluice.OrderID{"phone.01"}, Lost: []sluice.OrderID{"phone.02"}})
		if codeOf(err) != exitFailed || err.Error() != "1 order could not be saved" {
			t.Error(err)
		}
	})
	section("no orders", func() { _ = a.printOrders(api.OrderPage{}) })
	section("load", func() { a.printRush(&sampleResult) })
	section("audit", func() {
		good := sluice.AuditReport{Sale: "phone", OK: true, Checks: []sluice.AuditCheck{
			{ID: "I1", Name: "No oversell", OK: true, Detail: "1000 of 1000"},
		}}
		_ = a.printAudit([]sluice.AuditReport{good}, false)
		bad := sluice.AuditReport{Sale: "mug", InFlight: 1, Checks: append(good.Checks, []sluice.AuditCheck{
			{ID: "I2", Name: "Conservation", OK: true, Detail: "7 = 7"},
			{ID: "I5", Name: "One order", Detail: "1 claim has no order (mug.0123456789abcdef0123456789abcdef); epoch 1"},
			{ID: "I8", Name: "Window", Unchecked: true, Detail: "the ledger does not answer"},
		}...)}
		_ = a.printAudit([]sluice.AuditReport{bad}, false)
	})
	section("events", func() {
		order := sampleOrder
		for _, e := range []api.Event{
			{ID: "evt_17_0123abcd", CreatedAt: noon, Type: sluice.EventOrderCreated, Data: api.EventData{Order: &order}},
			{
				ID: "evt_18_0123abcd", CreatedAt: noon, Type: sluice.EventSaleArchived,
				Data: api.EventData{Sale: &api.EventSale{ID: "phone"}},
			},
		} {
			_ = a.printEvent(&e)
		}
	})
	section("check of a sale", func() {
		_ = a.printSaleCheck(api.SaleCheck{SaleID: "phone", Node: "node-1", Checks: []api.Check{
			{
				Status: api.CheckWarn, Name: "addresses", Detail: "at most 20 claims in 10 s from one address, which is not named",
				Where: "trusted_proxies", Right: "the address of your proxy, if it is one",
			},
			{Status: api.CheckOK, Name: "ledger clock", Detail: "differs by 0s"},
		}}, false)
	})
}

func TestDemoOutput(t *testing.T) {
	var b bytes.Buffer
	a := &app{stdout: &b, stderr: &b}
	r := sampleResult
	r.Stock, r.Errors, r.ErrorReasons, r.Replayed = ptr(int64(1000)), 0, nil, 0
	r.Audit = &sluice.AuditReport{OK: true, Checks: []sluice.AuditCheck{
		{ID: "I1", Name: "No oversell", OK: true, Detail: "1000 of 1000"},
		{ID: "I7", Name: "No undersell", OK: true, Detail: "1,000 of 1,000 units went"},
	}}
	must.Succeed(t, a.printDemo(&r))
	b.WriteString("== with a lifecycle\n")
	r.Lifecycle = &sampleLife
	must.Succeed(t, a.printDemo(&r))
	golden(t, "demo", b.String())
	if err := demoVerdict(&r); err != nil {
		t.Error(err)
	}
}

// The exit code follows the audit, and nothing cheerful is said over a failure.
func TestVerdicts(t *testing.T) {
	check := func(ok, unchecked bool) sluice.AuditCheck {
		return sluice.AuditCheck{ID: "I1", Name: "No oversell", OK: ok, Unchecked: unchecked, Detail: "d"}
	}
	for _, tc := range []struct {
		name string
		c    sluice.AuditCheck
		code int
		want string
	}{
		{"fine", check(true, false), exitOK, "Everything adds up."},
		{"violated", check(false, false), exitViolated, "It does not add up."},
		{"unchecked", check(false, true), exitFailed, "Not everything could be checked."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			a := &app{stdout: &b, stderr: &b}
			full := audit.Merge(nil)
			full.Sale, full.OK = "s", tc.c.OK
			for i := range full.Checks {
				if full.Checks[i].ID == "I1" {
					full.Checks[i] = tc.c
				}
			}
			err := a.printAudit([]sluice.AuditReport{full}, true)
			if got := codeOf(err); got != tc.code || !strings.Contains(b.String(), tc.want) {
				t.Errorf("exit %d\n%s", got, &b)
			}

			b.Reset()
			r := sampleResult
			r.Stock, r.Errors = ptr(int64(1000)), 0
			r.Audit = &sluice.AuditReport{OK: tc.c.OK, Checks: []sluice.AuditCheck{{
				ID: "I1", OK: tc.c.OK,
				Unchecked: tc.c.Unchecked,
			}}}
			_ = a.printDemo(&r)
			if got := codeOf(demoVerdict(&r)); got != tc.code ||
				strings.Contains(b.String(), "Nothing was sold twice") != tc.c.OK {
				t.Errorf("demo: exit %d\n%s", got, &b)
			}
		})
	}
	r := sampleResult
	r.Audit = &sluice.AuditReport{OK: true}
	if err := demoVerdict(&r); codeOf(err) != exitFailed {
		t.Errorf("tries without a decision: %v", err)
	}
}

func codeOf(err error) int {
	if err == nil {
		return exitOK
	}
	return exitCode(err)
}
