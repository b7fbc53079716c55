package httpapi

import (
	"errors"
	"net/http"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

// byBuyer is who changes an order, as its history has it, if it is the buyer;
// admins stand there by the names of their keys.
const byBuyer = "buyer"

// maxWords bounds a payment's id and a reason, in bytes.
const maxWords = 128

// cancelOwnOrder ends a buyer's own unpaid order.
func (s *Server) cancelOwnOrder(w http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	return bare(func(r *http.Request) (any, error) {
		return s.changeOrder(r, sluice.Change{Action: sluice.Cancel, Buyer: token.Buyer, By: byBuyer}, orderMessage)
	})(w, r)
}

// merchantAction is an action of the merchant's that needs no message.
func (s *Server) merchantAction(action sluice.Action) handler {
	return bare(func(r *http.Request) (any, error) {
		return s.changeOrder(r, sluice.Change{Action: action, By: admin(r).Name}, adminOrderMessage)
	})
}

// payOrder records a payment: in time it makes the order paid, too late it
// makes it refund_due.
func (s *Server) payOrder(r *http.Request, message *api.PayOrder) (any, error) {
	if err := checkWords("payment_id", message.PaymentID); err != nil {
		return nil, err
	}
	return s.changeOrder(r, sluice.Change{Action: sluice.Pay, PaymentID: message.PaymentID, By: admin(r).Name},
		adminOrderMessage)
}

// rejectOrder ends an order that failed after the grab.
func (s *Server) rejectOrder(r *http.Request, message *api.RejectOrder) (any, error) {
	if err := checkWords("reason", message.Reason); err != nil {
		return nil, err
	}
	if message.Reason == sluice.NotCovered {
		return nil, badRequest("reason: %s is reserved for orders beyond the total; want another word", sluice.NotCovered)
	}
	return s.changeOrder(r, sluice.Change{Action: sluice.Reject, Reason: message.Reason, By: admin(r).Name},
		adminOrderMessage)
}

func checkWords(field, text string) error {
	if len(text) == 0 || len(text) > maxWords || strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return badRequest("%s: want 1 to %d bytes without control characters", field, maxWords)
	}
	return nil
}

// changeOrder takes an action on the order of the path and answers with it. One
// that is still queued is distinguished from one that does not exist or is
// another buyer's.
func (s *Server) changeOrder(r *http.Request, change sluice.Change, view func(*sluice.Order) api.Order) (any, error) {
	change.Order = sluice.OrderID(r.PathValue("order"))
	var order sluice.Order
	sale, _ := change.Order.Sale()
	err := inTurn(r, s.shares.changeOf(sale, change.Buyer), func() (err error) {
		order, err = s.Store.Change(r.Context(), change)
		return err
	})
	if errors.Is(err, sluice.ErrOrderNotFound) {
		if _, err = s.order(r, change.Buyer); err == nil {
			err = &fault{api.Problem{
				Code: api.CodeOrderQueued, Detail: "the order is not stored yet; try again in a moment",
			}, []string{"1"}}
		}
	}
	if err != nil {
		return nil, err
	}
	if !order.Status.Live() && s.Ended != nil {
		s.Ended()
	}
	return view(&order), nil
}

// orderHistory lists the changes of an order.
func (s *Server) orderHistory(r *http.Request) (any, error) {
	order, err := s.order(r, "")
	if err != nil {
		return nil, err
	}
	entries, err := s.Store.History(r.Context(), order.ID)
	if errors.Is(err, sluice.ErrOrderNotFound) { // a queued one has none
		err = nil
	}
	return api.OrderHistory{OrderID: order.ID, Changes: each(entries, changeMessage)}, err
}

// changeMessage is a change of an order as the merchant sees it.
func changeMessage(e *sluice.HistoryEntry) api.OrderChange {
	return api.OrderChange{
		At: api.At(e.At), From: e.From, To: e.To, Action: e.Action, By: e.By, Reason: e.Reason, PaymentID: e.PaymentID,
	}
}
