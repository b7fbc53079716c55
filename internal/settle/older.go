package settle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/audit"
	"github.com/sluicehq/sluice/internal/port"
)

// A store may be restored from a copy that is older than its ledger. Then it lacks orders that
// the ledger has acknowledged, endings whose units the ledger has taken back, versions of the
// terms that it decides by; and payments, of which no ledger knows. Proof fences the sale
// until a person recovers it (docs/adr/0019). It is proof that the ledger relied on what
// the store lacks: everything is in the store before that. Counts that differ alone prove
// nothing about the store: the ledger is rebuilt from it.

// Outdated reports whether a sale waits for a person, since its store is older than its ledger.
func Outdated(sale *sluice.Sale) bool { return strings.HasPrefix(sale.Fence, port.FenceOlder) }

// recovered reports whether a person has recovered a fenced sale, and its rebuild follows.
func recovered(sale *sluice.Sale) bool { return strings.HasPrefix(sale.Fence, port.FenceRecovered) }

// InStore says that the ledger is in the store, and so as old: if its database becomes an older
// copy of itself, what servers remember comes back without a person.
func (l *Loader) InStore() { l.inStore = true }

// fenceOlder fences a sale whose store is older than its ledger. Where they are one, the two
// readings are from before and after the database became an older copy.
func (l *Loader) fenceOlder(ctx context.Context, sale *sluice.Sale, reading *port.Reading, why string) error {
	if l.inStore {
		return l.lost(ctx, sale, reading, why)
	}
	return l.fence(ctx, sale, port.FenceOlder+": "+why, sale.Epoch, reading.Epoch)
}

// proof says why the store must be older than its ledger, if epoch, terms or endings prove it. An
// order ends in the store before its ledger hears of it, and the book reads the store after the
// ledger: so what has ended on record had ended in the store.
func proof(b *audit.Book, missing *audit.Missing) string {
	switch ahead := b.First.Terms.Version - b.Stored.Version; {
	case !b.First.Loaded || b.First.Epoch < b.Stored.Epoch:
		return "" // the ledger is the older one
	case b.First.Epoch > b.Stored.Epoch:
		return epochAhead(b.First.Epoch, b.Stored.Epoch)
	case ahead > 0 && ahead <= port.MaxForgotten:
		return versionAhead(b.First.Terms.Version, b.Stored.Version)
	case len(missing.Ended) > 0:
		return fmt.Sprintf("%s has ended on record, and the store has no such order", b.OrderID(&missing.Ended[0]))
	case len(missing.Over) > 0:
		return fmt.Sprintf("%s has ended on record, and lives in the store", b.OrderID(&missing.Over[0]))
	}
	return ""
}

func versionAhead(ledger, store int64) string {
	return fmt.Sprintf("the ledger decides by version %d of the terms, the store only knows %d: it is older than its "+
		"ledger", ledger, store)
}

// behind refuses new terms for a sale whose store is older than its ledger, which was read first:
// they would be stored under a number by which the ledger has decided, and a recovery, which
// adopts what the ledger has beyond the store's number, would keep them in its place.
func behind(sale *sluice.Sale, reading *port.Reading) error {
	_, ahead := foreignTerms(&reading.Terms, &sale.Terms)
	if ahead = ahead && reading.Loaded; !ahead && !Outdated(sale) {
		return nil
	}
	return &sluice.StateError{Sale: sale.ID, Detail: "its store is older than its ledger, which may know terms that the " +
		"store has forgotten: recover the sale first (sluice recover --sale " + string(sale.ID) + " --apply)"}
}

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

// book reads a sale of which the ledger may have damaged claims.
func (r *Rebuilder) book(ctx context.Context, sale sluice.SaleID) (*audit.Book, error) {
	b, err := audit.Gather(ctx, r.ledger, r.store, sale, audit.Options{Damaged: true})
	switch {
	case err != nil:
		return nil, err
	case b.LedgerErr != nil && !errors.Is(b.LedgerErr, audit.ErrNotHeld):
		return nil, b.LedgerErr
	case b.Damage != nil:
		buyers := b.Damage.Buyers
		r.log.Warn("the ledger's records of buyers are damaged; the store's orders take their place", "sale", sale,
			"count", len(buyers), "buyers", buyers[:min(len(buyers), maxOffenders)])
	}
	return b, nil
}

// recordsOf reads the ledger's claims again, for the whole records of some rows.
func recordsOf(ctx context.Context, ledger audit.Ledger, b *audit.Book, rows []audit.Row) (records []port.Record,
	err error,
) {
	if len(rows) == 0 {
		return nil, nil
	}
	wanted := make(map[sluice.OrderID]bool, len(rows))
	for i := range rows {
		wanted[b.OrderID(&rows[i])] = true
	}
	err = ledger.Records(ctx, b.Stored.ID, func(r port.Record) bool {
		if wanted[r.Order] {
			delete(wanted, r.Order) // a ledger may return one twice
			records = append(records, r)
		}
		return true
	})
	if damage := (*port.DamageError)(nil); errors.As(err, &damage) {
		err = nil
	}
	return records, err
}

// journal returns what waits in the journal of a sale; nothing if the ledger does not hold it.
func (r *Rebuilder) journal(ctx context.Context, sale sluice.SaleID) (entries []port.Entry, err error) {
	err = r.ledger.PeekJournal(ctx, sale, func(e port.Entry) bool {
		entries = append(entries, e)
		return true
	})
	if errors.Is(err, port.ErrNotLoaded) {
		err = nil
	}
	return entries, err
}
