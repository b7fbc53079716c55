package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/port"
)

// Recover is the way back of a sale whose store is older than its ledger, which a person asks
// for (docs/adr/0019), and of one whose ledger is changed on purpose. Without apply it only
// says what it would do.
//
// The ledger is fenced, so it stands still. Each step can be repeated, and ends what a server
// that was killed has begun: the terms that the ledger decides by; endings, which free units;
// claims that have ended; live ones. The last step gives the sale to its rebuild and moves the
// deadlines, in one transaction: until then it stays fenced for a person, and after that every
// server goes on by itself.
func (r *Rebuilder) Recover(ctx context.Context, id sluice.SaleID, apply bool) (rec sluice.Recovery, err error) {
	rec.Sale = id
	sale, err := r.store.Sale(ctx, id)
	switch {
	case err != nil:
		return rec, err
	case !sale.ArchivedAt.IsZero():
		return rec, sluice.ErrArchived
	case r.loader.Foreign(&sale):
		return r.changeLedger(ctx, &sale, apply)
	case !Outdated(&sale):
		return rec, nil
	case !apply:
		_, _, err = r.survey(ctx, &sale, &rec)
		return rec, err
	}
	held, err := r.underLease(ctx, id, func(ctx context.Context) error {
		now, err := r.store.Sale(ctx, id)
		if err != nil || now.Epoch != sale.Epoch || !Outdated(&now) {
			return err // another server was faster
		}
		return r.bringBack(ctx, &now, &rec)
	})
	if err == nil && !held {
		err = &sluice.StateError{Sale: id, Detail: "a server recovers or loads it at this moment; try again"}
	}
	return rec, err
}

// RecoveredFor is how long no order of a recovered sale expires.
const RecoveredFor = time.Hour

// changeLedger has this server's ledger decide from now on. Claims that wait in the journal of
// the one before are stored by a server that opens it again, as far as there are units for them.
// If the store is older than that one, the sale is recovered from what the store and this ledger have.
func (r *Rebuilder) changeLedger(ctx context.Context, sale *sluice.Sale, apply bool) (rec sluice.Recovery, err error) {
	why, taken := OtherDecides+sale.Ledger, false
	if apply {
		taken, err = r.store.TakeSale(ctx, sale.ID, r.node, SilentAfter, port.FenceLost+": "+why)
	}
	switch {
	case err != nil || !Outdated(sale): // if the store is as new as that ledger, the rebuild has all it needs
	case taken:
		rec, err = r.Recover(ctx, sale.ID, true)
	default:
		_, _, err = r.survey(ctx, sale, &rec)
	}
	rec.Sale, rec.Ledger, rec.Why, rec.Applied = sale.ID, sale.Ledger, why, taken && err == nil
	return rec, err
}

// survey compares both sides, and says what a recovery does.
func (r *Rebuilder) survey(ctx context.Context, sale *sluice.Sale, rec *sluice.Recovery) (b *audit.Book,
	missing audit.Missing, err error,
) {
	if b, err = r.book(ctx, sale.ID); err != nil {
		return nil, missing, err
	}
	missing = b.Missing()
	rec.Why = sale.Fence
	if _, ahead := foreignTerms(&b.First.Terms, &sale.Terms); ahead && b.First.Loaded {
		rec.Terms = fmt.Sprintf("version %d instead of %d: %s", b.First.Terms.Version, sale.Version,
			describeTerms(&b.First.Terms))
	}
	list := func(of *sluice.RecoveredOrders, rows []audit.Row) {
		for i := range rows {
			of.Add(b.OrderID(&rows[i]))
		}
	}
	list(&rec.Stored, missing.Live)
	list(&rec.StoredEnded, missing.Ended)
	list(&rec.Ended, missing.Over)
	rec.Payments = paymentsOf(b, &missing)
	return b, missing, nil
}

// paymentsOf lists the orders of which the store may have forgotten a payment, or that it was given
// back: no ledger knows of either. Those of a free sale have none.
func paymentsOf(b *audit.Book, missing *audit.Missing) []sluice.RecoveredOrders {
	due := sluice.RecoveredOrders{Reason: string(sluice.RefundDue)}
	pending := sluice.RecoveredOrders{Reason: string(sluice.Pending)}
	ended := sluice.RecoveredOrders{Reason: "ended"}
	over := make(map[sluice.OrderID]bool, len(missing.Over))
	for i := range missing.Over {
		o := &missing.Over[i]
		over[b.OrderID(o)] = true
		switch {
		case o.Free:
		case o.Paid:
			due.Add(b.OrderID(o))
		default:
			ended.Add(b.OrderID(o))
		}
	}
	if !b.Stored.Free {
		for i := range missing.Live {
			pending.Add(b.OrderID(&missing.Live[i]))
		}
		for i := range missing.Ended {
			ended.Add(b.OrderID(&missing.Ended[i]))
		}
	}
	b.Unpaid(func(o *audit.Row) {
		if id := b.OrderID(o); !over[id] {
			pending.Add(id)
		}
	})
	return []sluice.RecoveredOrders{due, pending, ended}
}

