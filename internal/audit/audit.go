// Package audit proves what a sale has done. It reads the ledger, its journal
// and the store, changes nothing, and recomputes the invariants I1, I2, I3, I5,
// I6 and I8 and the uniqueness that I4 rests on. (I7 and the sameness of
// repeated answers can only be seen from the buyers' side, where the demo and
// the tests check them.)
//
// # Why it raises no false alarm while the sale runs
//
// The order of reading does it. A claim goes ledger and journal (one step),
// store, acknowledgement; an ending goes store, ledger. The audit reads
//
//  1. the ledger's reading, in one step: everything after its sequence is
//     newer than this audit, is counted and left to the next one;
//  2. the ledger's claims, and a second reading;
//  3. the journal: a claim that is not there any more was acknowledged before,
//     so it was committed to the store (or set aside there) before;
//  4. one snapshot of the store, which therefore has it;
//  5. a third reading: nothing in the snapshot can be beyond its sequence, and
//     if the sale was loaded again meanwhile, all is read again.
//
// So a claim of 2 is in 3 or in 4, or it is lost; an order of 4 has its claim
// in 2, or is beyond the sequence of 1, or never had one. Units that were
// released between 1 and 2 are known from the two readings.
//
// Gather does this, and Book.Each joins the sides. All that compares ledger and store as a
// whole reads with them (internal/settle): a reconciliation looks at its suspects again, and
// repairs; a rebuild and a recovery store what is Missing; a server that starts holds the
// sums against each other (Beyond).
//
// # What could not be checked
//
// A check that could not be made is never OK: it has Unchecked set and says
// why, for instance because the ledger does not answer or does not hold the
// sale. The store alone is checked all the same. A sale that no
// ledger ever held is checked in full: it must not have orders.
//
// Deleted orders leave their sums (Sale.Remains): I1 and I2 are checked with
// them. The other checks are Unchecked, and the report is OK all the same, since
// no later audit could check more.
package audit

import (
	"context"
	"fmt"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/internal/port"
)

// Ledger is what the audit reads of a port.Ledger.
type Ledger interface {
	Read(ctx context.Context, sales []sluice.SaleID) ([]port.Reading, error)
	Records(ctx context.Context, sale sluice.SaleID, yield func(port.Record) bool) error
	PeekJournal(ctx context.Context, sale sluice.SaleID, yield func(port.Entry) bool) error
}

// Store is what an audit of all sales reads of a port.Store.
type Store interface {
	port.AuditStore
	Sales(ctx context.Context) ([]sluice.Sale, error)
}

// Run audits one sale. A ledger that does not answer makes checks Unchecked; a
// store that does not answer, or does not know the sale (ErrSaleNotFound), is
// an error.
//
// It holds about 290 bytes per order, and reads everything once; a sale that
// is loaded into the ledger meanwhile is read again.
func Run(ctx context.Context, ledger Ledger, store port.AuditStore, sale sluice.SaleID) (sluice.AuditReport, error) {
	b, err := Gather(ctx, ledger, store, sale, Options{History: true})
	if err != nil {
		return sluice.AuditReport{}, fmt.Errorf("audit: sale=%s: %w", sale, err)
	}
	return b.report(), nil
}

// RunAll audits every sale of the store, one after the other, in the store's
// order.
func RunAll(ctx context.Context, ledger Ledger, store Store) ([]sluice.AuditReport, error) {
	sales, err := store.Sales(ctx)
	if err != nil {
		return nil, fmt.Errorf("audit: sales: %w", err)
	}
	reports := make([]sluice.AuditReport, 0, len(sales))
	for i := range sales {
		r, err := Run(ctx, ledger, store, sales[i].ID)
		if err != nil {
			return reports, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// Merge makes one report of several: a check is OK if it is for every sale.
// Its detail names the sales for which it is not.
func Merge(reports []sluice.AuditReport) sluice.AuditReport {
	all := sluice.AuditReport{OK: true, Checks: make([]sluice.AuditCheck, 0, len(checkNames))}
	for _, c := range checkNames {
		all.Checks = append(all.Checks, sluice.AuditCheck{ID: c.id, Name: c.name, OK: true})
	}
	for i := range all.Checks {
		c := &all.Checks[i]
		var bad list
		deleted := 0
		for _, r := range reports {
			switch of := r.Checks[i]; {
			case of.OK:
			case r.OK:
				deleted++
			default:
				// A violation anywhere outranks what could not be checked.
				c.Unchecked = of.Unchecked && (c.OK || c.Unchecked)
				c.OK = false
				bad.add(func() string { return fmt.Sprintf("%s: %s", r.Sale, of.Detail) })
			}
		}
		c.Detail = fmt.Sprintf("%d sales", len(reports))
		if bad.n > 0 {
			c.Detail = fmt.Sprintf("%d of %d sales: %s", bad.n, len(reports), bad.names())
		}
		if deleted > 0 {
			c.Detail += fmt.Sprintf("; of %d the orders are deleted by order_retention", deleted)
		}
		all.OK = all.OK && c.OK
	}
	for _, r := range reports {
		all.InFlight += r.InFlight
	}
	return all
}
