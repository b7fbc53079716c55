package audit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/must"
	"github.com/sluicehq/sluice/internal/port"
)

// sold returns a world with ten claims of ten buyers: seven stored, one entry
// of two stored and not acknowledged, one in flight.
func sold() *world {
	w := newWorld(12, 1)
	w.claim("b1", "b2", "b3")
	w.claim("b4", "b5", "b6", "b7")
	w.drain()
	w.claim("b8", "b9")
	w.insert()
	w.claim("b10")
	return w
}

func TestRightIsGreen(t *testing.T) {
	for name, w := range map[string]*world{
		"empty": newWorld(10, 1),
		"sold":  sold(),
		"no total": func() *world {
			w := newWorld(sluice.Unlimited, sluice.Unlimited)
			w.claim("a", "a", "a")
			w.drain()
			return w
		}(),
		"sold out": func() *world { w := newWorld(2, 1); w.claim("a", "b"); w.drain(); return w }(),
		"total 0":  newWorld(0, 1),
		"never loaded": func() *world {
			w := newWorld(5, 1)
			w.reading = port.Reading{Sale: saleID, Now: opens}
			w.sale.Epoch, w.sale.LoadedEpoch = 0, 0
			return w
		}(),
		"load begun and not confirmed": func() *world {
			w := sold()
			w.finish()
			w.sale.Epoch++
			w.reading.Fence = "maintenance"
			return w
		}(),
		"ended, not released yet": func() *world { w := sold(); w.end(0); return w }(),
		"rejected, in the store's own word": func() *world { // its history says that it had units
			w := sold()
			w.end(0)
			w.orders[0].Status, w.orders[0].Reason = sluice.Rejected, sluice.NotCovered
			return w
		}(),
		"ended and released": func() *world { w := sold(); w.end(0); w.release(orderID(1, 1)); return w }(),
		"ended, released, loaded again, sold again": func() *world {
			w := sold()
			w.finish()
			w.end(0)
			w.release(orderID(1, 1))
			w.load()
			w.claim("b1", "b11", "b12")
			w.drain()
			return w
		}(),
		"ended unpaid": func() *world {
			w := sold()
			w.change(func(t *sluice.Terms) { t.MaxUnpaid = 1 })
			w.end(0)
			w.end(1)
			w.end(2)
			w.orders[0].Unpaid, w.orders[1].Unpaid = true, true
			w.release(orderID(1, 1))
			w.records[0].Unpaid = true
			w.release(orderID(1, 3))
			return w
		}(),
		"an unpaid ending that the ledger does not know, without a limit": func() *world {
			w := sold()
			w.end(0)
			w.orders[0].Unpaid = true
			w.release(orderID(1, 1))
			return w
		}(),
		"limit lowered later": func() *world {
			w := newWorld(10, 3)
			w.claim("a", "a", "a", "b")
			w.change(func(t *sluice.Terms) { t.MaxPerBuyer = 1 })
			w.claim("c")
			w.drain()
			return w
		}(),
		"a counter with room again": func() *world {
			w := sold()
			w.count(3, "city:1=9 home:1=2")
			w.end(0)
			w.release(orderID(1, 1))
			return w
		}(),
		"paused and resumed": func() *world {
			w := sold()
			w.change(func(t *sluice.Terms) { t.Paused = true })
			w.change(func(t *sluice.Terms) { t.Paused = false })
			w.claim("late")
			w.change(func(t *sluice.Terms) { t.ClosesAt = w.reading.Now })
			return w
		}(),
	} {
		t.Run(name, func(t *testing.T) { wantRed(t, run(t, w)) })
	}
}

// finish drains a world whose oldest entry is stored and not acknowledged.
func (w *world) finish() {
	w.ack()
	w.drain()
}

