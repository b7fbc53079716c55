package ledgertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// action is what one operation of a script does.
type action int

const (
	doClaim   action = iota // ask for claims
	doApply                 // change the terms
	doFence                 // fence, or lift the fence if the reason is empty
	doLoad                  // empty the journal, then load
	doAdvance               // move the clock
	doAck                   // read part of the journal and acknowledge part of that
	doRestart               // close the ledger and open it again
	doRelease               // give units back
)

// step is one operation, with what the model says the ledger answers. Nothing
// in it depends on the ledger, so every ledger can be given the same script.
type step struct {
	act     action
	sale    sluice.SaleID
	claims  []sluice.Claim
	epoch   int64
	terms   sluice.Terms
	reason  string
	image   port.LoadImage
	advance time.Duration
	read    port.JournalRead
	ack     int // of the entries read, how many are acknowledged
	ended   []port.Release

	released  port.Released                   // want, of doRelease
	decisions []sluice.Decision               // want, of doClaim
	err       error                           // want, of the keeper's operations
	readings  []port.Reading                  // want, of every sale after the step
	records   map[sluice.SaleID][]port.Record // want, where the step is followed by a full check
}

func (s *step) String() string {
	switch s.act {
	case doClaim:
		return fmt.Sprintf("claim %s: %d claims", s.sale, len(s.claims))
	case doApply:
		return fmt.Sprintf("apply %s epoch %d: %+v", s.sale, s.epoch, s.terms)
	case doFence:
		return fmt.Sprintf("fence %s epoch %d: %q", s.sale, s.epoch, s.reason)
	case doLoad:
		return fmt.Sprintf("load %s epoch %d: %d records, %+v", s.sale, s.image.Epoch, len(s.image.Records), s.image.Terms)
	case doAdvance:
		return fmt.Sprintf("advance %v", s.advance)
	case doAck:
		return fmt.Sprintf("ack %s: %+v, %d of them", s.sale, s.read, s.ack)
	case doRelease:
		return fmt.Sprintf("release %s: %d orders", s.sale, len(s.ended))
	}
	return "restart"
}

// scriptSales are the sales of a script; two, so that one may disturb the other.
var scriptSales = []sluice.SaleID{"rush", "other"}

// author writes a script, with the model at its side.
type author struct {
	*rand.Rand
	model  *model
	now    time.Time
	orders int
	asked  []sluice.Claim // every claim so far, to be repeated
	steps  []step
}

// fullCheckEvery is how many steps go by between two full checks.
const fullCheckEvery = 10

// newScript writes n random steps from the seed.
func newScript(seed uint64, n int) []step {
	a := &author{Rand: rand.New(rand.NewPCG(seed, 1)), model: newModel(), now: start}
	for _, id := range scriptSales {
		a.load(id)
		a.add(step{act: doFence, sale: id, epoch: 1})
	}
	for len(a.steps) < n {
		id := scriptSales[a.IntN(10)/8]
		switch p := a.IntN(100); {
		case p < 55:
			a.claim(id)
		case p < 67:
			a.apply(id)
		case p < 71:
			a.fence(id)
		case p < 73:
			a.load(id)
		case p < 86:
			a.add(step{act: doAdvance, advance: pick(a, time.Millisecond, 100*time.Millisecond, 499*time.Millisecond,
				500*time.Millisecond)})
		case p < 93:
			most := 1 + a.IntN(6)
			read := port.JournalRead{Sale: id, Source: pick(a, port.Own, port.New), Max: most}
			a.add(step{act: doAck, sale: id, read: read, ack: a.IntN(most + 1)})
		case p < 95:
			a.add(step{act: doRestart})
		case p < 97:
			a.release(id)
		default:
			a.reopen(id)
		}
	}
	a.expectRecords(&a.steps[len(a.steps)-1])
	return a.steps
}

func pick[T any](a *author, from ...T) T { return from[a.IntN(len(from))] }

