package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// env is what a table case works with: one ledger on fresh data, a clock that
// stands still, and short words for what every case does.
type env struct {
	testing.TB
	ctx    context.Context
	clock  *Clock
	open   Open
	ledger port.Ledger
	terms  map[sluice.SaleID]sluice.Terms // as last loaded or applied
	orders int                            // order ids made so far

	noJournal bool // see Harness
}

// sale is the sale of cases that need only one.
const sale sluice.SaleID = "sale-1"

// unlimited keeps the tables short.
const unlimited = sluice.Unlimited

// plenty returns terms that refuse nothing: open, no total, no limits.
func plenty() sluice.Terms {
	return sluice.Terms{
		Version: 1, Total: unlimited, MaxPerBuyer: unlimited, MaxOrders: unlimited,
		OpensAt: start.Add(-time.Hour),
	}
}

// with returns plenty, changed.
func with(change func(t *sluice.Terms)) sluice.Terms {
	terms := plenty()
	change(&terms)
	return terms
}

// total returns terms with a total and nothing else that refuses.
func total(units int64) sluice.Terms {
	return with(func(t *sluice.Terms) { t.Total = units })
}

// load brings a new sale in under epoch 1 and lifts its fence.
func (e *env) load(id sluice.SaleID, terms sluice.Terms) {
	e.Helper()
	e.loadImage(port.LoadImage{Sale: id, Epoch: 1, Terms: terms})
	e.must("Unfence", e.ledger.Unfence(e.ctx, id, 1))
}

// loadImage loads and leaves the sale fenced as loading.
func (e *env) loadImage(image port.LoadImage) {
	e.Helper()
	e.must("Load", e.ledger.Load(e.ctx, image))
	e.terms[image.Sale] = image.Terms
}

// change applies the sale's terms with a change, as the next version.
func (e *env) change(id sluice.SaleID, change func(t *sluice.Terms)) {
	e.Helper()
	terms := e.terms[id]
	change(&terms)
	terms.Version++
	e.must("Apply", e.ledger.Apply(e.ctx, id, e.read(id).Epoch, terms))
	e.terms[id] = terms
}

// restart closes the ledger and opens it again as the same server.
func (e *env) restart() {
	e.Helper()
	e.must("Close", e.ledger.Close())
	e.ledger = e.open(e, "node-a", e.clock)
}

func (e *env) must(what string, err error) {
	e.Helper()
	if err != nil {
		e.Fatalf("%s: %v", what, err)
	}
}

// wantErr fails unless err wraps want.
func (e *env) wantErr(what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// order returns an order id that was not used before.
func (e *env) order(id sluice.SaleID) sluice.OrderID {
	e.orders++
	return id.Order(fmt.Sprintf("%032x", e.orders))
}

// claim makes a claim on the sale of this case, with a new order id.
func (e *env) claim(buyer sluice.BuyerID, key sluice.Key, quantity int64) sluice.Claim {
	return sluice.Claim{Buyer: buyer, Key: longKey(key), Quantity: quantity, Order: e.order(sale)}
}

// longKey brings a short key of a table to the least length of a key.
func longKey(key sluice.Key) sluice.Key {
	if n := 8 - len(key); n > 0 {
		return key + sluice.Key(strings.Repeat("-", n))
	}
	return key
}

// claims asks the sale of this case.
func (e *env) claims(claims ...sluice.Claim) []sluice.Decision {
	e.Helper()
	return e.claimsOf(sale, claims...)
}

// claimsOf asks the ledger, and checks what holds for every answer.
func (e *env) claimsOf(id sluice.SaleID, claims ...sluice.Claim) []sluice.Decision {
	e.Helper()
	decisions, err := e.ledger.Claim(e.ctx, id, claims)
	e.must("Claim", err)
	if problem := checkDecisions(claims, decisions); problem != "" {
		e.Fatalf("Claim: %s", problem)
	}
	return decisions
}

// one asks for a single claim.
func (e *env) one(claim sluice.Claim) sluice.Decision {
	e.Helper()
	return e.claims(claim)[0]
}

// accepted asks for a claim that has to be accepted for the first time.
func (e *env) accepted(claim sluice.Claim) sluice.Decision {
	e.Helper()
	d := e.one(claim)
	if d.Code != sluice.Accepted || d.Replayed {
		e.Fatalf("claim %s/%s: %s (replayed %t), want a new acceptance", claim.Buyer, claim.Key, d.Code, d.Replayed)
	}
	return d
}

// wantCode asks for a claim and compares the code of the answer.
func (e *env) wantCode(claim sluice.Claim, want sluice.Code) sluice.Decision {
	e.Helper()
	d := e.one(claim)
	if d.Code != want {
		e.Errorf("claim %s/%s of %d: %s, want %s", claim.Buyer, claim.Key, claim.Quantity, d.Code, want)
	}
	return d
}

// wantCodes compares the codes of a batch's answers.
func (e *env) wantCodes(decisions []sluice.Decision, want ...sluice.Code) {
	e.Helper()
	var got []sluice.Code
	for _, d := range decisions {
		got = append(got, d.Code)
	}
	e.same("codes", got, want)
}

// same compares two values, times by instant, nil and empty alike.
func (e *env) same(what string, got, want any) {
	e.Helper()
	if diff := diff(want, got); diff != "" {
		e.Errorf("%s: -want +got\n%s", what, diff)
	}
}

// diff returns how two values differ, or nothing.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) { // as a rule, and much faster
		return ""
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateApproxTime(0), cmpopts.EquateErrors())
}

