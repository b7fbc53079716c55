package settle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicehq/sluice"
)

// Verify compares ledger and store when a server first sees an epoch of a sale,
// or a sequence that went backwards. If one of them has forgotten what the
// other knows, it fences the sale, whose rebuild follows, and reports true. Until
// it has reported false, nothing else may store the sale's journal: what it holds
// may need the units of orders that had ended, and the rebuild ends these first.
func (r *Rebuilder) Verify(ctx context.Context, sale *sluice.Sale) (fenced bool, err error) {
	if err := r.loader.Verify(ctx, sale); err != nil {
		return false, err
	}
	why, reading, err := r.olderStore(ctx, sale)
	if err == nil && why != "" {
		err = r.loader.lost(ctx, sale, &reading, why)
	}
	if err != nil {
		return false, err
	}
	now, err := r.store.Sale(ctx, sale.ID)
	return now.Fence != "", err
}

// olderStore says why the store must be older than its ledger, if it must.
// Everything is in the store before the ledger may rely on it: terms before
// they are applied, claims before they are acknowledged. So the ledger is read
// first, and the store may only have more.
func (r *Rebuilder) olderStore(ctx context.Context, sale *sluice.Sale) (why string, reading sluice.Reading, err error) {
	if reading, err = r.loader.read(ctx, sale.ID); err != nil {
		return "", reading, err
	}
	if !reading.Loaded || reading.Epoch != sale.Epoch || reading.Fence != "" {
		return "", reading, nil // another matter, which Follow sees
	}
	acked, waiting, err := r.acknowledged(ctx, &reading)
	if err != nil {
		return "", reading, err
	}
	row, err := r.store.Sale(ctx, sale.ID)
	if err != nil {
		return "", reading, err
	}
	if why := foreignTerms(&reading.Terms, &row.Terms); why != "" {
		return why, reading, nil
	}
	stored, err := r.store.LastSeq(ctx, sale.ID, sale.Epoch)
	if err != nil {
		return "", reading, err
	}
	if stored < acked {
		aside, known, err := r.lastAside(ctx, sale)
		if err != nil || known && aside < acked {
			return fmt.Sprintf("the ledger's sequence %d was acknowledged, the store ends at %d: it is older than its ledger",
				acked, max(stored, aside)), reading, err
		}
	}
	if row.Taken+waiting <= reading.Taken {
		return "", reading, nil
	}
	return r.countsMore(ctx, sale)
}

// countsMore says why the store must be older than its ledger, if it counts more
// units than the ledger: then it lacks endings. A unit is taken in the ledger before
// it is in the store, and returns in the store before it does in the ledger, so all
// that is stored, and all in the journal that is not, is among what the ledger has
// taken. That holds of any moment, and is seen only while the ledger stays as it is;
// a reading may be a moment old, so it must show twice, the second time by the orders
// themselves and not by the row's count.
func (r *Rebuilder) countsMore(ctx context.Context, sale *sluice.Sale) (why string, reading sluice.Reading, err error) {
	for again := false; ; again = true {
		if reading, err = r.loader.read(ctx, sale.ID); err != nil {
			return "", reading, err
		}
		if !reading.Loaded || reading.Epoch != sale.Epoch || reading.Fence != "" {
			return "", reading, nil
		}
		units, err := r.units(ctx, &reading, again)
		if err != nil {
			return "", reading, err
		}
		now, err := r.loader.read(ctx, sale.ID)
		if err != nil || now.Epoch != reading.Epoch || now.Seq != reading.Seq || now.Taken != reading.Taken ||
			units <= now.Taken {
			return "", reading, err
		}
		if again {
			return fmt.Sprintf("the ledger has %d units taken, store and journal %d: the store is older than its ledger",
				now.Taken, units), reading, nil
		}
		select {
		case <-time.After(verifyPause):
		case <-ctx.Done():
			return "", reading, ctx.Err()
		}
	}
}

// units returns how many units the stored orders and the claims that are only in the
// journal have. A claim beyond the last stored one is not stored: read after the
// orders, it has not been among them.
func (r *Rebuilder) units(ctx context.Context, reading *sluice.Reading, count bool) (units int64, err error) {
	if count {
		err = r.store.Snapshot(ctx, reading.Sale, func(s sluice.Snapshot) error {
			return s.Orders(func(o sluice.Order) bool {
				if record := o.Record(); record.Live {
					units += record.Quantity
				}
				return true
			})
		})
	} else {
		var row sluice.Sale
		row, err = r.store.Sale(ctx, reading.Sale)
		units = row.Taken
	}
	if err != nil {
		return 0, err
	}
	stored, err := r.store.LastSeq(ctx, reading.Sale, reading.Epoch)
	if err != nil || stored >= reading.Seq {
		return units, err
	}
	err = r.ledger.PeekJournal(ctx, reading.Sale, func(e sluice.Entry) bool {
		for i := range e.Claims {
			if e.Epoch == reading.Epoch && e.FirstSeq+int64(i) > stored {
				units += e.Claims[i].Quantity
			}
		}
		return true
	})
	if errors.Is(err, sluice.ErrNotLoaded) {
		err = nil
	}
	return units, err
}

// acknowledged returns the last sequence of the reading that is not in the
// journal any more, and so must be in the store; 0 if there is none, or if the
// journal cannot tell. Units are those of the claims in the journal.
func (r *Rebuilder) acknowledged(ctx context.Context, reading *sluice.Reading) (last, units int64, err error) {
	type span struct{ first, last int64 }
	var waiting []span
	damaged := false
	err = r.ledger.PeekJournal(ctx, reading.Sale, func(e sluice.Entry) bool {
		if e.Damage != nil {
			damaged = true
		} else if e.Epoch == reading.Epoch {
			waiting = append(waiting, span{e.FirstSeq, e.FirstSeq + int64(len(e.Claims)) - 1})
			for i := range e.Claims {
				units += e.Claims[i].Quantity
			}
		}
		return true
	})
	if errors.Is(err, sluice.ErrNotLoaded) {
		return 0, 0, nil
	}
	if err != nil || damaged {
		return 0, units, err
	}
	slices.SortFunc(waiting, func(a, b span) int { return cmp.Compare(b.first, a.first) })
	last = reading.Seq
	for _, w := range waiting {
		if w.first <= last && w.last >= last {
			last = w.first - 1
		}
	}
	return last, units, nil
}

// lastAside returns the last sequence of this epoch that is in a dead letter.
// It does not know if a letter cannot be read.
func (r *Rebuilder) lastAside(ctx context.Context, sale *sluice.Sale) (last int64, known bool, err error) {
	letters, err := r.store.DeadLetters(ctx, sale.ID)
	for i := range letters {
		claims, bad := sluice.ParseClaims(letters[i].Claims)
		if bad != nil {
			return 0, false, err
		}
		if letters[i].Epoch == sale.Epoch {
			last = max(last, letters[i].FirstSeq+int64(len(claims))-1)
		}
	}
	return last, true, err
}