// add has the model do the step, and notes what it says.
func (a *author) add(s step) {
	switch s.act {
	case doClaim:
		for _, c := range s.claims {
			s.decisions = append(s.decisions, a.model.claim(a.now, s.sale, c))
		}
	case doApply:
		s.err = a.model.apply(a.now, s.sale, s.epoch, s.terms)
	case doFence:
		s.err = a.model.setFence(s.sale, s.epoch, s.reason)
	case doLoad:
		s.err = a.model.load(s.image)
	case doRelease:
		s.released, s.err = a.model.release(a.now, s.sale, s.ended)
	case doAdvance:
		a.now = a.now.Add(s.advance)
	case doAck, doRestart: // change nothing that the model knows
	}
	for _, id := range scriptSales {
		s.readings = append(s.readings, a.model.reading(a.now, id))
	}
	if len(a.steps)%fullCheckEvery == 0 || s.act == doLoad || s.act == doRestart {
		a.expectRecords(&s)
	}
	a.steps = append(a.steps, s)
}

func (a *author) expectRecords(s *step) {
	s.records = map[sluice.SaleID][]port.Record{}
	for id, held := range a.model.sales {
		s.records[id] = slices.Clone(held.records)
	}
}

func (a *author) claim(id sluice.SaleID) {
	s := step{act: doClaim, sale: id}
	for range pick(a, 1, 1, 2, 5, 20, 100) {
		a.orders++
		buyer := int64(a.IntN(40))
		c := sluice.Claim{
			Buyer:    sluice.BuyerID(fmt.Sprint("buyer-", buyer)),
			Key:      sluice.Key(fmt.Sprint("attempt-", a.IntN(12))), // often used before, with other content
			Quantity: pick(a, int64(1), 1, 1, 2, 3, 7),
			Meta:     pick(a, "", "", "", `{"m":1}`),
		}
		if buyer%4 == 0 {
			c.Counters = c.Counters.With(sluice.Counter{Name: "city:1", Max: 60})
		}
		if buyer%8 == 0 { // a household
			c.Counters = c.Counters.With(sluice.Counter{Name: fmt.Sprint("home:", buyer%3), Max: 12})
		}
		if len(a.asked) > 0 && a.IntN(3) == 0 { // a repeat, perhaps of a refused claim
			c = pick(a, a.asked...)
		}
		c.Order = id.Order(fmt.Sprintf("%032x", a.orders))
		a.asked = append(a.asked, c)
		s.claims = append(s.claims, c)
	}
	a.add(s)
}

// randomTerms returns terms near the ones before.
func (a *author) randomTerms(before sluice.Terms, taken int64) sluice.Terms {
	t := before
	t.Version += pick(a, int64(1), 1, 1, 1, 0, -1)
	switch a.IntN(8) {
	case 0, 6:
		t.Total = pick(a, unlimited, taken-1, taken-1, taken-5, taken, taken+3, taken+6, taken+20, taken+100)
		t.Total = max(t.Total, unlimited)
	case 1:
		t.MaxPerBuyer = pick(a, unlimited, 1, 2, 5, 50)
	case 2:
		t.MaxOrders = pick(a, unlimited, unlimited, 1, 3, 9)
	case 3:
		t.OpensAt = a.now.Add(pick(a, -time.Hour, 0, time.Millisecond, 300*time.Millisecond, time.Second, 3*time.Second))
		t.ClosesAt = time.Time{}
	case 4:
		t.OpensAt = a.now.Add(-time.Hour)
		t.ClosesAt = a.now.Add(pick(a, -time.Second, 0, time.Millisecond, 600*time.Millisecond, time.Hour))
	case 5:
		t.Paused = !t.Paused
	case 7:
		t.MaxUnpaid = pick(a, int64(0), 1, 2, 5)
	}
	return t
}

