package audit

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// joined is what holding the ledger's claims against the store's orders gave.
type joined struct {
	inFlight int64 // claims that are in the journal and not stored
	newer    int64 // claims accepted after the first reading

	lost     list // claims that are nowhere else
	setAside list // claims in a dead letter, without an order
	extra    list // orders without a claim
	orphans  list // in the journal, without a claim
	beyond   list // stored or in the journal, with a sequence the ledger has not reached
	differ   list // claims whose order, or journal entry, says something else
	answers  list // one claim id, another order on each side
	resold   list // orders that live while the ledger has their units back
	unpaid   list // ended claims whose ending is unpaid on one side only

	// Units of the ledger's live claims, by where the store has them.
	storedUnits, flightUnits, returningUnits, asideUnits int64
}

// A Match is what a book has of one order id. A claim without an order has what
// else is known of it.
type Match struct{ Claim, Order, Entry, Letter *Row }

// Differs reports whether the claim's order, or its journal entry, says something else
// than the claim: what is accepted never changes.
func (m *Match) Differs() bool {
	other := m.Order
	if other == nil {
		other = m.Entry
	}
	return m.Claim != nil && other != nil && !other.sameClaim(m.Claim)
}

// Each calls do for every claim up to the first reading; then for every order,
// and then for every claim of the journal, without one. It is called before any
// check.
func (b *Book) Each(do func(m Match)) {
	for i := range b.claims {
		m := Match{Claim: &b.claims[i]}
		if m.Order = find(b.orders, m.Claim); m.Order == nil {
			m.Entry, m.Letter = find(b.journal, m.Claim), find(b.letters, m.Claim)
		}
		do(m)
	}
	for i := range b.orders {
		if o := &b.orders[i]; find(b.claims, o) == nil {
			do(Match{Order: o})
		}
	}
	for i := range b.journal {
		if e := &b.journal[i]; find(b.claims, e) == nil {
			do(Match{Entry: e})
		}
	}
}

// Newer reports whether a claim or order is later than the first reading.
func (b *Book) Newer(r *Row) bool { return r.Epoch == b.First.Epoch && r.Seq > b.First.Seq }

// join judges what the sides say of each other. It comes before all other checks.
func (b *Book) join() *joined {
	j := &joined{}
	for i := range b.letters {
		if l := &b.letters[i]; find(b.orders, l) == nil {
			j.setAside.add(b.name(l))
		}
	}
	if b.LedgerErr != nil {
		return j
	}
	j.newer = b.Last.Seq - b.First.Seq
	var claims, orders []Row // without the other
	b.Each(func(m Match) {
		switch {
		case m.Claim != nil:
			b.placeClaim(j, &m)
			if m.Order == nil {
				claims = append(claims, *m.Claim)
			}
		case m.Order != nil:
			orders = append(orders, *m.Order)
			b.judgeStray(m.Order, &j.extra, &j.beyond)
		default:
			b.judgeStray(m.Entry, &j.orphans, &j.beyond)
		}
	})
	b.twoAnswers(j, claims, orders)
	return j
}

func (b *Book) name(r *Row) func() string {
	return func() string { return string(b.OrderID(r)) }
}

// placeClaim says where the claim is now.
func (b *Book) placeClaim(j *joined, m *Match) {
	c, o, e := m.Claim, m.Order, m.Entry
	var units *int64 // of a live claim
	switch {
	case m.Differs():
		j.differ.add(b.name(c))
		return
	case o != nil && c.Live && o.Live:
		units = &j.storedUnits
	case o != nil && c.Live:
		units = &j.returningUnits
	case o != nil && o.Live:
		// An order ends in the store first, and the store was read last.
		j.resold.add(b.name(c))
		return
	case o != nil:
		if c.Unpaid != o.Unpaid {
			j.unpaid.add(b.name(c))
		}
		return
	case e != nil:
		j.inFlight++
		units = &j.flightUnits
	case m.Letter != nil:
		units = &j.asideUnits
	default:
		j.lost.add(b.name(c))
		return
	}
	if c.Live {
		*units += c.Quantity
	}
}

// judgeStray judges what is stored or in the journal without a claim among
// those that were read: it is newer than they are, or wrong.
func (b *Book) judgeStray(r *Row, wrong, beyond *list) {
	switch {
	case !b.Newer(r):
		wrong.add(b.name(r))
	case r.Seq > b.Last.Seq:
		beyond.add(b.name(r))
	}
}

// twoAnswers looks for claim ids that have one order in the ledger and another
// in the store.
func (b *Book) twoAnswers(j *joined, claims, orders []Row) {
	slices.SortFunc(claims, byClaim)
	slices.SortFunc(orders, byClaim)
	for i := range claims {
		c := &claims[i]
		if n, ok := slices.BinarySearchFunc(orders, *c, byClaim); ok {
			o := &orders[n]
			j.answers.add(func() string { return b.names.order(c) + " and " + b.names.order(o) })
		}
	}
}