// read returns the reading of one sale, which is loaded.
func (e *env) read(id sluice.SaleID) port.Reading {
	e.Helper()
	readings, err := e.ledger.Read(e.ctx, []sluice.SaleID{id})
	e.must("Read", err)
	if len(readings) != 1 || !readings[0].Loaded {
		e.Fatalf("Read: %+v, want one loaded sale", readings)
	}
	return readings[0]
}

// wantTaken checks the units taken and the last sequence of the sale.
func (e *env) wantTaken(taken, seq int64) {
	e.Helper()
	if r := e.read(sale); r.Taken != taken || r.Seq != seq {
		e.Errorf("taken %d, seq %d; want %d, %d", r.Taken, r.Seq, taken, seq)
	}
}

// records returns every record of a sale by order id; a record handed out
// twice is an error.
func (e *env) records(id sluice.SaleID) map[sluice.OrderID]port.Record {
	e.Helper()
	all := map[sluice.OrderID]port.Record{}
	e.must("Records", e.ledger.Records(e.ctx, id, func(r port.Record) bool {
		if _, twice := all[r.Order]; twice {
			e.Errorf("Records: order %s twice", r.Order)
		}
		all[r.Order] = r
		return true
	}))
	return all
}

// peek returns the journal of a sale.
func (e *env) peek(id sluice.SaleID) []port.Entry {
	e.Helper()
	var entries []port.Entry
	e.must("PeekJournal", e.ledger.PeekJournal(e.ctx, id, func(entry port.Entry) bool {
		entries = append(entries, entry)
		return true
	}))
	return entries
}

// wantEntries returns the journal of the sale of this case, which has so many entries;
// none if the backend has no journal.
func (e *env) wantEntries(n int) []port.Entry {
	e.Helper()
	if e.noJournal {
		n = 0
	}
	entries := e.peek(sale)
	if len(entries) != n {
		e.Fatalf("%d entries in the journal, want %d", len(entries), n)
	}
	return entries
}

// journal reads entries of the sale of this case.
func (e *env) journal(source port.Source, after string, most int) []port.Entry {
	e.Helper()
	entries, err := e.ledger.ReadJournal(e.ctx, port.JournalRead{Sale: sale, Source: source, After: after, Max: most})
	e.must("ReadJournal", err)
	return entries
}

// checkDecisions checks what is true of every answer to a batch, and returns
// what is not.
func checkDecisions(claims []sluice.Claim, decisions []sluice.Decision) string {
	if len(decisions) != len(claims) {
		return fmt.Sprintf("%d decisions for %d claims", len(decisions), len(claims))
	}
	for i, d := range decisions {
		var problem string
		switch {
		case d.Code == sluice.Accepted && (d.Order == "" || d.Quantity != claims[i].Quantity || d.Seq < 1 || d.At.IsZero() ||
			d.Epoch < 1 || d.Terms < 1):
			problem = "accepted, but its order, quantity, place, time or terms are missing"
		case d.Code == sluice.Accepted && !d.Replayed && d.Order != claims[i].Order:
			problem = "newly accepted, but not with the order id it proposed"
		case d.Code == sluice.Accepted && (!d.OpensAt.IsZero() || len(d.Orders) > 0):
			problem = "accepted, but carries what belongs to a refusal"
		case d.Code != sluice.Accepted && (d.Order != "" || d.Quantity != 0 || d.Seq != 0 || !d.At.IsZero() || d.Epoch != 0 ||
			d.Terms != 0 || d.Replayed):
			problem = "refused, but carries what belongs to an acceptance"
		case d.Code == sluice.NotOpen == d.OpensAt.IsZero():
			problem = "OpensAt belongs to not_open, and only there"
		case d.Code != sluice.BuyerLimit && len(d.Orders) > 0:
			problem = "Orders belong to buyer_limit only"
		case d.Code < sluice.Accepted || d.Code > sluice.Insufficient || d.Code == sluice.SaleNotFound:
			problem = "not a code of a ledger"
		}
		if problem != "" {
			return fmt.Sprintf("claim %d (%+v): decision %+v: %s", i, claims[i], d, problem)
		}
	}
	return ""
}
