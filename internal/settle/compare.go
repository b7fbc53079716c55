package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/port"
)

// comparison is one look at a sale.
type comparison struct {
	*Reconciler
	*audit.Book
	sale   sluice.SaleID
	report *sluice.ReconcileReport

	// Suspects, by what they may be.
	strays  []audit.Row // claims without an order
	ended   []audit.Row // orders that have ended, with a live claim
	orphans []audit.Row // orders without a claim, or living without their units

	restore  []port.Record // lost orders, looked at twice
	reissue  []sluice.OrderID
	recount  bool
	complete bool // every part was compared

	blamed     map[sluice.DifferenceClass]int64 // differences that a rebuild repairs
	why        string                           // the first of them; the reason of the fence
	storeOlder string                           // what proves that the store is older than its ledger
}

// prove reports a difference that proves that the store is older than its ledger.
func (c *comparison) prove(class sluice.DifferenceClass, order sluice.OrderID, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	note(found(c.report, class, order), "%s", why)
	c.storeOlder = cmp.Or(c.storeOlder, why)
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

// read takes a reading; it fails with errMoved if the sale is another load's
// than at first, or fenced.
func (c *comparison) read(ctx context.Context) (port.Reading, error) {
	readings, err := c.ledger.Read(ctx, []sluice.SaleID{c.sale})
	if err != nil {
		return port.Reading{}, err
	}
	r := readings[0]
	if c.Book != nil && (!r.Loaded || r.Epoch != c.First.Epoch || r.Fence != "") {
		return r, errMoved
	}
	return r, nil
}

// gather reads everything, unless there is nothing to compare.
func (c *comparison) gather(ctx context.Context) error {
	before, err := c.read(ctx)
	if err != nil {
		return err
	}
	c.report.At = before.Now
	if !before.Loaded || before.Fence != "" {
		sale, err := c.store.Sale(ctx, c.sale)
		switch {
		case err != nil:
			return err
		case !sale.ArchivedAt.IsZero():
			c.report.Skipped = "it is archived"
		case before.Loaded:
			c.report.Skipped = "it is fenced: " + before.Fence
		default:
			c.report.Skipped = "the ledger does not hold it"
		}
		return nil
	}
	b, err := audit.Gather(ctx, c.ledger, c.store, c.sale, audit.Options{})
	var damage *port.DamageError
	switch {
	case err != nil:
		return err
	case !b.Stored.ArchivedAt.IsZero():
		c.report.Skipped = "it is archived"
	case b.Stored.Fence != "":
		c.report.Skipped = "it is fenced: " + b.Stored.Fence
	case errors.Is(b.LedgerErr, audit.ErrMoving) || b.LedgerErr == nil && moved(b):
		return errMoved
	case errors.As(b.LedgerErr, &damage): // nothing else is compared
		c.blame(sluice.Drift, "", "%v", damage)
	case b.LedgerErr != nil:
		return b.LedgerErr
	}
	c.Book, c.report.At = b, b.First.Now
	return nil
}

// moved reports whether the sale was fenced, loaded or dropped while it was read.
func moved(b *audit.Book) bool {
	return !b.First.Loaded || b.First.Fence != "" || b.Last.Fence != "" ||
		b.Stored.Epoch != b.First.Epoch || b.Stored.LoadedEpoch != b.First.Epoch
}

// suspect sorts out what may be wrong, and counts what is on its way.
func (c *comparison) suspect() {
	flying := c.report.Of(sluice.InFlight)
	flying.Count += c.Last.Seq - c.First.Seq
	c.Each(func(m audit.Match) {
		claim, order := m.Claim, m.Order
		switch {
		case m.Differs():
			id := c.OrderID(claim)
			c.blame(sluice.Drift, id, "%s is another claim in the ledger than in the store or journal", id)
		case claim == nil: // the journal's are newer, or those of a torn transaction
			if order != nil && !c.Newer(order) {
				c.orphans = append(c.orphans, *order)
			}
		case order == nil && !claim.Live:
			c.strays = append(c.strays, *claim)
		case order == nil && m.Entry != nil:
			flying.Count++
		case order == nil && m.Letter == nil:
			c.strays = append(c.strays, *claim)
		case order == nil: // set aside
		case order.Live && !claim.Live:
			c.orphans = append(c.orphans, *order)
		case order.Live:
		case claim.Live && c.Returning(order):
			flying.Count++
		case claim.Live:
			c.ended = append(c.ended, *order)
		case c.Stored.MaxUnpaid != 0 && claim.Unpaid != order.Unpaid: // neither changes after the end (I3)
			id := c.OrderID(order)
			c.blame(sluice.Drift, id, "%s ended unpaid: %v in the ledger, %v in the store", id, claim.Unpaid, order.Unpaid)
		}
	})
}

// judge looks at every suspect for the second time.
func (c *comparison) judge(ctx context.Context) error {
	c.suspect()
	for _, look := range []func(context.Context) error{c.judgeEnded, c.judgeOrphans, c.judgeStrays, c.judgeCounters} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	c.judgeTerms()
	if n, which := c.Holes(); n > 0 && c.why == "" && c.storeOlder == "" && len(c.restore) == 0 {
		c.blame(sluice.Drift, "", "%d places of the ledger's sequence have no claim (%s)", n, which)
	}
	// What the second looks saw belongs to this load only if it still stands.
	_, err := c.read(ctx)
	return err
}

// judgeEnded: the snapshot has the order ended, and its release not in the
// outbox. If the ledger counts its units even now, the release is lost.
func (c *comparison) judgeEnded(ctx context.Context) error {
	for i := range c.ended {
		id := c.OrderID(&c.ended[i])
		record, err := c.ledger.Find(ctx, id, c.Buyer(&c.ended[i]))
		switch {
		case errors.Is(err, sluice.ErrOrderNotFound):
			c.orphan(id)
		case err != nil:
			return err
		case !record.Live: // it has returned meanwhile
		default:
			history, err := c.store.History(ctx, id)
			if err != nil {
				return err
			}
			if history[0].To == sluice.Rejected { // its units were never the store's
				c.blame(sluice.OrphanHold, id, "%s is beyond the cap", id)
				continue
			}
			found(c.report, sluice.LostRelease, id)
			c.reissue = append(c.reissue, id)
		}
	}
	return nil
}

func (c *comparison) judgeOrphans(ctx context.Context) error {
	for i := range c.orphans {
		id := c.OrderID(&c.orphans[i])
		record, err := c.ledger.Find(ctx, id, c.Buyer(&c.orphans[i]))
		missing := errors.Is(err, sluice.ErrOrderNotFound)
		if err != nil && !missing {
			return err
		}
		if !missing && record.Live {
			continue
		}
		// An order ends in the store first: if it lives now, after the ledger
		// has given its units back, they can be sold twice.
		now, err := c.store.Order(ctx, id)
		switch {
		case errors.Is(err, sluice.ErrOrderNotFound):
			continue
		case err != nil:
			return err
		case missing:
			c.orphan(id)
		case now.Status.Live():
			c.prove(sluice.OrphanOrder, id, "%s has ended on record, and lives in the store", id)
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
	records, err := recordsOf(ctx, c.ledger, c.Book, c.strays)
	if err != nil {
		return err
	}
	stored, known := c.LastStored()
	for i := range records {
		r := &records[i]
		_, err := c.store.Order(ctx, r.Order)
		switch {
		case err == nil: // stored meanwhile
		case !errors.Is(err, sluice.ErrOrderNotFound):
			return err
		case !r.Live:
			c.prove(sluice.LostOrder, r.Order, "%s has ended on record, and the store has no such order", r.Order)
		case known && r.Epoch == c.First.Epoch && r.Seq > stored:
			c.prove(sluice.LostOrder, r.Order, "the ledger's sequence %d was acknowledged, the store ends at %d", r.Seq, stored)
		case r.Epoch != c.First.Epoch:
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
	if units := c.StoredUnits(); c.Stored.Taken != units { // of one moment
		note(found(c.report, sluice.Drift, ""), "the store says %d taken, its live orders hold %d", c.Stored.Taken, units)
		c.recount = true
	}
	if _, addsUp := c.Held(); addsUp {
		return nil
	}
	again := &comparison{Reconciler: c.Reconciler, sale: c.sale, report: &sluice.ReconcileReport{}}
	if err := again.gather(ctx); err != nil {
		return err
	}
	if again.report.Skipped != "" {
		return errMoved
	}
	if units, addsUp := again.Held(); !addsUp {
		c.blame(sluice.Drift, "", "the ledger says %d taken, its live claims hold %d", again.First.Taken, units)
	}
	return nil
}

// judgeTerms compares the terms that decide with what the store keeps of their
// version. A version never changes, and is in the store first.
func (c *comparison) judgeTerms() {
	have := c.Second.Terms
	t, known := c.Versions[have.Version]
	if !known {
		t = c.Stored.Terms
	}
	why, ahead := foreignTerms(&have, &t)
	switch {
	case ahead:
		c.prove(sluice.Drift, "", "%s", why)
	case why != "":
		c.blame(sluice.Drift, "", "%s", why)
	case !known:
		c.blame(sluice.Drift, "", "the store does not have version %d of the terms, by which the ledger decides",
			have.Version)
	}
}
