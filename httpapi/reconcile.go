package httpapi

import (
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/httpapi/wire"
	"github.com/sluicehq/sluice/settle"
)

// reconcileSale compares ledger and store now, and repairs if it is asked to.
func (s *Server) reconcileSale(w http.ResponseWriter, r *http.Request) {
	var message wire.Reconcile
	if r.ContentLength != 0 && !readBody(w, r, &message) {
		return
	}
	report, err := s.Reconcile(r.Context(), sluice.SaleID(r.PathValue("sale")), message.Apply)
	if err != nil {
		s.changeProblem(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, reconcileReport(&report))
}

// reconcileReport never has null lists.
func reconcileReport(r *settle.ReconcileReport) wire.ReconcileReport {
	report := wire.ReconcileReport{
		SaleID: r.Sale, At: wire.AtOrNull(r.At), Applied: r.Applied, Skipped: r.Skipped, Remaining: r.Remaining(),
		Differences: make([]wire.Difference, len(r.Differences)),
	}
	for i, d := range r.Differences {
		report.Differences[i] = wire.Difference{
			Class: string(d.Class), Count: d.Count, Repaired: d.Repaired,
			Orders: append([]sluice.OrderID{}, d.Orders...), Details: append([]string{}, d.Details...),
		}
	}
	return report
}
