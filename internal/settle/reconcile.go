package settle

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Reconciler compares the ledger, its journal, the store and its outbox of one
// sale, and repairs what is provably broken.
//
// # Why it repairs nothing that was not broken
//
// A claim goes ledger and journal (one step), store, acknowledgement. An ending
// goes store and outbox (one transaction), ledger, outbox emptied. Reconcile
// reads what the audit reads, in its order (audit.Gather): a reading of the
// ledger, its claims, a second reading, the journal, one snapshot of the store
// with its outbox, and a last reading. So, if the epoch is the same at both ends:
//
//   - a claim up to the first reading's sequence is in the journal, or in the
//     snapshot as an order or a dead letter, or it is lost;
//   - an order in the snapshot up to that sequence has its claim among those
//     read, or the ledger has lost it;
//   - an order that has ended in the snapshot and is not in its outbox has been
//     released in the ledger before, or its release is lost. For this the ledger
//     is asked once more;
//   - a claim that has ended on record has its order in the snapshot, and ended, or the
//     store is older than its ledger, which a person recovers (Rebuilder.Recover).
//
// Everything that these rules make suspect is looked at a second time, on both
// sides, before it counts.
type Reconciler struct {
	store  reconcilerStore
	ledger ReconcileLedger
	loader *Loader
}

// reconcilerStore is what a Reconciler needs of port.Store.
type reconcilerStore interface {
	port.AuditStore
	port.ReconcileStore
	Sale(ctx context.Context, id sluice.SaleID) (sluice.Sale, error)
	Order(ctx context.Context, id sluice.OrderID) (sluice.Order, error)
	History(ctx context.Context, order sluice.OrderID) ([]sluice.HistoryEntry, error)
	Insert(ctx context.Context, sale sluice.SaleID, entries []port.Entry) (port.Stored, error)
}

// ReconcileLedger is what a Reconciler needs of port.Ledger.
type ReconcileLedger interface {
	port.Reader
	PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error
}

// NewReconciler returns a Reconciler between a store and a ledger; the loader fences.
func NewReconciler(store reconcilerStore, ledger ReconcileLedger, loader *Loader) *Reconciler {
	return &Reconciler{store: store, ledger: ledger, loader: loader}
}

// maxOffenders bounds the order ids and details that a report has of each class.
const maxOffenders = 20

// found counts one of a class.
func found(r *sluice.ReconcileReport, class sluice.DifferenceClass, order sluice.OrderID) *sluice.Difference {
	d := r.Of(class)
	d.Count++
	if order != "" && len(d.Orders) < maxOffenders {
		d.Orders = append(d.Orders, order)
	}
	return d
}

// note adds a detail to a class.
func note(d *sluice.Difference, format string, args ...any) {
	if len(d.Details) < maxOffenders {
		d.Details = append(d.Details, fmt.Sprintf(format, args...))
	}
}

// Reconcile compares one sale, and with apply repairs what is safe to mend. It
// may run at any time, on any number of servers. It holds as much as an
// audit: about 290 bytes for each order.
//
// Errors: sluice.ErrSaleNotFound, and those of store and ledger. Repairs
// made before an error stay; call again.
func (r *Reconciler) Reconcile(ctx context.Context, sale sluice.SaleID, apply bool) (sluice.ReconcileReport, error) {
	report := sluice.ReconcileReport{Sale: sale, Applied: apply}
	for _, class := range sluice.DifferenceClasses() {
		report.Of(class)
	}
	c := &comparison{Reconciler: r, sale: sale, report: &report}
	err := c.gather(ctx)
	if err == nil && report.Skipped == "" && c.why == "" {
		err = c.judge(ctx)
	}
	if err == nil && report.Skipped == "" && apply {
		err = c.repair(ctx)
	}
	if errors.Is(err, port.ErrNotLoaded) || errors.Is(err, errMoved) {
		report.Skipped, err = "it is being loaded", nil
	}
	if err != nil {
		return report, fmt.Errorf("settle: reconcile sale=%s: %w", sale, err)
	}
	if report.Skipped != "" && !c.complete { // half a look proves nothing
		report.Differences = nil
		for _, class := range sluice.DifferenceClasses() {
			report.Of(class)
		}
	}
	return report, nil
}

// errMoved: the sale was loaded, fenced or archived while it was compared.
var errMoved = errors.New("the sale was loaded or fenced meanwhile")