func TestFigures(t *testing.T) {
	r := run(t, sold())
	if r.InFlight != 1 {
		t.Errorf("in flight %d, want 1", r.InFlight)
	}
	got := must.Get(json.Marshal(r.Figures))(t)
	want := `{"at":"2026-11-11T12:00:00.004Z",` +
		`"ledger":{"loaded":true,"epoch":1,"seq":10,"total":12,"taken":10,"claims":10,"live_claims":10,"live_units":10},` +
		`"journal":{"entries":2,"claims":3,"damaged":0},` +
		`"store":{"epoch":1,"total":12,"taken":9,"orders":9,"live_units":9,"by_status":{"pending":9},"dead_letters":0,"set_aside":0},` +
		`"newer":0}`
	if string(got) != want {
		t.Errorf("figures\n%s, want\n%s", got, want)
	}
	want = "ledger: total 12 = 2 available + 10 taken; ledger: 10 taken = 10 in live claims; store: 9 taken = 9 in " +
		"live orders; " +
		"of the ledger's units 9 are stored, 1 in flight, 0 returning, 0 set aside"
	if got := detail(r, "I2"); got != want {
		t.Errorf("I2 says\n%s, want\n%s", got, want)
	}
}

// Each violation turns exactly its check red, and the detail names the order.
func TestPlanted(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(w *world)
		red   string
		says  []string
	}{
		{
			"ledger beyond its total", func(w *world) { w.reading.Terms.Total = 9 }, "I1",
			[]string{"ledger: 10 taken of a total of 9"},
		},
		{
			"store beyond its total", func(w *world) { w.sale.Total, w.sale.Cap = 8, 8 }, "I1",
			[]string{"store: 9 taken of a total of 8"},
		},
		{
			"the store counts beyond its total", func(w *world) { w.sale.Taken = 13 }, "I1 I2",
			[]string{"store: 13 taken of a total of 12"},
		},
		{"live orders beyond the total", func(w *world) {
			w.sale.Total, w.sale.Cap, w.sale.Taken = 8, 8, 8
		}, "I1 I2", []string{"store: 9 taken of a total of 8"}},
		{"a promise not covered", func(w *world) {
			w.orders[0].Status, w.orders[0].Reason = sluice.Rejected, sluice.NotCovered
			w.sale.Taken--
		}, "I1", []string{"1 accepted claims were promised beyond the total", string(orderID(1, 1))}},
		{"a promise not covered, and paid", func(w *world) {
			w.orders[0].Status, w.orders[0].Reason = sluice.RefundDue, sluice.NotCovered
			w.sale.Taken--
		}, "I1", []string{"1 accepted claims were promised beyond the total", string(orderID(1, 1))}},
		{"a promise not covered, and refunded", func(w *world) {
			w.orders[0].Status, w.orders[0].Reason = sluice.Refunded, sluice.NotCovered
			w.sale.Taken--
		}, "I1", []string{string(orderID(1, 1))}},

		{
			"a unit lost in the ledger", func(w *world) { w.reading.Taken++ }, "I2",
			[]string{"ledger: 11 taken, but the live claims hold 10"},
		},
		{
			"a unit won in the ledger", func(w *world) { w.reading.Taken-- }, "I2",
			[]string{"ledger: 9 taken, but the live claims hold 10"},
		},
		{
			"a unit lost in the store", func(w *world) { w.sale.Taken++ }, "I2",
			[]string{"store: 10 taken, but the live orders hold 9"},
		},
		{"a unit won in the store", func(w *world) { w.sale.Taken-- }, "I2", []string{"store: 8 taken"}},
		{
			"released while the order lives", func(w *world) { w.release(orderID(1, 4)) }, "I2",
			[]string{"1 orders live in the store whose units", string(orderID(1, 4))},
		},
		{
			"ended and counted still", func(w *world) { w.end(2); w.sale.Taken++ }, "I2",
			[]string{"store: 9 taken, but the live orders hold 8"},
		},

		{"a buyer over the limit", func(w *world) {
			for i := range w.records {
				if w.records[i].Buyer == "b2" {
					w.records[i].Buyer = "b1"
				}
			}
			w.orders[1].Buyer = "b1"
		}, "I3", []string{
			`ledger: 1 buyers over their limit ("b1": 2 of 1)`,
			`store: 1 buyers over their limit ("b1": 2 of 1)`,
		}},
		{"a claim over a limit that was lowered before", func(w *world) {
			w.change(func(t *sluice.Terms) { t.MaxPerBuyer = 3 })
			w.claim("b1", "b1")
			w.change(func(t *sluice.Terms) { t.MaxPerBuyer = 1; t.Total = 20 })
			w.claim("b1")
		}, "I3", []string{`"b1": 4 of 1`}},

		{"claims beyond a counter", func(w *world) { w.count(3, "home:1=2") }, "I3", []string{
			"ledger: 1 claims beyond a limit of their sale (home:1: 3 of 2)",
			"store: 1 claims beyond a limit of their sale (home:1: 3 of 2)",
		}},

		{"claims without a counter", func(w *world) {
			w.sale.Rules.Limits = sluice.Limits{{By: "home", Max: 2}}
			w.count(9, "home:1=2")
			w.count(8, "home:1=3")
		}, "I3", []string{
			"ledger: 9 claims that no counter of a limit counts", "store: 8 claims that no counter of a limit counts",
		}},

		{"an unpaid ending that the ledger does not count", func(w *world) {
			w.change(func(t *sluice.Terms) { t.MaxUnpaid = 1 })
			w.end(0)
			w.orders[0].Unpaid = true
			w.release(orderID(1, 1))
		}, "I3", []string{"1 ended claims are unpaid on one side only", string(orderID(1, 1))}},
		{"an unpaid ending of the ledger's own", func(w *world) {
			w.change(func(t *sluice.Terms) { t.MaxUnpaid = 1 })
			w.end(0)
			w.release(orderID(1, 1))
			w.records[0].Unpaid = true
		}, "I3", []string{"1 ended claims are unpaid on one side only", string(orderID(1, 1))}},

		{"a claim accepted twice", func(w *world) {
			w.records[4].Buyer, w.records[4].Key = "b4", w.records[3].Key
			w.orders[4].Buyer, w.orders[4].Key = "b4", w.orders[3].Key
			w.versions[0].MaxPerBuyer = 2
		}, "I4", []string{
			"ledger: 1 rows repeat a claim id", "store: 1 rows repeat a claim id", string(orderID(1, 4)),
			string(orderID(1, 5)),
		}},
		{"a place given twice", func(w *world) {
			w.records[7].Seq, w.orders[7].Seq = 7, 7
			w.records[9].Seq = 8
			w.journal = w.journal[1:]
			w.journal[0].FirstSeq = 8
			w.reading.Seq = 9
			w.records[8].Seq, w.orders[8].Seq = 9, 9
		}, "I4", []string{"ledger: 1 rows repeat a place", "epoch 1 sequence 7"}},
		{"an order of another sale", func(w *world) {
			id := strings.Replace(string(orderID(1, 1)), "phone", "watch", 1)
			w.records[0].Order, w.orders[0].ID = sluice.OrderID(id), sluice.OrderID(id)
		}, "I4", []string{"order ids are not of this sale", "watch."}},

		{"an order too many", func(w *world) {
			o := w.orders[0]
			o.ID, o.Buyer, o.Seq, o.Epoch = orderID(7, 7), "thief", 5, 0
			w.orders = append(w.orders, o)
			w.sale.Taken++
		}, "I5", []string{"1 orders have no accepted claim", string(orderID(7, 7))}},
		{"an order beyond the sequence", func(w *world) {
			o := w.orders[0]
			o.ID, o.Buyer, o.Seq = orderID(7, 7), "thief", 11
			w.orders = append(w.orders, o)
			w.sale.Taken++
		}, "I5", []string{"beyond the ledger's sequence", string(orderID(7, 7))}},
		{"a missing order", func(w *world) {
			w.orders = append(w.orders[:2:2], w.orders[3:]...)
			w.sale.Taken--
		}, "I5", []string{"1 accepted claims are neither in the journal nor in the store (" + string(orderID(1, 3)) + ")"}},
		{
			"a missing journal entry", func(w *world) { w.journal = w.journal[:1] }, "I5",
			[]string{"neither in the journal", string(orderID(1, 10))},
		},
		{"a missing claim", func(w *world) {
			w.records = append(w.records[:2:2], w.records[3:]...)
			w.reading.Taken--
		}, "I5", []string{"1 orders have no accepted claim", "1 places of the sequence have no claim (3)"}},
		{"a missing claim in flight", func(w *world) {
			w.records = w.records[:9]
			w.reading.Taken--
		}, "I5", []string{"1 claims in the journal are not on record", "no claim (10)"}},
		{"an order that says something else", func(w *world) {
			w.orders[2].Terms, w.versions = 2, append(w.versions,
				sluice.Terms{Version: 2, Total: 12, MaxPerBuyer: 1, OpensAt: opens})
			for i := 3; i < len(w.orders); i++ {
				w.orders[i].Terms = 2
			}
		}, "I5", []string{"7 claims differ between ledger and store", string(orderID(1, 3)) + ", ", ", ..."}},
		{
			"a journal entry that says something else", func(w *world) { w.journal[1].FirstSeq = 11 }, "I5",
			[]string{"1 claims differ", string(orderID(1, 10))},
		},
		{"a dead letter", func(w *world) {
			e := w.journal[1]
			w.journal = w.journal[:1]
			w.letters = append(w.letters, port.DeadLetter{
				Sale: saleID, EntryID: e.ID, Claims: string(port.AppendClaim(nil, &e.Claims[0])),
				Epoch: e.Epoch, FirstSeq: e.FirstSeq, Terms: e.Terms, At: e.At,
			})
		}, "I5", []string{"1 accepted claims are set aside as dead letters", string(orderID(1, 10))}},
		{"a damaged journal entry", func(w *world) {
			w.journal[1] = port.Entry{ID: w.journal[1].ID, Sale: saleID, Damage: errors.New("torn"), Raw: "x"}
		}, "I5", []string{"neither in the journal nor in the store, unless in what is damaged", "1 damaged journal entries"}},
		{"a damaged dead letter", func(w *world) {
			w.letters = append(w.letters, port.DeadLetter{Sale: saleID, EntryID: w.journal[1].ID, Claims: "torn"},
				port.DeadLetter{Sale: saleID})
			w.journal = w.journal[:1]
		}, "I5", []string{"neither in the journal", "2 damaged dead letters"}},
		{"loss that the ledger saw", func(w *world) {
			w.reading.Fence = port.FenceLost + ": told 12, has 10"
		}, "I5", []string{"it has lost accepted claims", "told 12"}},
		{
			"an older ledger", func(w *world) { w.sale.Epoch, w.sale.LoadedEpoch = 2, 2 }, "I5",
			[]string{"epoch 1, but epoch 2 was loaded"},
		},
		{
			"an older store", func(w *world) { w.sale.Epoch, w.sale.LoadedEpoch = 0, 0 }, "I5",
			[]string{"has only counted 0 loads"},
		},

		{
			"an order that ended twice", func(w *world) { w.end(0); w.ended[w.orders[0].ID] = 2 }, "I6",
			[]string{"1 orders ended more than once (" + string(orderID(1, 1)) + ")"},
		},
		{"an order that came back to life", func(w *world) {
			w.end(1)
			w.orders[1].Status = sluice.Paid
			w.sale.Taken++
			w.release(w.orders[1].ID)
			w.records[1].Live = true
			w.reading.Taken++
		}, "I6", []string{"1 orders hold units that they have given up before (" + string(orderID(1, 2)) + ")"}},
		{
			"an ending that was not recorded", func(w *world) { w.end(0); delete(w.ended, w.orders[0].ID) }, "I6",
			[]string{"history does not say how", string(orderID(1, 1))},
		},
		{"units on their way back that are held", func(w *world) {
			w.returning = append(w.returning, w.orders[3].ID)
		}, "I6", []string{"1 orders hold units that are on their way back (" + string(orderID(1, 4)) + ")"}},

		{"a claim after closing", func(w *world) {
			w.versions[0].ClosesAt = opens.Add(2 * time.Millisecond)
		}, "I8", []string{"ledger: 7 claims accepted outside", "closed at 2026-11-11T12:00:00.002Z under version 1"}},
		{"a claim before opening", func(w *world) {
			w.versions[0].OpensAt = opens.Add(2 * time.Millisecond)
		}, "I8", []string{"store: 3 orders accepted outside", "not_open at"}},
		{"a claim while paused", func(w *world) { w.versions[0].Paused = true }, "I8", []string{"paused at"}},
		{
			"unknown terms", func(w *world) { w.versions[0].Version = 9 }, "I8",
			[]string{"carry terms that the store does not know", "version 1"},
		},
		{"older terms after newer", func(w *world) {
			w.change(func(*sluice.Terms) {})
			for i := range 3 {
				w.records[i].Terms, w.orders[i].Terms = 2, 2
			}
		}, "I8", []string{"older terms", "version 1 after 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := sold()
			c.plant(w)
			r := run(t, w)
			red := strings.Fields(c.red)
			wantRed(t, r, red...)
			if !r.Violated() {
				t.Error("not violated")
			}
			for _, text := range c.says {
				if d := detail(r, red[0]); !strings.Contains(d, text) {
					t.Errorf("the detail does not say %q:\n%s", text, d)
				}
			}
		})
	}
}

