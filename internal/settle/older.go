package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicehq/sluice"
)

// A store may be restored from a copy that is older than its ledger. Then it
// lacks orders that the ledger has acknowledged, endings whose units the ledger has
// taken back, and versions of the terms that it decides by. No other check notices,
// since a ledger is usually ahead of its store. Verify notices it, and the rebuild
// brings back what the ledger's records still have.

// forgotten refuses to load a sale for the first time over one with the same id
// that the ledger holds: it was sold from under a store that is gone, and its
// claims would be forgotten with it (I1, I4). A ledger that cannot be read
// refuses the load by itself.
func (l *Loader) forgotten(ctx context.Context, id sluice.SaleID) error {
	reading, err := l.read(ctx, id)
	if err != nil || !reading.Loaded {
		return nil
	}
	row, err := l.store.Sale(ctx, id)
	if err != nil && !errors.Is(err, sluice.ErrSaleNotFound) {
		return err
	}
	if row.LoadedEpoch > 0 || reading.Epoch <= row.Epoch {
		return nil // or a first load that was not finished
	}
	return &sluice.StateError{Sale: id, Detail: fmt.Sprintf("the ledger holds a sale with this id, in epoch %d, that "+
		"this store has never loaded: restore the store it belongs to, or choose another id", reading.Epoch)}
}

// hold keeps the ledger from accepting more while its records are read, under
// whichever epoch it holds the sale. Also one that is fenced is fenced again: that
// fails where the ledger is not the one that the others use (sluice.Keeper).
func (r *Rebuilder) hold(ctx context.Context, sale *sluice.Sale) (reading sluice.Reading, err error) {
	if reading, err = r.loader.read(ctx, sale.ID); err != nil || !reading.Loaded {
		return reading, err
	}
	err = r.ledger.Fence(ctx, sale.ID, reading.Epoch, cmp.Or(sale.Fence, sluice.FenceLost))
	if err != nil && !errors.Is(err, sluice.ErrNotLoaded) && !errors.Is(err, sluice.ErrStaleEpoch) {
		return reading, err
	}
	return r.loader.read(ctx, sale.ID) // with what was accepted before the fence
}

