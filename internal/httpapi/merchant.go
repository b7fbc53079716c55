package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// createSale adds a sale and loads it: when the answer comes, it can be bought.
func (s *Server) createSale(w http.ResponseWriter, r *http.Request) {
	var message api.CreateSale
	if !readBody(w, r, &message) {
		return
	}
	sale, err := message.Domain(s.NewSaleID)
	if err != nil {
		problem(w, api.CodeBadRequest, err.Error())
		return
	}
	if now := s.Board.LedgerTime(s.Now()); !sale.ClosesAt.IsZero() && !sale.ClosesAt.After(now) {
		// It would be archived at once, and its id burnt for a mistyped year.
		problem(w, api.CodeBadRequest, fmt.Sprintf("closes_at: %s is already past", api.At(sale.ClosesAt)))
		return
	}
	sale, err = s.Control.Create(r.Context(), sale)
	if err == nil {
		noteSale(r, sale.ID)
	}
	s.writeSale(w, r, http.StatusCreated, sale, err)
}

// patchSale changes what may be changed of a sale.
func (s *Server) patchSale(w http.ResponseWriter, r *http.Request) {
	var message api.PatchSale
	if !readBody(w, r, &message) {
		return
	}
	sale, err := s.Control.Patch(r.Context(), sluice.SaleID(r.PathValue("sale")), func(sale *sluice.Sale) error {
		if err := message.Apply(sale); err != nil {
			return &badRequest{err}
		}
		return nil
	})
	s.writeSale(w, r, http.StatusOK, sale, err)
}

// badRequest marks an error as the client's.
type badRequest struct{ error }

// changeSale is open, pause, resume and close.
func (s *Server) changeSale(
	change func(sluice.Control, context.Context, sluice.SaleID) (sluice.Sale, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !noBody(w, r) {
			return
		}
		sale, err := change(s.Control, r.Context(), sluice.SaleID(r.PathValue("sale")))
		s.writeSale(w, r, http.StatusOK, sale, err)
	}
}

// changeProblem answers a change that was not made, or not completely.
func (s *Server) changeProblem(w http.ResponseWriter, r *http.Request, err error) {
	var state *sluice.StateError
	var bad *badRequest
	var pending *sluice.PendingError
	switch {
	case errors.As(err, &bad):
		problem(w, api.CodeBadRequest, bad.Error())
	case errors.As(err, &state):
		problem(w, api.CodeSaleState, state.Detail)
	case errors.As(err, &pending):
		s.Log.Warn("a change waits for the ledger", "path", r.URL.Path, "error", err)
		problem(w, api.CodeOutcomeUnknown, "the change is stored; it takes effect when the ledger answers again"+
			" (a lower total may be taken back then: send the same request again to see)")
	case errors.Is(err, sluice.ErrAuditBusy):
		problem(w, sluice.Overloaded.String(), err.Error()+"; try again")
	default:
		for _, c := range changeFaults {
			if errors.Is(err, c.err) {
				problem(w, c.code, c.detail)
				return
			}
		}
		s.unavailable(w, r, err)
	}
}

// changeFaults are the answers to errors that always say the same.
var changeFaults = []struct {
	err          error
	code, detail string
}{
	{sluice.ErrSaleExists, api.CodeSaleState, "a sale with this id exists"},
	{sluice.ErrBelowTaken, api.CodeBelowTaken, "the total would be below the units already taken"},
	{sluice.ErrLoweringWaits, sluice.Unavailable.String(), "the total was not changed: a lower total is on its way " +
		"to the ledger, and until the ledger has decided about it no other can follow; try again"},
	{sluice.ErrTotalUndecided, sluice.Unavailable.String(), "the total was not changed: lowering it needs a ledger " +
		"that holds the sale and has not fenced it; try again"},
	{sluice.ErrNoTotal, api.CodeSaleState, "the sale has no total; there is nothing to add to"},
	{sluice.ErrRestockReused, sluice.KeyReused.String(), "this restock id was used with another delta"},
	{sluice.ErrArchived, api.CodeSaleState, "the sale is archived; it does not change any more"},
	{sluice.ErrSaleNotFound, sluice.SaleNotFound.String(), ""},
}

// writeSale answers a change, with the sale as it is now on this server's board
// or with what went wrong.
func (s *Server) writeSale(w http.ResponseWriter, r *http.Request, status int, sale sluice.Sale, err error) {
	if err != nil {
		s.changeProblem(w, r, err)
		return
	}
	reading := sluice.Reading{Sale: sale.ID, Now: s.Now()}
	if view, err := s.Board.Reload(r.Context(), sale.ID); err == nil {
		sale, reading = view.Sale, view.Reading
	}
	writeJSON(w, status, api.NewAdminSale(&sale, &reading))
}

// adminListSales lists all sales, closed and archived ones too: the store's,
// with what the board knows of those that are not archived.
func (s *Server) adminListSales(w http.ResponseWriter, r *http.Request) {
	sales, err := s.Store.Sales(r.Context())
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	list := api.AdminSaleList{Sales: make([]api.AdminSale, len(sales))}
	for i := range sales {
		sale, reading := &sales[i], sluice.Reading{Sale: sales[i].ID, Now: s.Now()}
		if view := s.Board.View(sale.ID); view != nil {
			sale, reading = &view.Sale, view.Reading
		}
		list.Sales[i] = api.NewAdminSale(sale, &reading)
	}
	writeJSON(w, http.StatusOK, list)
}

// adminShowSale shows a sale as ledger and store have it this moment.
func (s *Server) adminShowSale(w http.ResponseWriter, r *http.Request) {
	view, err := s.Board.Reload(r.Context(), sluice.SaleID(r.PathValue("sale")))
	if err != nil {
		s.changeProblem(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, api.NewAdminSale(&view.Sale, &view.Reading))
}

func (s *Server) auditSale(w http.ResponseWriter, r *http.Request) {
	report, err := s.Audit(r.Context(), sluice.SaleID(r.PathValue("sale")))
	if err != nil {
		s.changeProblem(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, report)
}

// restockSale changes the total by a delta, once per id.
func (s *Server) restockSale(w http.ResponseWriter, r *http.Request) {
	var message api.Restock
	if !readBody(w, r, &message) {
		return
	}
	if err := checkWords(message.ID); err != nil {
		problem(w, api.CodeBadRequest, "id: "+err.Error())
		return
	}
	if message.Delta == 0 || message.Delta > sluice.MaxUnits || message.Delta < -sluice.MaxUnits {
		problem(w, api.CodeBadRequest, "delta: want a whole number of units, not 0; negative to take units back")
		return
	}
	sale, err := s.Control.Restock(r.Context(), sluice.SaleID(r.PathValue("sale")), message.ID, message.Delta)
	s.writeSale(w, r, http.StatusOK, sale, err)
}

// rebuildSale fences a sale, so that it is gathered and loaded again.
func (s *Server) rebuildSale(w http.ResponseWriter, r *http.Request) {
	if !noBody(w, r) {
		return
	}
	id := sluice.SaleID(r.PathValue("sale"))
	sale, err := s.Store.Sale(r.Context(), id)
	if err == nil && !sale.ArchivedAt.IsZero() {
		err = sluice.ErrArchived
	}
	if err == nil {
		err = s.Store.FenceSale(r.Context(), id, sale.Epoch, "rebuild asked for by the merchant")
	}
	s.writeSale(w, r, http.StatusAccepted, sale, err)
}