// One claim id with another order on each side is both: no same answer, and
// neither a claim without its order nor an order without its claim.
func TestTwoAnswers(t *testing.T) {
	w := sold()
	w.orders[0].ID = orderID(9, 1)
	r := run(t, w)
	wantRed(t, r, "I4", "I5")
	if d := detail(r, "I4"); !strings.Contains(d, "1 claims have one order in the ledger and another in the store ("+
		string(orderID(1, 1))+" and "+string(orderID(9, 1))+")") {
		t.Error(d)
	}
}

// What cannot be checked is not OK, is no violation either, and does not hide
// what the store alone shows.
func TestUnchecked(t *testing.T) {
	all := []string{"I1?", "I2?", "I3?", "I4?", "I5?", "I6?", "I8?"}
	for _, method := range []string{"Read", "Records", "PeekJournal"} {
		r := run(t, sold().failing(method))
		wantRed(t, r, all...)
		if r.Violated() || !strings.Contains(detail(r, "I3"),
			"not checked with the ledger: connection refused; store: 9 buyers") {
			t.Errorf("%s: violated %v: %s", method, r.Violated(), detail(r, "I3"))
		}
	}

	gone := sold()
	gone.reading = port.Reading{Sale: saleID, Now: opens}
	r := run(t, gone)
	wantRed(t, r, all...)
	if d := detail(r, "I5"); !strings.Contains(d,
		"the ledger does not hold the sale, which was loaded into it (epoch 1)") {
		t.Error(d)
	}

	w := sold().failing("Read")
	w.sale.Taken = 3
	r = run(t, w)
	wantRed(t, r, "I1?", "I2", "I3?", "I4?", "I5?", "I6?", "I8?")
	if !r.Violated() {
		t.Error("what the store shows is not a violation")
	}
}

