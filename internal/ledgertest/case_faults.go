package ledgertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// faultCases: an error means that the outcome is unknown, and a repeat with
// the same claims finds out (I4).
var faultCases = []testCase{
	{"a reply is lost", one, func(e *env) {
		f := e.faulty(nth("Claim", 1, fault{After: true}))
		e.load(sale, total(3))
		batch := []sluice.Claim{e.claim("ann", "k", 2), e.claim("bob", "k", 2), e.claim("cid", "k", 1)}
		_, err := f.Claim(e.ctx, sale, batch)
		e.wantErr("Claim", err, errInjected)
		e.wantTaken(3, 2) // it has happened
		decisions := e.claims(batch...)
		e.wantCodes(decisions, sluice.Accepted, sluice.SoldOut, sluice.Accepted)
		for _, i := range []int{0, 2} {
			if d := decisions[i]; !d.Replayed || d.Order != batch[i].Order {
				e.Errorf("%+v, want order %s again", d, batch[i].Order)
			}
		}
		e.wantTaken(3, 2)
	}},
	{"an error before the step", one, func(e *env) {
		f := e.faulty(nth("Claim", 1, fault{Before: true}))
		e.load(sale, total(3))
		claim := e.claim("ann", "k", 2)
		_, err := f.Claim(e.ctx, sale, []sluice.Claim{claim})
		e.wantErr("Claim", err, errInjected)
		e.wantTaken(0, 0)
		e.accepted(claim)
	}},
	{"a crash after the step", one, func(e *env) {
		f := e.faulty(nth("Claim", 1, fault{After: true, Crash: true}))
		e.load(sale, total(3))
		claim := e.claim("ann", "k", 2)
		for range 2 {
			_, err := f.Claim(e.ctx, sale, []sluice.Claim{claim})
			e.wantErr("Claim", err, errInjected)
		}
		e.must("Close", f.Close())
		f.restart(e.open(e, "node-a", e.clock))
		if d := e.one(claim); !d.Replayed || d.Order != claim.Order {
			e.Errorf("%+v, want order %s again", d, claim.Order)
		}
		e.wantTaken(2, 1)
	}},
	{"a repeat overtakes a delayed first time", one, func(e *env) {
		late := make(chan struct{})
		f := e.faulty(nth("Claim", 1, fault{Wait: late}))
		e.load(sale, total(3))
		claim := e.claim("ann", "k", 2)
		answer := make(chan []sluice.Decision)
		go func() {
			decisions, err := f.Claim(e.ctx, sale, []sluice.Claim{claim})
			if err != nil {
				e.Errorf("Claim: %v", err)
			}
			answer <- decisions
		}()
		for f.countOf("Claim") == 0 {
			time.Sleep(100 * time.Microsecond) // until it waits
		}
		first := e.accepted(claim)
		close(late)
		first.Replayed = true
		e.same("the delayed one", <-answer, []sluice.Decision{first})
		e.wantTaken(2, 1)
	}},
	{"a lost reply of the journal makes its entries own", journal, func(e *env) {
		e.faulty(nth("ReadJournal", 1, fault{After: true}))
		e.threeEntries()
		_, err := e.ledger.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: port.New, Max: 2})
		e.wantErr("ReadJournal", err, errInjected)
		own := e.journal(port.Own, "", 10)
		e.same("own", seqs(own), []int64{1, 2})
		e.same("deliveries", own[0].Deliveries, int64(2))
		e.same("new", seqs(e.journal(port.New, "", 10)), []int64{3})
	}},
	{"keepers are repeated until they are heard", one, func(e *env) {
		f := e.faulty(nil)
		e.load(sale, with(func(t *sluice.Terms) { t.Paused = true }))
		for _, fault := range []fault{{After: true}, {Before: true}, {}} {
			f.setPlan(every("Apply", fault))
			terms := with(func(t *sluice.Terms) { t.Version, t.Total = 2, 9 })
			if err := f.Apply(e.ctx, sale, 1, terms); err != nil {
				e.wantErr("Apply", err, errInjected)
			}
		}
		if r := e.read(sale); r.Terms.Version != 2 || !r.CooldownUntil.Equal(start.Add(sluice.RefusalLease)) {
			e.Errorf("%+v, want version 2, in cooldown from the first time on", r)
		}
	}},
	{"a shaky ledger, a stubborn crowd", one, func(e *env) {
		const seed, buyers, stock = 7, 60, 25
		e.load(sale, with(func(t *sluice.Terms) { t.Total, t.MaxPerBuyer = stock, 1 }))
		f := e.faulty(shaky(seed, 0.5))
		orders := map[sluice.BuyerID]sluice.OrderID{}
		for b := range buyers / 3 {
			var batch []sluice.Claim
			for i := range 3 {
				batch = append(batch, e.claim(sluice.BuyerID(fmt.Sprintf("buyer-%d-%d", b, i)), "k", 1))
			}
			for range 2 { // and again, for the same answer
				for i, d := range e.stubborn(f, batch) {
					if d.Code != sluice.Accepted {
						continue
					}
					if first, known := orders[batch[i].Buyer]; known && first != d.Order {
						e.Errorf("%s has orders %s and %s", batch[i].Buyer, first, d.Order)
					}
					orders[batch[i].Buyer] = d.Order
				}
			}
		}
		f.setPlan(nil)
		if len(orders) != stock {
			e.Errorf("%d buyers have an order, want %d", len(orders), stock)
		}
		e.wantTaken(stock, stock)
		e.healthy(sale, nil)
	}},
}

// stubborn asks until there is an answer, with new order ids each time, as
// clients and batchers do.
func (e *env) stubborn(l port.Decider, batch []sluice.Claim) []sluice.Decision {
	e.Helper()
	batch = slices.Clone(batch)
	for range 100 {
		decisions, err := l.Claim(e.ctx, sale, batch)
		if err == nil {
			return decisions
		}
		e.wantErr("Claim", err, errInjected)
		for i := range batch {
			batch[i].Order = e.order(sale)
		}
	}
	e.Fatal("no answer in 100 attempts")
	return nil
}

// faulty wraps the ledger of the case.
func (e *env) faulty(plan plan) *faultyLedger {
	f := newFaulty(e.ledger, plan)
	e.ledger = f
	return f
}

// healthy checks the invariants of a sale that was loaded once, under terms
// that did not change. gone are the sequences that were acknowledged.
func (e *env) healthy(id sluice.SaleID, gone map[int64]bool) {
	e.Helper()
	r := e.read(id)
	records, journal, err := everything(e.ctx, e.ledger, id)
	e.must("read everything", err)
	if e.noJournal {
		gone = map[int64]bool{allStored: true}
	}
	for _, wrong := range checkInvariants(r, records, journal, gone, map[int64]sluice.Terms{r.Terms.Version: r.Terms}) {
		e.Error(wrong)
	}
}