// oneOrder is I5: the ledger's sequence has no gap, each of its claims is an
// order, or on the way to be one, and says the same there, and no order is
// without a claim.
func (b *Book) oneOrder(j *joined) (c finding) {
	if b.LedgerErr == nil {
		b.compareSides(&c, j)
	}
	c.offence(&j.setAside, "%d accepted claims are set aside as dead letters and have no order")
	c.fact("store: %d orders", len(b.orders))
	if b.LedgerErr == nil {
		c.fact("%d in flight, %d set aside, %d newer", j.inFlight, j.setAside.n, j.newer)
	}
	if b.damaged > 0 {
		c.fact("%d damaged journal entries", b.damaged)
	}
	if b.damagedAsides > 0 {
		c.fact("%d damaged dead letters", b.damagedAsides)
	}
	return c
}

func (b *Book) compareSides(c *finding, j *joined) {
	where := "%d accepted claims are neither in the journal nor in the store"
	if b.damaged+b.damagedAsides > 0 {
		where += ", unless in what is damaged"
	}
	c.offence(&j.lost, where)
	c.offence(&j.extra, "%d orders have no accepted claim in the ledger")
	c.offence(&j.orphans, "%d claims in the journal are not on record in the ledger")
	c.offence(&j.beyond, "%d stored or queued claims are beyond the ledger's sequence")
	c.offence(&j.differ, "%d claims differ between ledger and store or journal")
	if !b.First.Loaded {
		c.fact("ledger: never loaded, no claims")
		return
	}

	missing := b.holes()
	c.offence(&missing, "ledger: %d places of the sequence have no claim")
	if reason := b.First.Fence; strings.HasPrefix(reason, port.FenceLost) {
		c.fault("ledger: it has lost accepted claims (fenced: %s)", reason)
	} else if reason != "" {
		c.fact("ledger: fenced: %s", reason)
	}
	switch epoch := b.First.Epoch; {
	case epoch < b.Stored.LoadedEpoch:
		c.fault("the ledger is at epoch %d, but epoch %d was loaded into it", epoch, b.Stored.LoadedEpoch)
	case epoch > b.Stored.Epoch:
		c.fault("the ledger is at epoch %d, but the store has only counted %d loads", epoch, b.Stored.Epoch)
	}
	c.fact("ledger: %d claims, sequence %d of epoch %d", len(b.claims), b.First.Seq, b.First.Epoch)
	if n := earlierGaps(b.claims, b.First.Epoch); n > 0 {
		// A rebuild claims what it finds again, in its own epoch, or lists it.
		c.fact("%d places of earlier epochs were claimed again or lost before a rebuild", n)
	}
}

// holes returns the places of the sequence that have no claim. Each comes before it,
// no other reader of the claims' order behind it.
func (b *Book) holes() list {
	slices.SortFunc(b.claims, byPlace)
	return gaps(b.claims, b.First.Epoch, b.First.Seq)
}

// Holes says how many places of the sequence have no claim, and which; 0 if none. It
// comes last, after Each.
func (b *Book) Holes() (n int64, which string) {
	l := b.holes()
	return l.n, l.names()
}

// endings is what the store says of how orders gave their units up.
type endings struct {
	times     map[[16]byte]int64 // by order: how often, by its history
	returning map[[16]byte]bool  // units in the outbox
}

func (b *Book) readEndings(s port.Snapshot, history bool) error {
	b.endings = endings{times: map[[16]byte]int64{}, returning: map[[16]byte]bool{}}
	if history {
		err := s.Endings(func(id sluice.OrderID, times int64) bool {
			if order, ok := b.names.suffix(id); ok {
				b.endings.times[order] = times
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	for i := range b.orders { // one that has ended held units before, whatever its reason says
		b.orders[i].refused = b.orders[i].refused && b.endings.times[b.orders[i].order] == 0
	}
	return s.Returning(func(id sluice.OrderID) bool {
		if order, ok := b.names.suffix(id); ok {
			b.endings.returning[order] = true
		}
		return true
	})
}

// Returning reports whether the units of an order are in the outbox.
func (b *Book) Returning(order *Row) bool { return b.endings.returning[order.order] }

// oneEnd is I6: an order that holds no units has given them up once, by its
// history; one that holds units never has, and returns none. (That the ledger
// takes each order's units back once is its own record's doing: what it says is
// held is summed up by I2, which also finds units that came back too early.)
func (b *Book) oneEnd() (c finding) {
	var twice, never, undead, early list
	ended := 0
	for i := range b.orders {
		o := &b.orders[i]
		times := b.endings.times[o.order]
		switch {
		case times > 1:
			twice.add(b.name(o))
		case o.Live && times > 0:
			undead.add(b.name(o))
		case !o.Live && !o.refused && times == 0:
			never.add(b.name(o))
		}
		if o.Live && b.Returning(o) {
			early.add(b.name(o))
		}
		if !o.Live {
			ended++
		}
	}
	c.offence(&twice, "%d orders ended more than once")
	c.offence(&undead, "%d orders hold units that they have given up before")
	c.offence(&never, "%d orders have ended, and their history does not say how")
	c.offence(&early, "%d orders hold units that are on their way back")
	c.fact("store: %d orders ended, units of %d on their way back", ended, len(b.endings.returning))
	return c
}