func TestErrors(t *testing.T) {
	if _, err := audit.Run(t.Context(), sold().failing("Snapshot"), sold().failing("Snapshot"), saleID); !errors.Is(err,
		errDown) {
		t.Errorf("store down: %v", err)
	}
	w := sold().failing("Sales")
	if _, err := audit.RunAll(t.Context(), w, w); !errors.Is(err, errDown) {
		t.Errorf("sales: %v", err)
	}
}

// An order that no ledger was ever asked for is too many.
func TestNeverLoadedWithOrders(t *testing.T) {
	w := sold()
	w.reading = port.Reading{Sale: saleID, Now: opens}
	w.sale.Epoch, w.sale.LoadedEpoch = 1, 0
	wantRed(t, run(t, w), "I5")
}

func TestOffendersAreFew(t *testing.T) {
	w := sold()
	w.orders, w.sale.Taken = nil, 0
	w.journal = nil
	d := detail(run(t, w), "I5")
	if !strings.Contains(d, "10 accepted claims are neither") || strings.Count(d, string(saleID)+".") != 5 ||
		!strings.Contains(d, ", ...)") {
		t.Error(d)
	}
}

func TestMerge(t *testing.T) {
	good := run(t, sold())
	bad := sold()
	bad.reading.Taken++
	down := sold().failing("Read")

	m := audit.Merge([]sluice.AuditReport{good, good})
	if !m.OK || m.InFlight != 2 || m.Sale != "" || len(m.Checks) != len(good.Checks) {
		t.Errorf("%+v", m)
	}
	for _, order := range [][]sluice.AuditReport{{good, run(t, bad), run(t, down)}, {run(t, down), run(t, bad), good}} {
		m = audit.Merge(order)
		if got := fmt.Sprint(red(m)); got != "[I1? I2 I3? I4? I5? I6? I8?]" || !m.Violated() {
			t.Error(got)
		}
		if d := detail(m, "I2"); !strings.Contains(d, "2 of 3 sales: ") || !strings.Contains(d, "phone: ledger: 11 taken") {
			t.Error(d)
		}
	}
	if m := audit.Merge(nil); !m.OK {
		t.Error("no sales, and not ok")
	}
}

