package audit

import (
	"slices"
	"strings"

	"github.com/sluicehq/sluice"
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

// join sorts claims, orders, journal and letters by order id.
func (b *book) join() *joined {
	j := &joined{}
	for _, rows := range [][]row{b.claims, b.orders, b.journal, b.letters} {
		slices.SortFunc(rows, byOrder)
	}
	for i := range b.letters {
		if l := &b.letters[i]; find(b.orders, l) == nil {
			j.setAside.add(b.name(l))
		}
	}
	if b.ledgerErr != nil {
		return j
	}
	j.newer = b.last.Seq - b.first.Seq

	var alone []row // claims without an order, then orders without a claim
	for i := range b.claims {
		if c := &b.claims[i]; !b.placeClaim(j, c) {
			alone = append(alone, *c)
		}
	}
	claimsAlone := len(alone)
	for i := range b.orders {
		o := &b.orders[i]
		if find(b.claims, o) != nil {
			continue
		}
		alone = append(alone, *o)
		b.judgeStray(o, &j.extra, &j.beyond)
	}
	for i := range b.journal {
		if e := &b.journal[i]; find(b.claims, e) == nil {
			b.judgeStray(e, &j.orphans, &j.beyond)
		}
	}
	b.twoAnswers(j, alone[:claimsAlone], alone[claimsAlone:])
	return j
}

func (b *book) name(r *row) func() string {
	return func() string { return b.names.order(r) }
}

// placeClaim says where the claim is now. It returns false when it is not
// stored.
func (b *book) placeClaim(j *joined, c *row) (stored bool) {
	if o := find(b.orders, c); o != nil {
		switch {
		case !o.sameClaim(c):
			j.differ.add(b.name(c))
		case c.live && o.live:
			j.storedUnits += c.quantity
		case c.live:
			j.returningUnits += c.quantity
		case o.live:
			// An order ends in the store first, and the store was read last.
			j.resold.add(b.name(c))
		case c.unpaid != o.unpaid:
			j.unpaid.add(b.name(c))
		}
		return true
	}
	var units *int64
	switch e := find(b.journal, c); {
	case e != nil && !e.sameClaim(c):
		j.differ.add(b.name(c))
		return false
	case e != nil:
		j.inFlight++
		units = &j.flightUnits
	case find(b.letters, c) != nil:
		units = &j.asideUnits
	default:
		j.lost.add(b.name(c))
		return false
	}
	if c.live {
		*units += c.quantity
	}
	return false
}

// judgeStray judges what is stored or in the journal without a claim among
// those that were read: it is newer than they are, or wrong.
func (b *book) judgeStray(r *row, wrong, beyond *list) {
	switch {
	case r.epoch != b.first.Epoch || r.seq <= b.first.Seq:
		wrong.add(b.name(r))
	case r.seq > b.last.Seq:
		beyond.add(b.name(r))
	}
}

// twoAnswers looks for claim ids that have one order in the ledger and another
// in the store.
func (b *book) twoAnswers(j *joined, claims, orders []row) {
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
func (b *book) oneOrder(j *joined) (c finding) {
	if b.ledgerErr == nil {
		b.compareSides(&c, j)
	}
	c.offence(&j.setAside, "%d accepted claims are set aside as dead letters and have no order")
	c.fact("store: %d orders", len(b.orders))
	if b.ledgerErr == nil {
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

func (b *book) compareSides(c *finding, j *joined) {
	where := "%d accepted claims are neither in the journal nor in the store"
	if b.damaged+b.damagedAsides > 0 {
		where += ", unless in what is damaged"
	}
	c.offence(&j.lost, where)
	c.offence(&j.extra, "%d orders have no accepted claim in the ledger")
	c.offence(&j.orphans, "%d claims in the journal are not on record in the ledger")
	c.offence(&j.beyond, "%d stored or queued claims are beyond the ledger's sequence")
	c.offence(&j.differ, "%d claims differ between ledger and store or journal")
	if !b.first.Loaded {
		c.fact("ledger: never loaded, no claims")
		return
	}

	slices.SortFunc(b.claims, byPlace)
	missing := gaps(b.claims, b.first.Epoch, b.first.Seq)
	c.offence(&missing, "ledger: %d places of the sequence have no claim")
	if reason := b.first.Fence; strings.HasPrefix(reason, sluice.FenceLost) {
		c.fault("ledger: it has lost accepted claims (fenced: %s)", reason)
	} else if reason != "" {
		c.fact("ledger: fenced: %s", reason)
	}
	switch epoch := b.first.Epoch; {
	case epoch < b.stored.LoadedEpoch:
		c.fault("the ledger is at epoch %d, but epoch %d was loaded into it", epoch, b.stored.LoadedEpoch)
	case epoch > b.stored.Epoch:
		c.fault("the ledger is at epoch %d, but the store has only counted %d loads", epoch, b.stored.Epoch)
	}
	c.fact("ledger: %d claims, sequence %d of epoch %d", len(b.claims), b.first.Seq, b.first.Epoch)
	if n := earlierGaps(b.claims, b.first.Epoch); n > 0 {
		// A rebuild claims what it finds anew, in its own epoch, or lists it.
		c.fact("%d places of earlier epochs were claimed anew or lost before a rebuild", n)
	}
}
