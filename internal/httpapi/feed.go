package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sluicehq/sluice"
	"github.com/sluicehq/sluice/api"
	"github.com/sluicehq/sluice/internal/port"
)

// listEvents is the feed: events after the one that is named, in order.
func (s *Server) listEvents(r *http.Request) (any, error) {
	var after string
	var limit int
	err := readQuery(r, parameter{"after", func(value string) error {
		if _, ok := sluice.ParseEventID(value); !ok && value != sluice.LatestEvent {
			return fmt.Errorf("want the id of an event, like evt_17_0123abcd, or %s", sluice.LatestEvent)
		}
		after = value
		return nil
	}}, pageSize(&limit))
	if err != nil {
		return nil, err
	}
	events, next, err := port.EventsAfter(r.Context(), s.Store, after, limit)
	if gone, ok := errors.AsType[*sluice.EventsGoneError](err); ok {
		err = faultOf(api.CodeGone, "after: events up to number %d are deleted, as order_retention says; compare your "+
			"orders, and go on without after, from number %d", gone.First-1, gone.First)
	}
	if errors.Is(err, sluice.ErrBadCursor) {
		err = faultOf(api.CodeStaleCursor,
			"after: the feed has no such event; has the store been replaced by an older copy?")
	}
	return api.EventPage{Events: each(events, EventMessage), Next: next}, err
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
		ID: s.ID, SKU: s.SKU, Title: s.Title, Price: s.Price, ListPrice: unlessZero(s.ListPrice), Free: s.Free,
		Total: limited(s.Total), MaxPerBuyer: limited(s.MaxPerBuyer), MaxOrdersPerBuyer: limited(s.MaxOrders),
		MaxUnpaidPerBuyer: unlessZero(s.MaxUnpaid),
		OpensAt:           api.At(s.OpensAt), ClosesAt: api.AtOrNull(s.ClosesAt), Paused: s.Paused,
		PaymentWindowS: int64(s.PaymentWindow / time.Second), PaymentGraceS: int64(s.PaymentGrace / time.Second),
		TermsVersion: s.Version, Epoch: s.Epoch, Fence: s.Fence,
		CreatedAt: api.At(s.CreatedAt), UpdatedAt: api.At(s.UpdatedAt), ArchivedAt: api.AtOrNull(s.ArchivedAt),
	}
	return v
}