func (a *author) apply(id sluice.SaleID) {
	held := a.model.sales[id]
	a.add(step{
		act: doApply, sale: id, epoch: held.epoch + pick(a, int64(0), 0, 0, 0, 0, 0, 0, 0, -1, 1),
		terms: a.randomTerms(held.terms, held.taken()),
	})
}

// reopen lifts what refuses, so that the script goes on selling.
func (a *author) reopen(id sluice.SaleID) {
	held := a.model.sales[id]
	terms := held.terms
	terms.Version++
	terms.Paused, terms.OpensAt, terms.ClosesAt = false, a.now.Add(-time.Hour), time.Time{}
	terms.MaxPerBuyer, terms.MaxOrders, terms.MaxUnpaid = pick(a, unlimited, 3, 6), unlimited, pick(a, int64(0), 3)
	a.add(step{act: doFence, sale: id, epoch: held.epoch})
	a.add(step{act: doApply, sale: id, epoch: held.epoch, terms: terms})
}

func (a *author) fence(id sluice.SaleID) {
	a.add(step{
		act: doFence, sale: id, epoch: a.model.sales[id].epoch + pick(a, int64(0), 0, 0, 1),
		reason: pick(a, "", "", "a", "b"),
	})
}

// release gives some orders back, perhaps again, perhaps of another epoch.
func (a *author) release(id sluice.SaleID) {
	held := a.model.sales[id]
	s := step{act: doRelease, sale: id}
	for range min(len(held.records), pick(a, 1, 2, 10, 30)) {
		r := pick(a, held.records...)
		release := releaseOf(id, r.Claim, held.epoch-pick(a, int64(0), 0, 0, 1))
		release.Unpaid = a.IntN(2) == 0
		s.ended = append(s.ended, release)
	}
	if a.IntN(8) == 0 {
		stranger := sluice.Claim{
			Buyer: "stranger", Key: "attempt-1", Quantity: 1,
			Order: id.Order(fmt.Sprintf("%032x", a.IntN(99))),
		}
		s.ended = append(s.ended, releaseOf(id, stranger, held.epoch+pick(a, int64(0), 0, 1)))
	}
	if len(s.ended) > 0 {
		a.add(s)
	}
}

// load loads the next epoch with what a store would know: all that was
// accepted, of which some orders have ended meanwhile.
func (a *author) load(id sluice.SaleID) {
	image := port.LoadImage{Sale: id, Epoch: 1, Terms: total(pick(a, int64(60), 200, 1000))}
	if held := a.model.sales[id]; held != nil {
		image.Epoch = held.epoch + pick(a, int64(1), 1, 1, 3, 0)
		image.Terms = held.terms
		image.Terms.Version++
		for _, r := range held.records {
			if r.Live && a.IntN(4) == 0 {
				r.Live, r.Unpaid = false, a.IntN(2) == 0
			}
			image.Records = append(image.Records, r)
			if r.Live {
				image.Taken += r.Quantity
			}
		}
	}
	a.add(step{act: doLoad, sale: id, image: image})
	if a.IntN(4) > 0 {
		a.add(step{act: doFence, sale: id, epoch: image.Epoch})
	}
}

// describe makes a failure of a script repeatable.
func describe(seed uint64, n int, s *step, wrong []string) error {
	return fmt.Errorf("seed %d, step %d (%s): %s", seed, n, s, strings.Join(wrong, "\n"))
}

// versionsOf returns every version of the terms that a script has made valid
// for the sale since its last load.
func versionsOf(steps []step, id sluice.SaleID) map[int64]sluice.Terms {
	versions := map[int64]sluice.Terms{}
	for i := range steps {
		switch s := &steps[i]; {
		case s.sale != id || s.err != nil:
		case s.act == doLoad:
			clear(versions)
			versions[s.image.Terms.Version] = s.image.Terms
		case s.act == doApply && s.terms.Version > slices.Max(slices.Collect(maps.Keys(versions))):
			versions[s.terms.Version] = s.terms
		}
	}
	return versions
}
