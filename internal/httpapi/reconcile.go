package httpapi

import (
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// reconcileSale compares ledger and store now, and repairs if it is asked to.
func (s *Server) reconcileSale(w http.ResponseWriter, r *http.Request) {
	var message api.Reconcile
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
func reconcileReport(r *sluice.ReconcileReport) api.ReconcileReport {
	report := api.ReconcileReport{
		SaleID: r.Sale, At: api.AtOrNull(r.At), Applied: r.Applied, Skipped: r.Skipped, Remaining: r.Remaining(),
		Differences: make([]api.Difference, len(r.Differences)),
	}
	for i, d := range r.Differences {
		report.Differences[i] = api.Difference{
			Class: string(d.Class), Count: d.Count, Repaired: d.Repaired,
			Orders: append([]sluice.OrderID{}, d.Orders...), Details: append([]string{}, d.Details...),
		}
	}
	return report
}
