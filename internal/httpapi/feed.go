package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
)

// latestEvent asks for what comes after the last event there is.
const latestEvent = "latest"

// listEvents is the feed: events after the one that is named, in order.
func (s *Server) listEvents(r *http.Request) (any, error) {
	var after string
	var limit int
	err := readQuery(r, parameter{"after", func(value string) error {
		if _, ok := sluice.ParseEventID(value); !ok && value != latestEvent {
			return fmt.Errorf("want the id of an event, like evt_17_0123abcd, or %s", latestEvent)
		}
		after = value
		return nil
	}}, pageSize(&limit))
	if err != nil {
		return nil, err
	}
	page, err := s.eventsAfter(r.Context(), after, limit)
	if gone, ok := errors.AsType[*sluice.EventsGoneError](err); ok {
		err = faultOf(api.CodeGone, "after: events up to number %d are deleted, as order_retention says; compare your "+
			"orders, and go on without after, from number %d", gone.First-1, gone.First)
	}
	if errors.Is(err, sluice.ErrBadCursor) {
		err = faultOf(api.CodeStaleCursor,
			"after: the feed has no such event; has the store been replaced by an older copy?")
	}
	return page, err
}

// eventsAfter reads a page. The event that is named must be the one that stands
// at its number: so a store that was replaced is noticed.
func (s *Server) eventsAfter(ctx context.Context, after string, limit int) (api.EventPage, error) {
	page := api.EventPage{Events: []api.Event{}, Next: after}
	seq, _ := sluice.ParseEventID(after)
	if after == latestEvent {
		var err error
		if seq, err = s.Store.LastEvent(ctx); err != nil {
			return page, err
		}
		page.Next, limit = "", 0
	}
	if seq > 0 {
		last, err := s.Store.Events(ctx, seq-1, 1)
		gone, ok := errors.AsType[*sluice.EventsGoneError](err)
		switch {
		case ok && gone.First == seq+1: // it alone is gone: the reader has missed nothing
		case err != nil:
			return page, err
		case len(last) == 0 || after != latestEvent && !last[0].Is(after):
			return page, sluice.ErrBadCursor
		default:
			page.Next = last[0].ID()
		}
	}
	if limit == 0 {
		return page, nil
	}
	events, err := s.Store.Events(ctx, seq, limit)
	if gone, ok := errors.AsType[*sluice.EventsGoneError](err); ok && after == "" {
		events, err = s.Store.Events(ctx, gone.First-1, limit)
	}
	for i := range events {
		page.Events = append(page.Events, EventMessage(&events[i]))
		page.Next = page.Events[i].ID
	}
	return page, err
}

// EventMessage is an event on the wire.
func EventMessage(e *sluice.Event) api.Event {
	v := api.Event{ID: e.ID(), Seq: e.Seq, Type: e.Type, CreatedAt: api.At(e.At)}
	if e.Order.ID != "" {
		order := adminOrderMessage(&e.Order)
		v.Data = api.EventData{Order: &order, RefusedPaymentID: e.RefusedPayment, RefusedReason: e.RefusedReason}
		return v
	}
	s := &e.Sale
	v.Data.Sale = &api.EventSale{
		ID: s.ID, SKU: s.SKU, Title: s.Title, Price: s.Price, ListPrice: unlessZero(s.ListPrice),
		Total: limited(s.Total), MaxPerBuyer: limited(s.MaxPerBuyer), MaxOrdersPerBuyer: limited(s.MaxOrders),
		MaxUnpaidPerBuyer: unlessZero(s.MaxUnpaid),
		OpensAt:           api.At(s.OpensAt), ClosesAt: api.AtOrNull(s.ClosesAt), Paused: s.Paused,
		PaymentWindowS: int64(s.PaymentWindow / time.Second), PaymentGraceS: int64(s.PaymentGrace / time.Second),
		TermsVersion: s.Version, Epoch: s.Epoch, Fence: s.Fence,
		CreatedAt: api.At(s.CreatedAt), UpdatedAt: api.At(s.UpdatedAt), ArchivedAt: api.AtOrNull(s.ArchivedAt),
	}
	return v
}
