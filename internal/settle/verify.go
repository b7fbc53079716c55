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
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/port"
)

// Verify compares ledger and store when a server first sees an epoch of a sale,
// or a sequence that went backwards. If one of them has forgotten what the
// other knows, it fences the sale, and reports true. Until it has reported false, nothing else
// may store the sale's journal: what it holds may need the units of orders that had ended,
// and a recovery ends these first. And no order may expire: it may have been paid. It fails
// if the ledger alone is fenced, which proves nothing, until Loader.Follow has fenced the store.
func (r *Rebuilder) Verify(ctx context.Context, sale *sluice.Sale) (fenced bool, err error) {
	if err := r.remindTerms(ctx, sale.ID); err != nil {
		return false, err
	}
	if err := r.loader.Verify(ctx, sale); err != nil {
		return false, err
	}
	found, err := r.doubt(ctx, sale)
	if err != nil {
		return false, err
	}
	switch {
	case found.storeOlder != "":
		err = r.loader.fenceOlder(ctx, sale, &found.reading, found.storeOlder)
	case found.drift != "":
		err = r.loader.lost(ctx, sale, &found.reading, found.drift)
	}
	if err != nil {
		return false, err
	}
	reading, err := r.loader.read(ctx, sale.ID) // before the store, which is fenced last
	if err != nil {
		return false, err
	}
	now, err := r.store.Sale(ctx, sale.ID)
	if err == nil && now.Fence == "" && reading.Fence != "" {
		err = fmt.Errorf("settle: the ledger is fenced, and its store not yet: %s", reading.Fence)
	}
	return now.Fence != "", err
}

// doubt says why the store must be older than its ledger, or why only their counts differ.
type doubt struct {
	reading           port.Reading
	storeOlder, drift string
}

// doubt compares what is cheap to compare. Everything is in the store before the ledger may
// rely on it: epochs before they are loaded, terms before they are applied, claims before they
// are acknowledged. So the ledger is read first, and the store may only have more.
func (r *Rebuilder) doubt(ctx context.Context, sale *sluice.Sale) (d doubt, err error) {
	if d.reading, err = r.loader.read(ctx, sale.ID); err != nil || !d.reading.Loaded {
		return d, err // which Follow sees
	}
	reading := &d.reading
	acked, waiting, err := r.acknowledged(ctx, reading)
	if err != nil {
		return d, err
	}
	row, err := r.store.Sale(ctx, sale.ID)
	switch {
	case err != nil:
		return d, err
	case reading.Epoch > row.Epoch && row.LoadedEpoch == 0:
		return d, nil // it may be another store's sale: Loader.forgotten refuses to load over it
	case reading.Epoch > row.Epoch:
		d.storeOlder = epochAhead(reading.Epoch, row.Epoch)
		return d, nil
	case reading.Epoch == row.Epoch && row.LoadedEpoch < row.Epoch && reading.Fence == "":
		d.storeOlder = fmt.Sprintf("the load of epoch %d was confirmed, the store does not know that: it is older than its "+
			"ledger", row.Epoch)
		return d, nil
	case reading.Epoch == row.Epoch && strings.HasPrefix(reading.Fence, port.FenceOlder):
		d.storeOlder = strings.TrimPrefix(reading.Fence, port.FenceOlder+": ") // found before, and the store was not told
		return d, nil
	case reading.Epoch < row.Epoch || reading.Fence != "": // a fenced ledger may have lost its journal
		return d, nil
	}
	if why, ahead := foreignTerms(&reading.Terms, &row.Terms); ahead {
		d.storeOlder = why
		return d, nil
	} else if why != "" {
		d.drift = why
		return d, nil
	}
	stored, err := r.store.LastSeq(ctx, sale.ID, row.Epoch)
	if err != nil {
		return d, err
	}
	if stored < acked {
		if d.storeOlder, err = r.acknowledgedMore(ctx, &row, acked, stored); err != nil || d.storeOlder != "" {
			return d, err
		}
	}
	if row.Taken+waiting > reading.Taken {
		err = r.countsMore(ctx, sale, &d)
	}
	return d, err
}

// acknowledgedMore says that the ledger has acknowledged a later sequence than the store has,
// unless that is in a dead letter, or the journal was lost after the ledger's sequence
// was read: an empty one then acknowledges nothing.
func (r *Rebuilder) acknowledgedMore(ctx context.Context, row *sluice.Sale, acked, stored int64) (string, error) {
	aside, known, err := r.lastAside(ctx, row)
	if err != nil || !known || aside >= acked {
		return "", err
	}
	now, err := r.loader.read(ctx, row.ID)
	if err != nil || now.Epoch != row.Epoch || now.Fence != "" {
		return "", err
	}
	return fmt.Sprintf("the ledger's sequence %d was acknowledged, the store ends at %d: it is older than its ledger",
		acked, max(stored, aside)), nil
}

// countsMore says by how much the store counts more units than the ledger, if it does: a
// moment later, and by the orders themselves. Orders that have ended on record are proof.
func (r *Rebuilder) countsMore(ctx context.Context, sale *sluice.Sale, d *doubt) error {
	select { // a reading may be a moment old
	case <-time.After(verifyPause):
	case <-ctx.Done():
		return ctx.Err()
	}
	b, err := audit.Gather(ctx, r.ledger, r.store, sale.ID, audit.Options{})
	if err != nil || b.LedgerErr != nil || b.First.Epoch != sale.Epoch || b.First.Fence != "" {
		return err
	}
	missing := b.Missing()
	if d.storeOlder = proof(b, &missing); d.storeOlder != "" {
		return nil
	}
	if n := b.Beyond(); n > 0 {
		d.drift = fmt.Sprintf("the ledger has %d units taken, store and journal %d", b.First.Taken, b.First.Taken+n)
	}
	return nil
}

// acknowledged returns the last sequence of the reading that is not in the
// journal any more, and so must be in the store; 0 if there is none, or if the
// journal cannot tell. Units counts those of the claims in the journal.
func (r *Rebuilder) acknowledged(ctx context.Context, reading *port.Reading) (last, units int64, err error) {
	type span struct{ first, last int64 }
	var waiting []span
	damaged := false
	err = r.ledger.PeekJournal(ctx, reading.Sale, func(e port.Entry) bool {
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
	if errors.Is(err, port.ErrNotLoaded) {
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
		claims, bad := port.ParseClaims(letters[i].Claims)
		if bad != nil {
			return 0, false, err
		}
		if letters[i].Epoch == sale.Epoch {
			last = max(last, letters[i].FirstSeq+int64(len(claims))-1)
		}
	}
	return last, true, err
}
