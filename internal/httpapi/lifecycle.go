package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// byBuyer is who changes an order, as its history has it, if it is the buyer;
// admins stand there by the names of their keys.
const byBuyer = "buyer"

// maxWords bounds a payment's id and a reason, in bytes.
const maxWords = 128

// cancelOwnOrder ends a buyer's own unpaid order.
func (s *Server) cancelOwnOrder(w http.ResponseWriter, r *http.Request, buyer sluice.BuyerID) {
	if !noBody(w, r) {
		return
	}
	s.changeOrder(w, r, sluice.Change{Action: sluice.Cancel, Buyer: buyer, By: byBuyer}, api.NewOrder)
}

// merchantAction is an action of the merchant's that needs no message.
func (s *Server) merchantAction(action sluice.Action) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if noBody(w, r) {
			s.changeOrder(w, r, sluice.Change{Action: action, By: admin(r).Name}, api.NewAdminOrder)
		}
	}
}

// payOrder records a payment: in time it makes the order paid, too late it
// makes it refund_due.
func (s *Server) payOrder(w http.ResponseWriter, r *http.Request) {
	var message api.PayOrder
	if !readBody(w, r, &message) {
		return
	}
	if err := checkWords(message.PaymentID); err != nil {
		problem(w, api.CodeBadRequest, "payment_id: "+err.Error())
		return
	}
	s.changeOrder(w, r, sluice.Change{Action: sluice.Pay, PaymentID: message.PaymentID, By: admin(r).Name},
		api.NewAdminOrder)
}

// rejectOrder ends an order that failed after the grab.
func (s *Server) rejectOrder(w http.ResponseWriter, r *http.Request) {
	var message api.RejectOrder
	if !readBody(w, r, &message) {
		return
	}
	if err := checkWords(message.Reason); err != nil {
		problem(w, api.CodeBadRequest, "reason: "+err.Error())
		return
	}
	if message.Reason == sluice.NotCovered {
		problem(w, api.CodeBadRequest, "reason: "+sluice.NotCovered+
			" is reserved for orders beyond the total; want another word")
		return
	}
	s.changeOrder(w, r, sluice.Change{Action: sluice.Reject, Reason: message.Reason, By: admin(r).Name}, api.NewAdminOrder)
}

func checkWords(text string) error {
	if len(text) == 0 || len(text) > maxWords || strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return fmt.Errorf("want 1 to %d bytes without control characters", maxWords)
	}
	return nil
}

// changeOrder takes an action on the order of the path and answers with it.
func (s *Server) changeOrder(w http.ResponseWriter, r *http.Request, change sluice.Change,
	view func(*sluice.Order) api.Order,
) {
	change.Order = sluice.OrderID(r.PathValue("order"))
	var order sluice.Order
	var err error
	sale, _ := change.Order.Sale()
	if !inTurn(w, r, s.shares.changeOf(sale, change.Buyer), func() { order, err = s.Store.Change(r.Context(), change) }) {
		return
	}
	if err == nil {
		if !order.Status.Live() && s.Ended != nil {
			s.Ended()
		}
		writeJSON(w, http.StatusOK, view(&order))
		return
	}
	var state *sluice.OrderStateError
	var conflict *sluice.PaymentConflictError
	switch {
	case errors.Is(err, sluice.ErrOrderNotFound):
		s.notStored(w, r, change)
	case errors.As(err, &conflict):
		problem(w, api.CodePaymentConflict, fmt.Sprintf("the order has the payment %q; the other one is in its history",
			conflict.Have))
	case errors.As(err, &state):
		problem(w, api.CodeOrderEnded, fmt.Sprintf("the order is %s; %s is not possible", state.Status, state.Action))
	default:
		s.unavailable(w, r, err)
	}
}

// notStored distinguishes an order that is still queued from one that does not
// exist or is another buyer's.
func (s *Server) notStored(w http.ResponseWriter, r *http.Request, change sluice.Change) {
	if _, ok := s.order(w, r, change.Buyer); !ok {
		return
	}
	w.Header()["Retry-After"] = []string{"1"}
	problem(w, api.CodeOrderQueued, "the order is not stored yet; try again in a moment")
}

// orderHistory lists the changes of an order.
func (s *Server) orderHistory(w http.ResponseWriter, r *http.Request) {
	order, ok := s.order(w, r, "")
	if !ok {
		return
	}
	entries, err := s.Store.History(r.Context(), order.ID)
	if err != nil && !errors.Is(err, sluice.ErrOrderNotFound) { // a queued one has none
		s.unavailable(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, api.NewOrderHistory(order.ID, entries))
}