// bringBack does what Recover says, under the lease of the sale.
func (r *Rebuilder) bringBack(ctx context.Context, sale *sluice.Sale, rec *sluice.Recovery) error {
	r.of(sale) // notes since when the database refuses a claim, which is set aside after a while
	reading, err := r.hold(ctx, sale)
	if err != nil {
		return err
	}
	b, missing, err := r.survey(ctx, sale, rec)
	if err != nil {
		return err
	}
	if reading.Loaded {
		if err := r.adoptTerms(ctx, sale, &reading.Terms); err != nil {
			return err
		}
	}
	if err := r.endAgain(ctx, b, missing.Over); err != nil {
		return err
	}
	ended, err := recordsOf(ctx, r.ledger, b, missing.Ended)
	if err != nil {
		return err
	}
	left, err := r.store.InsertEnded(ctx, sale.ID, ended, r.node, endedBefore)
	if err != nil {
		return err
	}
	r.tell("claims that had ended cannot be stored: the store has another order in their place", sale.ID, left)
	if _, err := r.restore(ctx, sale.ID, b, missing.Live); err != nil {
		return err
	}
	rec.NoExpiryBefore, err = r.store.Recovered(ctx, sale.ID, sale.Epoch, sale.Fence, RecoveredFor)
	if rec.Applied = err == nil; rec.Applied {
		r.log.Warn("a sale is recovered from its ledger, since its store was older; its rebuild follows", "sale", sale.ID,
			"stored", rec.Stored.Count, "stored_as_ended", rec.StoredEnded.Count, "ended", rec.Ended.Count,
			"refund_due", rec.Payments[0].Count, "pending", rec.Payments[1].Count)
	}
	return err
}

// endedBefore is why an order of an older store ends in a recovery.
const endedBefore = "it had ended; the store was restored from an older copy"

// endAgain ends stored orders whose endings the store has forgotten. The ledger has given their
// units back, and sold them since: if the orders lived on, there would be none for the claims
// that were promised these units (I1, I5).
func (r *Rebuilder) endAgain(ctx context.Context, b *audit.Book, over []audit.Row) error {
	records, err := recordsOf(ctx, r.ledger, b, over)
	for i := range records {
		if err := r.store.EndAgain(ctx, &records[i], r.node, endedBefore); err != nil {
			return err
		}
	}
	return err
}

// restore stores live claims from the ledger's records, each once, as the entries they were.
func (r *Rebuilder) restore(ctx context.Context, sale sluice.SaleID, b *audit.Book, live []audit.Row) (int, error) {
	records, err := recordsOf(ctx, r.ledger, b, live)
	if err != nil {
		return 0, err
	}
	entries := make([]port.Entry, len(records))
	for i := range records {
		entries[i] = restored(&records[i])
		entries[i].ID, entries[i].Node = "ledger/"+string(records[i].Order), r.node
	}
	slices.SortFunc(entries, func(a, b port.Entry) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.FirstSeq, b.FirstSeq))
	})
	stored, _, err := r.save(ctx, sale, entries)
	return stored, err
}

// hold keeps the ledger from accepting more while its records are read, under
// whichever epoch it holds the sale. Also one that is fenced is fenced again: that
// fails where the ledger is not the one that the others use (port.Keeper).
func (r *Rebuilder) hold(ctx context.Context, sale *sluice.Sale) (reading port.Reading, err error) {
	if reading, err = r.loader.read(ctx, sale.ID); err != nil || !reading.Loaded {
		return reading, err
	}
	err = r.ledger.Fence(ctx, sale.ID, reading.Epoch, cmp.Or(sale.Fence, port.FenceLost))
	if err != nil && !errors.Is(err, port.ErrNotLoaded) && !errors.Is(err, port.ErrStaleEpoch) {
		return reading, err
	}
	return r.loader.read(ctx, sale.ID) // with what was accepted before the fence
}

// adoptTerms gives the store the terms by which its ledger decided, if the store
// has forgotten them: a pause stays, and units that were added are covered. Of
// the versions in between no more is known than that they let pass what was
// accepted, under the limits of now: these are fixed once a sale has opened.
func (r *Rebuilder) adoptTerms(ctx context.Context, sale *sluice.Sale, terms *sluice.Terms) error {
	for {
		changed, err := r.store.ChangeSale(ctx, sale.ID, func(s *sluice.Sale) error {
			ahead := terms.Version - s.Version
			if ahead <= 0 || ahead > port.MaxForgotten || !s.CreatedAt.Equal(sale.CreatedAt) {
				return errUnchanged
			}
			before := s.Terms
			s.Terms = *terms
			if s.Total != sluice.Unlimited && s.Total < s.Taken {
				s.Total = before.Total // what is stored is sold
			}
			if before.Version+1 < terms.Version {
				s.Paused, s.ClosesAt = false, time.Time{}
				if before.OpensAt.Before(s.OpensAt) {
					s.OpensAt = before.OpensAt
				}
			}
			return nil
		})
		if errors.Is(err, errUnchanged) {
			return nil
		}
		if err != nil {
			return err
		}
		r.log.Warn("the store had forgotten terms of a sale: it has them again", "sale", sale.ID, "version", changed.Version)
		if changed.Version == terms.Version { // a total that they lowered was decided; the load must not take it back
			return r.store.ConfirmTotal(ctx, sale.ID, changed.Version)
		}
	}
}

// tell logs orders, if there are any.
func (r *Rebuilder) tell(what string, sale sluice.SaleID, orders []sluice.OrderID) {
	if len(orders) > 0 {
		r.log.Warn(what, "sale", sale, "count", len(orders), "orders", orders[:min(len(orders), maxOffenders)])
	}
}
