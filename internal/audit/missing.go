package audit

// Missing is what a store lacks of what its ledger has on record.
type Missing struct {
	Live  []Row // claims that hold units, without an order, and neither in the journal nor set aside
	Ended []Row // claims that have ended, without an order
	Over  []Row // orders that live, and have ended in the ledger
	// Undecided are records that a batch left which was never decided (docs/adr/0007): no
	// buyer was promised anything. Their places are other claims', or beyond the ledger's
	// own sequence. Known only of a ledger that stands still.
	Undecided []Row
}

// Missing compares the sides. It is called before any check.
func (b *Book) Missing() (m Missing) {
	var without []Row
	b.Each(func(match Match) {
		switch c, o := match.Claim, match.Order; {
		case c == nil:
		case o != nil:
			if o.Live && !c.Live {
				m.Over = append(m.Over, *o)
			}
		case !c.Live, match.Entry == nil && match.Letter == nil:
			without = append(without, *c)
		}
	})
	holders := b.holders(without)
	for i := range without {
		r := &without[i]
		// A live claim of an earlier epoch, which a load has brought in, has its place from another
		// ledger, which gave it again after the store had become an older copy.
		loaded := r.Live && r.Epoch < b.First.Epoch
		switch {
		case holders[place{r.Epoch, r.Seq}].order != r.order && !loaded:
			m.Undecided = append(m.Undecided, *r)
		case r.Live:
			m.Live = append(m.Live, *r)
		default:
			m.Ended = append(m.Ended, *r)
		}
	}
	if b.First.Fence != "" {
		m.Undecided = append(m.Undecided, b.later...)
	}
	return m
}

// place is where a claim stands among the accepted ones.
type place struct{ epoch, seq int64 }

// holders returns who has the places of these rows: an order, a claim of the journal, or the
// later one of two on record.
func (b *Book) holders(rows []Row) map[place]*Row {
	at := make(map[place]*Row, len(rows))
	for i := range rows {
		at[place{rows[i].Epoch, rows[i].Seq}] = &rows[i]
	}
	for _, side := range []struct {
		rows  []Row
		newer bool // alone takes the place
	}{{b.claims, true}, {b.journal, false}, {b.orders, false}} {
		for i := range side.rows {
			r := &side.rows[i]
			if h := at[place{r.Epoch, r.Seq}]; h != nil && (!side.newer || h.at < r.at) {
				at[place{r.Epoch, r.Seq}] = r
			}
		}
	}
	return at
}

// LastStored returns the last sequence of the ledger's epoch that the store has, as an order
// or set aside. It is not known while an entry or a dead letter is damaged: any claim may be
// in that.
func (b *Book) LastStored() (last int64, known bool) {
	for _, rows := range [][]Row{b.orders, b.letters} {
		for i := range rows {
			if rows[i].Epoch == b.First.Epoch {
				last = max(last, rows[i].Seq)
			}
		}
	}
	return last, b.damaged+b.damagedAsides == 0
}

// Beyond returns how many units store and journal have beyond what the ledger has taken; 0 if
// it accepted or took back any while it was read. A unit is taken in the ledger before it is in
// the store, and returns in the store before it does in the ledger: so there should be none.
func (b *Book) Beyond() int64 {
	if b.First.Seq != b.Last.Seq || b.First.Taken != b.Last.Taken {
		return 0
	}
	units := b.StoredUnits()
	for i := range b.journal {
		if e := &b.journal[i]; e.Epoch == b.First.Epoch && find(b.orders, e) == nil {
			units += e.Quantity
		}
	}
	return max(units-b.First.Taken, 0)
}

// Unpaid calls do for the orders that wait for their payment.
func (b *Book) Unpaid(do func(order *Row)) {
	for i := range b.orders {
		if o := &b.orders[i]; o.Live && !o.Paid {
			do(o)
		}
	}
}
