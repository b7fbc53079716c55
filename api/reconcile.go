package api

import "github.com/sluicehq/sluice"

// Reconcile is the body of a reconciliation: with Apply false, which is the
// default, it only looks.
type Reconcile struct {
	Apply bool `json:"apply"`
}

// ReconcileReport is what a reconciliation of one sale found and did.
type ReconcileReport struct {
	SaleID  sluice.SaleID `json:"sale_id"`
	At      *Time         `json:"at"`      // the ledger's clock; null if it was not asked
	Applied bool          `json:"applied"` // repairs were allowed
	// Skipped says why nothing was compared; empty if it was.
	Skipped     string              `json:"skipped"`
	Remaining   int64               `json:"remaining"` // differences not repaired, those in flight apart
	Differences []sluice.Difference `json:"differences"`
}