// adoptTerms gives the store the terms that its ledger decided by, if the store
// has forgotten them: a pause stays, and units that were added are covered. Of
// the versions in between no more is known than that they let pass what was
// accepted, under the limits of now: these are fixed once a sale has opened.
// A version that is further ahead than a store can have forgotten is no version
// of a server: it was written by hand, and the store's terms stay.
func (r *Rebuilder) adoptTerms(ctx context.Context, sale *sluice.Sale, reading *sluice.Reading) error {
	if !reading.Loaded {
		return nil
	}
	for {
		changed, err := r.store.ChangeSale(ctx, sale.ID, func(s *sluice.Sale) error {
			if ahead := reading.Terms.Version - s.Version; ahead <= 0 || ahead > maxForgotten {
				return errUnchanged
			}
			before := s.Terms
			s.Terms = reading.Terms
			if s.Total != sluice.Unlimited && s.Total < s.Taken {
				s.Total = before.Total // what is stored is sold
			}
			if before.Version+1 < reading.Terms.Version {
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
		r.log.Warn("the store had forgotten terms that the ledger decides by", "sale", sale.ID, "version", changed.Version)
		if changed.Version == reading.Terms.Version { // a total that they lowered was decided; the load must not take it back
			return r.store.ConfirmTotal(ctx, sale.ID, changed.Version)
		}
	}
}

// maxForgotten is how many versions of its terms a store may have forgotten: more
// than the changes of a day, one a second.
const maxForgotten = 100_000

// forgotten is what a store has lost of what its ledger knows.
type forgotten struct {
	entries   []sluice.Entry   // live claims, one each
	ended     []sluice.OrderID // claims that have ended; how is unknown
	over      []sluice.Order   // stored orders that live; the ledger has given their units back
	undecided []sluice.OrderID // records of claims that were never decided: no loss
	more      bool             // the ledger has fewer units taken than are stored or in the journal
}

// older reports whether the store lacks claims that were acknowledged, or endings
// whose units the ledger counts as returned. A record that is damaged alone shows
// neither.
func (f *forgotten) older() bool { return f.more || len(f.entries)+len(f.ended) > 0 }

// survey returns what waits in the journal of a fenced sale, and what its store
// has forgotten; endings are written again at once.
func (r *Rebuilder) survey(ctx context.Context, sale *sluice.Sale, reading *sluice.Reading) (survivors []sluice.Entry,
	lost forgotten, err error,
) {
	if survivors, err = r.journal(ctx, sale.ID); err == nil {
		lost, err = r.compare(ctx, sale, reading, survivors)
	}
	if err == nil {
		err = r.endAgain(ctx, sale, reading, &lost)
	}
	return survivors, lost, err
}

// journal returns what waits in the journal of a sale; nothing if the ledger does not hold it.
func (r *Rebuilder) journal(ctx context.Context, sale sluice.SaleID) (entries []sluice.Entry, err error) {
	err = r.ledger.PeekJournal(ctx, sale, func(e sluice.Entry) bool {
		entries = append(entries, e)
		return true
	})
	if errors.Is(err, sluice.ErrNotLoaded) {
		err = nil
	}
	return entries, err
}

// compare returns what the store has forgotten: claims that are on record, and
// neither among the survivors, who are still to be stored, nor in the store, as an
// order or as a dead letter; and endings.
//
// A record whose place a stored order, a survivor or a later claim has, or that is
// beyond the ledger's own sequence, is what is left of a batch that was never
// decided (docs/adr/0007): no buyer was promised anything. That is not so for a live
// one of an epoch before, which a load has brought in: the place is of another ledger,
// which gave it again after the store had become an older copy.
func (r *Rebuilder) compare(ctx context.Context, sale *sluice.Sale, reading *sluice.Reading, survivors []sluice.Entry,
) (f forgotten, err error) {
	type life struct{ live, unpaid, elsewhere bool }
	missing := map[claimKey]life{}   // on record; and nowhere else, or known to be elsewhere, too
	unstored := map[claimKey]int64{} // units of claims that are only in the journal
	places := map[place]holder{}
	err = r.ledger.Records(ctx, sale.ID, func(c sluice.Record) bool {
		key := keyOf(c.Order)
		missing[key] = life{live: c.Live, unpaid: c.Unpaid}
		at := place{c.Epoch, c.Seq}
		if h, taken := places[at]; !taken || h.at.Before(c.At) {
			places[at] = holder{key, c.At}
		}
		return true
	})
	damage := (*sluice.DamageError)(nil)
	if errors.As(err, &damage) {
		r.log.Warn("the ledger's records of buyers are damaged; the store's orders take their place", "sale", sale.ID,
			"count", len(damage.Buyers), "buyers", damage.Buyers[:min(len(damage.Buyers), maxOffenders)])
		err = nil
	}
	if errors.Is(err, sluice.ErrNotLoaded) || len(missing) == 0 && err == nil {
		return f, nil
	}
	if err != nil {
		return f, err
	}
	elsewhere := func(key claimKey) { // its life stays known: it may be stored as well, and its ending not
		if had, known := missing[key]; known {
			had.elsewhere = true
			missing[key] = had
		}
	}
	for i := range survivors {
		e := &survivors[i]
		for j := range e.Claims {
			key := keyOf(e.Claims[j].Order)
			elsewhere(key)
			if e.Epoch == reading.Epoch {
				unstored[key] = e.Claims[j].Quantity
			}
			places[place{e.Epoch, e.FirstSeq + int64(j)}] = holder{key: key}
		}
	}
	err = r.store.Snapshot(ctx, sale.ID, func(s sluice.Snapshot) error {
		letters, err := s.DeadLetters()
		if err != nil {
			return err
		}
		for i := range letters {
			claims, _ := sluice.ParseClaims(letters[i].Claims) // damaged: which is unknown
			for j := range claims {
				if key := keyOf(claims[j].Order); missing[key].live { // not one that had been stored, and has ended
					elsewhere(key)
				}
			}
		}
		units := int64(0)
		defer func() {
			for _, n := range unstored {
				units += n
			}
			f.more = units > reading.Taken
		}()
		return s.Orders(func(o sluice.Order) bool {
			key := keyOf(o.ID)
			delete(unstored, key)
			if record := o.Record(); record.Live {
				units += record.Quantity
			}
			if had, known := missing[key]; known && !had.live && o.Status.Live() {
				o.Unpaid = had.unpaid
				f.over = append(f.over, o)
			}
			delete(missing, key)
			places[place{o.Epoch, o.Seq}] = holder{key: key}
			return true
		})
	})
	if err != nil || len(missing) == 0 {
		return f, err
	}
	err = r.ledger.Records(ctx, sale.ID, func(c sluice.Record) bool {
		key := keyOf(c.Order)
		had, unknown := missing[key]
		delete(missing, key) // a ledger may return one twice
		loaded := had.live && c.Epoch < reading.Epoch
		taken := places[place{c.Epoch, c.Seq}].key != key
		switch {
		case !unknown || had.elsewhere:
		case taken && !loaded || c.Epoch == reading.Epoch && c.Seq > reading.Seq:
			f.undecided = append(f.undecided, c.Order)
		case had.live:
			e := restored(&c)
			e.ID, e.Node = "ledger/"+string(c.Order), r.node
			f.entries = append(f.entries, e)
		default:
			f.ended = append(f.ended, c.Order)
		}
		return true
	})
	if errors.As(err, &damage) {
		err = nil
	}
	slices.SortFunc(f.entries, func(a, b sluice.Entry) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.FirstSeq, b.FirstSeq))
	})
	return f, err
}

