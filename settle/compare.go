package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
)

// comparison is one look at a sale.
type comparison struct {
	*Reconciler
	sale   sluice.SaleID
	report *ReconcileReport

	first, second sluice.Reading
	claims        map[claimKey]claimState
	unitsLive     int64 // of the claims up to the first reading
	stored        sluice.Sale
	terms         []sluice.Terms
	unitsStored   int64 // of the live orders in the snapshot

	// Suspects, by what they may be.
	strays  map[sluice.OrderID]bool // claims without an order
	ended   []sluice.Order          // ended, with a live claim
	orphans []sluice.Order          // orders without a claim, or living without their units

	restore []sluice.Record // lost orders, looked at twice
	reissue []sluice.OrderID
	recount bool
	mending bool // the comparison is complete
}

// claimKey is the part of an order id that differs within a sale.
type claimKey string

func keyOf(order sluice.OrderID) claimKey {
	return claimKey(order[strings.LastIndexByte(string(order), '.')+1:])
}

func (c *comparison) orderOf(key claimKey) sluice.OrderID {
	return sluice.MakeOrderID(c.sale, string(key))
}

// claimState is what is known of a claim of the ledger.
type claimState struct {
	quantity int32 // at most sluice.MaxQuantity
	live     bool
	newer    bool // accepted after the first reading
	placed   bool // in the journal, in a dead letter or stored
}

// read takes a reading; it fails with errMoved if the sale is another load's
// than at first, or fenced.
func (c *comparison) read(ctx context.Context) (sluice.Reading, error) {
	readings, err := c.ledger.Read(ctx, []sluice.SaleID{c.sale})
	if err != nil {
		return sluice.Reading{}, err
	}
	r := readings[0]
	if c.first.Loaded && (!r.Loaded || r.Epoch != c.first.Epoch || r.Fence != "") {
		return r, errMoved
	}
	return r, nil
}

// gather reads everything, in the order that Reconciler explains.
func (c *comparison) gather(ctx context.Context) (err error) {
	if c.first, err = c.read(ctx); err != nil {
		return err
	}
	c.report.At = c.first.Now
	if !c.first.Loaded || c.first.Fence != "" {
		sale, err := c.store.Sale(ctx, c.sale)
		switch {
		case err != nil:
			return err
		case !sale.ArchivedAt.IsZero():
			c.report.Skipped = "it is archived"
		case c.first.Loaded:
			c.report.Skipped = "it is fenced: " + c.first.Fence
		default:
			c.report.Skipped = "the ledger does not hold it"
		}
		return nil
	}
	if err := c.readClaims(ctx); err != nil {
		return err
	}
	if err := c.readJournal(ctx); err != nil {
		return err
	}
	if err := c.store.Snapshot(ctx, c.sale, c.readStore); err != nil {
		return err
	}
	switch {
	case !c.stored.ArchivedAt.IsZero():
		c.report.Skipped = "it is archived"
		return nil
	case c.stored.Fence != "":
		c.report.Skipped = "it is fenced: " + c.stored.Fence
		return nil
	case c.stored.Epoch != c.first.Epoch || c.stored.LoadedEpoch != c.first.Epoch:
		return errMoved
	}
	for key, claim := range c.claims {
		if !claim.placed && !claim.newer {
			c.strays[c.orderOf(key)] = true
		}
	}
	if err := c.readOutbox(ctx); err != nil {
		return err
	}
	last, err := c.read(ctx)
	if err == nil {
		c.report.Of(InFlight).Count += last.Seq - c.first.Seq
	}
	return err
}

