package settle

import (
	"cmp"
	"context"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Archiver lets the ledger forget sales that are settled: closed for long enough,
// with nothing in the journal, pending or returning. From then on the store
// answers for their claims, for ever (I4). A server that dies between the two
// leaves the sale in the ledger; the engine drops what it finds archived.
type Archiver struct {
	store  archiveStore
	ledger port.Keeper
	after  time.Duration
}

// archiveStore is what an Archiver needs of port.Store.
type archiveStore interface {
	Archive(ctx context.Context, id sluice.SaleID) (bool, error)
}

// defaultRetention is how long a closed sale stays in the ledger.
const defaultRetention = 7 * 24 * time.Hour

// NewArchiver returns an Archiver of sales that have been closed for as long
// as after.
func NewArchiver(store archiveStore, ledger port.Keeper, after time.Duration) *Archiver {
	after = cmp.Or(max(after, 0), defaultRetention)
	return &Archiver{store: store, ledger: ledger, after: after}
}

// Due reports whether Step has something to try for a sale.
func (a *Archiver) Due(sale *sluice.Sale, reading *port.Reading) bool {
	return sale.ArchivedAt.IsZero() && !sale.ClosesAt.IsZero() && !reading.Now.Before(sale.ClosesAt.Add(a.after)) &&
		reading.Loaded && reading.Backlog == 0 && reading.Fence == ""
}

// Step archives a sale if it is Due and settled, and reports whether it did.
func (a *Archiver) Step(ctx context.Context, sale *sluice.Sale, reading *port.Reading) (bool, error) {
	if !a.Due(sale, reading) {
		return false, nil
	}
	archived, err := a.store.Archive(ctx, sale.ID)
	if err != nil || !archived {
		return false, err
	}
	return true, a.ledger.Drop(ctx, sale.ID, sale.Epoch)
}
