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
	report *sluice.ReconcileReport

	first, second sluice.Reading
	claims        map[claimKey]claimState
	unitsLive     int64           // of the claims up to the first reading
	newer         map[int64]int64 // units of the claims after it that were met anywhere, by sequence
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

	blamed map[sluice.DifferenceClass]int64 // differences that a rebuild repairs
	why    string                           // the first of them; the reason of the fence
}

// blame reports a difference that only a rebuild repairs: what the ledger holds
// is wrong, and not merely late.
func (c *comparison) blame(class sluice.DifferenceClass, order sluice.OrderID, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	note(found(c.report, class, order), "%s", why)
	if c.why == "" {
		c.why = why
	}
	if c.blamed == nil {
		c.blamed = map[sluice.DifferenceClass]int64{}
	}
	c.blamed[class]++
}

// isNewer notes a claim or order after the first reading, and reports that it
// is one.
func (c *comparison) isNewer(epoch, seq, quantity int64) bool {
	if epoch != c.first.Epoch || seq <= c.first.Seq {
		return false
	}
	c.newer[seq] = max(c.newer[seq], quantity) // a torn transaction may have left another there
	return true
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
	unpaid   bool // ended unpaid
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
		c.report.Of(sluice.InFlight).Count += last.Seq - c.first.Seq
	}
	return err
}

func (c *comparison) readClaims(ctx context.Context) (err error) {
	c.claims = make(map[claimKey]claimState, c.first.Seq)
	c.strays, c.newer = map[sluice.OrderID]bool{}, map[int64]int64{}
	err = c.ledger.Records(ctx, c.sale, func(r sluice.Record) bool {
		key := keyOf(r.Order)
		if before, twice := c.claims[key]; twice && !before.live {
			return true // told twice, before and after its units returned
		}
		// A key of its own, or each would keep what the record was read from.
		c.claims[claimKey(strings.Clone(string(key)))] = claimState{
			quantity: int32(r.Quantity), live: r.Live, newer: c.isNewer(r.Epoch, r.Seq, r.Quantity),
			unpaid: r.Unpaid,
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
			newer := c.isNewer(e.Epoch, e.FirstSeq+int64(i), e.Claims[i].Quantity)
			if _, known := c.place(e.Claims[i].Order); known && !newer {
				c.report.Of(sluice.InFlight).Count++
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
			c.isNewer(letters[i].Epoch, letters[i].FirstSeq+int64(j), claims[j].Quantity)
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
	newer := c.isNewer(o.Epoch, o.Seq, o.Quantity)
	switch {
	case !known && newer:
	case known && int64(claim.quantity) != o.Quantity: // neither ever changes
		c.blame(sluice.Drift, o.ID, "%s holds %d units in the ledger, and %d in the store", o.ID, claim.quantity, o.Quantity)
	case !known, live && !claim.live:
		c.orphans = append(c.orphans, *o)
	case !live && !claim.live && c.stored.MaxUnpaid != 0 && claim.unpaid != o.Unpaid: // neither changes after the end (I3)
		c.blame(sluice.Drift, o.ID, "%s ended unpaid: %v in the ledger, %v in the store", o.ID, claim.unpaid, o.Unpaid)
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
			c.report.Of(sluice.InFlight).Count++
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
			c.orphan(o.ID)
		case err != nil:
			return err
		case !record.Live: // it has returned meanwhile
		default:
			history, err := c.store.History(ctx, o.ID)
			if err != nil {
				return err
			}
			if history[0].To == sluice.Rejected { // its units were never the store's
				c.blame(sluice.OrphanHold, o.ID, "%s is beyond the cap", o.ID)
				continue
			}
			found(c.report, sluice.LostRelease, o.ID)
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
			c.orphan(o.ID)
		}
	}
	return nil
}

func (c *comparison) orphan(order sluice.OrderID) {
	c.blame(sluice.OrphanOrder, order, "the ledger does not hold the units of order %s, which is stored", order)
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
			note(found(c.report, sluice.LostOrder, r.Order), "%s has given its units back; nobody knows how it ended", r.Order)
		case r.Epoch != c.first.Epoch:
			c.blame(sluice.OrphanHold, r.Order, "%s was accepted in epoch %d", r.Order, r.Epoch)
		default:
			found(c.report, sluice.LostOrder, r.Order)
			c.restore = append(c.restore, *r)
		}
	}
	return nil
}

// judgeCounters compares counters with sums.
func (c *comparison) judgeCounters(ctx context.Context) error {
	if c.stored.Taken != c.unitsStored { // of one moment
		note(found(c.report, sluice.Drift, ""), "the store says %d taken, its live orders hold %d", c.stored.Taken, c.unitsStored)
		c.recount = true
	}
	if c.ledgerAddsUp() {
		return nil
	}
	again := &comparison{Reconciler: c.Reconciler, sale: c.sale, report: &sluice.ReconcileReport{}}
	if err := again.gather(ctx); err != nil {
		return err
	}
	if again.report.Skipped != "" {
		return errMoved
	}
	if !again.ledgerAddsUp() {
		c.blame(sluice.Drift, "", "the ledger says %d taken, its live claims hold %d", again.first.Taken, again.unitsLive)
	}
	return nil
}

// ledgerAddsUp compares the ledger's counter with its claims. Those up to the
// first reading were read after it and before the second. So the first counter
// counts all that were found live, and more that were released since; and the
// second counts none but those, and what was accepted in between. That is
// known once every sequence in between was met: in the records, the journal, a
// dead letter or the store.
func (c *comparison) ledgerAddsUp() bool {
	if c.unitsLive > c.first.Taken {
		return false
	}
	most := c.unitsLive
	for seq := c.first.Seq + 1; seq <= c.second.Seq; seq++ {
		units, met := c.newer[seq]
		if !met {
			return true // on its way; the next reconciliation will see
		}
		most += units
	}
	return c.second.Taken <= most
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
			c.blame(sluice.Drift, "", "version %d of the terms: the store has %s, the ledger %s", t.Version, describeTerms(&t), describeTerms(&have))
		}
		return
	}
	c.blame(sluice.Drift, "", "the store does not have version %d of the terms, by which the ledger decides", have.Version)
}

func describeTerms(t *sluice.Terms) string {
	return fmt.Sprintf("total %d, %d units, %d orders and %d unpaid endings a buyer, open from %d to %d, paused %v",
		t.Total, t.MaxPerBuyer, t.MaxOrders, t.MaxUnpaid, t.OpensAt.UnixMilli(), t.ClosesAt.UnixMilli(), t.Paused)
}