func (c *comparison) readClaims(ctx context.Context) (err error) {
	c.claims = make(map[claimKey]claimState, c.first.Seq)
	c.strays = map[sluice.OrderID]bool{}
	err = c.ledger.Records(ctx, c.sale, func(r sluice.Record) bool {
		key := keyOf(r.Order)
		if before, twice := c.claims[key]; twice && !before.live {
			return true // told twice, before and after its units returned
		}
		// A key of its own, or each would keep what the record was read from.
		c.claims[claimKey(strings.Clone(string(key)))] = claimState{
			quantity: int32(r.Quantity), live: r.Live, newer: r.Epoch == c.first.Epoch && r.Seq > c.first.Seq,
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, claim := range c.claims {
		if claim.live && !claim.newer {
			c.unitsLive += int64(claim.quantity)
		}
	}
	c.second, err = c.read(ctx)
	return err
}

func (c *comparison) place(order sluice.OrderID) (claim claimState, known bool) {
	key := keyOf(order)
	if claim, known = c.claims[key]; known {
		claim.placed = true
		c.claims[key] = claim
	}
	return claim, known
}

// readJournal counts what is in flight. What it has of claims after the first
// reading is counted with them.
func (c *comparison) readJournal(ctx context.Context) error {
	return c.ledger.PeekJournal(ctx, c.sale, func(e sluice.Entry) bool {
		if e.Damage != nil {
			return true
		}
		for i := range e.Claims {
			if claim, known := c.place(e.Claims[i].Order); known && !claim.newer {
				c.report.Of(InFlight).Count++
			}
		}
		return true
	})
}

func (c *comparison) readStore(s sluice.Snapshot) error {
	c.stored, c.terms = s.Sale(), s.TermsVersions()
	letters, err := s.DeadLetters()
	if err != nil {
		return err
	}
	for i := range letters {
		claims, err := sluice.ParseClaims(letters[i].Claims)
		if err != nil {
			continue
		}
		for j := range claims {
			c.place(claims[j].Order)
		}
	}
	return s.Orders(func(o sluice.Order) bool {
		c.readOrder(&o)
		return true
	})
}

func (c *comparison) readOrder(o *sluice.Order) {
	live := o.Status.Live()
	if live {
		c.unitsStored += o.Quantity
	}
	claim, known := c.place(o.ID)
	switch {
	case !known && o.Epoch == c.first.Epoch && o.Seq > c.first.Seq: // newer
	case !known, live && !claim.live:
		c.orphans = append(c.orphans, *o)
	case !live && claim.live:
		c.ended = append(c.ended, *o)
	}
}

// readOutbox takes those off the suspects whose release waits.
func (c *comparison) readOutbox(ctx context.Context) error {
	if len(c.ended) == 0 {
		return nil
	}
	orders, err := c.store.WaitingReleases(ctx, c.sale)
	if err != nil {
		return err
	}
	waiting := make(map[sluice.OrderID]bool, len(orders))
	for _, id := range orders {
		waiting[id] = true
	}
	suspects := c.ended[:0]
	for _, o := range c.ended {
		if waiting[o.ID] {
			c.report.Of(InFlight).Count++
			continue
		}
		suspects = append(suspects, o)
	}
	c.ended = suspects
	return nil
}

// judge looks at every suspect for the second time.
func (c *comparison) judge(ctx context.Context) error {
	for _, look := range []func(context.Context) error{c.judgeEnded, c.judgeOrphans, c.judgeStrays, c.judgeCounters} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	c.judgeTerms()
	// What the second looks saw is of this load only if it still stands.
	_, err := c.read(ctx)
	return err
}

// judgeEnded: the outbox was read after the order had ended, and did not have
// its release. If the ledger counts its units even now, the release is lost.
func (c *comparison) judgeEnded(ctx context.Context) error {
	for i := range c.ended {
		o := &c.ended[i]
		record, err := c.ledger.Find(ctx, o.ID, o.Buyer)
		switch {
		case errors.Is(err, sluice.ErrOrderNotFound):
			c.report.found(OrphanOrder, o.ID)
		case err != nil:
			return err
		case !record.Live: // it has returned meanwhile
		case o.Reason == sluice.NotCovered: // its units were never the store's
			c.report.found(OrphanHold, o.ID).note("%s is beyond the cap", o.ID)
		default:
			c.report.found(LostRelease, o.ID)
			c.reissue = append(c.reissue, o.ID)
		}
	}
	return nil
}

func (c *comparison) judgeOrphans(ctx context.Context) error {
	for i := range c.orphans {
		o := &c.orphans[i]
		record, err := c.ledger.Find(ctx, o.ID, o.Buyer)
		missing := errors.Is(err, sluice.ErrOrderNotFound)
		if err != nil && !missing {
			return err
		}
		if !missing && record.Live {
			continue
		}
		// An order ends in the store first: if it lives now, after the ledger
		// has given its units back, they can be sold twice.
		now, err := c.store.Order(ctx, o.ID)
		switch {
		case errors.Is(err, sluice.ErrOrderNotFound):
			continue
		case err != nil:
			return err
		case missing || now.Status.Live():
			c.report.found(OrphanOrder, o.ID)
		}
	}
	return nil
}

// judgeStrays reads the ledger's claims again, for the records of those that
// have no order.
func (c *comparison) judgeStrays(ctx context.Context) error {
	if len(c.strays) == 0 {
		return nil
	}
	var records []sluice.Record
	err := c.ledger.Records(ctx, c.sale, func(r sluice.Record) bool {
		if c.strays[r.Order] {
			delete(c.strays, r.Order) // once
			records = append(records, r)
		}
		return true
	})
	if err != nil {
		return err
	}
	for i := range records {
		r := &records[i]
		_, err := c.store.Order(ctx, r.Order)
		switch {
		case err == nil: // stored meanwhile
		case !errors.Is(err, sluice.ErrOrderNotFound):
			return err
		case !r.Live:
			c.report.found(LostOrder, r.Order).note("%s has given its units back; nobody knows how it ended", r.Order)
		case r.Epoch != c.first.Epoch:
			c.report.found(OrphanHold, r.Order).note("%s was accepted in epoch %d", r.Order, r.Epoch)
		default:
			c.report.found(LostOrder, r.Order)
			c.restore = append(c.restore, *r)
		}
	}
	return nil
}

// judgeCounters compares counters with sums.
func (c *comparison) judgeCounters(ctx context.Context) error {
	if c.stored.Taken != c.unitsStored { // of one moment
		c.report.found(Drift, "").note("the store says %d taken, its live orders hold %d", c.stored.Taken, c.unitsStored)
		c.recount = true
	}
	if c.ledgerAddsUp() {
		return nil
	}
	again := &comparison{Reconciler: c.Reconciler, sale: c.sale}
	var err error
	if again.first, err = again.read(ctx); err != nil {
		return err
	}
	if err := again.readClaims(ctx); err != nil || again.ledgerAddsUp() {
		return err
	}
	c.report.found(Drift, "").note("the ledger says %d taken, its live claims hold %d", again.first.Taken, again.unitsLive)
	return nil
}

// ledgerAddsUp compares the ledger's counter with its claims. Those were read
// between two readings: none of them can have been added since the first, and,
// unless something was sold, those that were released are the difference.
func (c *comparison) ledgerAddsUp() bool {
	if c.unitsLive > c.first.Taken {
		return false
	}
	return c.first.Seq != c.second.Seq || c.unitsLive >= c.second.Taken
}

// judgeTerms compares the terms that decide with what the store keeps of their
// version. A version never changes, and is in the store first.
func (c *comparison) judgeTerms() {
	have := c.second.Terms
	for _, t := range c.terms {
		if t.Version != have.Version {
			continue
		}
		if describeTerms(&t) != describeTerms(&have) {
			c.report.found(Drift, "").note("version %d of the terms: the store has %s, the ledger %s", t.Version, describeTerms(&t), describeTerms(&have))
		}
		return
	}
	c.report.found(Drift, "").note("the store does not have version %d of the terms, by which the ledger decides", have.Version)
}

func describeTerms(t *sluice.Terms) string {
	return fmt.Sprintf("total %d, %d units and %d orders a buyer, open from %d to %d, paused %v",
		t.Total, t.MaxPerBuyer, t.MaxOrders, t.OpensAt.UnixMilli(), t.ClosesAt.UnixMilli(), t.Paused)
}
