package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// showOwnOrder shows a buyer's own order; another's is not found.
func (s *Server) showOwnOrder(w http.ResponseWriter, r *http.Request, buyer sluice.BuyerID) {
	if order, ok := s.order(w, r, buyer); ok {
		writeJSON(w, http.StatusOK, api.NewOrder(&order))
	}
}

// showOrder shows the merchant any order.
func (s *Server) showOrder(w http.ResponseWriter, r *http.Request) {
	if order, ok := s.order(w, r, ""); ok {
		writeJSON(w, http.StatusOK, api.NewAdminOrder(&order))
	}
}

// order answers for the order of the path, if it is the buyer's own.
func (s *Server) order(w http.ResponseWriter, r *http.Request, buyer sluice.BuyerID) (sluice.Order, bool) {
	var order sluice.Order
	err := sluice.ErrOrderNotFound
	id := sluice.OrderID(r.PathValue("order"))
	if _, ok := id.Sale(); ok {
		if !inTurn(w, r, turns(buyer, s.shares.reads), func() {
			asking, cancel := context.WithTimeout(r.Context(), patience)
			defer cancel()
			order, err = s.Store.Order(asking, id)
		}) {
			return order, false
		}
		if err != nil { // not in turn: a ledger that hangs holds up its own sale alone
			order, err = s.findQueued(r.Context(), id, buyer, err)
		}
	}
	switch {
	case err == nil && (buyer == "" || order.Buyer == buyer):
		return order, true
	case err == nil, errors.Is(err, sluice.ErrOrderNotFound):
		problem(w, api.CodeOrderNotFound, "")
	default:
		s.unavailable(w, r, err)
	}
	return sluice.Order{}, false
}

// findQueued looks in the ledger of the sale that the id carries, after the store
// did not have the order, for the reason stored: an order is queued until it is
// stored. It is not found only when both sides say so; if one cannot answer and
// the other does not have it, that is an error.
func (s *Server) findQueued(ctx context.Context, id sluice.OrderID, buyer sluice.BuyerID, stored error) (sluice.Order,
	error,
) {
	sale, _ := id.Sale()
	record, queued := s.Ledger.Find(ctx, id, buyer)
	if queued == nil && !errors.Is(stored, sluice.ErrOrderNotFound) && !s.waits(&record) {
		return sluice.Order{}, stored // it may have been stored, even paid: only the store can say
	}
	if queued == nil {
		var price sluice.Money
		if view, err := s.Board.Lookup(ctx, sale); err == nil {
			price = view.Sale.Price
		}
		return record.AsOrder(price), nil
	}
	if !errors.Is(stored, sluice.ErrOrderNotFound) {
		return sluice.Order{}, stored
	}
	if errors.Is(queued, sluice.ErrOrderNotFound) {
		return sluice.Order{}, sluice.ErrOrderNotFound
	}
	if errors.Is(queued, sluice.ErrNotLoaded) {
		view, err := s.Board.Lookup(ctx, sale)
		if errors.Is(err, sluice.ErrSaleNotFound) || err == nil && view.Archived() {
			return sluice.Order{}, sluice.ErrOrderNotFound // no such sale, or one that the store alone answers for
		}
	}
	return sluice.Order{}, queued
}

// waits reports whether an accepted claim is still in the journal, as far as
// this server knows while the store does not answer: nothing that was accepted
// before the claim waits there no more.
func (s *Server) waits(r *sluice.Record) bool {
	view := s.Board.View(r.Sale)
	if !r.Live || view == nil || r.Epoch != view.Reading.Epoch {
		return false
	}
	reading := &view.Reading
	return reading.Seq < r.Seq || reading.Backlog > 0 && r.Seq >= reading.Oldest
}

// listOwnOrders lists a buyer's stored orders, oldest first.
func (s *Server) listOwnOrders(w http.ResponseWriter, r *http.Request, buyer sluice.BuyerID) {
	f := sluice.OrderFilter{Buyer: buyer}
	if !readQuery(w, r, ofSale(&f.Sale), ofStatus(&f.Status), pageSize(&f.Limit), cursor(&f.Cursor)) {
		return
	}
	s.writeOrders(w, r, f, turns(buyer, s.shares.reads), api.NewOrder)
}

// listOrders lists stored orders for the merchant.
func (s *Server) listOrders(w http.ResponseWriter, r *http.Request) {
	var f sluice.OrderFilter
	if !readQuery(w, r, ofSale(&f.Sale), ofStatus(&f.Status), ofBuyer(&f.Buyer), pageSize(&f.Limit), cursor(&f.Cursor)) {
		return
	}
	s.writeOrders(w, r, f, nil, api.NewAdminOrder)
}

func (s *Server) writeOrders(w http.ResponseWriter, r *http.Request, filter sluice.OrderFilter, places []chan struct{},
	view func(*sluice.Order) api.Order,
) {
	var orders []sluice.Order
	var next string
	var err error
	if !inTurn(w, r, places, func() { orders, next, err = s.Store.Orders(r.Context(), filter) }) {
		return
	}
	if errors.Is(err, sluice.ErrBadCursor) {
		problem(w, api.CodeBadRequest, "cursor: "+wrongCursor)
		return
	}
	if err != nil {
		s.unavailable(w, r, err)
		return
	}
	page := api.OrderPage{Orders: make([]api.Order, len(orders)), NextCursor: next}
	for i := range orders {
		page.Orders[i] = view(&orders[i])
	}
	writeJSON(w, http.StatusOK, page)
}