// An archived sale is in the store alone, and that is right. The ledger may still have it, with a buyer whom the
// store has erased: it came back from an older copy.
func TestArchived(t *testing.T) {
	w := newWorld(12, 1)
	w.claim("ann", "bob")
	w.drain()
	w.sale.ArchivedAt = opens.Add(2 * time.Hour)
	w.orders[0].Buyer = "erased"
	if report := run(t, w); !report.OK {
		t.Errorf("%+v; want ok", report.Checks)
	}
	w.reading = port.Reading{Sale: saleID, Now: w.reading.Now}
	if report := run(t, w); !report.OK {
		t.Errorf("%+v; want ok", report.Checks)
	}
	w.sale.Taken++
	if report := run(t, w); !report.Violated() {
		t.Errorf("%+v; want a unit too many found", report.Checks)
	}
}

// deleted is a world of an archived sale, of whose orders only the sums are left: nine
// were paid, and one is cancelled.
func deleted() *world {
	w := newWorld(12, 1)
	w.claim("b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9", "b10")
	w.drain()
	w.end(3)
	w.returning = nil
	w.reading = port.Reading{Sale: saleID, Now: opens}
	w.records, w.sale.ArchivedAt, w.sale.Epoch = nil, opens, w.sale.Epoch+1
	w.sale.Remains = &sluice.Remains{}
	for i := range w.orders {
		if w.orders[i].Status == sluice.Pending {
			w.orders[i].Status = sluice.Paid
		}
		w.sale.Remains.Add(&w.orders[i], false)
	}
	w.orders, w.ended = nil, nil
	return w
}

