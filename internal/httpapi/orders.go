package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
	"github.com/sluicehq/sluice/internal/port"
)

// showBuyer says who asks: pages that have a session and no token cannot know.
func showBuyer(_ http.ResponseWriter, _ *http.Request, token auth.Token) (any, error) {
	return api.Buyer{BuyerID: token.Buyer}, nil
}

// showOwnOrder shows a buyer's own order; another's is not found.
func (s *Server) showOwnOrder(_ http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	order, err := s.Order(r.Context(), orderOf(r), token.Buyer)
	return orderMessage(&order), err
}

// showOrder shows the merchant any order.
func (s *Server) showOrder(r *http.Request) (any, error) {
	order, err := s.Order(r.Context(), orderOf(r), "")
	return adminOrderMessage(&order), err
}

func orderOf(r *http.Request) sluice.OrderID { return sluice.OrderID(r.PathValue("order")) }

// Order returns an order, a queued one too; of a buyer who is named, if it is the
// buyer's own. sluice.ErrOrderNotFound; for the merchant, *sluice.OrdersGoneError.
func (s *Server) Order(ctx context.Context, id sluice.OrderID, buyer sluice.BuyerID) (order sluice.Order, err error) {
	if _, ok := id.Sale(); !ok {
		return order, sluice.ErrOrderNotFound
	}
	err = inTurn(ctx, turns(buyer, s.limits.reads), func() (err error) {
		asking, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		order, err = s.Store.Order(asking, id)
		return err
	})
	if err != nil && !errors.Is(err, ErrNoTurn) { // not in turn: a ledger that hangs holds up its own sale alone
		order, err = s.findQueued(ctx, id, buyer, err)
	}
	if err == nil && buyer != "" && order.Buyer != buyer {
		err = sluice.ErrOrderNotFound
	}
	if buyer == "" && errors.Is(err, sluice.ErrOrderNotFound) { // for buyers it is not there, like a stranger's
		sale, _ := id.Sale()
		err = cmp.Or(s.ordersGone(ctx, sale), err)
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
	switch { // however it is known, it takes as long for a hidden sale as for one that does not exist
	case errors.Is(queued, sluice.ErrOrderNotFound):
		if view := s.Board.View(sale); view != nil && view.Hidden() {
			_, _ = s.Board.Public(ctx, sale)
		}
		return sluice.Order{}, sluice.ErrOrderNotFound
	case errors.Is(queued, port.ErrNotLoaded):
		view, err := s.Board.Public(ctx, sale)
		if view == nil && errors.Is(err, sluice.ErrSaleNotFound) || view != nil && view.Archived() {
			return sluice.Order{}, sluice.ErrOrderNotFound // no such sale, or one that the store alone answers for
		}
	}
	return sluice.Order{}, queued
}

// waits reports whether an accepted claim is still in the journal, as far as
// this server knows while the store does not answer: nothing that was accepted
// before the claim waits there no more.
func (s *Server) waits(r *port.Record) bool {
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
	var page api.OrderPage
	err := inTurn(r.Context(), turns(token.Buyer, s.limits.reads), func() error {
		orders, next, err := s.Store.Orders(r.Context(), f)
		page = api.OrderPage{Orders: each(orders, orderMessage), NextCursor: next}
		return err
	})
	return page, err
}

// listOrders lists stored orders for the merchant.
func (s *Server) listOrders(r *http.Request) (any, error) {
	var f sluice.OrderFilter
	err := readQuery(r, ofSale(&f.Sale), ofStatus(&f.Status), s.ofBuyer(&f.Buyer), ofPayment(&f.Payment),
		pageSize(&f.Limit), cursor(&f.Cursor))
	if err != nil {
		return nil, err
	}
	orders, next, err := s.Orders(r.Context(), f)
	return api.OrderPage{Orders: each(orders, adminOrderMessage), NextCursor: next}, err
}

// Orders returns a page of stored orders, as the merchant sees them. A page without any,
// of a sale whose orders are deleted, is a *sluice.OrdersGoneError: it would look as if
// there had been none.
func (s *Server) Orders(ctx context.Context, f sluice.OrderFilter) (page []sluice.Order, next string, err error) {
	page, next, err = s.Store.Orders(ctx, f)
	if err == nil && len(page) == 0 && f.Sale != "" {
		err = s.ordersGone(ctx, f.Sale)
	}
	return page, next, err
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
	return &sluice.OrdersGoneError{Sale: id, At: sale.Remains.At}
}

// orderMessage is a buyer's own order.
func orderMessage(o *sluice.Order) api.Order {
	due := o.Due()
	v := api.Order{
		OrderID: o.ID, SaleID: o.Sale, Quantity: o.Quantity, Status: o.Status, Reason: o.Reason, Price: o.Price,
		Amount: due.Amount, Currency: due.Currency,
		AcceptedAt: api.At(o.AcceptedAt), StoredAt: api.AtOrNull(o.StoredAt), ExpiresAt: api.AtOrNull(o.ExpiresAt),
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

// ByBuyer is who changes an order, as its history has it, if it is the buyer;
// admins are there by the names of their keys.
const ByBuyer = "buyer"

// maxWords bounds a payment's id and a reason, in bytes.
const maxWords = 128

// cancelOwnOrder ends a buyer's own unpaid order.
func (s *Server) cancelOwnOrder(w http.ResponseWriter, r *http.Request, token auth.Token) (any, error) {
	return bare(func(r *http.Request) (any, error) {
		return s.changeOrder(r, sluice.Change{Action: sluice.Cancel, Buyer: token.Buyer, By: ByBuyer}, orderMessage)
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
	if code := strings.ToUpper(message.Currency); code != message.Currency { // some providers have it so: no other amount
		return nil, badRequest("currency %q: did you mean %s?", message.Currency, code)
	}
	return s.changeOrder(r, pay, adminOrderMessage)
}

// rejectOrder ends an order that failed after the grab.
func (s *Server) rejectOrder(r *http.Request, message *api.RejectOrder) (any, error) {
	if err := CheckReason(message.Reason); err != nil {
		return nil, badRequest("%v", err)
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

// CheckReason says what is wrong with the reason of a rejection.
func CheckReason(reason string) error {
	if reason == sluice.NotCovered {
		return fmt.Errorf("reason: %s is reserved for orders beyond the total; want another word", reason)
	}
	return CheckWords("reason", reason)
}

// CheckWords says what is wrong with a text of the merchant's, like a payment's id.
func CheckWords(field, text string) error {
	if len(text) == 0 || len(text) > maxWords || strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return fmt.Errorf("%s: want 1 to %d bytes without control characters", field, maxWords)
	}
	return nil
}

func checkWords(field, text string) error {
	if err := CheckWords(field, text); err != nil {
		return badRequest("%v", err)
	}
	return nil
}

// changeOrder takes an action on the order of the path and answers with it.
func (s *Server) changeOrder(r *http.Request, change sluice.Change, view func(*sluice.Order) api.Order) (any, error) {
	change.Order = orderOf(r)
	order, err := s.Change(r.Context(), change)
	if err != nil {
		return nil, err
	}
	return view(&order), nil
}

// Change takes an action on an order; of a buyer who is named, if it is the buyer's own.
// Errors: those of port.SettleStore's Change, and for an order that is not stored
// sluice.ErrOrderQueued, or those of Order.
func (s *Server) Change(ctx context.Context, change sluice.Change) (order sluice.Order, err error) {
	sale, _ := change.Order.Sale()
	err = inTurn(ctx, s.limits.changeOf(sale, change.Buyer), func() (err error) {
		order, err = s.Store.Change(ctx, change)
		return err
	})
	if errors.Is(err, sluice.ErrOrderNotFound) {
		if _, err = s.Order(ctx, change.Order, change.Buyer); err == nil {
			err = sluice.ErrOrderQueued
		}
	}
	if err != nil {
		return sluice.Order{}, err
	}
	if s.Changed != nil {
		s.Changed(&order)
	}
	return order, nil
}

// orderHistory lists the changes of an order.
func (s *Server) orderHistory(r *http.Request) (any, error) {
	order, err := s.Order(r.Context(), orderOf(r), "")
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
		ExpiresAt: api.AtOrNull(e.ExpiresAt),
	}
}