// overNow is why an order of an older store ends in a rebuild.
const overNow = "it had ended; the store was restored from an older copy"

// endAgain ends stored orders whose endings the store has forgotten. The ledger has
// given their units back, and sold them since: if the orders lived on, there would
// be none for the claims that were promised these units (I1, I5).
//
// An order ends in the store before the ledger hears of it, so a record that has
// ended proves that its order had; unless a program of another kind wrote the
// record. Then the store is right: it lacks no claim that the ledger knows, and the
// ledger's count has the order's units.
// How an order ended is unknown. One that ended unpaid (I3) becomes expired if its time has
// passed, so that its late payment may take the units again, or finds the claim that has
// (ADR 16); or cancelled, as by its buyer. Others become cancelled. Of payments a ledger
// knows nothing: what is paid stays paid.
func (r *Rebuilder) endAgain(ctx context.Context, sale *sluice.Sale, reading *sluice.Reading, f *forgotten) error {
	if !f.older() || reading.Epoch < sale.Epoch {
		return nil
	}
	var ended, paid []sluice.OrderID
	for i := range f.over {
		o := &f.over[i]
		change := sluice.Change{Order: o.ID, Action: sluice.Expire, By: r.node, Reason: overNow}
		now, err, state := sluice.Order{}, error(nil), (*sluice.OrderStateError)(nil)
		if o.Unpaid {
			now, err = r.store.Change(ctx, change)
			change.Buyer = o.Buyer
		}
		if !o.Unpaid || errors.As(err, &state) && state.Status == sluice.Pending {
			change.Action = sluice.Cancel
			now, err = r.store.Change(ctx, change)
		}
		switch {
		case errors.As(err, &state) && state.Status == sluice.Paid:
			paid = append(paid, o.ID)
		case errors.As(err, &state): // it has ended meanwhile
		case err != nil:
			return err
		case now.Status == sluice.Cancelled, now.Status == sluice.Expired:
			ended = append(ended, o.ID)
		}
	}
	r.tell("the store had forgotten that orders had ended; they end again", sale.ID, ended)
	r.tell("paid orders keep their units, which the ledger had given back: were they refunded?", sale.ID, paid)
	return nil
}

// claimKey is the part of an order id that differs within a sale.
type claimKey string

func keyOf(order sluice.OrderID) claimKey {
	return claimKey(order[strings.LastIndexByte(string(order), '.')+1:])
}

// place is where a claim stands among the accepted ones, and holder the one who
// has it.
type (
	place  struct{ epoch, seq int64 }
	holder struct {
		key claimKey
		at  time.Time
	}
)

// tell logs orders, if there are any.
func (r *Rebuilder) tell(what string, sale sluice.SaleID, orders []sluice.OrderID) {
	if len(orders) > 0 {
		r.log.Warn(what, "sale", sale, "count", len(orders), "orders", orders[:min(len(orders), maxOffenders)])
	}
}
