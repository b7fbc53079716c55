package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

// showBuyer says who asks: pages that have a session and no token cannot know.
func showBuyer(_ http.ResponseWriter, _ *http.Request, token auth.Token) (any, error) {
	return api.Buyer{BuyerID: token.Buyer}, nil
}

// showOwnOrder shows a buyer's own order; another's is not found.
func (s *Server) showOwnOrder(_ http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	order, err := s.order(r, token.Buyer)
	return orderMessage(&order), err
}

// showOrder shows the merchant any order.
func (s *Server) showOrder(r *http.Request) (any, error) {
	order, err := s.order(r, "")
	return adminOrderMessage(&order), err
}

// order returns the order of the path, if it is the buyer's own.
func (s *Server) order(r *http.Request, buyer sluice.BuyerID) (order sluice.Order, err error) {
	id := sluice.OrderID(r.PathValue("order"))
	if _, ok := id.Sale(); !ok {
		return order, sluice.ErrOrderNotFound
	}
	err = inTurn(r, turns(buyer, s.shares.reads), func() (err error) {
		asking, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		order, err = s.Store.Order(asking, id)
		return err
	})
	if err != nil && !errors.Is(err, errNoTurn) { // not in turn: a ledger that hangs holds up its own sale alone
		order, err = s.findQueued(r.Context(), id, buyer, err)
	}
	if err == nil && buyer != "" && order.Buyer != buyer {
		err = sluice.ErrOrderNotFound
	}
	if buyer == "" && errors.Is(err, sluice.ErrOrderNotFound) { // for buyers it is not there, like a stranger's
		sale, _ := id.Sale()
		err = cmp.Or(s.ordersGone(r.Context(), sale), err)
	}
	return order, err
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
		if view := s.Board.View(sale); view != nil && view.Hidden() {
			_, _ = s.Board.Public(ctx, sale) // as long as for a sale that does not exist: the time must not show it
		}
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
func (s *Server) listOwnOrders(_ http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	f := sluice.OrderFilter{Buyer: token.Buyer}
	if err := readQuery(r, ofSale(&f.Sale), ofStatus(&f.Status), pageSize(&f.Limit), cursor(&f.Cursor)); err != nil {
		return nil, err
	}
	return s.orders(r, f, turns(token.Buyer, s.shares.reads), orderMessage)
}

// listOrders lists stored orders for the merchant.
func (s *Server) listOrders(r *http.Request) (any, error) {
	var f sluice.OrderFilter
	err := readQuery(r, ofSale(&f.Sale), ofStatus(&f.Status), s.ofBuyer(&f.Buyer), pageSize(&f.Limit), cursor(&f.Cursor))
	if err != nil {
		return nil, err
	}
	page, err := s.orders(r, f, nil, adminOrderMessage)
	if err == nil && len(page.Orders) == 0 && f.Sale != "" { // it would look as if there had been none
		err = s.ordersGone(r.Context(), f.Sale)
	}
	return page, err
}

// ordersGone is the error that orders of a sale are deleted, if some are. It asks the
// store: the board does not read archived sales again.
func (s *Server) ordersGone(ctx context.Context, id sluice.SaleID) error {
	sale, err := s.Store.Sale(ctx, id)
	if errors.Is(err, sluice.ErrSaleNotFound) || err == nil && sale.Remains == nil {
		return nil
	}
	if err != nil {
		return err
	}
	when := "are being deleted"
	if at := sale.Remains.At; !at.IsZero() {
		when = "were deleted on " + at.Format(time.DateOnly)
	}
	return faultOf(api.CodeGone, "orders of the sale %s %s, as order_retention says; their sums are with the sale",
		id, when)
}

func (s *Server) orders(r *http.Request, filter sluice.OrderFilter, places []chan struct{},
	view func(*sluice.Order) api.Order,
) (page api.OrderPage, err error) {
	err = inTurn(r, places, func() error {
		orders, next, err := s.Store.Orders(r.Context(), filter)
		page = api.OrderPage{Orders: each(orders, view), NextCursor: next}
		return err
	})
	return page, err
}

// orderMessage is a buyer's own order.
func orderMessage(o *sluice.Order) api.Order {
	due := o.Due()
	v := api.Order{
		OrderID: o.ID, SaleID: o.Sale, Quantity: o.Quantity, Status: o.Status, Reason: o.Reason, Price: o.Price,
		Amount: due.Amount, Currency: due.Currency,
		AcceptedAt: api.At(o.AcceptedAt), StoredAt: api.AtOrNull(o.StoredAt), ExpiresAt: api.AtOrNull(o.ExpiresAt),
	}
	if v.Replaces, v.ReplacedBy = o.Replaces(), o.ReplacedBy(); v.ReplacedBy != "" {
		v.Reason = "" // which it is
	}
	if o.Meta != "" {
		v.Meta = json.RawMessage(o.Meta)
	}
	return v
}

// adminOrderMessage is an order as the merchant sees it.
func adminOrderMessage(o *sluice.Order) api.Order {
	v := orderMessage(o)
	v.BuyerID, v.Key, v.Epoch, v.Seq = o.Buyer, o.Key, o.Epoch, o.Seq
	v.PaymentID, v.KeepUntil, v.UpdatedAt = o.PaymentID, api.AtOrNull(o.KeepUntil), api.AtOrNull(o.UpdatedAt)
	return v
}

// byBuyer is who changes an order, as its history has it, if it is the buyer;
// admins are there by the names of their keys.
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
// makes it refund_due, or another one paid in its place.
func (s *Server) payOrder(r *http.Request, message *api.PayOrder) (any, error) {
	if err := checkWords("payment_id", message.PaymentID); err != nil {
		return nil, err
	}
	pay := sluice.Change{Action: sluice.Pay, PaymentID: message.PaymentID, By: admin(r).Name}
	switch {
	case message.Amount != nil && message.Currency != "":
		pay.Paid = sluice.Money{Amount: *message.Amount, Currency: message.Currency}
	case message.Amount != nil || message.Currency != "":
		return nil, badRequest("amount and currency: want both or neither")
	}
	return s.changeOrder(r, pay, adminOrderMessage)
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

// extendOrder moves the deadline of an unpaid order.
func (s *Server) extendOrder(r *http.Request, message *api.ExtendOrder) (any, error) {
	if message.ExpiresAt.IsZero() {
		return nil, badRequest("expires_at: want a time, like 2026-11-11T12:30:00.000Z")
	}
	return s.changeOrder(r, sluice.Change{
		Action: sluice.Extend, ExpiresAt: message.ExpiresAt.Time, By: admin(r).Name,
	}, adminOrderMessage)
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
	return api.OrderHistory{OrderID: order.ID, Changes: each(entries, func(e *sluice.HistoryEntry) api.OrderChange {
		change := changeMessage(e)
		if e.Order != order.ID {
			change.OrderID = e.Order
		}
		return change
	})}, err
}

// changeMessage is a change of an order as the merchant sees it.
func changeMessage(e *sluice.HistoryEntry) api.OrderChange {
	return api.OrderChange{
		At: api.At(e.At), From: e.From, To: e.To, Action: e.Action, By: e.By, Reason: e.Reason, PaymentID: e.PaymentID,
		ExpiresAt: api.AtOrNull(e.ExpiresAt),
	}
}
