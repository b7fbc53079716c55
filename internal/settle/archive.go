package settle

import (
	"context"
	"sync"
	"time"

	"github.com/sluicehq/sluice"
)

// Archiver lets ledgers forget sales that are settled: closed for long enough,
// with nothing in the journal, pending or on its way back. From then on the
// store answers for their claims, for ever (I4), and nothing of them stays in
// Redis.
type Archiver struct {
	store  ArchiveStore
	ledger sluice.Dropper
	after  time.Duration

	mu      sync.Mutex
	dropped map[sluice.SaleID]bool // archived sales that the ledger has forgotten for sure
}

// ArchiveStore is what an Archiver needs of sluice.Store.
type ArchiveStore interface {
	Archive(ctx context.Context, id sluice.SaleID) (bool, error)
}

// DefaultRetention is how long a closed sale stays in the ledger.
const DefaultRetention = 7 * 24 * time.Hour

// NewArchiver returns an Archiver of sales that have been closed for as long
// as after.
func NewArchiver(store ArchiveStore, ledger sluice.Dropper, after time.Duration) *Archiver {
	if after <= 0 {
		after = DefaultRetention
	}
	return &Archiver{store: store, ledger: ledger, after: after, dropped: map[sluice.SaleID]bool{}}
}

// Due reports whether Step has something to try for a sale.
func (a *Archiver) Due(sale *sluice.Sale, reading *sluice.Reading) bool {
	if sale.ArchivedAt.IsZero() {
		closes := sale.ClosesAt
		return !closes.IsZero() && !reading.Now.Before(closes.Add(a.after)) && reading.Loaded && reading.Backlog == 0 && reading.Fence == ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.dropped[sale.ID]
}

// Step archives a sale if it is settled, and makes the ledger forget one that
// is archived. It reports whether it archived the sale now. It does nothing for
// a sale that is not Due.
func (a *Archiver) Step(ctx context.Context, sale *sluice.Sale, reading *sluice.Reading) (bool, error) {
	if !a.Due(sale, reading) {
		return false, nil
	}
	if sale.ArchivedAt.IsZero() {
		archived, err := a.store.Archive(ctx, sale.ID)
		if err != nil || !archived {
			return false, err
		}
		return true, a.ledger.Drop(ctx, sale.ID, sale.Epoch)
	}
	// The server that archived it may have died before the ledger forgot it.
	err := a.ledger.Drop(ctx, sale.ID, sale.Epoch)
	if err == nil {
		a.mu.Lock()
		a.dropped[sale.ID] = true
		a.mu.Unlock()
	}
	return false, err
}
