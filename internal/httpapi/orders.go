package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/auth"
)

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
	err := readQuery(r, ofSale(&f.Sale), ofStatus(&f.Status), ofBuyer(&f.Buyer), pageSize(&f.Limit), cursor(&f.Cursor))
	if err != nil {
		return nil, err
	}
	return s.orders(r, f, nil, adminOrderMessage)
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
	v := api.Order{
		OrderID: o.ID, SaleID: o.Sale, Quantity: o.Quantity, Status: o.Status, Reason: o.Reason, Price: o.Price,
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
