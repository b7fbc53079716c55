package settle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice"
)

// Reconciler compares the ledger, its journal, the store and its outbox of one
// sale, and mends what is provably broken.
//
// # Why it repairs nothing that was not broken
//
// A claim goes ledger and journal (one step), store, acknowledgement. An ending
// goes store and outbox (one transaction), ledger, outbox emptied. Reconcile
// reads in that order: a reading of the ledger, its claims, the journal, one
// snapshot of the store, the outbox, and a last reading. So, if the epoch is the
// same at both ends:
//
//   - a claim up to the first reading's sequence is in the journal, or in the
//     snapshot as an order or a dead letter, or it is lost;
//   - an order in the snapshot up to that sequence has its claim among those
//     read, or the ledger has lost it;
//   - an order that has ended in the snapshot and is not in the outbox read
//     afterwards has been released in the ledger, or its release is lost. For
//     this the ledger is asked once more.
//
// Everything that these rules make suspect is looked at a second time, on both
// sides, before it counts.
type Reconciler struct {
	store  ReconcileStore
	ledger ReconcileLedger
}

// ReconcileStore is what a Reconciler needs of a store.
type ReconcileStore interface {
	sluice.AuditStore
	sluice.ReconcileStore
	Sale(ctx context.Context, id sluice.SaleID) (sluice.Sale, error)
	Order(ctx context.Context, id sluice.OrderID) (sluice.Order, error)
	History(ctx context.Context, order sluice.OrderID) ([]sluice.HistoryEntry, error)
	Insert(ctx context.Context, sale sluice.SaleID, entries []sluice.Entry) (sluice.Stored, error)
	FenceSale(ctx context.Context, id sluice.SaleID, epoch int64, reason string) error
}

// ReconcileLedger is what a Reconciler needs of sluice.Ledger.
type ReconcileLedger interface {
	sluice.Reader
	PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(sluice.Entry) bool) error
	Fence(ctx context.Context, sale sluice.SaleID, epoch int64, reason string) error
}

// NewReconciler returns a Reconciler between a store and a ledger.
func NewReconciler(store ReconcileStore, ledger ReconcileLedger) *Reconciler {
	return &Reconciler{store: store, ledger: ledger}
}

// DifferenceClass is a kind of difference between ledger and store.
type DifferenceClass string

// The classes of differences.
const (
	// InFlight: on its way, as it should be: in the journal, a release that
	// waits, or newer than the reading.
	InFlight DifferenceClass = "in_flight"
	// LostOrder: an accepted claim that is nowhere else. If it is live, its
	// order is stored from the ledger's record, once.
	LostOrder DifferenceClass = "lost_order"
	// LostRelease: an ended order whose units the ledger still counts, without
	// a release on its way. The release is written again.
	LostRelease DifferenceClass = "lost_release"
	// OrphanHold: units that the ledger counts for an order that cannot be
	// restored: of an epoch before, beyond the cap, or in conflict with what is
	// stored.
	OrphanHold DifferenceClass = "orphan_hold"
	// OrphanOrder: an order of which the ledger has no claim, or whose units it
	// has given back although the order lives.
	OrphanOrder DifferenceClass = "orphan_order"
	// Drift: a counter that is not the sum of what it counts, a claim with other
	// units than its order, or terms that differ at one version. The store's
	// counter is counted again.
	//
	// For the rest of Drift, for OrphanHold and for OrphanOrder the sale is
	// fenced: the ledger holds something wrong, and a rebuild, which follows,
	// loads what is right.
	Drift DifferenceClass = "drift"
)

// DifferenceClasses lists every class.
func DifferenceClasses() []DifferenceClass {
	return []DifferenceClass{InFlight, LostOrder, LostRelease, OrphanHold, OrphanOrder, Drift}
}

// MaxOffenders bounds the order ids that a report names of each class.
const MaxOffenders = 20

// Difference is what was found of one class.
type Difference struct {
	Class    DifferenceClass
	Count    int64
	Repaired int64            // of Count; those for which the sale was fenced are among them
	Orders   []sluice.OrderID // up to MaxOffenders, never of InFlight
	Details  []string         // of Drift: what differs; else why it was not repaired
}

// ReconcileReport is what one reconciliation found and did.
type ReconcileReport struct {
	Sale    sluice.SaleID
	At      time.Time // the ledger's clock at the first reading
	Applied bool      // repairs were allowed
	// Skipped says why nothing was compared: the sale is fenced, being loaded,
	// not loaded or archived. Then another part of Sluice has it in hand.
	Skipped     string
	Differences []Difference // one of every class, also when there is none
}

// Of returns what was found of a class.
func (r *ReconcileReport) Of(class DifferenceClass) *Difference {
	for i := range r.Differences {
		if r.Differences[i].Class == class {
			return &r.Differences[i]
		}
	}
	r.Differences = append(r.Differences, Difference{Class: class})
	return &r.Differences[len(r.Differences)-1]
}

// Remaining counts the differences, those in flight apart, that were not
// repaired.
func (r *ReconcileReport) Remaining() (n int64) {
	for i := range r.Differences {
		if d := &r.Differences[i]; d.Class != InFlight {
			n += d.Count - d.Repaired
		}
	}
	return n
}

func (r *ReconcileReport) found(class DifferenceClass, order sluice.OrderID) *Difference {
	d := r.Of(class)
	d.Count++
	if order != "" && len(d.Orders) < MaxOffenders {
		d.Orders = append(d.Orders, order)
	}
	return d
}

func (d *Difference) note(format string, args ...any) {
	if len(d.Details) < MaxOffenders {
		d.Details = append(d.Details, fmt.Sprintf(format, args...))
	}
}

// Reconcile compares one sale, and with apply mends what is safe to mend. It
// may run at any time, on any number of servers. It holds about 200 bytes for
// each accepted claim, and those that are suspect in full.
//
// Errors: sluice.ErrSaleNotFound, and those of store and ledger. What was
// repaired before an error stays repaired; call again.
func (r *Reconciler) Reconcile(ctx context.Context, sale sluice.SaleID, apply bool) (ReconcileReport, error) {
	report := ReconcileReport{Sale: sale, Applied: apply}
	for _, class := range DifferenceClasses() {
		report.Of(class)
	}
	c := &comparison{Reconciler: r, sale: sale, report: &report}
	err := c.gather(ctx)
	if err == nil && report.Skipped == "" {
		err = c.judge(ctx)
	}
	if err == nil && report.Skipped == "" && apply {
		err = c.repair(ctx)
	}
	if errors.Is(err, sluice.ErrNotLoaded) || errors.Is(err, errMoved) {
		report.Skipped, err = "it is being loaded", nil
	}
	if err != nil {
		return report, fmt.Errorf("settle: reconcile sale=%s: %w", sale, err)
	}
	if report.Skipped != "" && !c.mending { // half a look proves nothing
		report.Differences = nil
		for _, class := range DifferenceClasses() {
			report.Of(class)
		}
	}
	return report, nil
}

// ErrBusy: other audits or reconciliations have run on this server for too long
// to wait for them. Try again.
var ErrBusy = errors.New("another audit or reconciliation is running on this server")

// errMoved: the sale was loaded, fenced or archived while it was compared.
var errMoved = errors.New("the sale was loaded or fenced meanwhile")