// Of deleted orders the audit says what the sums prove, and no more.
func TestDeletedOrders(t *testing.T) {
	w := deleted()
	r := run(t, w)
	if got := strings.Join(red(r), " "); got != "I3? I4? I5? I6? I8?" {
		t.Errorf("not ok: %s", got)
	}
	all := audit.Merge([]sluice.AuditReport{run(t, sold()), r})
	if !r.OK || r.Violated() || !all.OK || r.Figures.Store.Deleted != 10 || r.Figures.Store.Orders != 10 {
		t.Errorf("the report: ok %v, violated %v, with another ok %v, %+v", r.OK, r.Violated(), all.OK, r.Figures.Store)
	}
	for id, says := range map[string]string{
		"I2": "10 orders are deleted by order_retention, only their sums are left; store: 9 taken = 9 in live orders",
		"I5": "10 orders are deleted by order_retention, only their sums are left",
	} {
		if got := detail(r, id); !strings.Contains(got, says) {
			t.Errorf("%s says %s, want %s", id, got, says)
		}
	}
	if got := detail(all, "I5"); got != "2 sales; of 1 the orders are deleted by order_retention" {
		t.Errorf("I5 of both says %s", got)
	}

	w.sale.Taken--
	if r := run(t, w); r.OK || !r.Violated() || !strings.Contains(detail(r, "I2"), "8 taken, but the live orders hold 9") {
		t.Errorf("a unit lost: %+v", r)
	}
	w = deleted()
	w.sale.Remains.NotCovered = 1
	if r := run(t, w); r.OK || !r.Violated() {
		t.Errorf("beyond the total: %+v", r)
	}
	w = deleted()
	w.sale.Taken, w.sale.Remains.Sums[0].Units = 13, 13
	if r := run(t, w); r.OK || !r.Violated() {
		t.Errorf("13 of 12: %+v", r)
	}
}
